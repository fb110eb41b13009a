//! Gather buffers of a run.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering;

use fpga_regs::{QpState, QpType, WqeCtrl, WqeOpcode, WqeSge};

use super::panic_tests::with_net;

/// More than may be in flight at a time.
const MANY: u16 = 100;

#[test]
fn what_could_not_be_gathered_holds_no_buffer() {
    with_net(1, |a, _b| {
        let area = a.segment().alloc(4096).unwrap();
        let ctrl = WqeCtrl::default().with_opcode(WqeOpcode::SEND).with_num_sge(2).with_ds(3).with_length(16);
        // Of no region.
        let sge = WqeSge::default().with_lkey(0x500).with_length(8);
        for (i, unit) in [*ctrl.as_bytes(), *sge.as_bytes(), *sge.as_bytes()].iter().enumerate() {
            // SAFETY: of the memory just made, which nothing else uses.
            unsafe { area.ptr.add(i * 16).cast::<[u8; 16]>().write_unaligned(*unit) };
        }
        let (gathered_enough, failed) = a
            .control(|world, env| {
                for q in 1..=MANY {
                    let qp = &mut world.cards[0].qps[usize::from(q)];
                    (qp.used, qp.qpn, qp.qp_type) = (true.into(), q.into(), QpType::RC);
                    (qp.state, qp.mtu_log, qp.window, qp.train) = (QpState::RTS, 10, 8, 4096);
                    (qp.sq_iova, qp.domain) = (area.ptr as u64, a.segment().member());
                    a.net().bells[0].qp[usize::from(q)].sq.store(1, Ordering::Relaxed);
                    env.run_send(world, 0, q);
                }
                let qps = &mut world.cards[0].qps[1..=MANY.into()];
                let failed = qps.iter().all(|qp| qp.state == QpState::ERR);
                qps.iter_mut().for_each(|qp| qp.used = false.into());
                (env.gathered_enough(), failed)
            })
            .unwrap();
        assert!(failed, "the key is of no region");
        assert!(!gathered_enough, "send queues wait for what nobody carries");
    });
}
