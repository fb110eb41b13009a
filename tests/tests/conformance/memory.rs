//! Memory regions: rights, domains, addresses on the wire, large regions.

use driver::{Mr, SendWr, Sge, SrqAttr};
use fpga_regs::{Access, CqeStatus, QpState, WqeOpcode};
use memmap2::MmapOptions;
use std::sync::Arc;
use std::time::Duration;
use tests::{join, on_one_and_two_cards, Net, Options, Peer, Side, TestCard};

pub(super) fn small() -> Options {
    Options { depth: 16, bytes: 1 << 18, timeout: 14, cqes: 128, ..Default::default() }
}

const LOCAL: Access = Access::LOCAL_WRITE;

pub(super) fn all() -> Access {
    LOCAL | Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC
}

/// A region of a peer's domain over any memory.
fn register(
    y: &Side,
    addr: u64,
    len: usize,
    wire_va: u64,
    access: Access,
) -> Result<Arc<Mr<TestCard>>, driver::Error> {
    // SAFETY: the tests keep the memory until the region is gone.
    #[allow(unsafe_code)]
    unsafe {
        y.pd.reg_mr(addr as *mut u8, len, wire_va, access)
    }
}

#[test]
fn a_request_needs_the_right_of_the_region_and_of_the_qp() {
    let net = Net::new(2);
    let (x, y) = net.pair(small());
    let rights = [Access::REMOTE_WRITE, Access::REMOTE_READ, Access::REMOTE_ATOMIC];
    let set = |bits: usize| {
        rights.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1).fold(LOCAL, |all, (_, &r)| all | r)
    };
    let opcodes =
        [(WqeOpcode::WRITE, 0), (WqeOpcode::READ, 1), (WqeOpcode::CMP_SWAP, 2), (WqeOpcode::FETCH_ADD, 2)];
    for region in 0..8 {
        let mr = y.region(0, 4096, set(region));
        for qp in 0..8 {
            y.set_access(set(qp));
            for (opcode, right) in opcodes {
                let sge = [x.sge(0, 8)];
                x.post(&[SendWr { rkey: mr.rkey(), ..x.remote(1, opcode, &sge, &y, 8) }]);
                let may = (region & qp) >> right & 1 == 1;
                let wc = x.wait();
                let want = match qp >> right & 1 == 1 {
                    _ if may => CqeStatus::SUCCESS,
                    true => CqeStatus::REM_ACCESS_ERR,
                    // What the QP does not do is no request for it.
                    false => CqeStatus::REM_INV_REQ_ERR,
                };
                assert_eq!(wc.status, want, "{opcode}: region {region:03b}, QP {qp:03b}");
                if !may {
                    x.to(QpState::RESET);
                    y.to(QpState::RESET);
                    join(&x, &y);
                    y.set_access(set(qp));
                }
            }
        }
    }
}

#[test]
fn rights_that_make_no_sense_are_refused() {
    let net = Net::new(1);
    let y = Peer::new(&net.open(0), small());
    for access in [Access::REMOTE_WRITE, Access::REMOTE_ATOMIC, Access::REMOTE_WRITE | Access::REMOTE_READ] {
        assert!(register(&y, y.buffer.addr(0), 4096, 0, access).is_err(), "{access} without local write");
    }
    assert!(register(&y, y.buffer.addr(0), 0, 0, LOCAL).is_err(), "no bytes");
    assert!(register(&y, y.buffer.addr(0), 4096, u64::MAX - 100, LOCAL).is_err(), "wraps around");
    assert!(register(&y, 0x1000, 4096, 0x1000, LOCAL).is_err(), "no memory there");
}

#[test]
fn regions_have_the_addresses_that_they_were_given() {
    on_one_and_two_cards(small(), |x, y| {
        x.buffer.pattern(1);
        for (wire_va, access) in [
            (0x1234_5678_9abc_d000u64, all()),
            (0x7, all()),
            (0, all()),
            (y.buffer.addr(0), all() | Access::ZERO_BASED),
        ] {
            let base = if access.contains(Access::ZERO_BASED) { 0 } else { wire_va };
            let mr = register(y, y.buffer.addr(5000), 10_000, wire_va, access).expect("a region");
            assert_eq!(mr.wire_va(), base);
            let sge = [x.sge(0, 1000)];
            for offset in [0, 123, 9000] {
                y.buffer.fill(0);
                x.completes(SendWr {
                    remote_addr: base + offset,
                    rkey: mr.rkey(),
                    ..x.remote(1, WqeOpcode::WRITE, &sge, y, 0)
                });
                assert!(y.buffer[5000 + offset as usize..][..1000] == x.buffer[..1000]);
                // Local keys mean the same addresses.
                let own = [Sge { addr: base + offset, length: 1000, lkey: mr.lkey() }];
                x.recv(2, &[x.sge(100_000, 1000)]);
                y.completes(y.wr(3, WqeOpcode::SEND, &own));
                x.expect(2);
                assert!(x.buffer[100_000..101_000] == x.buffer[..1000]);
                y.buffer.fill(0);
                y.recv(4, &own);
                x.completes(x.wr(5, WqeOpcode::SEND, &sge));
                y.expect(4);
                assert!(y.buffer[5000 + offset as usize..][..1000] == x.buffer[..1000]);
            }
            x.post(&[SendWr {
                remote_addr: base + 9001,
                rkey: mr.rkey(),
                ..x.remote(1, WqeOpcode::WRITE, &sge, y, 0)
            }]);
            x.expect_status(1, CqeStatus::REM_ACCESS_ERR);
            x.to(QpState::RESET);
            y.to(QpState::RESET);
            join(x, y);
        }
    });
}

