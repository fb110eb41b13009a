//! Shared receive queues: slots, order, limit.

use driver::{CqError, PostError, Sge, SrqAttr, SrqAttrMask};
use fpga_regs::{
    doorbell_page, AdminOpcode, Cqe, CqeOpcode, QpType, RecvHead, SrqContext, SrqDoorbell, DOORBELL_SRQ,
};

use crate::fake::read;
use crate::setup::{connect, create, Setup, CAPS};

const ATTR: SrqAttr = SrqAttr { max_wr: 4, max_sge: 2, limit: 0 };

fn recv(qpn: u32, slot: u32) -> Cqe {
    Cqe::new().with_qpn(qpn).with_wqe_index(slot).with_recv(true).with_opcode(CqeOpcode::RECV)
}

#[test]
fn completions_in_any_order_free_their_slots() {
    let setup = Setup::new();
    let srq = setup.pd.create_srq(&ATTR).unwrap();
    let qp = create(&setup.pd, &setup.cq, QpType::RC, CAPS, Some(&srq));
    assert_eq!((qp.caps().max_recv_wr, qp.caps().max_recv_sge), (0, 0));
    connect(&qp);
    let context = SrqContext::from_slice(&setup.card().context(AdminOpcode::CREATE_SRQ, srq.srqn())).unwrap();
    assert_eq!((context.log_size(), context.stride_log(), context.max_sge()), (3, 6, 2));
    let head = |place: u64| RecvHead::from_bytes(&read(context.ring_iova() + place % 8 * 64));

    let mut post = srq.post();
    for id in 0..4 {
        post.push(id, &[Sge { addr: id, length: 5, lkey: 1 }]).unwrap();
    }
    assert_eq!(post.push(4, &[]), Err(PostError::QueueFull));
    post.ring();
    let at = doorbell_page(1) + DOORBELL_SRQ;
    assert_eq!(setup.card().bells(), [(at, SrqDoorbell::new(srq.srqn(), 4).0)]);
    let mut waiting: Vec<(u64, u32)> = (0..4).map(|place| (place, head(place).index())).collect();
    let mut seed = 1u64;
    for place in 4..200u64 {
        // The card completes one of those that it took, not always the oldest.
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let (id, slot) = waiting.remove((seed >> 33) as usize % waiting.len());
        setup.card().complete(setup.cq.cqn(), recv(qp.qpn(), slot));
        assert_eq!(setup.ids(), [id]);
        let mut post = srq.post();
        post.push(place, &[Sge { addr: place, length: 5, lkey: 1 }]).unwrap();
        assert_eq!(post.push(0, &[]), Err(PostError::QueueFull));
        post.ring();
        assert_eq!(
            read::<8>(context.ring_iova() + place % 8 * 64 + 16),
            place.to_le_bytes(),
            "the ring is used in order"
        );
        waiting.push((place, head(place).index()));
    }
    let mut slots: Vec<u32> = waiting.iter().map(|(_, slot)| *slot).collect();
    slots.sort_unstable();
    assert_eq!(slots, [0, 1, 2, 3]);
}

#[test]
fn a_slot_completes_once() {
    let setup = Setup::new();
    let srq = setup.pd.create_srq(&ATTR).unwrap();
    let qp = create(&setup.pd, &setup.cq, QpType::RC, CAPS, Some(&srq));
    connect(&qp);
    let mut post = srq.post();
    post.push(9, &[]).unwrap();
    post.ring();
    let qpn = qp.qpn();
    for slot in [0, 0, 1, 4, u32::MAX] {
        setup.card().complete(setup.cq.cqn(), recv(qpn, slot));
    }
    assert_eq!(setup.cq.poll(1, |wc| assert_eq!(wc.wr_id, 9)), Ok(1));
    for index in [0, 1, 4, u32::MAX] {
        assert_eq!(setup.cq.poll(1, |_| ()), Err(CqError::BadEntry { qpn, index }));
    }
}

#[test]
fn an_aborted_chain_gives_its_slots_back() {
    let setup = Setup::new();
    let srq = setup.pd.create_srq(&ATTR).unwrap();
    for _ in 0..3 {
        let mut post = srq.post();
        for id in 0..4 {
            post.push(id, &[]).unwrap();
        }
        drop(post);
    }
    assert_eq!(
        srq.post().push(0, &[Sge::default(); 3]),
        Err(PostError::Invalid("more elements than the SRQ's max_sge"))
    );
    assert_eq!(setup.card().bells(), []);
}

#[test]
fn destroying_a_qp_frees_the_slots_of_its_waiting_completions() {
    let setup = Setup::new();
    let srq = setup.pd.create_srq(&ATTR).unwrap();
    let qp = create(&setup.pd, &setup.cq, QpType::RC, CAPS, Some(&srq));
    connect(&qp);
    let mut post = srq.post();
    for id in 0..4 {
        post.push(id, &[]).unwrap();
    }
    post.ring();
    setup.card().complete(setup.cq.cqn(), recv(qp.qpn(), 2));
    assert_eq!(srq.post().push(4, &[]), Err(PostError::QueueFull));
    qp.destroy().unwrap();
    srq.post().push(4, &[]).unwrap();
    assert!(setup.ids().is_empty());
}

#[test]
fn the_limit_is_set_and_asked_for() {
    let setup = Setup::new();
    let srq = setup.pd.create_srq(&SrqAttr { limit: 1, ..ATTR }).unwrap();
    assert_eq!(srq.query().unwrap(), SrqAttr { limit: 1, ..ATTR });
    srq.modify(&SrqAttr { limit: 3, ..ATTR }, SrqAttrMask::LIMIT).unwrap();
    let command = *setup.card().commands().last().unwrap();
    assert_eq!((command.opcode(), command.object()), (AdminOpcode::MODIFY_SRQ, srq.srqn()));
    assert_eq!(
        srq.modify(&SrqAttr { limit: 5, ..ATTR }, SrqAttrMask::LIMIT).unwrap_err().errno(),
        libc::EINVAL
    );
    assert_eq!(srq.modify(&ATTR, SrqAttrMask::MAX_WR).unwrap_err().errno(), libc::EOPNOTSUPP);
    for wrong in [
        SrqAttr { max_wr: 0, ..ATTR },
        SrqAttr { max_wr: 5000, ..ATTR },
        SrqAttr { max_sge: 31, ..ATTR },
        SrqAttr { limit: 5, ..ATTR },
    ] {
        assert_eq!(setup.pd.create_srq(&wrong).err().unwrap().errno(), libc::EINVAL);
    }
    srq.destroy().unwrap();
    assert_eq!(srq.post().push(0, &[]), Err(PostError::State));
}
