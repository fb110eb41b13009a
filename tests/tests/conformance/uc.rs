//! Unreliable connections: what arrives, and what is lost without a word.

use std::time::Duration;

use driver::{SendWr, Sge, SrqAttr, WcFlags};
use fpga_regs::{Access, CqeOpcode, CqeStatus, QpState, QpType, WqeOpcode};
use tests::{connect, expect_no_event, on_one_and_two_cards, Cards, Net, Options, Peer, Side};

use super::srq::post;

fn uc() -> Options {
    Options { qp_type: QpType::UC, depth: 32, bytes: 1 << 20, cqes: 128, ..Default::default() }
}

const SIZES: [usize; 9] = [0, 1, 255, 1023, 1024, 1025, 4097, 65_536, 300_001];

#[test]
fn sends_and_writes_of_every_size_and_mtu() {
    let cards = Cards::new();
    for mtu in 1..=5 {
        cards.each(Options { mtu, ..uc() }, |x, y| {
            x.buffer.pattern(mtu);
            for (n, &size) in SIZES.iter().enumerate() {
                let n = n as u64;
                y.buffer[..310_000].fill(0);
                let sges = [x.sge(7, size / 3), x.sge(7 + size / 3, size - size / 3)];
                y.recv(n, &[y.sge(0, 100), y.sge(100, 400_000)]);
                x.post(&[SendWr { imm: 5, ..x.wr(n, WqeOpcode::SEND_WITH_IMM, &sges) }]);
                assert_eq!(x.expect(n).opcode, CqeOpcode::SEND);
                let wc = y.expect(n);
                assert_eq!((wc.opcode, wc.byte_len as usize, wc.imm), (CqeOpcode::RECV, size, 5));
                assert!(y.buffer[..size] == x.buffer[7..7 + size]);
                x.completes(x.remote(n, WqeOpcode::WRITE, &sges, y, 600_001));
                assert!(y.buffer[600_001..600_001 + size] == x.buffer[7..7 + size]);
                y.quiet();
                y.recv(n, &[]);
                x.completes(SendWr { imm: 6, ..x.remote(n, WqeOpcode::WRITE_WITH_IMM, &sges, y, 500_000) });
                let wc = y.expect(n);
                assert_eq!(
                    (wc.opcode, wc.byte_len as usize, wc.imm),
                    (CqeOpcode::RECV_RDMA_WITH_IMM, size, 6)
                );
                assert!(wc.flags.contains(WcFlags::WITH_IMM));
                assert!(y.buffer[500_000..500_000 + size] == x.buffer[7..7 + size]);
            }
        });
    }
}

#[test]
fn a_message_without_a_receive_is_lost_and_the_next_one_arrives() {
    on_one_and_two_cards(uc(), |x, y| {
        x.buffer.pattern(1);
        for round in 0..10u64 {
            for size in [0, 100, 5000] {
                // The sender does not learn of it.
                x.completes(x.wr(1, WqeOpcode::SEND, &[x.sge(0, size)]));
                y.quiet();
            }
            y.recv(round, &[y.sge(0, 8000)]);
            x.post(&[
                x.wr(2, WqeOpcode::SEND, &[x.sge(round as usize, 6000)]),
                x.wr(3, WqeOpcode::SEND, &[x.sge(0, 10)]),
            ]);
            x.expect(2);
            x.expect(3);
            assert_eq!(y.expect(round).byte_len, 6000);
            assert!(y.buffer[..6000] == x.buffer[round as usize..][..6000]);
            y.quiet();
        }
        assert_eq!((x.state(), y.state()), (QpState::RTS, QpState::RTS));
        // WRITE_WITH_IMM without a receive: lost too.
        x.completes(x.remote(4, WqeOpcode::WRITE_WITH_IMM, &[x.sge(0, 10)], y, 9000));
        y.recv(9, &[]);
        y.quiet_for(Duration::from_millis(3));
        x.post(&[x.remote(5, WqeOpcode::WRITE_WITH_IMM, &[x.sge(0, 20)], y, 9000)]);
        assert_eq!(y.expect(9).byte_len, 20);
        expect_no_event(&y.device);
    });
}

#[test]
fn a_peer_that_is_gone_is_not_missed() {
    on_one_and_two_cards(uc(), |x, y| {
        y.qp.destroy().expect("destroyed");
        for n in 0..100 {
            x.post(&[
                x.wr(n, WqeOpcode::SEND, &[x.sge(0, 5000)]),
                x.remote(n, WqeOpcode::WRITE, &[x.sge(0, 5000)], y, 0),
            ]);
            x.expect(n);
            x.expect(n);
        }
        assert_eq!(x.state(), QpState::RTS);
    });
}

