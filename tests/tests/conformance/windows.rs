//! Memory windows: bind, use, invalidate (IB spec 10.6.7).

use std::sync::Arc;

use driver::{Bind, Mr, Mw, SendFlags, SendWr, WcFlags};
use fpga_regs::{Access, CqeOpcode, CqeStatus, EventKind, QpState, WqeOpcode};
use tests::{connect, expect_async, join, on_one_and_two_cards, Cards, Net, Side, TestCard};

use super::memory::small;

/// The next variant of a window's key.
fn next(rkey: u32) -> u32 {
    rkey & !0xff | (rkey + 1) & 0xff
}

/// Binds a window of `y` to bytes of its buffer; gives the new R_Key.
fn bind(y: &Side, mw_rkey: u32, mr: &Mr<TestCard>, addr: u64, length: u64, access: Access) -> u32 {
    let wr = bind_wr(y, 700, mw_rkey, mr, addr, length, access);
    let rkey = wr.imm;
    y.post(&[wr]);
    assert_eq!(y.expect(700).opcode, CqeOpcode::BIND_MW);
    rkey
}

fn bind_wr(
    y: &Side,
    id: u64,
    mw_rkey: u32,
    mr: &Mr<TestCard>,
    addr: u64,
    length: u64,
    access: Access,
) -> SendWr<'static> {
    let bind = Bind { addr, length, mr_lkey: mr.lkey(), mw_rkey, access };
    SendWr { bind: Some(bind), imm: next(mw_rkey), ..y.wr(id, WqeOpcode::BIND_MW, &[]) }
}

fn window(y: &Side) -> Arc<Mw<TestCard>> {
    y.pd.alloc_mw(true).expect("a window")
}

/// A WRITE or READ of eight bytes through a key, and how it ends.
fn access(x: &Side, opcode: WqeOpcode, rkey: u32, addr: u64) -> CqeStatus {
    let sge = [x.sge(0, 8)];
    x.post(&[SendWr {
        wr_id: 1,
        opcode,
        flags: SendFlags::SIGNALED,
        rkey,
        remote_addr: addr,
        data: driver::Data::Sges(&sge),
        ..Default::default()
    }]);
    x.wait().status
}

fn again(x: &Side, y: &Side) {
    while x.poll().is_some() {}
    while y.poll().is_some() {}
    x.to(QpState::RESET);
    y.to(QpState::RESET);
    join(x, y);
}

const OK: CqeStatus = CqeStatus::SUCCESS;
const NO: CqeStatus = CqeStatus::REM_ACCESS_ERR;

#[test]
fn a_window_opens_its_bytes_with_its_rights() {
    on_one_and_two_cards(small(), |x, y| {
        x.buffer.pattern(1);
        let mw = window(y);
        let base = y.buffer.addr(1000);
        // Unbound it opens nothing.
        assert_eq!(access(x, WqeOpcode::WRITE, mw.rkey(), base), NO);
        again(x, y);
        let rkey = bind(y, mw.rkey(), &y.mr, base, 100, Access::REMOTE_WRITE);
        assert_ne!(rkey, mw.rkey());
        for at in [0, 50, 92] {
            assert_eq!(access(x, WqeOpcode::WRITE, rkey, base + at), OK);
            assert!(y.buffer[1000 + at as usize..][..8] == x.buffer[..8]);
        }
        for (opcode, key, addr) in [
            (WqeOpcode::WRITE, rkey, base - 1),
            (WqeOpcode::WRITE, rkey, base + 93),
            (WqeOpcode::READ, rkey, base),
            (WqeOpcode::FETCH_ADD, rkey, base),
            (WqeOpcode::WRITE, mw.rkey(), base),
        ] {
            assert_eq!(access(x, opcode, key, addr), NO, "{opcode} at {}", addr as i64 - base as i64);
            again(x, y);
        }
        // After the QP was reset the window, bound through it, still is.
        assert_eq!(access(x, WqeOpcode::WRITE, rkey, base), OK);
    });
}

