//! Reliable connections: READs and atomics, their order and their limits.

use driver::{SendFlags, SendWr, Sge};
use fpga_regs::{CqeStatus, QpState, WqeOpcode};
use tests::{connect, on_one_and_two_cards, Cards, Net, Options};

use super::rc_operations::{sent, small};

#[test]
fn atomics_run_in_order_and_return_what_was_there() {
    on_one_and_two_cards(Options { rd_atomic: 3, ..small() }, |x, y| {
        y.buffer[8..16].copy_from_slice(&100u64.to_ne_bytes());
        // The answer may be scattered.
        let sges: Vec<[Sge; 2]> = (0..40).map(|i| [x.sge(i * 8, 3), x.sge(i * 8 + 3, 5)]).collect();
        let wrs: Vec<_> = sges
            .iter()
            .enumerate()
            .map(|(i, sges)| SendWr {
                compare_add: i as u64,
                ..x.remote(i as u64, WqeOpcode::FETCH_ADD, sges, y, 8)
            })
            .collect();
        x.post(&wrs);
        let mut value = 100u64;
        for i in 0..40 {
            assert_eq!(x.expect(i as u64).byte_len, 8);
            assert_eq!(x.buffer[i * 8..i * 8 + 8], value.to_ne_bytes());
            value += i as u64;
        }
        assert_eq!(y.buffer[8..16], value.to_ne_bytes());
        // An atomic has eight bytes.
        x.post(&[x.remote(1, WqeOpcode::FETCH_ADD, &[x.sge(0, 4)], y, 8)]);
        x.expect_status(1, CqeStatus::LOC_LEN_ERR);
        assert_eq!(y.state(), QpState::RTS);
    });
}

#[test]
fn atomics_of_two_requesters_do_not_get_lost() {
    let (_net, a, b) = Net::new(2).both();
    let (x, y) = connect(&a, &b, small());
    let (z, w) = connect(&b, &b, small());
    // Both add to y's memory: x over the wire, z within y's card with a key of its own domain.
    // SAFETY: the buffer outlives the region.
    #[allow(unsafe_code)]
    let mr = unsafe { w.pd.reg_mr(y.buffer.addr(0) as *mut u8, 4096, y.buffer.addr(0), y.options.access) }
        .expect("a region");
    std::thread::scope(|threads| {
        for (peer, rkey) in [(&x, y.mr.rkey()), (&z, mr.rkey())] {
            let y = &y;
            threads.spawn(move || {
                let sge = [peer.sge(0, 8)];
                for n in 0..2000 {
                    peer.completes(SendWr {
                        compare_add: 1,
                        rkey,
                        ..peer.remote(n, WqeOpcode::FETCH_ADD, &sge, y, 0)
                    });
                }
            });
        }
    });
    assert_eq!(y.buffer[..8], 4000u64.to_ne_bytes());
}

#[test]
fn a_read_sees_the_write_before_it_and_a_fence_waits_for_the_read() {
    on_one_and_two_cards(small(), |x, y| {
        y.buffer.pattern(6);
        y.recv(9, &[y.sge(200_000, 50_000)]);
        let source = [x.sge(0, 50_000)];
        let target = [x.sge(60_000, 50_000)];
        x.buffer.pattern(5);
        let mut send = x.wr(3, WqeOpcode::SEND, &target);
        send.flags |= SendFlags::FENCE;
        x.post(&[
            x.remote(1, WqeOpcode::WRITE, &source, y, 1000),
            x.remote(2, WqeOpcode::READ, &target, y, 1000),
            send,
        ]);
        (1..=3).for_each(|n| {
            x.expect(n);
        });
        y.expect(9);
        assert!(x.buffer[60_000..110_000] == x.buffer[..50_000], "the READ sees the WRITE");
        assert!(y.buffer[200_000..250_000] == x.buffer[..50_000], "the fenced SEND sends what was read");
    });
}

#[test]
fn no_more_reads_and_atomics_are_under_way_than_agreed() {
    let cards = Cards::new();
    for rd_atomic in [1, 2, 5, 16] {
        cards.each(Options { rd_atomic, timeout: 0, ..small() }, |x, y| {
            // A silent peer: what was sent is what may be outstanding.
            y.to(QpState::RESET);
            let sge = [x.sge(0, 8)];
            let wrs: Vec<_> = (0..20)
                .map(|n| {
                    x.remote(
                        n,
                        [WqeOpcode::READ, WqeOpcode::FETCH_ADD, WqeOpcode::CMP_SWAP][n as usize % 3],
                        &sge,
                        y,
                        0,
                    )
                })
                .collect();
            let before = sent(x);
            x.post(&wrs);
            assert_eq!(sent(x) - before, u64::from(rd_atomic));
            // What comes after waits for its turn.
            x.post(&[x.remote(99, WqeOpcode::WRITE, &sge, y, 0)]);
            assert_eq!(sent(x) - before, u64::from(rd_atomic));
        });
    }
}

#[test]
fn a_fence_holds_back_until_the_reads_are_answered() {
    let cards = Cards::new();
    for (fence, packets) in [(SendFlags::empty(), 3), (SendFlags::FENCE, 2)] {
        cards.each(Options { timeout: 0, ..small() }, |x, y| {
            y.to(QpState::RESET);
            let sge = [x.sge(0, 8)];
            let before = sent(x);
            let mut write = x.remote(3, WqeOpcode::WRITE, &sge, y, 0);
            write.flags |= fence;
            x.post(&[
                x.remote(1, WqeOpcode::WRITE, &sge, y, 0),
                x.remote(2, WqeOpcode::READ, &sge, y, 0),
                write,
            ]);
            assert_eq!(sent(x) - before, packets);
        });
    }
}

#[test]
fn many_reads_complete_in_order_whatever_the_limit() {
    let cards = Cards::new();
    for (mine, theirs) in [(1, 1), (1, 16), (16, 16), (3, 5)] {
        cards.each_of(
            Options { rd_atomic: mine, ..small() },
            Options { rd_atomic: theirs, ..small() },
            |x, y| {
                y.buffer.pattern(mine);
                let sges: Vec<_> = (0..60).map(|n| [x.sge(n * 3000, 3000)]).collect();
                let wrs: Vec<_> =
                    (0..60).map(|n| x.remote(n as u64, WqeOpcode::READ, &sges[n], y, n * 1000)).collect();
                x.post(&wrs);
                for n in 0..60 {
                    x.expect(n as u64);
                    assert!(x.buffer[n * 3000..][..3000] == y.buffer[n * 1000..][..3000]);
                }
            },
        );
    }
}

#[test]
fn a_region_that_goes_while_receives_and_reads_wait_for_it() {
    on_one_and_two_cards(small(), |x, y| {
        let mr = y.region(0, 4096, y.options.access);
        y.recv(1, &[Sge { lkey: mr.lkey(), ..y.sge(0, 100) }]);
        mr.destroy().expect("destroyed");
        x.post(&[x.wr(1, WqeOpcode::SEND, &[x.sge(0, 100)])]);
        x.expect_status(1, CqeStatus::REM_OP_ERR);
        y.expect_status(1, CqeStatus::LOC_PROT_ERR);
        assert!(y.buffer[..100].iter().all(|&b| b == 0));
    });
}
