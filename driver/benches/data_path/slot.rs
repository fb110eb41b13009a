//! A card whose BAR is accessed like that of a card in a slot, with plain memory in its place. The benchmark writes its
//! completions. Shared with the benchmark of instructions.

#[path = "../../tests/it/fake.rs"]
#[allow(dead_code, missing_docs)]
mod fake;
#[path = "../../tests/it/script.rs"]
#[allow(dead_code, missing_docs)]
mod script;
#[path = "../../tests/it/scripted.rs"]
#[allow(dead_code, missing_docs)]
mod scripted;

use std::sync::Arc;

use driver::backend::vfio::Bar;
use driver::{
    AhAttr, Cq, Data, Device, Hints, Interrupts, Memory, Qp, QpAttr, QpCaps, QpInit, Registers, SendFlags,
    SendWr, Sge,
};
use fpga_regs::{Access, Cqe, QpType, WqeOpcode};

/// Commands go to a fake card, the data path to the memory.
pub struct Slot(fake::Fake, Bar);

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

/// A device, a CQ, and QPs that complete into it.
pub type Queues = (Arc<Device<Slot>>, Arc<Cq<Slot>>, Vec<Arc<Qp<Slot>>>);

/// `count` QPs of `depth` sends each.
pub fn queues(count: usize, depth: u32) -> Queues {
    let bar = Bar::memory().expect("memory");
    let device = Device::open(Slot(fake::bare(script::features()), bar)).expect("the fake card opens");
    let pd = device.alloc_pd().expect("a PD");
    let cq = device.create_cq(4096, 0).expect("a CQ");
    let caps = QpCaps { max_send_wr: depth, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
    let init = QpInit::new(QpType::RC, &cq, caps);
    let mut dgid = [0; 16];
    dgid[15] = 1;
    let attr = QpAttr {
        port: 1,
        path_mtu: 5,
        access: Access::REMOTE_WRITE,
        ah: AhAttr { grh: true, dgid, port: 1, sgid_index: 1, ..AhAttr::default() },
        ..QpAttr::default()
    };
    let qps: Vec<_> = (0..count).map(|_| pd.create_qp(&init).expect("a QP")).collect();
    qps.iter().for_each(|qp| qp.bring_up(&attr).expect("RTS"));
    (device, cq, qps)
}

/// Completes the send at block `index`, as the card would.
pub fn complete(device: &Device<Slot>, cq: &Cq<Slot>, qp: &Qp<Slot>, index: u32) {
    device.card().0.complete(cq.cqn(), Cqe::new().with_qpn(qp.qpn()).with_wqe_index(index));
}

/// Eight bytes.
pub const SGE: [Sge; 1] = [Sge { addr: 0x1000, length: 8, lkey: 1 }];

/// A signaled WRITE.
pub fn write(sges: &[Sge]) -> SendWr<'_> {
    SendWr {
        opcode: WqeOpcode::WRITE,
        flags: SendFlags::SIGNALED,
        remote_addr: 0x2000,
        rkey: 2,
        data: Data::Sges(sges),
        ..SendWr::default()
    }
}
