//! Whole frames: Ethernet, IP and UDP or GRH, transport headers, payload, pad and ICRC.
//!
//! [`encode`] and [`decode`] do all of it. Where the payload is gathered by DMA, [`begin`]
//! writes the headers, the caller fills the payload in place, and [`finish`] closes the frame
//! without another copy. Frames have no Ethernet frame check sequence and are not padded to
//! Ethernet's least length: that is the MAC's part.

use super::ethernet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_ROCE};
use super::ipv4::PROTOCOL_UDP;
use super::ipv6::NEXT_BTH;
use super::{icrc, udp, Bth, BthOpcode, DropReason, Ethernet, Headers, Ipv4, Ipv6, Network, Path, Udp};

/// Bytes that headers, pad and ICRC take at most: tagged Ethernet, IPv6, UDP, BTH with
/// XRCETH and AtomicETH (the longest), pad, ICRC.
pub const MAX_OVERHEAD: usize = Ethernet::BYTES
    + Ethernet::TAG_BYTES
    + Ipv6::BYTES
    + Udp::BYTES
    + Bth::BYTES
    + super::Xrceth::BYTES
    + super::AtomicEth::BYTES
    + 3
    + icrc::BYTES;

/// Whether the ICRC is real.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Icrc {
    /// Computed when sent, verified when received: for all that leaves the machine.
    #[default]
    On,
    /// Sent as zero, not checked when received: for shared memory, where it would only cost time.
    Off,
}

/// Why a frame cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The output buffer is shorter than the frame.
    #[error("the buffer is too small for the frame")]
    BufferTooSmall,
    /// The payload does not fit one IP packet.
    #[error("the payload does not fit one packet")]
    PayloadTooLong,
    /// The opcode is not one of RC, UC, UD or XRC.
    #[error("unknown BTH opcode {0}")]
    Opcode(BthOpcode),
    /// The opcode has no payload.
    #[error("{0} has no payload")]
    UnexpectedPayload(BthOpcode),
}

/// Where the parts of a frame under construction are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    ip_at: usize,
    /// Where the UDP header is, or the BTH.
    body_at: usize,
    /// Where the payload begins.
    pub payload_at: usize,
    /// Bytes of payload, without pad.
    pub payload_len: usize,
    /// Bytes of the whole frame.
    pub len: usize,
}

/// A received packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Where it comes from and goes to.
    pub path: Path,
    /// Transport headers.
    pub headers: Headers,
    /// Payload, without pad.
    pub payload: &'a [u8],
    /// The IP header as received.
    pub ip_header: &'a [u8],
}

impl Frame<'_> {
    /// The 40 bytes that a UD receive finds before its data: the IPv6 header, or 20 zero bytes
    /// and the IPv4 header.
    pub fn grh(&self) -> [u8; 40] {
        let mut grh = [0; 40];
        if let Some(start) = grh.len().checked_sub(self.ip_header.len()) {
            grh[start..].copy_from_slice(self.ip_header);
        }
        grh
    }
}

/// Bytes that pad `payload_len` to a multiple of four.
#[inline]
const fn pad_of(payload_len: usize) -> usize {
    payload_len.wrapping_neg() & 3
}

/// Writes a complete frame and returns its length. The pad count follows from the payload,
/// whatever `headers` says.
#[inline]
pub fn encode(path: &Path, headers: &Headers, payload: &[u8], out: &mut [u8]) -> Result<usize, EncodeError> {
    encode_with(path, headers, payload, Icrc::On, out)
}

/// [`encode`] with a choice of the ICRC.
#[inline]
pub fn encode_with(
    path: &Path,
    headers: &Headers,
    payload: &[u8],
    icrc: Icrc,
    out: &mut [u8],
) -> Result<usize, EncodeError> {
    let layout = begin(path, headers, payload.len(), out)?;
    out[layout.payload_at..][..payload.len()].copy_from_slice(payload);
    finish(&layout, icrc, out)
}

/// Writes all headers of a frame with `payload_len` bytes of payload. The caller then fills
/// `out[layout.payload_at..][..layout.payload_len]` and calls [`finish`].
#[inline]
pub fn begin(
    path: &Path,
    headers: &Headers,
    payload_len: usize,
    out: &mut [u8],
) -> Result<Layout, EncodeError> {
    const SHORT: EncodeError = EncodeError::BufferTooSmall;
    let opcode = headers.bth.opcode;
    if !opcode.is_known() {
        return Err(EncodeError::Opcode(opcode));
    }
    if payload_len != 0 && !opcode.has_payload() {
        return Err(EncodeError::UnexpectedPayload(opcode));
    }
    // No overflow below: a length beyond this does not fit a packet anyway.
    if payload_len > usize::from(u16::MAX) {
        return Err(EncodeError::PayloadTooLong);
    }
    let pad = pad_of(payload_len);
    let body_len = path.network.udp_len() + opcode.header_len() + payload_len + pad + icrc::BYTES;
    let ip_len = path.network.header_len();
    // IPv4's total length counts its header. The same bound serves IPv6, whose length does not.
    let body_bytes = match u16::try_from(body_len + ip_len) {
        Ok(_) => body_len as u16,
        Err(_) => return Err(EncodeError::PayloadTooLong),
    };
    let ip_at = ethernet(path).header_len();
    let body_at = ip_at + ip_len;
    let layout = Layout {
        ip_at,
        body_at,
        payload_at: body_at + path.network.udp_len() + opcode.header_len(),
        payload_len,
        len: body_at + body_len,
    };
    let out = out.get_mut(..layout.len).ok_or(SHORT)?;

    let rest = encode_path(path, body_bytes, out).ok_or(SHORT)?;
    let mut headers = *headers;
    headers.bth.pad_count = pad as u8;
    headers.bth.tver = 0;
    headers.encode(rest).ok_or(SHORT)?;
    Ok(layout)
}

