//! Operations that no packet is made for, among requests that the peer answers.

use std::sync::Arc;

use driver::{Bind, Mw, SendWr, Sge};
use fpga_regs::{Access, CqeStatus, EventKind, QpState, WqeOpcode};
use tests::{expect_async, on_one_and_two_cards, Cards, Side, TestCard};

use super::rc_retry::small;

/// What the peer answers with more than an acknowledgement.
const ANSWERED: [WqeOpcode; 3] = [WqeOpcode::READ, WqeOpcode::FETCH_ADD, WqeOpcode::CMP_SWAP];

/// Binds a window to the first 64 bytes of the QP's own region.
fn bind(x: &Side, id: u64, window: &Mw<TestCard>) -> SendWr<'static> {
    let mw_rkey = window.rkey();
    let bind = Bind {
        addr: x.buffer.addr(0),
        length: 64,
        mr_lkey: x.mr.lkey(),
        mw_rkey,
        access: Access::REMOTE_WRITE,
    };
    SendWr {
        bind: Some(bind),
        imm: mw_rkey & !0xff | (mw_rkey + 1) & 0xff,
        ..x.wr(id, WqeOpcode::BIND_MW, &[])
    }
}

fn window(x: &Side) -> Arc<Mw<TestCard>> {
    x.pd.alloc_mw(true).expect("a window")
}

#[test]
fn a_local_operation_completes_behind_any_request() {
    let cards = Cards::new();
    for request in ANSWERED {
        cards.each(small(), |x, y| {
            let sge = [x.sge(0, 8)];
            let mw = window(x);
            let bound = bind(x, 2, &mw);
            let rkey = bound.imm;
            x.post(&[x.remote(1, request, &sge, y, 0), bound]);
            for id in 1..=2 {
                x.expect(id);
            }
            x.post(&[
                x.remote(3, request, &sge, y, 0),
                x.wr(4, WqeOpcode::NOP, &[]),
                SendWr { imm: rkey, ..x.wr(5, WqeOpcode::LOCAL_INV, &[]) },
                x.remote(6, request, &sge, y, 0),
                x.wr(7, WqeOpcode::NOP, &[]),
            ]);
            for id in 3..=7 {
                x.expect(id);
            }
            x.quiet();
        });
    }
}

#[test]
fn an_error_behind_a_local_operation_behind_a_read_ends_the_qp() {
    on_one_and_two_cards(small(), |x, y| {
        let sge = [x.sge(0, 8)];
        let wrong = [Sge { lkey: x.mr.lkey() ^ 1, ..sge[0] }];
        let mw = window(x);
        x.post(&[
            x.remote(1, WqeOpcode::READ, &sge, y, 0),
            bind(x, 2, &mw),
            x.wr(3, WqeOpcode::SEND, &wrong),
            x.wr(4, WqeOpcode::NOP, &[]),
        ]);
        x.expect(1);
        x.expect(2);
        x.expect_status(3, CqeStatus::LOC_PROT_ERR);
        x.expect_flushed([4]);
        assert_eq!(x.state(), QpState::ERR);
    });
}

#[test]
fn a_queue_that_ends_with_a_local_operation_is_drained() {
    on_one_and_two_cards(small(), |x, y| {
        let sge = [x.sge(0, 8)];
        x.post_begun(&[x.remote(1, WqeOpcode::READ, &sge, y, 0), x.wr(2, WqeOpcode::NOP, &[])], 1);
        x.drain();
        expect_async(&x.device, EventKind::SQ_DRAINED, x.qp.qpn());
        x.expect(1);
        x.expect(2);
    });
}
