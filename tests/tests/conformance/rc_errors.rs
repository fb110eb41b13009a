//! Reliable connections: each way in which a peer refuses a request, the status at both sides, and
//! what stays.

use driver::{SendWr, Sge};
use fpga_regs::{Access, CqeStatus, EventKind, QpState, QpType, Syndrome, WqeOpcode};
use tests::{expect_async, expect_no_event, Cards, Net, Options, Side};

/// The opcodes that name the peer's memory, with a length for each.
pub(super) const NAMING: [(WqeOpcode, usize); 4] =
    [(WqeOpcode::WRITE, 3000), (WqeOpcode::READ, 3000), (WqeOpcode::CMP_SWAP, 8), (WqeOpcode::FETCH_ADD, 8)];

pub(super) fn small() -> Options {
    Options { depth: 16, timeout: 14, bytes: 1 << 16, cqes: 128, ..Default::default() }
}

fn remote_rights() -> Access {
    Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC
}

/// The right that an opcode needs.
fn right(opcode: WqeOpcode) -> Access {
    match opcode {
        WqeOpcode::WRITE => Access::REMOTE_WRITE,
        WqeOpcode::READ => Access::REMOTE_READ,
        _ => Access::REMOTE_ATOMIC,
    }
}

/// Posts a request that the peer refuses; checks both sides. `change` makes it wrong.
fn refused(
    x: &mut Side,
    y: &mut Side,
    (opcode, length): (WqeOpcode, usize),
    status: CqeStatus,
    event: EventKind,
    change: impl FnOnce(&mut SendWr<'_>),
) {
    y.buffer.pattern(7);
    let before = y.buffer.to_vec();
    y.recv(900, &[y.sge(0, 64)]);
    y.recv(901, &[y.sge(0, 64)]);
    x.recv(902, &[x.sge(0, 64)]);
    let sge = [x.sge(0, length)];
    let mut wr = x.remote(1, opcode, &sge, y, 1024);
    wr.compare_add = 1;
    change(&mut wr);
    x.post(&[wr, x.wr(2, WqeOpcode::SEND, &sge)]);
    x.expect_status(1, status);
    let mut flushed = [x.wait(), x.wait()].map(|wc| {
        assert_eq!(wc.status, CqeStatus::WR_FLUSH_ERR);
        wc.wr_id
    });
    flushed.sort_unstable();
    assert_eq!(flushed, [2, 902], "the send queue and the receive queue are flushed");
    assert_eq!(x.state(), QpState::ERR);
    assert!(before == y.buffer[..], "a refused {opcode} changed memory");
    expect_async(&y.device, event, y.qp.qpn());
    y.expect_flushed([900, 901]);
    y.quiet();
    assert_eq!(y.state(), QpState::ERR);
}

/// A refusal with REM_ACCESS_ERR, for every opcode that names memory, on one and two cards.
fn no_access(prepare: impl Fn(&mut Side, WqeOpcode), change: impl Fn(&mut SendWr<'_>, &Side)) {
    let cards = Cards::new();
    for opcode in NAMING {
        cards.each(small(), |x, y| {
            prepare(y, opcode.0);
            let mut wr = SendWr::default();
            let mut changed = x.remote(1, opcode.0, &[], y, 1024);
            change(&mut changed, y);
            (wr.remote_addr, wr.rkey) = (changed.remote_addr, changed.rkey);
            refused(x, y, opcode, CqeStatus::REM_ACCESS_ERR, EventKind::QP_ACCESS_ERR, |w| {
                (w.remote_addr, w.rkey) = (wr.remote_addr, wr.rkey);
            });
        });
    }
}

#[test]
fn an_unknown_rkey() {
    no_access(|_, _| (), |wr, _| wr.rkey ^= 1);
    no_access(|_, _| (), |wr, _| wr.rkey = 0xffff_ff00);
    no_access(|_, _| (), |wr, _| wr.rkey = 0);
}

#[test]
fn one_byte_outside_the_region_at_either_end() {
    let cards = Cards::new();
    for (opcode, length) in NAMING {
        // Atomics are aligned to eight: the region ends (or begins) within the eight bytes.
        for (begin, len, at) in [(4097, 8192, 4096), (4097, 8192, 4097 + 8192 - length as u64 + 1)] {
            let at = if length == 8 { at.next_multiple_of(8) } else { at };
            cards.each(small(), |x, y| {
                let mr = y.region(begin, len, Access::LOCAL_WRITE | remote_rights());
                let (addr, rkey) = (y.buffer.addr(at as usize), mr.rkey());
                refused(x, y, (opcode, length), CqeStatus::REM_ACCESS_ERR, EventKind::QP_ACCESS_ERR, |wr| {
                    (wr.remote_addr, wr.rkey) = (addr, rkey);
                });
            });
        }
    }
}

#[test]
fn the_first_and_the_last_byte_of_a_region_belong_to_it() {
    let cards = Cards::new();
    cards.each(small(), |x, y| {
        let mr = y.region(4104, 8192, Access::LOCAL_WRITE | remote_rights());
        x.buffer.pattern(3);
        for (opcode, length) in NAMING {
            for at in [4104, 4104 + 8192 - length] {
                let sge = [x.sge(0, length)];
                let mut wr = x.remote(1, opcode, &sge, y, at);
                wr.rkey = mr.rkey();
                x.completes(wr);
                if opcode == WqeOpcode::WRITE {
                    assert!(y.buffer[at..at + length] == x.buffer[..length]);
                }
            }
        }
        // And beyond: the addresses wrap around.
        let sge = [x.sge(0, 100)];
        let mut wr = x.remote(2, WqeOpcode::WRITE, &sge, y, 0);
        (wr.remote_addr, wr.rkey) = (u64::MAX - 50, mr.rkey());
        x.post(&[wr]);
        x.expect_status(2, CqeStatus::REM_ACCESS_ERR);
    });
}

#[test]
fn a_right_that_the_region_does_not_give() {
    let cards = Cards::new();
    for opcode in NAMING {
        cards.each(small(), |x, y| {
            let mr = y.region(0, 1 << 15, Access::LOCAL_WRITE | remote_rights().without(right(opcode.0)));
            refused(x, y, opcode, CqeStatus::REM_ACCESS_ERR, EventKind::QP_ACCESS_ERR, |wr| {
                wr.rkey = mr.rkey()
            });
        });
    }
}

#[test]
fn a_right_that_the_qp_does_not_give() {
    let cards = Cards::new();
    for (opcode, length) in NAMING {
        // No key is looked at where nothing is read or written; the right is.
        let lengths = if length == 8 { [8, 8] } else { [length, 0] };
        for length in lengths {
            cards.each(small(), |x, y| {
                y.set_access(remote_rights().without(right(opcode)));
                let (status, event) = (CqeStatus::REM_INV_REQ_ERR, EventKind::QP_REQ_ERR);
                refused(x, y, (opcode, length), status, event, |_| ());
            });
        }
    }
}

#[test]
fn a_region_of_another_domain() {
    let cards = Cards::new();
    for opcode in NAMING {
        cards.each(small(), |x, y| {
            let other = y.device.alloc_pd().expect("a PD");
            // SAFETY: the buffer outlives the region.
            #[allow(unsafe_code)]
            let mr = unsafe {
                other.reg_mr(y.buffer.addr(0) as *mut u8, 1 << 15, y.buffer.addr(0), y.options.access)
            }
            .expect("a region");
            refused(x, y, opcode, CqeStatus::REM_ACCESS_ERR, EventKind::QP_ACCESS_ERR, |wr| {
                wr.rkey = mr.rkey()
            });
        });
    }
}

#[test]
fn a_destroyed_region() {
    let cards = Cards::new();
    for opcode in NAMING {
        cards.each(small(), |x, y| {
            let mr = y.region(0, 1 << 15, y.options.access);
            mr.destroy().expect("nobody holds it");
            refused(x, y, opcode, CqeStatus::REM_ACCESS_ERR, EventKind::QP_ACCESS_ERR, |wr| {
                wr.rkey = mr.rkey()
            });
        });
    }
}

#[test]
fn a_misaligned_atomic_is_an_invalid_request() {
    let cards = Cards::new();
    for opcode in [WqeOpcode::CMP_SWAP, WqeOpcode::FETCH_ADD] {
        for off in [1, 2, 4, 7] {
            cards.each(small(), |x, y| {
                refused(x, y, (opcode, 8), CqeStatus::REM_INV_REQ_ERR, EventKind::QP_REQ_ERR, |wr| {
                    wr.remote_addr += off
                });
            });
        }
    }
}

#[test]
fn a_responder_without_resources_takes_no_read_and_no_atomic() {
    let cards = Cards::new();
    for opcode in &NAMING[1..] {
        cards.each_of(small(), Options { rd_atomic: 0, ..small() }, |x, y| {
            refused(x, y, *opcode, CqeStatus::REM_INV_REQ_ERR, EventKind::QP_REQ_ERR, |_| ());
        });
    }
}

#[test]
fn a_message_longer_than_the_receive() {
    let cards = Cards::new();
    for size in [101, 1024, 1025, 5000, 60_000] {
        cards.each(small(), |x, y| {
            y.recv(10, &[y.sge(0, 60), y.sge(100, 40)]);
            y.recv(11, &[y.sge(0, 60)]);
            let sge = [x.sge(0, size)];
            x.post(&[x.wr(1, WqeOpcode::SEND, &sge), x.wr(2, WqeOpcode::SEND, &sge)]);
            x.expect_status(1, CqeStatus::REM_INV_REQ_ERR);
            x.expect_flushed([2]);
            y.expect_status(10, CqeStatus::LOC_LEN_ERR);
            y.expect_flushed([11]);
            // The completion says it.
            expect_no_event(&y.device);
            assert_eq!((x.state(), y.state()), (QpState::ERR, QpState::ERR));
        });
    }
}

/// The receive that the immediate data is for says so; of several packets, the first does not tell that there will be some.
#[test]
fn immediate_data_to_memory_that_may_not_be_written() {
    const LOC_ACCESS_ERR: CqeStatus = CqeStatus::LOC_ACCESS_ERR;
    const WR_FLUSH_ERR: CqeStatus = CqeStatus::WR_FLUSH_ERR;
    for (length, receives, status) in
        [(64, 2, LOC_ACCESS_ERR), (9000, 2, WR_FLUSH_ERR), (64, 0, WR_FLUSH_ERR)]
    {
        Cards::new().each(small(), |x, y| {
            let ids = 10..10 + receives;
            ids.clone().for_each(|id| y.recv(id, &[]));
            let sge = [x.sge(0, length)];
            let mut wr = x.remote(1, WqeOpcode::WRITE_WITH_IMM, &sge, y, 1024);
            wr.rkey ^= 1;
            x.post(&[wr]);
            x.expect_status(1, CqeStatus::REM_ACCESS_ERR);
            if status == LOC_ACCESS_ERR {
                let wc = y.expect_status(10, status);
                assert_eq!(wc.vendor_err, u32::from(Syndrome::RKEY_UNKNOWN.0));
                expect_no_event(&y.device);
            } else {
                expect_async(&y.device, EventKind::QP_ACCESS_ERR, y.qp.qpn());
            }
            y.expect_flushed(ids.skip((status == LOC_ACCESS_ERR).into()));
            assert_eq!((x.state(), y.state()), (QpState::ERR, QpState::ERR));
        });
    }
    Cards::new().each(Options { qp_type: QpType::UC, ..small() }, |x, y| {
        y.recv(10, &[]);
        let sge = [x.sge(0, 64)];
        let good = x.remote(2, WqeOpcode::WRITE_WITH_IMM, &sge, y, 1024);
        let mut wrong = x.remote(1, WqeOpcode::WRITE_WITH_IMM, &sge, y, 1024);
        wrong.rkey ^= 1;
        x.post(&[wrong, good]);
        x.expect(1);
        x.expect(2);
        y.expect(10);
        expect_no_event(&y.device);
    });
}

#[test]
fn a_receive_into_memory_that_may_not_be_written() {
    let cards = Cards::new();
    let wrong: [fn(&Side, &mut Sge); 4] = [
        |_, sge| sge.lkey ^= 1,
        |_, sge| sge.lkey = 0xffff_ff01,
        |y, sge| sge.addr = y.buffer.addr(y.buffer.len() - 50),
        |y, sge| sge.addr = y.buffer.addr(0) - 1,
    ];
    for change in wrong {
        cards.each(small(), |x, y| {
            let mut sge = y.sge(0, 100);
            change(y, &mut sge);
            y.recv(10, &[y.sge(2000, 20), sge]);
            x.post(&[x.wr(1, WqeOpcode::SEND, &[x.sge(0, 100)]), x.wr(2, WqeOpcode::SEND, &[])]);
            y.expect_status(10, CqeStatus::LOC_PROT_ERR);
            x.expect_status(1, CqeStatus::REM_OP_ERR);
            x.expect_flushed([2]);
            assert_eq!((x.state(), y.state()), (QpState::ERR, QpState::ERR));
        });
    }
}

#[test]
fn requests_before_a_refused_one_succeed() {
    let net = Net::new(2);
    let (mut x, y) = net.pair(small());
    x.buffer.pattern(1);
    let sge = [x.sge(0, 2000)];
    let mut bad = x.remote(4, WqeOpcode::READ, &sge, &y, 0);
    bad.rkey ^= 1;
    let mut unsignaled = x.remote(3, WqeOpcode::WRITE, &sge, &y, 4000);
    unsignaled.flags = Default::default();
    x.post(&[
        x.remote(1, WqeOpcode::WRITE, &sge, &y, 0),
        x.remote(2, WqeOpcode::READ, &sge, &y, 0),
        unsignaled,
        bad,
        x.remote(5, WqeOpcode::WRITE, &sge, &y, 8000),
    ]);
    x.expect(1);
    x.expect(2);
    x.expect_status(4, CqeStatus::REM_ACCESS_ERR);
    x.expect_flushed([5]);
    assert!(y.buffer[4000..6000] == x.buffer[..2000]);
    assert!(
        y.buffer[8000..10_000].iter().all(|&b| b == 0),
        "what comes after the refused request is not done"
    );
}

#[test]
fn a_writer_meets_the_end_of_the_region_in_the_middle_of_its_writes() {
    let net = Net::new(2);
    let (x, y) = net.pair(Options { bytes: 1 << 20, ..small() });
    let mr = y.region(0, 1 << 20, y.options.access);
    let gone = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            mr.destroy().expect("no window is bound to it");
            gone.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        let sge = [x.sge(0, 1 << 20)];
        for n in 0.. {
            let mut wr = x.remote(n, WqeOpcode::WRITE, &sge, &y, 0);
            wr.rkey = mr.rkey();
            let after = gone.load(std::sync::atomic::Ordering::SeqCst);
            x.post(&[wr]);
            let wc = x.wait();
            if wc.status == CqeStatus::REM_ACCESS_ERR {
                break;
            }
            assert_eq!((wc.wr_id, wc.status), (n, CqeStatus::SUCCESS));
            assert!(!after, "a WRITE succeeded after the region was gone");
        }
    });
    expect_async(&y.device, EventKind::QP_ACCESS_ERR, y.qp.qpn());
}