#[test]
fn a_local_invalidate_closes_the_window_and_it_can_be_bound_again() {
    on_one_and_two_cards(small(), |x, y| {
        let mw = window(y);
        let base = y.buffer.addr(0);
        let mut rkey = mw.rkey();
        for round in 0..300u64 {
            rkey = bind(y, rkey, &y.mr, base + 8 * round, 8, Access::REMOTE_WRITE | Access::REMOTE_READ);
            assert_eq!(access(x, WqeOpcode::WRITE, rkey, base + 8 * round), OK);
            let wr = SendWr { imm: rkey, ..y.wr(5, WqeOpcode::LOCAL_INV, &[]) };
            y.post(&[wr]);
            assert_eq!(y.expect(5).opcode, CqeOpcode::LOCAL_INV);
        }
        assert_eq!(access(x, WqeOpcode::WRITE, rkey, base + 8 * 299), NO);
        expect_async(&y.device, EventKind::QP_ACCESS_ERR, y.qp.qpn());
        again(x, y);
        // Invalidating it once more is an error.
        y.post(&[SendWr { imm: rkey, ..y.wr(6, WqeOpcode::LOCAL_INV, &[]) }, y.wr(7, WqeOpcode::SEND, &[])]);
        assert_ne!(y.wait().status, OK);
        y.expect_flushed([7]);
    });
}

#[test]
fn bind_and_what_follows_it_in_one_chain() {
    on_one_and_two_cards(small(), |x, y| {
        y.buffer[..4].copy_from_slice(b"open");
        let mw = window(y);
        let wr = bind_wr(y, 1, mw.rkey(), &y.mr, y.buffer.addr(0), 64, Access::REMOTE_READ);
        let rkey = wr.imm;
        x.recv(9, &[x.sge(100, 64)]);
        let mut quiet = wr;
        quiet.flags = SendFlags::empty();
        // The key travels in the SEND after the bind, as from a server; then it is invalidated.
        let told = [y.sge(0, 64)];
        y.post(&[quiet, SendWr { imm: rkey, ..y.wr(2, WqeOpcode::SEND_WITH_IMM, &told) }]);
        y.expect(2);
        let wc = x.expect(9);
        assert_eq!(access(x, WqeOpcode::READ, wc.imm, y.buffer.addr(0)), OK);
        assert_eq!(&x.buffer[..4], b"open");
        y.post(&[
            SendWr {
                imm: rkey,
                flags: SendFlags::SIGNALED | SendFlags::FENCE,
                ..y.wr(3, WqeOpcode::LOCAL_INV, &[])
            },
            y.remote(4, WqeOpcode::WRITE, &told, x, 0),
        ]);
        y.expect(3);
        y.expect(4);
        assert_eq!(access(x, WqeOpcode::READ, rkey, y.buffer.addr(0)), NO);
    });
}

#[test]
fn a_send_with_invalidate_closes_the_peers_window() {
    on_one_and_two_cards(small(), |x, y| {
        let mw = window(y);
        let base = y.buffer.addr(0);
        let rkey = bind(y, mw.rkey(), &y.mr, base, 4096, Access::REMOTE_WRITE);
        for size in [0usize, 5000] {
            let rkey = if size == 0 { rkey } else { bind(y, rkey, &y.mr, base, 4096, Access::REMOTE_WRITE) };
            assert_eq!(access(x, WqeOpcode::WRITE, rkey, base), OK);
            y.recv(10, &[y.sge(10_000, 5000)]);
            let sge = [x.sge(0, size)];
            x.completes(SendWr { imm: rkey, ..x.wr(2, WqeOpcode::SEND_WITH_INV, &sge) });
            let wc = y.expect(10);
            assert_eq!(
                (wc.byte_len as usize, wc.imm, wc.flags),
                (size, rkey, WcFlags::RECV | WcFlags::WITH_INV)
            );
            assert_eq!(access(x, WqeOpcode::WRITE, rkey, base), NO);
            again(x, y);
        }
        // What cannot be invalidated: the request fails at both sides, and the region stays.
        y.recv(11, &[]);
        x.post(&[SendWr { imm: y.mr.rkey(), ..x.wr(3, WqeOpcode::SEND_WITH_INV, &[]) }]);
        assert_ne!(x.wait().status, OK);
        assert_ne!(y.wait().status, OK);
        assert_eq!((x.state(), y.state()), (QpState::ERR, QpState::ERR));
        again(x, y);
        assert_eq!(access(x, WqeOpcode::WRITE, y.mr.rkey(), base), OK);
    });
}

