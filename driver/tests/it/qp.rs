//! Creating and modifying QPs.

use driver::{AttrMask, Error, QpAttr, QpCaps, QpInit};
use fpga_regs::{AdminOpcode, AdminStatus, Command, QpContext, QpState, QpType};

use crate::setup::{attr, connect, create, masks, way, Setup, CAPS};

#[test]
fn the_context_of_a_new_qp() {
    let setup = Setup::new();
    let qp = create(&setup.pd, &setup.cq, QpType::RC, CAPS, None);
    let context = setup.card().qp(qp.qpn());
    assert_eq!((context.qp_type(), context.pd(), context.page()), (QpType::RC, setup.pd.pdn(), 1));
    assert_eq!((context.send_cq(), context.recv_cq()), (setup.cq.cqn(), setup.cq.cqn()));
    // Control, remote and atomic segments with 64 bytes inline: two blocks, eight times.
    assert_eq!((context.sq_log(), context.rq_log(), context.rq_stride_log()), (4, 2, 6));
    assert_eq!(context.rq_iova(), context.sq_iova() + 16 * 64);
    assert_eq!(
        (context.max_send_sge(), context.max_recv_sge(), context.max_inline()),
        (3, 3, 96),
        "all inline room of two blocks"
    );
}

#[test]
fn the_way_to_rts_carries_every_attribute() {
    let setup = Setup::new();
    let modified: Vec<_> =
        setup.card().commands().into_iter().filter(|c| c.opcode() == AdminOpcode::MODIFY_QP).collect();
    let steps: Vec<_> = modified.iter().map(|c| (c.param0(), c.param1(), c.param2())).collect();
    assert_eq!(steps, [(0x39, 1, 0xff), (0x129181, 2, 0xff), (0x12e01, 3, 0xff)]);
    let (found, init) = (setup.qp.query().unwrap(), setup.qp.init().unwrap());
    assert_eq!((found.state, init.caps), (QpState::RTS, QpCaps { max_inline: 96, ..CAPS }));
    let [init, ..] = masks(QpType::RC);
    let qp = create(&setup.pd, &setup.cq, QpType::RC, CAPS, None);
    qp.modify(&QpAttr { state: QpState::INIT, ..attr() }, init).unwrap();
    let context = setup.card().qp(qp.qpn());
    assert_eq!(
        (context.port(), context.access(), context.qkey()),
        (1, attr().access, 0),
        "only what is in the mask"
    );
    qp.modify(&QpAttr { state: QpState::RTR, ..attr() }, masks(QpType::RC)[1]).unwrap();
    let context = setup.card().qp(qp.qpn());
    assert_eq!(
        (context.dgid(), context.dmac(), context.sgid_index()),
        (way(2).dgid, [2, 0x56, 0x42, 0, 0, 2], 1)
    );
    assert_eq!((context.dest_qpn(), context.rq_psn(), context.mtu()), (0x123456, 0xfff, 5));
    assert_eq!((context.min_rnr_timer(), context.max_dest_rd_atomic()), (12, 4));
    qp.modify(&QpAttr { state: QpState::RTS, ..attr() }, masks(QpType::RC)[2]).unwrap();
    let context = setup.card().qp(qp.qpn());
    assert_eq!((context.sq_psn(), context.timeout(), context.retry_cnt()), (0xabcdef, 14, 7));
    assert_eq!((context.rnr_retry(), context.max_rd_atomic()), (6, 4));
}

#[test]
fn bringing_up_takes_the_same_steps() {
    for qp_type in [QpType::RC, QpType::UC, QpType::UD, QpType::RAW_PACKET] {
        let setup = Setup::with(qp_type, CAPS);
        let qp = create(&setup.pd, &setup.cq, qp_type, CAPS, None);
        qp.bring_up(&attr()).unwrap();
        let all = setup.card().commands();
        let steps = |qpn: u32| -> Vec<_> {
            let of = |c: &&Command| c.opcode() == AdminOpcode::MODIFY_QP && c.object() == qpn;
            all.iter().filter(of).map(|c| (c.param0(), c.param1(), c.param2())).collect()
        };
        assert_eq!(steps(qp.qpn()), steps(setup.qp.qpn()), "{qp_type}");
        assert_eq!(qp.query().unwrap(), setup.qp.query().unwrap(), "{qp_type}");
        let error = qp.bring_up(&attr()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{qp_type} QP RTS -> INIT: there is no such step; query the QP's state first")
        );
    }
}