#[test]
fn a_write_without_the_right_is_dropped_silently() {
    on_one_and_two_cards(uc(), |x, y| {
        let lacks = || y.counter("RX_NO_RECV");
        let before = lacks();
        x.buffer.pattern(1);
        let sge = [x.sge(0, 3000)];
        let mut wrong = x.remote(1, WqeOpcode::WRITE, &sge, y, 0);
        wrong.rkey ^= 1;
        let beyond = x.remote(2, WqeOpcode::WRITE, &sge, y, y.buffer.len() - 2999);
        x.post(&[wrong, beyond]);
        x.expect(1);
        x.expect(2);
        y.set_access(Access::REMOTE_READ);
        x.completes(x.remote(3, WqeOpcode::WRITE, &sge, y, 0));
        assert!(y.buffer.iter().all(|&b| b == 0), "nothing was written");
        assert_eq!((x.state(), y.state()), (QpState::RTS, QpState::RTS));
        assert_eq!(lacks(), before, "no receive was missing");
        expect_no_event(&y.device);
        y.set_access(Access::REMOTE_WRITE);
        x.completes(x.remote(4, WqeOpcode::WRITE, &sge, y, 0));
        assert!(y.buffer[..3000] == x.buffer[..3000]);
    });
}

#[test]
fn a_receive_that_fails_puts_its_qp_in_error_and_nobody_is_told() {
    type Receive = fn(&Side) -> Sge;
    let wrong: [(CqeStatus, Receive); 2] = [
        (CqeStatus::LOC_LEN_ERR, |y| y.sge(0, 2999)),
        (CqeStatus::LOC_PROT_ERR, |y| Sge { lkey: y.mr.lkey() ^ 1, ..y.sge(0, 3000) }),
    ];
    for (status, sge) in wrong {
        on_one_and_two_cards(uc(), |x, y| {
            y.recv(1, &[sge(y)]);
            y.recv(2, &[y.sge(0, 3000)]);
            x.post(&[x.wr(1, WqeOpcode::SEND, &[x.sge(0, 3000)]), x.wr(2, WqeOpcode::SEND, &[])]);
            x.expect(1);
            x.expect(2);
            y.expect_status(1, status);
            y.expect_flushed([2]);
            assert_eq!((x.state(), y.state()), (QpState::RTS, QpState::ERR));
        });
    }
}

#[test]
fn reads_and_atomics_are_not_for_it() {
    on_one_and_two_cards(uc(), |x, y| {
        for opcode in [WqeOpcode::READ, WqeOpcode::CMP_SWAP, WqeOpcode::FETCH_ADD] {
            assert!(x.qp.send().push(&x.remote(1, opcode, &[x.sge(0, 8)], y, 0)).is_err(), "{opcode}");
        }
    });
}

#[test]
fn after_a_gap_the_first_whole_message_is_taken() {
    // The receiver expects another PSN than the sender begins with.
    let (_net, a, b) = Net::new(2).both();
    for (psn, with_srq) in [(0, false), (77, true), (0x7f_ffff, false)] {
        let pd = b.alloc_pd().expect("a PD");
        let srq = pd.create_srq(&SrqAttr { max_wr: 4, max_sge: 1, limit: 0 }).expect("an SRQ");
        let x = Peer::new(&a, Options { psn, ..uc() });
        let y = Peer::with_srq(&b, uc(), with_srq.then(|| srq.clone()));
        x.init();
        y.init();
        x.rtr(y.qp.qpn(), y.gid(), 0);
        y.rtr(x.qp.qpn(), x.gid(), 1234);
        x.rts();
        y.rts();
        for n in 0..3 {
            if with_srq {
                post(&srq, n, &[y.sge(0, 5000)]);
            } else {
                y.recv(n, &[y.sge(0, 5000)]);
            }
            x.completes(x.wr(n, WqeOpcode::SEND, &[x.sge(0, 4000)]));
            assert_eq!(y.expect(n).byte_len, 4000);
        }
    }
}

#[test]
fn two_rings_wrap() {
    let (_net, a) = Net::one();
    let (x, y) = connect(&a, &a, Options { depth: 3, ..uc() });
    for n in 0..500 {
        y.recv(n, &[y.sge(0, 100)]);
        x.post(&[
            x.remote(n, WqeOpcode::WRITE, &[x.sge(0, 9)], &y, 0),
            x.wr(n, WqeOpcode::SEND, &[x.sge(0, n as usize % 100)]),
        ]);
        x.expect(n);
        x.expect(n);
        assert_eq!(u64::from(y.expect(n).byte_len), n % 100);
    }
}
