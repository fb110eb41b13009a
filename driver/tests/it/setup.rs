//! Queues that are ready for posting.

use std::sync::Arc;

use driver::{Ah, AhAttr, AttrMask, Cq, Device, Pd, Qp, QpAttr, QpCaps, QpInit, Srq, Wc};
use fpga_regs::{Access, QpState, QpType};

use crate::fake::{self, Fake};
use crate::script;

/// A device with one QP in RTS, or with more.
pub struct Setup {
    pub device: Arc<Device<Fake>>,
    pub pd: Arc<Pd<Fake>>,
    pub cq: Arc<Cq<Fake>>,
    pub qp: Arc<Qp<Fake>>,
}

/// Small queues.
pub const CAPS: QpCaps =
    QpCaps { max_send_wr: 8, max_recv_wr: 4, max_send_sge: 3, max_recv_sge: 3, max_inline: 64 };

/// The way to a peer whose GID ends in `last`.
pub fn way(last: u8) -> AhAttr {
    let mut dgid = [0; 16];
    dgid[10..].copy_from_slice(&[0xff, 0xff, 198, 18, 0, last]);
    AhAttr { grh: true, dgid, sgid_index: 1, hop_limit: 64, port: 1, ..AhAttr::default() }
}

/// An address handle for it.
pub fn ah(pd: &Pd<Fake>, last: u8) -> Ah {
    pd.create_ah(&way(last)).unwrap()
}

/// Everything that an RC QP takes on its way to RTS.
pub fn attr() -> QpAttr {
    QpAttr {
        port: 1,
        path_mtu: 5,
        qkey: 0x1111,
        dest_qpn: 0x123456,
        sq_psn: 0xabcdef,
        rq_psn: 0x000fff,
        access: Access::REMOTE_WRITE | Access::REMOTE_READ,
        ah: way(2),
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 6,
        min_rnr_timer: 12,
        max_rd_atomic: 4,
        max_dest_rd_atomic: 4,
        ..QpAttr::default()
    }
}

/// The masks of the three steps to RTS.
pub fn masks(qp_type: QpType) -> [AttrMask; 3] {
    match qp_type {
        // As perftest gives them.
        QpType::RC => [AttrMask(0x39), AttrMask(0x129181), AttrMask(0x12e01)],
        QpType::UC => [AttrMask(0x39), AttrMask(0x101181), AttrMask(0x10001)],
        QpType::UD => [AttrMask(0x71), AttrMask(0x1), AttrMask(0x10001)],
        _ => [AttrMask(0x21), AttrMask(0x1), AttrMask(0x1)],
    }
}

/// Moves a QP to RTS.
pub fn connect(qp: &Qp<Fake>) {
    let states = [QpState::INIT, QpState::RTR, QpState::RTS];
    for (state, mask) in states.into_iter().zip(masks(qp.qp_type())) {
        qp.modify(&QpAttr { state, ..attr() }, mask).unwrap();
    }
    qp.device().card().bells();
}

impl Setup {
    /// One RC QP on a card that completes nothing by itself.
    pub fn new() -> Setup {
        Setup::with(QpType::RC, CAPS)
    }

    /// One QP of a type.
    pub fn with(qp_type: QpType, caps: QpCaps) -> Setup {
        Setup::on(fake::open(), qp_type, caps)
    }

    /// One RC QP on a card that completes signaled sends at once.
    pub fn immediate(caps: QpCaps) -> Setup {
        Setup::on(fake::open_with(script::features(), true), QpType::RC, caps)
    }

    fn on(device: Arc<Device<Fake>>, qp_type: QpType, caps: QpCaps) -> Setup {
        let pd = device.alloc_pd().unwrap();
        let cq = device.create_cq(16, 0).unwrap();
        let qp = create(&pd, &cq, qp_type, caps, None);
        connect(&qp);
        Setup { device, pd, cq, qp }
    }

    /// The card.
    pub fn card(&self) -> &Fake {
        self.device.card()
    }

    /// Everything that the CQ has now.
    pub fn poll(&self) -> Vec<Wc> {
        let mut found = Vec::new();
        while self.cq.poll(4, |wc| found.push(wc)).unwrap() != 0 {}
        found
    }

    /// The wr_ids of everything that the CQ has now.
    pub fn ids(&self) -> Vec<u64> {
        self.poll().iter().map(|wc| wc.wr_id).collect()
    }
}

/// A QP in RESET.
pub fn create(
    pd: &Arc<Pd<Fake>>,
    cq: &Arc<Cq<Fake>>,
    qp_type: QpType,
    caps: QpCaps,
    srq: Option<&Arc<Srq<Fake>>>,
) -> Arc<Qp<Fake>> {
    pd.create_qp(&QpInit { srq: srq.cloned(), ..QpInit::new(qp_type, cq, caps) }).unwrap()
}
