//! Whole frames and the islands that they need.
#![allow(unsafe_code)]

use driver::{Data, Device, QpAttr, QpCaps, QpInit, SendFlags, SendWr, Slots};
use fpga_regs::{QpType, WqeOpcode};

use super::super::panic_tests::join;
use crate::attach::{PrivateNet, SegmentCard};
use crate::eventually::eventually;

/// To an address that nobody has, and to a group that nobody is in.
#[test]
fn a_frame_for_nobody_needs_all_the_cards_once() {
    let directory = tempfile::tempdir().unwrap();
    let (net, runner) = PrivateNet::start(&directory.path().join("net/sock"), 2, join).unwrap();
    let device = Device::open(SegmentCard::open(net.socket(), 0).unwrap()).unwrap();
    let pd = device.alloc_pd().unwrap();
    let mut slots = Slots::<_, 64>::new(&pd, 1).unwrap();
    for first in [2, 3] {
        let cq = device.create_cq(4, 0).unwrap();
        let caps = QpCaps { max_send_wr: 4, max_send_sge: 1, ..QpCaps::default() };
        let qp = pd.create_qp(&QpInit::new(QpType::RAW_PACKET, &cq, caps)).unwrap();
        qp.bring_up(&QpAttr { port: 1, ..QpAttr::default() }).unwrap();
        // SAFETY: nothing of it has been posted that has not completed.
        unsafe { slots.bytes_mut(0)[0] = first };
        let sges = [slots.sge(0, 60)];
        let data = Data::Sges(&sges);
        let mut post = qp.send();
        let signaled = SendFlags::SIGNALED;
        post.push(&SendWr { opcode: WqeOpcode::RAW_ETH, flags: signaled, data, ..SendWr::default() })
            .unwrap();
        post.ring();
        assert!(eventually(|| cq.poll(1, drop).unwrap() == 1), "it is not sent");
        let label = runner.bells(0, qp.qpn() as u16).label();
        assert!(runner.segment().is_valid(label), "the next one needs all the cards too");
    }
}
