//! Polling: phase bits, retirement, stale entries, arming, resizing.

use driver::{CqError, Error, PostError, QpCaps, SendFlags, SendWr, WcFlags};
use fpga_regs::{
    doorbell_page, AdminOpcode, CqArm, Cqe, CqeOpcode, CqeStatus, QpState, QpType, Syndrome, DOORBELL_CQ_ARM,
};

use crate::doorbells::write;
use crate::setup::{connect, create, Setup, CAPS};

fn post(setup: &Setup, ids: impl IntoIterator<Item = u64>) {
    let mut post = setup.qp.send();
    for id in ids {
        post.push(&write(id)).unwrap();
    }
    post.ring();
}

#[test]
fn every_field_of_a_completion() {
    let setup = Setup::new();
    post(&setup, [77]);
    let cqe = Cqe::new()
        .with_qpn(setup.qp.qpn())
        .with_wqe_index(0)
        .with_srcqp(0x112233)
        .with_byte_len(4096)
        .with_imm(0xdead_beef)
        .with_flags(Cqe::IMM | Cqe::GRH)
        .with_opcode(CqeOpcode::RDMA_READ)
        .with_status(CqeStatus::REM_ACCESS_ERR)
        .with_syndrome(Syndrome::NAK_REMOTE_ACCESS)
        .with_timestamp(0x1234_5678_9abc)
        .with_sl(5)
        .with_pkey_index(6);
    setup.card().complete(setup.cq.cqn(), cqe);
    let [wc] = setup.poll()[..] else { panic!("one completion") };
    assert_eq!((wc.wr_id, wc.status, wc.opcode), (77, CqeStatus::REM_ACCESS_ERR, CqeOpcode::RDMA_READ));
    assert_eq!((wc.vendor_err, wc.byte_len, wc.imm), (0x34, 4096, 0xdead_beef));
    assert_eq!((wc.qpn, wc.src_qp, wc.flags), (setup.qp.qpn(), 0x112233, WcFlags::GRH | WcFlags::WITH_IMM));
    assert_eq!((wc.sl, wc.pkey_index, wc.timestamp), (5, 6, 0x1234_5678_9abc));
}

#[test]
fn ring_after_ring_of_completions() {
    let setup = Setup::new();
    for round in 0..100u32 {
        post(&setup, [round.into()]);
        setup.card().complete(setup.cq.cqn(), Cqe::new().with_qpn(setup.qp.qpn()).with_wqe_index(round));
        assert_eq!(setup.ids(), [u64::from(round)]);
        assert!(setup.ids().is_empty());
        assert_eq!(setup.card().consumer(setup.cq.cqn()), round + 1);
    }
}

#[test]
fn a_completion_retires_what_was_posted_before_it() {
    let setup = Setup::new();
    let mut chain = setup.qp.send();
    for id in 0..8 {
        let flags = if id == 6 { SendFlags::SIGNALED } else { SendFlags::empty() };
        chain.push(&SendWr { flags, ..write(id) }).unwrap();
    }
    chain.ring();
    assert_eq!(setup.qp.send().push(&write(8)), Err(PostError::QueueFull));
    setup.card().complete(setup.cq.cqn(), Cqe::new().with_qpn(setup.qp.qpn()).with_wqe_index(6));
    assert_eq!(setup.ids(), [6]);
    let mut chain = setup.qp.send();
    for id in 8..15 {
        chain.push(&write(id)).unwrap();
    }
    assert_eq!(chain.push(&write(15)), Err(PostError::QueueFull), "number 7 is still outstanding");
}

#[test]
fn poll_gives_no_more_than_asked() {
    let setup = Setup::new();
    post(&setup, 0..5);
    for index in 0..5 {
        setup.card().complete(setup.cq.cqn(), Cqe::new().with_qpn(setup.qp.qpn()).with_wqe_index(index));
    }
    let mut found = Vec::new();
    assert_eq!(setup.cq.poll(0, |wc| found.push(wc.wr_id)), Ok(0));
    assert_eq!(setup.cq.poll(2, |wc| found.push(wc.wr_id)), Ok(2));
    assert_eq!(setup.cq.poll(9, |wc| found.push(wc.wr_id)), Ok(3));
    assert_eq!(found, [0, 1, 2, 3, 4]);
}

#[test]
fn empty_polls_are_counted_for_the_card() {
    let setup = Setup::new();
    setup.card().relaxed();
    for _ in 0..3 {
        assert_eq!(setup.cq.poll(1, |_| panic!("nothing there")), Ok(0));
    }
    assert_eq!(setup.card().relaxed(), [0, 1, 2]);
    post(&setup, [1]);
    setup.card().complete(setup.cq.cqn(), Cqe::new().with_qpn(setup.qp.qpn()));
    assert_eq!(setup.cq.poll(1, |_| ()), Ok(1));
    assert_eq!(setup.cq.poll(1, |_| ()), Ok(0));
    assert_eq!(setup.card().relaxed(), [0], "a completion starts the count again");
}

