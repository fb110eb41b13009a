//! The attributes of a QP and the mask that says which of them a modify call sets.

use std::sync::Arc;

use fpga_regs::{Access, QpState, QpType};

use crate::ah::AhAttr;
use crate::card::Card;
use crate::cq::Cq;
use crate::srq::Srq;

/// Which attributes a modify call sets; the numbers of `enum ibv_qp_attr_mask`.
pub use fpga_regs::QpAttrMask as AttrMask;

/// Work requests and elements that a QP takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QpCaps {
    /// Outstanding sends.
    pub max_send_wr: u32,
    /// Outstanding receives (not used with an SRQ).
    pub max_recv_wr: u32,
    /// Elements of a send.
    pub max_send_sge: u32,
    /// Elements of a receive.
    pub max_recv_sge: u32,
    /// Bytes of inline data.
    pub max_inline: u32,
}

/// What a QP is created with.
pub struct QpInit<C: Card> {
    /// RC, UC, UD, RAW_PACKET, or XRC_SEND, which receives nothing.
    pub qp_type: QpType,
    /// Where sends complete.
    pub send_cq: Arc<Cq<C>>,
    /// Where receives complete.
    pub recv_cq: Arc<Cq<C>>,
    /// Where receives come from instead of an RQ.
    pub srq: Option<Arc<Srq<C>>>,
    /// Sizes; [`crate::Qp::caps`] says what was granted.
    pub caps: QpCaps,
    /// Every send completes, signaled or not.
    pub sq_sig_all: bool,
    /// What it does for frames.
    pub offloads: Offloads,
}

/// What a QP does for whole frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offloads {
    /// The 802.1Q tag of a received frame is removed, and is in [`crate::Wc::vlan_tci`]. RAW_PACKET and WQ only.
    pub strip_vlan: bool,
    /// A received frame has the four bytes of its check sequence behind it, which [`crate::Wc::byte_len`] counts. RAW_PACKET
    /// and WQ only.
    pub scatter_fcs: bool,
    /// Sends may be of [`Data::Segmented`](crate::Data::Segmented). RAW_PACKET only.
    pub tso: bool,
}

impl<C: Card> QpInit<C> {
    /// Both queues complete to `cq`; no SRQ, no offloads, and sends complete as they ask for it.
    pub fn new(qp_type: QpType, cq: &Arc<Cq<C>>, caps: QpCaps) -> Self {
        let (send_cq, recv_cq) = (cq.clone(), cq.clone());
        let offloads = Offloads::default();
        QpInit { qp_type, send_cq, recv_cq, srq: None, caps, sq_sig_all: false, offloads }
    }
}

impl<C: Card> Clone for QpInit<C> {
    fn clone(&self) -> Self {
        QpInit {
            qp_type: self.qp_type,
            send_cq: self.send_cq.clone(),
            recv_cq: self.recv_cq.clone(),
            srq: self.srq.clone(),
            caps: self.caps,
            sq_sig_all: self.sq_sig_all,
            offloads: self.offloads,
        }
    }
}

/// The attributes of a QP; a modify call reads only those that its mask names.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct QpAttr {
    /// The state to go to, or the state found by a query.
    pub state: QpState,
    /// The state that the caller believes the QP to be in.
    pub cur_state: QpState,
    /// `enum ibv_mtu`: 1 is 256 bytes, 5 is 4096.
    pub path_mtu: u8,
    /// Q_Key of a UD QP.
    pub qkey: u32,
    /// First PSN expected.
    pub rq_psn: u32,
    /// First PSN sent.
    pub sq_psn: u32,
    /// The peer's QPN.
    pub dest_qpn: u32,
    /// What a peer may do through this QP.
    pub access: Access,
    /// The path to the peer.
    pub ah: AhAttr,
    /// Index in the P_Key table.
    pub pkey_index: u16,
    /// Port, from 1.
    pub port: u8,
    /// Outstanding READs and atomics as requester.
    pub max_rd_atomic: u8,
    /// Outstanding READs and atomics as responder.
    pub max_dest_rd_atomic: u8,
    /// Code of the RNR NAK timer.
    pub min_rnr_timer: u8,
    /// Code of the ACK time-out: 4.096 us * 2^timeout, 0 is for ever.
    pub timeout: u8,
    /// Retries after a time-out.
    pub retry_cnt: u8,
    /// Retries after an RNR NAK, 7 is for ever.
    pub rnr_retry: u8,
    /// In SQD: sends are still outstanding (query only).
    pub sq_draining: bool,
    /// Raise an event when the SQ has drained.
    pub en_sqd_async_notify: bool,
    /// Most that is sent, in kbit/s; 0: no limit. RAW_PACKET only, as what follows.
    pub rate_limit: u32,
    /// Bytes that may leave back to back, with a rate limit; 0: one frame.
    pub max_burst: u32,
    /// Bytes of a frame of such a burst, by which it is cut; 0 lets it have a frame more.
    pub typical_packet: u16,
}