fn fail(setup: &Setup, from: QpState, change: impl FnOnce(&mut QpAttr, &mut AttrMask)) -> Error {
    let qp = create(&setup.pd, &setup.cq, QpType::RC, CAPS, None);
    let states = [QpState::INIT, QpState::RTR, QpState::RTS];
    for (state, mask) in states.into_iter().zip(masks(QpType::RC)) {
        if from == QpState(state.0 - 1) {
            let mut attr = QpAttr { state, ..attr() };
            let mut mask = mask;
            change(&mut attr, &mut mask);
            let before = qp.state();
            let error = qp.modify(&attr, mask).unwrap_err();
            assert_eq!(qp.state(), before, "nothing is changed");
            return error;
        }
        qp.modify(&QpAttr { state, ..attr() }, mask).unwrap();
    }
    panic!("no step from {from}");
}

#[test]
fn errors_name_the_attribute() {
    let setup = Setup::new();
    let error = fail(&setup, QpState::INIT, |_, mask| *mask = mask.without(AttrMask::DEST_QPN));
    insta::assert_snapshot!(error, @"RC QP INIT -> RTR: needs the attribute DEST_QPN");
    let error = fail(&setup, QpState::RESET, |_, mask| *mask |= AttrMask::QKEY);
    insta::assert_snapshot!(error, @"RC QP RESET -> INIT: does not take the attribute QKEY");
    let error = fail(&setup, QpState::RESET, |attr, _| attr.state = QpState::RTS);
    insta::assert_snapshot!(error, @"RC QP RESET -> RTS: there is no such step; query the QP's state first");
    let error = fail(&setup, QpState::RTR, |_, mask| *mask |= AttrMask::ALT_PATH);
    insta::assert_snapshot!(error, @"an alternative path (ALT_PATH) is not supported");
    assert_eq!(error.errno(), libc::EOPNOTSUPP);
    let error = fail(&setup, QpState::RTR, |attr, _| attr.max_rd_atomic = 17);
    insta::assert_snapshot!(error, @"MAX_QP_RD_ATOMIC: 17 asked for, the card's limit is 16");
    let error = fail(&setup, QpState::INIT, |attr, _| attr.path_mtu = 6);
    insta::assert_snapshot!(error, @"PATH_MTU 6: 1 (256 bytes) to 5 (4096 bytes) exist");
    let error = fail(&setup, QpState::INIT, |attr, _| attr.ah.grh = false);
    insta::assert_snapshot!(error, @"RoCE needs a GRH: set is_global and the GRH's fields");
    let error = fail(&setup, QpState::INIT, |attr, _| attr.ah.dgid[15] = 0xee);
    insta::assert_snapshot!(error, @"no path to ::ffff:198.18.0.238: check the GID, the GID index and that the peer's port is up");
    assert_eq!(error.errno(), libc::EHOSTUNREACH);
    let error = fail(&setup, QpState::RESET, |attr, _| attr.port = 3);
    insta::assert_snapshot!(error, @"port 3: the card has ports 1 to 2");
    let error = fail(&setup, QpState::RTR, |attr, _| attr.sq_psn = 1 << 24);
    insta::assert_snapshot!(error, @"SQ_PSN: 16777216 asked for, the card's limit is 16777215");
    let error = fail(&setup, QpState::RTR, |attr, mask| {
        attr.cur_state = QpState::RTS;
        *mask |= AttrMask::CUR_STATE;
    });
    insta::assert_snapshot!(error, @"the QP is in RTR, not in RTS as CUR_STATE says");
}