#[test]
fn what_waits_is_seen_without_a_poll() {
    let setup = Setup::new();
    let (cqn, qpn) = (setup.cq.cqn(), setup.qp.qpn());
    assert_eq!((setup.cq.waiting(), setup.cq.latest_send()), (0, None));
    post(&setup, [7, 8, 9]);
    setup.card().complete(cqn, Cqe::new().with_qpn(qpn));
    setup.card().complete(cqn, Cqe::new().with_qpn(qpn).with_wqe_index(1));
    assert_eq!((setup.cq.waiting(), setup.cq.latest_send()), (2, Some(8)));
    // What was never posted waits, and is no send.
    setup.card().complete(cqn, Cqe::new().with_qpn(qpn).with_wqe_index(6));
    assert_eq!((setup.cq.waiting(), setup.cq.latest_send()), (3, None));
    assert_eq!(setup.cq.poll(1, |wc| assert_eq!(wc.wr_id, 7)), Ok(1));
    assert_eq!(setup.cq.waiting(), 2);
}

#[test]
fn receives_complete_in_order() {
    let setup = Setup::new();
    for round in 0..20u32 {
        let mut chain = setup.qp.recv();
        chain.push(u64::from(round) * 2, &[]).unwrap();
        chain.push(u64::from(round) * 2 + 1, &[]).unwrap();
        chain.ring();
        for half in 0..2 {
            let cqe = Cqe::new().with_qpn(setup.qp.qpn()).with_wqe_index(round * 2 + half).with_recv(true);
            setup.card().complete(setup.cq.cqn(), cqe.with_opcode(CqeOpcode::RECV));
        }
        assert_eq!(setup.ids(), [u64::from(round) * 2, u64::from(round) * 2 + 1]);
    }
}

#[test]
fn a_completion_of_what_was_never_posted_is_an_error_and_is_passed() {
    let setup = Setup::new();
    post(&setup, [1]);
    let (cqn, qpn) = (setup.cq.cqn(), setup.qp.qpn());
    setup.card().complete(cqn, Cqe::new().with_qpn(qpn).with_wqe_index(0));
    setup.card().complete(cqn, Cqe::new().with_qpn(qpn).with_wqe_index(5));
    setup.card().complete(cqn, Cqe::new().with_qpn(qpn).with_wqe_index(9).with_recv(true));
    let mut found = Vec::new();
    assert_eq!(setup.cq.poll(8, |wc| found.push(wc.wr_id)), Ok(1), "first what is right");
    assert_eq!(setup.cq.poll(8, |_| ()), Err(CqError::BadEntry { qpn, index: 5 }));
    assert_eq!(setup.cq.poll(8, |_| ()), Err(CqError::BadEntry { qpn, index: 9 }));
    assert_eq!(setup.cq.poll(8, |_| ()), Ok(0));
    assert_eq!(found, [1]);
}

#[test]
fn entries_of_unknown_qps_and_of_other_cqs_are_skipped() {
    let setup = Setup::new();
    post(&setup, [1]);
    let other = setup.device.create_cq(16, 0).unwrap();
    setup.card().complete(other.cqn(), Cqe::new().with_qpn(setup.qp.qpn()));
    assert_eq!(other.poll(8, |_| panic!("not of this CQ")), Ok(0));
    setup.card().complete(setup.cq.cqn(), Cqe::new().with_qpn(0xffffff));
    setup.card().complete(setup.cq.cqn(), Cqe::new().with_qpn(setup.qp.qpn() | 0x10000));
    setup.card().complete(setup.cq.cqn(), Cqe::new().with_qpn(setup.qp.qpn()));
    assert_eq!(setup.ids(), [1]);
}

#[test]
fn a_destroyed_qps_entries_leave_the_cq() {
    let setup = Setup::new();
    let second = create(&setup.pd, &setup.cq, QpType::RC, CAPS, None);
    connect(&second);
    post(&setup, 0..6);
    let mut chain = second.send();
    for id in 100..104 {
        chain.push(&write(id)).unwrap();
    }
    chain.ring();
    let cqn = setup.cq.cqn();
    // Near the ring's end, so that closing the gaps runs over it.
    for index in 0..3 {
        setup.card().complete(cqn, Cqe::new().with_qpn(setup.qp.qpn()).with_wqe_index(index));
    }
    assert_eq!(setup.ids(), [0, 1, 2]);
    for index in 0..3 {
        setup.card().complete(cqn, Cqe::new().with_qpn(setup.qp.qpn()).with_wqe_index(3 + index));
        setup.card().complete(cqn, Cqe::new().with_qpn(second.qpn()).with_wqe_index(index));
    }
    second.destroy().unwrap();
    assert_eq!(setup.card().consumer(cqn), 6, "three entries were removed");
    setup.card().complete(cqn, Cqe::new().with_qpn(second.qpn()).with_wqe_index(3));
    assert_eq!(setup.ids(), [3, 4, 5]);
    assert!(matches!(second.destroy(), Err(Error::Destroyed("QP"))));
}

