//! Posting, doorbell by doorbell.

use driver::{Data, PostError, QpCaps, SendFlags, SendWr, Sge};
use fpga_regs::{
    doorbell_page, QpType, RecvHead, RqDoorbell, SqDoorbell, WqeOpcode, DOORBELL_RQ, DOORBELL_SQ,
};

use crate::fake::read;
use crate::setup::{ah, connect, create, Setup, CAPS};

/// A signaled WRITE of one element, which takes one block.
pub fn write(wr_id: u64) -> SendWr<'static> {
    const SGE: [Sge; 1] = [Sge { addr: 0x1000, length: 8, lkey: 7 }];
    SendWr {
        wr_id,
        opcode: WqeOpcode::WRITE,
        flags: SendFlags::SIGNALED,
        remote_addr: 0x2000,
        rkey: 9,
        data: Data::Sges(&SGE),
        ..SendWr::default()
    }
}

#[test]
fn a_chain_of_three_is_one_doorbell() {
    let setup = Setup::new();
    let mut post = setup.qp.send();
    for id in 0..3 {
        post.push(&write(id)).unwrap();
    }
    assert_eq!(setup.card().bells(), [], "nothing before the chain is complete");
    post.ring();
    let at = doorbell_page(1) + DOORBELL_SQ;
    assert_eq!(setup.card().bells(), [(at, SqDoorbell::new(setup.qp.qpn(), 3).0)]);
}

#[test]
fn an_empty_chain_rings_nothing() {
    let setup = Setup::new();
    setup.qp.send().ring();
    setup.qp.recv().ring();
    assert_eq!(setup.card().bells(), []);
}

#[test]
fn an_aborted_chain_leaves_nothing() {
    let setup = Setup::new();
    let mut post = setup.qp.send();
    post.push(&write(1)).unwrap();
    drop(post);
    {
        let mut dropped = setup.qp.send();
        dropped.push(&write(2)).unwrap();
    }
    assert_eq!(setup.card().bells(), []);
    let mut post = setup.qp.send();
    post.push(&write(3)).unwrap();
    post.ring();
    let at = doorbell_page(1) + DOORBELL_SQ;
    assert_eq!(setup.card().bells(), [(at, SqDoorbell::new(setup.qp.qpn(), 1).0)]);
}

#[test]
fn the_queue_is_full_at_max_send_wr_and_what_stands_can_be_rung() {
    let setup = Setup::new();
    let mut post = setup.qp.send();
    for id in 0..8 {
        post.push(&write(id)).unwrap();
    }
    assert_eq!(post.push(&write(8)), Err(PostError::QueueFull));
    post.ring();
    assert_eq!(setup.card().bells().len(), 1);
    assert_eq!(setup.qp.send().push(&write(8)), Err(PostError::QueueFull));
}

#[test]
fn many_large_requests_fit_as_promised() {
    let caps = QpCaps { max_send_wr: 5, max_send_sge: 30, max_inline: 0, ..CAPS };
    let setup = Setup::with(QpType::RC, caps);
    let sges = [Sge { addr: 1, length: 2, lkey: 3 }; 30];
    for round in 0..20 {
        let mut post = setup.qp.send();
        for id in 0..5 {
            post.push(&SendWr { data: Data::Sges(&sges), ..write(id) }).unwrap();
        }
        post.ring();
        let index = (round * 5 + 4) * 8;
        let cqe = fpga_regs::Cqe::new().with_qpn(setup.qp.qpn()).with_wqe_index(index);
        setup.card().complete(setup.cq.cqn(), cqe);
        assert_eq!(setup.ids(), [4], "round {round}");
    }
}

