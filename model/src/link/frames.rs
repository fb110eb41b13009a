//! Packets to frames and back.

use std::ops::Range;

use crate::encapsulation::Encapsulation;
use crate::packet::{Packet, Payload, PortId};
use crate::wire::{self, frame, DropReason, EncodeError, Extra, Frame, Headers, Icrc, Path, Transport};

/// The default partition, the only one.
const PKEY: u16 = 0xffff;
/// The path MTUs.
const MTUS: [usize; 5] = [256, 512, 1024, 2048, 4096];
/// Bytes that the largest frame of a packet takes.
pub const MAX_ROCE_FRAME: usize = 4096 + frame::MAX_OVERHEAD;
/// Bytes that the largest frame of all takes: one that a program has made.
pub(crate) const LONGEST_FRAME: usize = fpga_regs::MAX_FRAME as usize;
const _: () = assert!(LONGEST_FRAME >= MAX_ROCE_FRAME);

/// A packet of a train, and the part of the train's payload that it carries.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The packet, without its payload.
    pub packet: Packet,
    /// Where its payload is in the train's.
    pub part: Range<usize>,
}

/// Bytes of payload of each packet of a train but the last: the path MTU of its sender.
/// All of the payload when it is one packet.
pub fn mtu(train: &Packet) -> usize {
    let len = train.payload.len();
    if train.count <= 1 {
        return len;
    }
    // The MTU is at least len / count and less than len / (count - 1): at most one power of two.
    let fits = |mtu: &usize| len.div_ceil(*mtu) == train.count as usize;
    MTUS.into_iter().find(fits).unwrap_or_else(|| len.div_ceil(train.count as usize))
}

/// Packet `n` of a train, from 0, without its payload.
pub fn nth(train: &Packet, n: u32) -> Packet {
    let mut packet = Packet { payload: Payload::None, ..*train };
    packet.become_nth(n);
    packet
}

/// Where the payload of packet `n` of a train is in the train's, with its [`mtu`].
pub fn part(train: &Packet, mtu: usize, n: u32) -> Range<usize> {
    let (start, len) = (n as usize * mtu, train.payload.len());
    let end = if n + 1 == train.count { len } else { start + mtu };
    start..end.max(start)
}

/// The packets of a train, in order.
pub fn pieces(train: &Packet) -> impl Iterator<Item = Piece> + '_ {
    let mtu = mtu(train);
    (0..train.count).map(move |n| Piece { packet: nth(train, n), part: part(train, mtu, n) })
}

/// The transport headers of a single packet.
pub fn headers(p: &Packet) -> Headers {
    let mut h = Headers::default();
    h.bth.opcode = p.opcode();
    h.bth.solicited = p.solicited && p.last;
    h.bth.pkey = PKEY;
    h.bth.dest_qp = p.dest_qpn;
    h.bth.ack_request = p.ack_req;
    h.bth.missing = p.missing;
    h.bth.becn = p.is_notification();
    h.bth.psn = p.psn;
    h.deth.qkey = p.qkey;
    h.deth.src_qp = p.src_qpn;
    h.xrceth.srq = p.srqn;
    h.reth.virtual_address = p.va;
    h.reth.rkey = p.rkey;
    h.reth.dma_length = p.dma_len;
    h.atomic.virtual_address = p.va;
    h.atomic.rkey = p.rkey;
    h.atomic.swap_add = p.swap_add;
    h.atomic.compare = p.compare;
    h.aeth.syndrome = p.syndrome;
    h.aeth.msn = p.msn;
    h.atomic_ack.original = p.compare;
    h.imm = wire::ImmDt::from_be_bits(p.imm);
    h.ieth.rkey = p.imm;
    h
}

