//! Structures of Linux' interface to programs, as bytes: `rdma_user_cm.h`, `ib_user_verbs.h`, `ib_user_sa.h`.

use super::tables::{Way, PARAM};
use crate::packet::PortId;

/// Bytes of an `ib_uverbs_ah_attr`.
pub const AH_ATTR: usize = 32;
/// Hop limit of connections and of groups.
const HOP_LIMIT: u8 = 64;
/// Private data in an event.
const CONNECTION_PRIVATE: usize = 8;
const DATAGRAMS_PRIVATE: usize = 40;
/// Its most.
const MOST_PRIVATE: usize = 256;

/// `rdma_ucm_conn_param`: what a program wants of a connection, or is told that its peer does.
#[derive(Default)]
pub struct Connection<'a> {
    /// The QP at that end.
    pub qpn: u32,
    /// Bytes from that end's program for the other's.
    pub private: &'a [u8],
    /// The QP has a shared receive queue.
    pub srq: bool,
    /// READs and atomics that end answers at a time. In an event the two are exchanged already: what the program that gets it may
    /// answer, and ask for.
    pub responder_resources: u8,
    /// Those that it asks for.
    pub initiator_depth: u8,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// Retries of the QP.
    pub retry_count: u8,
    /// Retries after RNR.
    pub rnr_retry_count: u8,
}

/// `rdma_ucm_conn_param`.
pub fn connection(c: &Connection<'_>) -> [u8; PARAM] {
    let mut param = private(c.private);
    param[..4].copy_from_slice(&c.qpn.to_ne_bytes());
    let (srq, flow_control) = (c.srq.into(), c.flow_control.into());
    let tail =
        [srq, c.responder_resources, c.initiator_depth, flow_control, c.retry_count, c.rnr_retry_count];
    param[CONNECTION_PRIVATE + MOST_PRIVATE + 1..][..tail.len()].copy_from_slice(&tail);
    param
}

/// The same with nothing but private data.
pub fn private(bytes: &[u8]) -> [u8; PARAM] {
    let mut param = [0; PARAM];
    param[CONNECTION_PRIVATE..][..bytes.len()].copy_from_slice(bytes);
    param[CONNECTION_PRIVATE + MOST_PRIVATE] = bytes.len() as u8;
    param
}

/// `rdma_ucm_ud_param`.
pub fn datagrams(way: Option<&Way>, qpn: u32, qkey: u32, bytes: &[u8]) -> [u8; PARAM] {
    let mut param = [0; PARAM];
    param[..4].copy_from_slice(&qpn.to_ne_bytes());
    param[4..8].copy_from_slice(&qkey.to_ne_bytes());
    if let Some(way) = way {
        param[8..8 + AH_ATTR].copy_from_slice(&ah_attr(way));
    }
    param[DATAGRAMS_PRIVATE..][..bytes.len()].copy_from_slice(bytes);
    param[DATAGRAMS_PRIVATE + MOST_PRIVATE] = bytes.len() as u8;
    param
}

/// `ib_uverbs_ah_attr`.
pub fn ah_attr(way: &Way) -> [u8; AH_ATTR] {
    let mut attr = [0; AH_ATTR];
    attr[..16].copy_from_slice(&way.dgid);
    attr[16..20].copy_from_slice(&way.flow_label.to_ne_bytes());
    (attr[20], attr[21], attr[22]) = (way.sgid_index, HOP_LIMIT, way.traffic_class);
    // is_global, after LID, service level, path bits and rate.
    (attr[29], attr[30]) = (1, way.from.port + 1);
    attr
}

/// `ib_user_path_rec`.
pub fn path_rec(way: &Way, sgid: &[u8; 16], mtu: u8, lifetime: u8) -> [u8; 64] {
    let mut rec = [0; 64];
    rec[..16].copy_from_slice(&way.dgid);
    rec[16..32].copy_from_slice(sgid);
    rec[40..44].copy_from_slice(&way.flow_label.to_be_bytes());
    rec[44..48].copy_from_slice(&1u32.to_ne_bytes()); // reversible
    rec[48..52].copy_from_slice(&u32::from(mtu).to_ne_bytes());
    rec[52..54].copy_from_slice(&0xffffu16.to_be_bytes()); // P_Key
    (rec[54], rec[55]) = (HOP_LIMIT, way.traffic_class);
    // One path; MTU, rate and life are exactly so.
    rec[56..63].copy_from_slice(&[0, 0, EXACTLY, EXACTLY, PORT_RATE, EXACTLY, lifetime]);
    rec
}

/// The same as `ib_path_rec_data`: an SA path record as on the wire, with flags before it.
pub fn path_data(way: &Way, sgid: &[u8; 16], mtu: u8, lifetime: u8) -> [u8; 72] {
    let mut data = [0; 72];
    // GMP, primary, bidirectional.
    data[..4].copy_from_slice(&0b10_1011u32.to_ne_bytes());
    let rec = &mut data[8..];
    rec[8..24].copy_from_slice(&way.dgid);
    rec[24..40].copy_from_slice(sgid);
    rec[44..48].copy_from_slice(&(way.flow_label << 8 | u32::from(HOP_LIMIT)).to_be_bytes());
    (rec[48], rec[49]) = (way.traffic_class, 0x80); // reversible
    rec[50..52].copy_from_slice(&0xffffu16.to_be_bytes());
    let exactly = |value: u8| EXACTLY << 6 | value;
    (rec[54], rec[55], rec[56]) = (exactly(mtu), exactly(PORT_RATE), exactly(lifetime));
    data
}

/// `IB_RATE_PORT_CURRENT`: what Linux says of every path over Ethernet, since 6.5.
const PORT_RATE: u8 = 0;
/// `IB_SA_EQ`.
const EXACTLY: u8 = 2;

/// The way to a multicast group.
pub fn group_way(way: &Way, mgid: [u8; 16]) -> Way {
    Way { to: PortId::ALL, dgid: mgid, flow_label: 0, ..*way }
}
