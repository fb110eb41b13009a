//! A card whose BAR is reached as that of a card in a slot, with plain memory there, and whose
//! completions the benchmark writes.

use driver::backend::vfio::Bar;
use driver::{
    AhAttr, AttrMask, Data, Device, Hints, Interrupts, Memory, QpAttr, QpCaps, QpInit, Registers, SendFlags,
    SendWr, Sge,
};
use fpga_regs::{Access, Cqe, QpState, QpType, WqeOpcode};

use crate::{fake, script, work};

/// Commands go to a fake card, the data path to the memory.
struct Slot(fake::Fake, Bar);

macro_rules! fake {
    ($self:ident, $card:ident => $call:expr) => {{
        let $card = &$self.0;
        $call
    }};
}

impl Registers for Slot {
    driver::forward_card!(fake: access);

    #[inline]
    fn doorbell(&self, offset: u32, value: u64) {
        self.1.write(offset, value);
    }
}

impl Memory for Slot {
    driver::forward_card!(fake: Memory);
}

impl Interrupts for Slot {
    driver::forward_card!(fake: Interrupts);
}

impl Hints for Slot {
    #[inline]
    fn relax(&self, _empty_polls: u32) {}
}

/// Posts and polls.
pub fn run() {
    let bar = Bar::memory().expect("memory");
    let device = Device::open(Slot(fake::bare(script::features()), bar)).expect("the fake card opens");
    let pd = device.alloc_pd().expect("a PD");
    let cq = device.create_cq(512, 0).expect("a CQ");
    let caps = QpCaps { max_send_wr: 128, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
    let init = QpInit {
        qp_type: QpType::RC,
        send_cq: cq.clone(),
        recv_cq: cq.clone(),
        srq: None,
        caps,
        sq_sig_all: false,
    };
    let qp = pd.create_qp(&init).expect("a QP");
    let mut dgid = [0; 16];
    dgid[15] = 1;
    let attr = QpAttr {
        port: 1,
        path_mtu: 5,
        access: Access::REMOTE_WRITE,
        ah: AhAttr { grh: true, dgid, port: 1, ..AhAttr::default() },
        ..QpAttr::default()
    };
    // The masks of perftest.
    for (state, mask) in [(QpState::INIT, 0x39), (QpState::RTR, 0x12_9181), (QpState::RTS, 0x1_2e01)] {
        qp.modify(&QpAttr { state, ..attr }, AttrMask(mask)).expect("a step");
    }
    let sge = [Sge { addr: 0x1000, length: 8, lkey: 1 }];
    let wr = SendWr {
        opcode: WqeOpcode::WRITE,
        flags: SendFlags::SIGNALED,
        remote_addr: 0x2000,
        rkey: 2,
        data: Data::Sges(&sge),
        ..SendWr::default()
    };
    work(&qp, &cq, &wr, |first| {
        for index in first..first + crate::BATCH {
            device.card().0.complete(cq.cqn(), Cqe::new().with_qpn(qp.qpn()).with_wqe_index(index));
        }
    });
}