/// Writes the frame of a packet with these [headers]; `fill` writes its `len` bytes of payload in place, and may fail.
/// Returns where the payload begins, and the frame's length.
pub fn encode<E: From<EncodeError>>(
    headers: &Headers,
    path: &Path,
    len: usize,
    out: &mut [u8],
    fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<(usize, usize), E> {
    let layout = frame::begin(path, headers, len, out)?;
    fill(&mut out[layout.payload_at..][..len])?;
    Ok((layout.payload_at, frame::finish(&layout, Icrc::On, out)?))
}

/// Checks a frame and reads its packet and payload. [`Packet::payload`] is left empty.
pub fn decode(bytes: &[u8]) -> Result<(Packet, &[u8]), DropReason> {
    packet(&frame::decode(bytes)?)
}

/// The packet in a frame, and its payload. [`Packet::payload`] is left empty.
pub fn packet<'a>(frame: &Frame<'a>) -> Result<(Packet, &'a [u8]), DropReason> {
    let h = &frame.headers;
    let opcode = h.bth.opcode;
    let unknown = DropReason::Opcode(opcode);
    let mut p = Packet::BLANK;
    p.operation = opcode.operation().ok_or(unknown)?;
    p.transport = match opcode.transport() {
        known @ (Transport::RC | Transport::UC | Transport::UD | Transport::XRC | Transport::CNP) => known,
        _ => return Err(unknown),
    };
    p.first = opcode.starts_message();
    p.last = opcode.ends_message();
    p.ack_req = h.bth.ack_request;
    p.missing = h.bth.missing;
    p.solicited = h.bth.solicited;
    p.dest_qpn = h.bth.dest_qp;
    p.psn = h.bth.psn;
    p.src = PortId::from_mac(frame.path.src_mac);
    p.dst = PortId::from_mac(frame.path.dst_mac);
    p.encapsulation = Encapsulation::of_path(&frame.path);
    p.ecn = frame.path.network.ecn();
    if opcode.has_imm() {
        p.extra = Extra::Immediate;
        p.imm = h.imm.be_bits();
    } else if opcode.has_ieth() {
        p.extra = Extra::Invalidate;
        p.imm = h.ieth.rkey;
    }
    if opcode.has_aeth() {
        p.syndrome = h.aeth.syndrome;
        p.msn = h.aeth.msn;
    }
    p.srqn = h.xrceth.srq;
    if opcode.has_reth() {
        p.va = h.reth.virtual_address;
        p.rkey = h.reth.rkey;
        p.dma_len = h.reth.dma_length;
    }
    if opcode.has_atomic_eth() {
        p.va = h.atomic.virtual_address;
        p.rkey = h.atomic.rkey;
        p.swap_add = h.atomic.swap_add;
        p.compare = h.atomic.compare;
    }
    if opcode.has_atomic_ack_eth() {
        p.compare = h.atomic_ack.original;
    }
    if opcode.has_deth() {
        p.src_qpn = h.deth.src_qp;
        p.qkey = h.deth.qkey;
        route_of_datagram(&mut p, &frame.path.network);
    }
    Ok((p, frame.payload))
}

/// Whether a frame's IP header says that the packet met congestion.
pub(super) fn met_congestion(frame: &[u8]) -> bool {
    use wire::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6};
    let Some((ethernet, [first, second, ..])) = wire::Ethernet::decode(frame) else { return false };
    let class = match ethernet.ethertype {
        ETHERTYPE_IPV4 => *second,
        ETHERTYPE_IPV6 => first << 4 | second >> 4,
        _ => 0,
    };
    class & 3 == 3
}

/// What the receiver of a datagram is told of its way: the fields of the GRH.
fn route_of_datagram(p: &mut Packet, network: &wire::Network) {
    (p.traffic_class, p.hop_limit) = match network {
        wire::Network::V4(ip) => (ip.tos, ip.ttl),
        wire::Network::V6(ip) | wire::Network::Grh(ip) => (ip.traffic_class, ip.hop_limit),
    };
    (p.sgid, p.dgid) = (network.src_gid(), network.dst_gid());
}