#[test]
fn a_reset_forgets_what_was_outstanding() {
    let setup = Setup::new();
    post(&setup, 0..8);
    setup.card().complete(setup.cq.cqn(), Cqe::new().with_qpn(setup.qp.qpn()).with_wqe_index(0));
    let to_reset = driver::QpAttr { state: QpState::RESET, ..Default::default() };
    setup.qp.modify(&to_reset, driver::AttrMask::STATE).unwrap();
    assert_eq!(setup.qp.send().push(&write(1)), Err(PostError::State));
    assert!(setup.ids().is_empty());
    connect(&setup.qp);
    post(&setup, 10..18);
    setup.card().complete(setup.cq.cqn(), Cqe::new().with_qpn(setup.qp.qpn()).with_wqe_index(7));
    assert_eq!(setup.ids(), [17]);
}

#[test]
fn arming_tells_the_consumer_index() {
    let setup = Setup::new();
    post(&setup, [1]);
    setup.card().complete(setup.cq.cqn(), Cqe::new().with_qpn(setup.qp.qpn()));
    assert_eq!(setup.ids(), [1]);
    setup.card().bells();
    setup.cq.arm(false);
    setup.cq.arm(true);
    let (at, cqn) = (doorbell_page(1) + DOORBELL_CQ_ARM, setup.cq.cqn());
    assert_eq!(setup.card().bells(), [(at, CqArm::new(cqn, false, 1).0), (at, CqArm::new(cqn, true, 1).0)]);
}

#[test]
fn resizing_keeps_what_waits() {
    for (before, size) in [(0, 64), (5, 64), (13, 16), (13, 8), (30, 128), (30, 8)] {
        let setup = Setup::immediate(QpCaps { max_send_wr: 64, ..CAPS });
        for id in 0..before {
            post(&setup, [id]);
            assert_eq!(setup.ids(), [id]);
        }
        post(&setup, 100..106);
        setup.cq.resize(size).unwrap();
        assert_eq!(setup.cq.entries(), size);
        post(&setup, 200..202);
        assert_eq!(setup.ids(), [100, 101, 102, 103, 104, 105, 200, 201], "{before} before, then {size}");
        for id in 0..3 * u64::from(size) {
            post(&setup, [id]);
            assert_eq!(setup.ids(), [id]);
        }
    }
}

#[test]
fn a_cq_is_not_resized_below_what_waits() {
    let setup = Setup::immediate(QpCaps { max_send_wr: 64, ..CAPS });
    post(&setup, 0..6);
    let error = setup.cq.resize(4).unwrap_err();
    insta::assert_snapshot!(error, @"6 completions wait in the CQ, more than the new size: poll first");
    assert_eq!(setup.ids(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn sizes_and_vectors_are_checked() {
    let setup = Setup::new();
    assert_eq!(setup.device.create_cq(100, 0).unwrap().entries(), 128);
    for error in [
        setup.device.create_cq(0, 0).err().unwrap(),
        setup.device.create_cq(65537, 0).err().unwrap(),
        setup.device.create_cq(1, 1).err().unwrap(),
    ] {
        assert_eq!(error.errno(), libc::EINVAL, "{error}");
    }
}

#[test]
fn a_destroyed_cq_cannot_be_polled() {
    let setup = Setup::new();
    let cq = setup.device.create_cq(16, 0).unwrap();
    cq.destroy().unwrap();
    assert_eq!(cq.poll(1, |_| ()), Err(CqError::Destroyed));
    assert!(matches!(cq.destroy(), Err(Error::Destroyed("CQ"))));
    assert!(matches!(cq.resize(8), Err(Error::Destroyed("CQ"))));
}

#[test]
fn everything_is_taken_back_when_dropped() {
    let setup = Setup::new();
    let device = setup.device.clone();
    drop(setup);
    for opcode in [AdminOpcode::CREATE_QP, AdminOpcode::CREATE_CQ, AdminOpcode::ALLOC_PD] {
        assert_eq!(device.card().objects(opcode), 0, "{opcode}");
    }
}