fn ethernet(path: &Path) -> Ethernet {
    let ethertype = match path.network {
        Network::V4(_) => ETHERTYPE_IPV4,
        Network::V6(_) => ETHERTYPE_IPV6,
        Network::Grh(_) => ETHERTYPE_ROCE,
    };
    Ethernet { dst: path.dst_mac, src: path.src_mac, vlan: path.vlan, ethertype }
}

/// Writes the headers of a frame before the BTH, with so many bytes behind the IP header or GRH. Gives the rest of `out`;
/// `None` if that is too short.
#[inline]
fn encode_path<'a>(path: &Path, body_bytes: u16, out: &'a mut [u8]) -> Option<&'a mut [u8]> {
    let rest = ethernet(path).encode(out)?;
    let rest = match path.network {
        Network::V4(ip) => {
            let (head, rest) = rest.split_first_chunk_mut()?;
            ip.encode(body_bytes, head);
            rest
        }
        Network::V6(ip) => {
            let (head, rest) = rest.split_first_chunk_mut()?;
            ip.encode(PROTOCOL_UDP, body_bytes, head);
            rest
        }
        Network::Grh(grh) => {
            let (head, rest) = rest.split_first_chunk_mut()?;
            grh.encode(NEXT_BTH, body_bytes, head);
            rest
        }
    };
    match path.network {
        Network::Grh(_) => Some(rest),
        _ => {
            let (head, rest) = rest.split_first_chunk_mut()?;
            let (src_port, dst_port) = (path.udp_sport, udp::ROCE_PORT);
            Udp { src_port, dst_port, length: body_bytes, checksum: 0 }.encode(head);
            Some(rest)
        }
    }
}

/// The frame of a packet that came by `path`, of which these are the bytes from the BTH to the ICRC, whatever they are.
pub fn around(path: &Path, bytes: &[u8]) -> Vec<u8> {
    let head = ethernet(path).header_len() + path.network.header_len() + path.network.udp_len();
    let body_bytes = path.network.udp_len() + bytes.len();
    let mut frame = vec![0; head + bytes.len()];
    let rest = encode_path(path, body_bytes.try_into().unwrap_or(u16::MAX), &mut frame);
    rest.expect("it has room for them").copy_from_slice(bytes);
    frame
}

/// Bytes of a frame with `payload_len` bytes of payload.
pub fn len(path: &Path, opcode: BthOpcode, payload_len: usize) -> usize {
    let ethernet = Ethernet::BYTES + if path.vlan.is_some() { Ethernet::TAG_BYTES } else { 0 };
    let transport = opcode.header_len() + payload_len + pad_of(payload_len) + icrc::BYTES;
    ethernet + path.network.header_len() + path.network.udp_len() + transport
}

/// The headers of a frame before the BTH, if they are in order.
pub fn path(frame: &[u8]) -> Option<Path> {
    let (ethernet, packet) = Ethernet::decode(frame)?;
    let network = match ethernet.ethertype {
        ETHERTYPE_IPV4 => Network::V4(Ipv4::decode(packet.first_chunk()?).ok()?.0),
        ETHERTYPE_IPV6 => Network::V6(Ipv6::decode(PROTOCOL_UDP, packet.first_chunk()?).ok()?.0),
        ETHERTYPE_ROCE => Network::Grh(Ipv6::decode(NEXT_BTH, packet.first_chunk()?).ok()?.0),
        _ => return None,
    };
    let (src_mac, dst_mac, vlan) = (ethernet.src, ethernet.dst, ethernet.vlan);
    if let Network::Grh(_) = network {
        return Some(Path { src_mac, dst_mac, vlan, network, udp_sport: 0 });
    }
    let udp = Udp::decode(packet.get(network.header_len()..)?.first_chunk()?);
    (udp.dst_port == udp::ROCE_PORT).then_some(Path {
        src_mac,
        dst_mac,
        vlan,
        network,
        udp_sport: udp.src_port,
    })
}