#[test]
fn a_window_is_its_qps_alone() {
    let (_net, a, b) = Net::new(2).both();
    let (x, y) = connect(&a, &b, small());
    // A second connection into the same domain.
    let other = tests::Peer::new(&a, small());
    let mut second = tests::Peer::new(&b, small());
    second.qp = y.pd.create_qp(second.qp.init().expect("queues")).expect("a QP");
    join(&other, &second);
    let mw = window(&y);
    let base = y.buffer.addr(0);
    let rkey = bind(&y, mw.rkey(), &y.mr, base, 4096, Access::REMOTE_WRITE);
    assert_eq!(access(&x, WqeOpcode::WRITE, rkey, base), OK);
    // The region is open to both QPs of the domain, the window only to the QP that it is bound to.
    assert_eq!(access(&other, WqeOpcode::WRITE, y.mr.rkey(), base), OK);
    assert_eq!(access(&other, WqeOpcode::WRITE, rkey, base), NO);
    again(&other, &second);
    // Nor can the other QP invalidate it, from either side.
    second.post(&[SendWr { imm: rkey, ..second.wr(1, WqeOpcode::LOCAL_INV, &[]) }]);
    assert_ne!(second.wait().status, OK);
    again(&other, &second);
    second.recv(1, &[]);
    other.post(&[SendWr { imm: rkey, ..other.wr(2, WqeOpcode::SEND_WITH_INV, &[]) }]);
    assert_ne!(other.wait().status, OK);
    assert_eq!(access(&x, WqeOpcode::WRITE, rkey, base), OK);
}