#[test]
fn the_same_memory_in_several_regions() {
    on_one_and_two_cards(small(), |x, y| {
        x.buffer.pattern(2);
        let sge = [x.sge(0, 3000)];
        let regions: Vec<_> = [(100, 10_000), (0, 5000), (100, 10_000), (4096, 8192), (1, 1)]
            .into_iter()
            .map(|(at, len)| y.region(at, len, all()))
            .collect();
        for (n, mr) in regions.iter().enumerate().filter(|(_, mr)| mr.length() >= 3000) {
            y.buffer.fill(0);
            x.completes(SendWr {
                remote_addr: mr.wire_va(),
                rkey: mr.rkey(),
                ..x.remote(1, WqeOpcode::WRITE, &sge, y, 0)
            });
            let at = (mr.addr() - y.buffer.addr(0)) as usize;
            assert!(y.buffer[at..at + 3000] == x.buffer[..3000]);
            // The ones before it are gone, and the memory stays reachable.
            regions[n].destroy().expect("destroyed");
            assert!(regions[n].destroy().is_err(), "destroyed already");
        }
        y.buffer.fill(0);
        x.completes(x.remote(1, WqeOpcode::WRITE, &sge, y, 100));
        assert!(y.buffer[100..3100] == x.buffer[..3000]);
    });
}

#[test]
fn what_is_in_use_is_not_destroyed() {
    let (_net, device) = Net::one();
    let x = Peer::new(&device, small());
    assert!(x.pd.destroy().is_err(), "a QP and a region are in the domain");
    assert!(x.cq.destroy().is_err(), "a QP uses the CQ");
    let srq = x.pd.create_srq(&SrqAttr { max_wr: 4, max_sge: 1, limit: 0 }).expect("an SRQ");
    let y = Peer::with_srq(&device, small(), Some(srq.clone()));
    assert!(srq.destroy().is_err(), "a QP uses the SRQ");
    y.qp.destroy().expect("the QP goes first");
    srq.destroy().expect("then the SRQ");
    x.qp.destroy().expect("a QP");
    x.cq.destroy().expect("a CQ");
    assert!(x.pd.destroy().is_err(), "regions are in the domain");
    x.mr.destroy().expect("a region");
    y.mr.destroy().expect("a region");
    y.cq.destroy().expect("a CQ");
    x.pd.destroy().expect("nothing is left in it");
}

/// Processor time of this thread, which is the same beside other programs.
fn used() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for what the call writes.
    #[allow(unsafe_code)]
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn a_region_of_64_gib_costs_nothing_and_works_at_its_far_end() {
    const SIZE: usize = 64 << 30;
    let memory = MmapOptions::new().len(SIZE).no_reserve_swap().map_anon().expect("memory");
    let base = memory.as_ptr() as u64;
    let net = Net::new(2);
    let (mut x, y) = net.pair(small());
    x.buffer.pattern(3);
    let start = used();
    let mr = register(&y, base, SIZE, base, all()).expect("a region");
    let took = used() - start;
    println!("registered in {took:?}");
    let limit = Duration::from_millis(if cfg!(debug_assertions) { 2000 } else { 500 });
    assert!(took < limit, "registered in {took:?}");
    assert_eq!(mr.length(), SIZE as u64);
    let far = base + SIZE as u64 - 5000;
    for addr in [base, base + (5 << 30) + 1, base + (32 << 30), far] {
        x.completes(SendWr {
            remote_addr: addr,
            rkey: mr.rkey(),
            ..x.remote(1, WqeOpcode::WRITE, &[x.sge(0, 5000)], &y, 0)
        });
        x.completes(SendWr {
            remote_addr: addr,
            rkey: mr.rkey(),
            ..x.remote(2, WqeOpcode::READ, &[x.sge(9000, 5000)], &y, 0)
        });
        assert!(x.buffer[9000..14_000] == x.buffer[..5000]);
        assert!(memory[(addr - base) as usize..][..5000] == x.buffer[..5000]);
    }
    x.post(&[SendWr {
        remote_addr: far + 1,
        rkey: mr.rkey(),
        ..x.remote(3, WqeOpcode::WRITE, &[x.sge(0, 5000)], &y, 0)
    }]);
    x.expect_status(3, CqeStatus::REM_ACCESS_ERR);
    let start = used();
    mr.destroy().expect("destroyed");
    let took = used() - start;
    println!("destroyed in {took:?}");
    assert!(took < Duration::from_secs(4), "destroyed in {took:?}");
}