/// Writes pad and ICRC after the payload and returns the frame's length. `out` is the buffer
/// that [`begin`] wrote to.
#[inline]
pub fn finish(layout: &Layout, icrc: Icrc, out: &mut [u8]) -> Result<usize, EncodeError> {
    const SHORT: EncodeError = EncodeError::BufferTooSmall;
    let frame = out.get_mut(..layout.len).ok_or(SHORT)?;
    let (packet, trailer) = frame.split_last_chunk_mut::<{ icrc::BYTES }>().ok_or(SHORT)?;
    packet[layout.payload_at + layout.payload_len..].fill(0);
    let sum = match icrc {
        Icrc::On => {
            packet_icrc(&packet[layout.ip_at..layout.body_at], &packet[layout.body_at..]).ok_or(SHORT)?
        }
        Icrc::Off => 0,
    };
    *trailer = sum.to_le_bytes();
    Ok(layout.len)
}

/// The ICRC of a packet: `ip` is its IP header or GRH, `rest` all behind that to the pad.
#[inline]
fn packet_icrc(ip: &[u8], rest: &[u8]) -> Option<u32> {
    if let Some(grh) = ip.first_chunk().filter(|grh: &&[u8; Ipv6::BYTES]| grh[6] == NEXT_BTH) {
        let (bth, rest) = rest.split_first_chunk()?;
        return Some(icrc::grh(grh, bth, rest));
    }
    let (udp, rest) = rest.split_first_chunk()?;
    let (bth, rest) = rest.split_first_chunk()?;
    if let Ok(ip) = ip.try_into() {
        return Some(icrc::ipv4(ip, udp, bth, rest));
    }
    Some(icrc::ipv6(ip.try_into().ok()?, udp, bth, rest))
}

/// Checks and reads a frame. Bytes after the IP packet, Ethernet's padding, are ignored.
#[inline]
pub fn decode(frame: &[u8]) -> Result<Frame<'_>, DropReason> {
    decode_with(frame, Icrc::On)
}

/// [`decode`] with a choice of the ICRC.
#[inline]
pub fn decode_with(frame: &[u8], icrc: Icrc) -> Result<Frame<'_>, DropReason> {
    let short = DropReason::TooShort;
    let (ethernet, packet) = Ethernet::decode(frame).ok_or(short("Ethernet"))?;
    let (network, body_len) = match ethernet.ethertype {
        ETHERTYPE_IPV4 => {
            let ip = packet.first_chunk().ok_or(short("IPv4"))?;
            let (ip, body_len) = Ipv4::decode(ip)?;
            (Network::V4(ip), body_len)
        }
        ETHERTYPE_IPV6 => {
            let ip = packet.first_chunk().ok_or(short("IPv6"))?;
            let (ip, body_len) = Ipv6::decode(PROTOCOL_UDP, ip)?;
            (Network::V6(ip), body_len)
        }
        ETHERTYPE_ROCE => {
            let grh = packet.first_chunk().ok_or(short("GRH"))?;
            let (grh, body_len) = Ipv6::decode(NEXT_BTH, grh)?;
            (Network::Grh(grh), body_len)
        }
        other => return Err(DropReason::EtherType(other)),
    };
    let (ip_header, body) = packet.split_at_checked(network.header_len()).ok_or(short("IP"))?;
    let body = body.get(..body_len).ok_or(DropReason::IpLength)?;

    let udp_sport = match network {
        Network::Grh(_) => 0,
        _ => {
            let (udp_header, _) = body.split_first_chunk().ok_or(short("UDP"))?;
            let udp = Udp::decode(udp_header);
            if udp.dst_port != udp::ROCE_PORT {
                return Err(DropReason::UdpPort(udp.dst_port));
            }
            if usize::from(udp.length) != body.len() {
                return Err(DropReason::UdpLength);
            }
            udp.src_port
        }
    };
    let (covered, trailer) = body.split_last_chunk().ok_or(short("ICRC"))?;
    if icrc == Icrc::On {
        // Before the BTH is believed in anything.
        let sum = packet_icrc(ip_header, covered).ok_or(short("BTH"))?;
        if sum != u32::from_le_bytes(*trailer) {
            return Err(DropReason::Icrc);
        }
    }
    let transport = covered.get(network.udp_len()..).ok_or(short("BTH"))?;
    let path = Path { src_mac: ethernet.src, dst_mac: ethernet.dst, vlan: ethernet.vlan, network, udp_sport };
    decode_transport(path, ip_header, transport)
}

/// Checks and reads a packet from the BTH to the pad, which came by `path`; its ICRC was checked, or is not of interest.
#[inline]
pub fn decode_transport<'a>(
    path: Path,
    ip_header: &'a [u8],
    bytes: &'a [u8],
) -> Result<Frame<'a>, DropReason> {
    let (headers, padded) = Headers::decode(bytes)?;
    let pad = usize::from(headers.bth.pad_count);
    if padded.len() % 4 != 0 {
        return Err(DropReason::Pad);
    }
    let payload_len = padded.len().checked_sub(pad).ok_or(DropReason::Pad)?;
    if !padded.is_empty() && !headers.bth.opcode.has_payload() {
        return Err(DropReason::UnexpectedPayload(headers.bth.opcode));
    }
    Ok(Frame { path, headers, payload: &padded[..payload_len], ip_header })
}
