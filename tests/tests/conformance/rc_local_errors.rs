//! Reliable connections: requests whose own side is at fault, and in which order requests and errors complete.

use driver::Sge;
use fpga_regs::{Access, CqeStatus, QpState, WqeOpcode};
use tests::{on_one_and_two_cards, Cards, Options, Side};

use super::rc_errors::{small, NAMING};

#[test]
fn a_requester_without_resources_does_not_send_reads_and_atomics() {
    let cards = Cards::new();
    for (opcode, length) in &NAMING[1..] {
        cards.each(Options { rd_atomic: 0, ..small() }, |x, y| {
            let sge = [x.sge(0, *length)];
            x.post(&[x.remote(1, *opcode, &sge, y, 0), x.remote(2, WqeOpcode::WRITE, &sge, y, 0)]);
            x.expect_status(1, CqeStatus::LOC_QP_OP_ERR);
            x.expect_flushed([2]);
            assert_eq!((x.state(), y.state()), (QpState::ERR, QpState::RTS), "the peer has seen nothing");
        });
    }
}

#[test]
fn receives_and_reads_need_local_write() {
    on_one_and_two_cards(small(), |x, y| {
        let mr = y.region(0, 4096, Access::REMOTE_READ);
        let read_only = Sge { addr: y.buffer.addr(0), length: 100, lkey: mr.lkey() };
        // It may be sent from.
        x.recv(5, &[x.sge(0, 100)]);
        y.completes(y.wr(6, WqeOpcode::SEND, &[read_only]));
        x.expect(5);
        // It is not read into.
        y.recv(9, &[read_only]);
        y.post(&[y.remote(7, WqeOpcode::READ, &[read_only], x, 0)]);
        y.expect_status(7, CqeStatus::LOC_PROT_ERR);
        y.expect_flushed([9]);
        assert_eq!((x.state(), y.state()), (QpState::RTS, QpState::ERR));
    });
    on_one_and_two_cards(small(), |x, y| {
        let mr = y.region(0, 4096, Access::REMOTE_READ);
        y.recv(9, &[Sge { addr: y.buffer.addr(0), length: 100, lkey: mr.lkey() }]);
        x.post(&[x.wr(1, WqeOpcode::SEND, &[x.sge(0, 100)])]);
        x.expect_status(1, CqeStatus::REM_OP_ERR);
        y.expect_status(9, CqeStatus::LOC_PROT_ERR);
    });
}

#[test]
fn a_send_from_memory_that_is_not_ones_own() {
    let cards = Cards::new();
    let wrong: [fn(&Side, &mut Sge); 4] = [
        |_, sge| sge.lkey ^= 1,
        |_, sge| sge.lkey = 0,
        |x, sge| sge.addr = x.buffer.addr(x.buffer.len() - 99),
        |x, sge| sge.addr = x.buffer.addr(0) - 1,
    ];
    for change in wrong {
        for first in [false, true] {
            cards.each(small(), |x, y| {
                let mut sge = x.sge(0, 100);
                change(x, &mut sge);
                let sges = if first { [sge, x.sge(0, 8)] } else { [x.sge(0, 8), sge] };
                y.recv(10, &[y.sge(0, 200)]);
                x.post(&[x.wr(1, WqeOpcode::SEND, &sges), x.wr(2, WqeOpcode::SEND, &[])]);
                x.expect_status(1, CqeStatus::LOC_PROT_ERR);
                x.expect_flushed([2]);
                // Nothing went out: the peer knows nothing.
                assert_eq!((x.state(), y.state()), (QpState::ERR, QpState::RTS));
                y.quiet();
            });
        }
    }
}

#[test]
fn earlier_requests_complete_before_a_local_error() {
    let cards = Cards::new();
    cards.each(Options { rnr_retry: 7, ..small() }, |x, y| {
        x.buffer.pattern(1);
        let sge = [x.sge(0, 3000)];
        let mut bad = x.sge(0, 100);
        bad.lkey ^= 1;
        // No receive is posted: the SEND waits for one, and the bad request after it waits too.
        let bad = [bad];
        let mut quiet = x.remote(4, WqeOpcode::WRITE, &sge, y, 8192);
        quiet.flags = Default::default();
        x.post(&[
            x.remote(1, WqeOpcode::WRITE, &sge, y, 0),
            x.wr(2, WqeOpcode::SEND, &sge),
            x.remote(3, WqeOpcode::READ, &sge, y, 0),
            quiet,
            x.wr(5, WqeOpcode::SEND, &bad),
            x.wr(6, WqeOpcode::SEND, &sge),
        ]);
        x.expect(1);
        x.quiet_for(std::time::Duration::from_millis(5));
        assert_eq!(x.state(), QpState::RTS);
        y.recv(10, &[y.sge(20_000, 3000)]);
        x.expect(2);
        x.expect(3);
        x.expect_status(5, CqeStatus::LOC_PROT_ERR);
        x.expect_flushed([6]);
        assert!(
            y.buffer[8192..8192 + 3000] == x.buffer[..3000],
            "the unsignaled WRITE before the error was done"
        );
        assert_eq!(y.expect(10).byte_len, 3000);
        assert_eq!(y.state(), QpState::RTS);
    });
}