#[test]
fn the_card_moves_a_qp_to_error_and_the_driver_sees_it() {
    let setup = Setup::with(QpType::UD, CAPS);
    setup.card().set_qp_state(setup.qp.qpn(), QpState::SQE);
    let back = QpAttr { state: QpState::RTS, cur_state: QpState::SQE, ..attr() };
    setup.qp.modify(&back, AttrMask::STATE | AttrMask::CUR_STATE).unwrap();
    assert_eq!(setup.qp.state(), QpState::RTS);
    setup.card().set_qp_state(setup.qp.qpn(), QpState::ERR);
    let error = setup.qp.modify(&back, AttrMask::STATE).unwrap_err();
    insta::assert_snapshot!(error, @"UD QP ERR -> RTS: there is no such step; query the QP's state first");
}

#[test]
fn a_refused_reset_or_destroy_leaves_the_qp_working() {
    let setup = Setup::new();
    setup.card().refuse(AdminOpcode::MODIFY_QP, AdminStatus::INTERNAL);
    setup.card().refuse(AdminOpcode::DESTROY_QP, AdminStatus::IN_USE);
    let reset = QpAttr { state: QpState::RESET, ..attr() };
    assert_eq!(setup.qp.modify(&reset, AttrMask::STATE).unwrap_err().errno(), libc::EIO);
    assert_eq!(setup.qp.destroy().unwrap_err().errno(), libc::EBUSY);
    assert_eq!(setup.qp.state(), QpState::RTS);
    setup.qp.send().push(&crate::doorbells::write(1)).unwrap();
    setup.qp.recv().push(1, &[]).unwrap();
}

#[test]
fn caps_above_the_limits_are_refused() {
    let setup = Setup::new();
    for caps in [
        QpCaps { max_send_wr: 8193, ..CAPS },
        QpCaps { max_recv_wr: 8193, ..CAPS },
        QpCaps { max_send_sge: 31, ..CAPS },
        QpCaps { max_recv_sge: 31, ..CAPS },
        QpCaps { max_inline: 513, ..CAPS },
    ] {
        let error = setup.pd.create_qp(&QpInit::new(QpType::RC, &setup.cq, caps)).err().unwrap();
        assert!(matches!(error, Error::Limit { .. }), "{error}");
        assert_eq!(error.errno(), libc::EINVAL);
    }
}

#[test]
fn nothing_asked_for_gives_a_qp_that_takes_nothing() {
    let setup = Setup::new();
    let qp = create(&setup.pd, &setup.cq, QpType::UD, QpCaps::default(), None);
    connect(&qp);
    assert_eq!(qp.recv().push(0, &[]), Err(driver::PostError::QueueFull));
}

#[test]
fn multicast_needs_a_ud_qp_and_a_multicast_gid() {
    let setup = Setup::with(QpType::UD, CAPS);
    let mut group = [0; 16];
    (group[0], group[1], group[15]) = (0xff, 0x0e, 7);
    setup.qp.attach_mcast(&group).unwrap();
    let command = *setup.card().commands().last().unwrap();
    assert_eq!(
        (command.opcode(), command.object(), command.gid()),
        (AdminOpcode::ATTACH_MCAST, setup.qp.qpn(), group)
    );
    setup.qp.detach_mcast(&group).unwrap();
    assert!(setup.qp.attach_mcast(&way(2).dgid).is_err());
    assert!(Setup::new().qp.attach_mcast(&group).is_err());
}

#[test]
fn a_query_reads_the_cards_context() {
    let setup = Setup::new();
    let context = setup.card().qp(setup.qp.qpn());
    assert_eq!(context.state(), QpState::RTS);
    assert_eq!(QpContext::BYTES, 256);
    setup.card().set_qp_state(setup.qp.qpn(), QpState::ERR);
    assert_eq!(setup.qp.query().unwrap().state, QpState::ERR);
    assert_eq!(setup.qp.state(), QpState::ERR);
}
