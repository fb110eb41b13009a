//! Random chains in small rings, decoded again from the ring's bytes.

use driver::{Data, PostError, QpCaps, SendFlags, SendWr, Sge};
use fpga_regs::{Cqe, QpType, WqeCtrl, WqeOpcode, WqeRemote, WqeSge, WQE_BLOCK};
use proptest::prelude::*;

use crate::setup::{Setup, CAPS};

#[derive(Debug, Clone)]
struct Request {
    opcode: WqeOpcode,
    flags: u8,
    imm: u32,
    remote: u64,
    sges: Vec<(u64, u32, u32)>,
    inline: Option<Vec<u8>>,
}

fn request() -> impl Strategy<Value = Request> {
    let opcode = prop::sample::select(vec![
        WqeOpcode::SEND,
        WqeOpcode::SEND_WITH_IMM,
        WqeOpcode::SEND_WITH_INV,
        WqeOpcode::WRITE,
        WqeOpcode::WRITE_WITH_IMM,
    ]);
    let sges = prop::collection::vec((any::<u64>(), 0u32..1 << 20, any::<u32>()), 0..=6);
    let inline = prop::option::of(prop::collection::vec(any::<u8>(), 0..=128));
    (opcode, 0u8..8, any::<u32>(), any::<u64>(), sges, inline).prop_map(
        |(opcode, flags, imm, remote, sges, inline)| Request { opcode, flags, imm, remote, sges, inline },
    )
}

/// What is in the ring at a running block index.
fn wqe(ring: &[u8], index: u32) -> (WqeCtrl, Vec<u8>) {
    let at = |unit: usize| (index as usize * WQE_BLOCK + unit * 16) % ring.len();
    let ctrl = WqeCtrl::from_slice(&ring[at(0)..]).unwrap();
    let bytes = (0..usize::from(ctrl.ds())).flat_map(|unit| ring[at(unit)..][..16].to_vec()).collect();
    (ctrl, bytes)
}

fn check(index: u32, request: &Request, ctrl: &WqeCtrl, bytes: &[u8]) {
    assert_eq!(ctrl.opcode(), request.opcode);
    assert_eq!(ctrl.index(), index as u16);
    assert_eq!(ctrl.imm(), request.imm);
    assert_eq!(ctrl.flags() & 7, request.flags);
    assert_eq!(ctrl.inline(), request.inline.is_some());
    let mut at = 16;
    if matches!(request.opcode, WqeOpcode::WRITE | WqeOpcode::WRITE_WITH_IMM) {
        let remote = WqeRemote::from_slice(&bytes[at..]).unwrap();
        assert_eq!((remote.remote_addr(), remote.rkey()), (request.remote, 5));
        at += 16;
    }
    match &request.inline {
        Some(data) => {
            assert_eq!((ctrl.num_sge(), ctrl.length() as usize), (0, data.len()));
            assert_eq!(&bytes[at..at + data.len()], data);
            assert!(bytes[at + data.len()..].iter().all(|byte| *byte == 0), "the padding is clear");
            assert_eq!(bytes.len(), at + data.len().next_multiple_of(16));
        }
        None => {
            assert_eq!(usize::from(ctrl.num_sge()), request.sges.len());
            assert_eq!(ctrl.length(), request.sges.iter().map(|sge| sge.1).sum::<u32>());
            for (addr, length, lkey) in &request.sges {
                let sge = WqeSge::from_slice(&bytes[at..]).unwrap();
                assert_eq!((sge.addr(), sge.length(), sge.lkey()), (*addr, *length, *lkey));
                at += 16;
            }
            assert_eq!(bytes.len(), at);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_posted_stands_in_the_ring(
        depth in 1u32..6,
        chains in prop::collection::vec(prop::collection::vec(request(), 1..5), 1..20),
    ) {
        let caps = QpCaps { max_send_wr: depth, max_send_sge: 6, max_inline: 128, ..CAPS };
        let setup = Setup::with(QpType::RC, caps);
        let (card, qpn) = (setup.card(), setup.qp.qpn());
        let mut index = 0u32;
        for chain in &chains {
            let mut outstanding = Vec::new();
            let mut post = setup.qp.send();
            for (n, request) in chain.iter().enumerate() {
                let sges: Vec<Sge> =
                    request.sges.iter().map(|&(addr, length, lkey)| Sge { addr, length, lkey }).collect();
                let data = match &request.inline {
                    Some(bytes) => Data::Bytes(bytes),
                    None => Data::Sges(&sges),
                };
                let wr = SendWr {
                    wr_id: n as u64,
                    opcode: request.opcode,
                    flags: SendFlags::from_bits_truncate(request.flags),
                    imm: request.imm,
                    remote_addr: request.remote,
                    rkey: 5,
                    data,
                    ..SendWr::default()
                };
                match post.push(&wr) {
                    Ok(()) => outstanding.push(request),
                    Err(error) => {
                        prop_assert_eq!(error, PostError::QueueFull);
                        prop_assert_eq!(n as u32, depth, "full at the depth that was asked for");
                        break;
                    }
                }
            }
            post.ring();
            let ring = card.send_ring(qpn);
            let mut last = index;
            for request in &outstanding {
                let (ctrl, bytes) = wqe(&ring, index);
                check(index, request, &ctrl, &bytes);
                last = index;
                index = index.wrapping_add(ctrl.blocks());
            }
            card.complete(setup.cq.cqn(), Cqe::new().with_qpn(qpn).with_wqe_index(last));
            prop_assert_eq!(setup.ids(), [outstanding.len() as u64 - 1]);
        }
    }
}