#[test]
fn binds_that_make_no_sense_fail() {
    let cards = Cards::new();
    /// Makes a bind wrong; the last argument names regions that allow no binding and no writing.
    type Change = fn(&Side, &Side, &mut SendWr<'static>, [u32; 2]);
    let wrong: [(&str, Change); 9] = [
        ("one byte beyond", |_, y, wr, _| wr.bind.as_mut().unwrap().length = y.buffer.len() as u64 + 1),
        ("one byte before", |_, y, wr, _| wr.bind.as_mut().unwrap().addr = y.buffer.addr(0) - 1),
        ("no such region", |_, _, wr, _| wr.bind.as_mut().unwrap().mr_lkey ^= 1),
        ("no such window", |_, _, wr, _| wr.bind.as_mut().unwrap().mw_rkey ^= 1),
        ("another index in the new key", |_, _, wr, _| wr.imm ^= 0x100),
        ("a region of another domain", |x, _, wr, _| wr.bind.as_mut().unwrap().mr_lkey = x.mr.lkey()),
        ("a region that allows no binding", |_, _, wr, keys| wr.bind.as_mut().unwrap().mr_lkey = keys[0]),
        ("writing to a region that is read only", |_, _, wr, keys| {
            wr.bind.as_mut().unwrap().mr_lkey = keys[1]
        }),
        ("a window instead of a region", |_, _, wr, _| {
            wr.bind.as_mut().unwrap().mr_lkey = wr.bind.unwrap().mw_rkey
        }),
    ];
    for (what, change) in wrong {
        cards.each(small(), |x, y| {
            let mw = window(y);
            let mut wr = bind_wr(
                y,
                1,
                mw.rkey(),
                &y.mr,
                y.buffer.addr(0),
                y.buffer.len() as u64,
                Access::REMOTE_WRITE,
            );
            let closed = [Access::LOCAL_WRITE | Access::REMOTE_WRITE, Access::REMOTE_READ | Access::MW_BIND]
                .map(|access| y.region(0, y.buffer.len(), access));
            change(x, y, &mut wr, [closed[0].lkey(), closed[1].lkey()]);
            y.post(&[wr, y.wr(2, WqeOpcode::SEND, &[])]);
            let wc = y.wait();
            assert_eq!((wc.wr_id, wc.status), (1, CqeStatus::MW_BIND_ERR), "{what}");
            y.expect_flushed([2]);
            assert_eq!((y.state(), x.state()), (QpState::ERR, QpState::RTS));
        });
    }
    // A window is invalidated before it is bound again.
    cards.each(small(), |_, y| {
        let mw = window(y);
        let rkey = bind(y, mw.rkey(), &y.mr, y.buffer.addr(0), 64, Access::REMOTE_WRITE);
        y.post(&[bind_wr(y, 1, rkey, &y.mr, y.buffer.addr(0), 64, Access::REMOTE_WRITE)]);
        y.expect_status(1, CqeStatus::MW_BIND_ERR);
    });
}

#[test]
fn a_region_stays_as_long_as_a_window_is_bound_to_it() {
    on_one_and_two_cards(small(), |x, y| {
        let (one, two) = (window(y), window(y));
        // SAFETY: the buffer outlives the region.
        #[allow(unsafe_code)]
        let mr =
            unsafe { y.pd.reg_mr(y.buffer.addr(0) as *mut u8, 8192, 0, y.options.access) }.expect("a region");
        // A zero-based window of a region with wire addresses from 0.
        let first = bind(y, one.rkey(), &mr, 100, 1000, Access::REMOTE_WRITE | Access::ZERO_BASED);
        let second = bind(y, two.rkey(), &mr, 4096, 4096, Access::REMOTE_WRITE);
        x.buffer.pattern(4);
        assert_eq!(access(x, WqeOpcode::WRITE, first, 0), OK);
        assert!(y.buffer[100..108] == x.buffer[..8]);
        assert_eq!(access(x, WqeOpcode::WRITE, second, 8184), OK);
        assert!(y.buffer[8184..8192] == x.buffer[..8]);
        let busy = mr.destroy().expect_err("two windows are bound to it");
        assert_eq!(busy.errno(), libc::EBUSY);
        y.completes(SendWr { imm: first, ..y.wr(1, WqeOpcode::LOCAL_INV, &[]) });
        assert!(mr.destroy().is_err(), "one window is bound to it");
        // The bound window is freed: it closes.
        two.destroy().expect("freed");
        mr.destroy().expect("nobody holds it");
        assert_eq!(access(x, WqeOpcode::WRITE, second, 8184), NO);
    });
}

#[test]
fn a_window_of_no_bytes_is_bound_to_nothing() {
    on_one_and_two_cards(small(), |x, y| {
        let mw = window(y);
        let mr = y.region(0, y.buffer.len(), y.options.access);
        // Once from a window that is free, once from one that is bound.
        let free = bind(y, mw.rkey(), &mr, y.buffer.addr(0), 0, Access::REMOTE_WRITE);
        let bound = bind(y, free, &mr, y.buffer.addr(0), 64, Access::REMOTE_WRITE);
        assert_eq!(access(x, WqeOpcode::WRITE, bound, y.buffer.addr(0)), OK);
        assert_eq!(mr.destroy().expect_err("a window is bound to it").errno(), libc::EBUSY);
        let unbound = bind(y, bound, &mr, y.buffer.addr(0), 0, Access::REMOTE_WRITE);
        mr.destroy().expect("nothing is bound to it");
        let again = bind(y, unbound, &y.mr, y.buffer.addr(0), 64, Access::REMOTE_WRITE);
        assert_eq!(access(x, WqeOpcode::WRITE, again, y.buffer.addr(0)), OK);
        let last = bind(y, again, &y.mr, y.buffer.addr(0), 0, Access::REMOTE_WRITE);
        assert_eq!(access(x, WqeOpcode::WRITE, last, y.buffer.addr(0)), NO);
    });
}

#[test]
fn a_window_of_type_1_is_bound_again_as_it_is_and_invalidated_by_a_bind_only() {
    on_one_and_two_cards(small(), |x, y| {
        let mw = y.pd.alloc_mw(false).expect("a window");
        let base = y.buffer.addr(1000);
        let first = bind(y, mw.rkey(), &y.mr, base, 100, Access::REMOTE_WRITE);
        assert_eq!(access(x, WqeOpcode::WRITE, first, base), OK);
        let second = bind(y, first, &y.mr, base + 100, 100, Access::REMOTE_READ);
        assert_eq!(access(x, WqeOpcode::READ, second, base + 100), OK);
        assert_eq!(access(x, WqeOpcode::WRITE, first, base), NO);
        again(x, y);
        y.post(&[SendWr { imm: second, ..y.wr(7, WqeOpcode::LOCAL_INV, &[]) }]);
        assert_eq!(y.wait().status, CqeStatus::MW_BIND_ERR);
        again(x, y);
        assert_eq!(access(x, WqeOpcode::READ, second, base + 100), OK);
        let third = bind(y, second, &y.mr, base, 0, Access::REMOTE_READ);
        assert_eq!(access(x, WqeOpcode::READ, third, base), NO);
    });
}