#[test]
fn wrong_requests_are_named() {
    let setup = Setup::new();
    let sges = [Sge { addr: 1, length: 1 << 30, lkey: 3 }; 4];
    let long = [Sge { addr: 1, length: u32::MAX, lkey: 3 }];
    let push = |wr: SendWr<'_>| setup.qp.send().push(&wr);
    let too_many = SendWr { data: Data::Sges(&sges), ..write(1) };
    assert_eq!(push(too_many), Err(PostError::Invalid("more elements than max_send_sge")));
    let too_long = SendWr { data: Data::Sges(&long), ..write(1) };
    assert_eq!(push(too_long), Err(PostError::Invalid("the message is longer than 2 GiB")));
    let bytes = [0; 97];
    let inline = SendWr { data: Data::Bytes(&bytes), ..write(1) };
    assert_eq!(push(inline), Err(PostError::Invalid("more inline data than max_inline_data")));
    let read = SendWr { opcode: WqeOpcode::READ, data: Data::Bytes(&bytes[..8]), ..write(1) };
    assert_eq!(push(read), Err(PostError::Invalid("this opcode takes no inline data")));
    let bind = SendWr { opcode: WqeOpcode::BIND_MW, ..write(1) };
    assert_eq!(push(bind), Err(PostError::Invalid("BIND_MW needs what to bind")));
    let unknown = SendWr { opcode: WqeOpcode(99), ..write(1) };
    assert_eq!(push(unknown), Err(PostError::Invalid("unknown opcode")));
    let raw = SendWr { opcode: WqeOpcode::RAW_ETH, ..write(1) };
    let refused = Err(PostError::Invalid("this type of QP does not do this opcode"));
    assert_eq!(push(raw), refused, "a whole frame");
    assert_eq!(setup.card().bells(), []);
}

#[test]
fn a_ud_send_needs_an_address() {
    let setup = Setup::with(QpType::UD, CAPS);
    let send = SendWr { opcode: WqeOpcode::SEND, ..write(1) };
    let mut post = setup.qp.send();
    assert_eq!(post.push(&send), Err(PostError::Invalid("a UD send needs an address handle")));
    assert_eq!(post.push(&write(1)), Err(PostError::Invalid("this type of QP does not do this opcode")));
    let ah = ah(&setup.pd, 2);
    post.push(&SendWr { ah: Some(&ah), ..send }).unwrap();
    post.push(&SendWr { opcode: WqeOpcode::NOP, ..SendWr::default() }).unwrap();
    post.ring();
}

#[test]
fn states_that_do_not_allow_posting() {
    let setup = Setup::new();
    let qp = create(&setup.pd, &setup.cq, QpType::RC, CAPS, None);
    assert_eq!(qp.send().push(&write(1)), Err(PostError::State));
    assert_eq!(qp.recv().push(1, &[]), Err(PostError::State));
    connect(&qp);
    qp.send().push(&write(1)).unwrap();
    qp.recv().push(1, &[]).unwrap();
    qp.destroy().unwrap();
    assert_eq!(qp.send().push(&write(1)), Err(PostError::State));
    assert_eq!(qp.recv().push(1, &[]), Err(PostError::State));
}

#[test]
fn receives_are_written_and_rung_once() {
    let setup = Setup::new();
    let sges = [Sge { addr: 0x1000, length: 10, lkey: 1 }, Sge { addr: 0x2000, length: 20, lkey: 2 }];
    let mut post = setup.qp.recv();
    post.push(11, &sges).unwrap();
    post.push(12, &sges[..1]).unwrap();
    post.ring();
    let qpn = setup.qp.qpn();
    let at = doorbell_page(1) + DOORBELL_RQ;
    assert_eq!(setup.card().bells(), [(at, RqDoorbell::new(qpn, 2).0)]);
    let context = setup.card().qp(qpn);
    let head = RecvHead::from_bytes(&read(context.rq_iova()));
    assert_eq!((head.num_sge(), head.index(), head.length()), (2, 0, 30));
    let second = context.rq_iova() + (1 << context.rq_stride_log());
    let head = RecvHead::from_bytes(&read(second));
    assert_eq!((head.num_sge(), head.index(), head.length()), (1, 1, 10));
    let sge = fpga_regs::WqeSge::from_bytes(&read(second + 16));
    assert_eq!((sge.addr(), sge.length(), sge.lkey()), (0x1000, 10, 1));

    let mut post = setup.qp.recv();
    assert_eq!(post.push(13, &[sges[0]; 4]), Err(PostError::Invalid("more elements than max_recv_sge")));
    post.push(13, &[]).unwrap();
    post.push(14, &[]).unwrap();
    assert_eq!(post.push(15, &[]), Err(PostError::QueueFull));
}
