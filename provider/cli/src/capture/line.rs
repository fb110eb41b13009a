//! A packet in one line: the columns of tshark, and what else says how a message gets on.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use model::address::mac_text;
use model::link::live::Seen;
use model::wire::{frame, BthOpcode, Ethernet, Headers, Network};

use crate::output;

/// Text that is printed at once.
const BATCH: usize = 1 << 16;

/// By the lower five bits of an opcode, as Wireshark calls it.
const OPERATIONS: [&str; 24] = [
    "Send First",
    "Send Middle",
    "Send Last",
    "Send Last Immediate",
    "Send Only",
    "Send Only Immediate",
    "RDMA Write First",
    "RDMA Write Middle",
    "RDMA Write Last",
    "RDMA Write Last Immediate",
    "RDMA Write Only",
    "RDMA Write Only Immediate",
    "RDMA Read Request",
    "RDMA Read Response First",
    "RDMA Read Response Middle",
    "RDMA Read Response Last",
    "RDMA Read Response Only",
    "Acknowledge",
    "Atomic Acknowledge",
    "Compare Swap",
    "Fetch Add",
    "Reserved",
    "Send Last Invalidate",
    "Send Only Invalidate",
];

/// Lines that are being printed.
pub struct Lines {
    /// Time zero (ns): the first packet, or the beginning of simulated time.
    zero: Option<u64>,
    number: u64,
    text: String,
}

impl Lines {
    pub fn new(simulated: bool) -> Lines {
        Lines { zero: simulated.then_some(0), number: 0, text: String::new() }
    }

    pub fn put(&mut self, seen: &Seen, frame: &[u8]) {
        let zero = *self.zero.get_or_insert(seen.at);
        self.number += 1;
        let at = seen.at.saturating_sub(zero);
        let (s, ns) = (at / 1_000_000_000, at % 1_000_000_000);
        let said = packet(frame, seen.length);
        let _ = writeln!(self.text, "{:>5} {s}.{ns:09} {said}", self.number);
        if self.text.len() >= BATCH {
            self.flush();
        }
    }

    /// Prints what is held back.
    pub fn flush(&mut self) {
        if !self.text.is_empty() {
            output::print(format_args!("{}", self.text));
            self.text.clear();
        }
    }
}

/// From whom to whom, the protocol, the length on the wire, and what it is.
fn packet(bytes: &[u8], length: u32) -> String {
    let columns = |from: &str, to: &str, protocol: &str, info: &str| {
        format!("{from:>12} → {to:<12} {protocol} {length} {info}")
    };
    if let Some((path, info)) = roce(bytes) {
        let (from, to) = match path.network {
            Network::V4(ip) => (Ipv4Addr::from(ip.src).to_string(), Ipv4Addr::from(ip.dst).to_string()),
            Network::V6(ip) => (Ipv6Addr::from(ip.src).to_string(), Ipv6Addr::from(ip.dst).to_string()),
            Network::Grh(grh) => {
                let named = |gid| format!("GID: {}", Ipv6Addr::from(gid));
                (named(grh.src), named(grh.dst))
            }
        };
        let protocol = if matches!(path.network, Network::Grh(_)) { "RoCE" } else { "RRoCE" };
        return columns(&from, &to, protocol, &info);
    }
    match Ethernet::decode(bytes) {
        Some((ethernet, _)) => {
            let vlan = ethernet.vlan.map_or(String::new(), |tag| format!(" VLAN {}", tag & 0xfff));
            let info = format!("type {:#06x}{vlan}", ethernet.ethertype);
            columns(&mac_text(ethernet.src), &mac_text(ethernet.dst), "Ethernet", &info)
        }
        None => columns("?", "?", "Ethernet", "too short"),
    }
}

/// The packet of RoCE in a frame, of which the headers are there. Its check sum is not looked at.
fn roce(bytes: &[u8]) -> Option<(model::wire::Path, String)> {
    let path = frame::path(bytes)?;
    let (_, packet) = Ethernet::decode(bytes)?;
    let transport = packet.get(path.network.header_len() + path.network.udp_len()..)?;
    let Ok((headers, _)) = Headers::decode(transport) else {
        return Some((path, "malformed".to_owned()));
    };
    Some((path, info(&headers)))
}

fn info(headers: &Headers) -> String {
    let (bth, opcode) = (&headers.bth, headers.bth.opcode);
    let mut text = format!("{} QP=0x{:06x} PSN={}", name(opcode), bth.dest_qp, bth.psn);
    if opcode.has_reth() {
        let _ = write!(text, " DMALen={}", headers.reth.dma_length);
    }
    if opcode.has_aeth() {
        let _ = write!(text, " {} MSN={}", headers.aeth.syndrome, headers.aeth.msn);
    }
    if opcode.has_deth() {
        let _ = write!(text, " SrcQP=0x{:06x}", headers.deth.src_qp);
    }
    if bth.ack_request {
        text += " AckReq";
    }
    text
}

fn name(opcode: BthOpcode) -> String {
    match OPERATIONS.get(usize::from(opcode.0 & 0x1f)) {
        _ if opcode.is_notification() => "CNP".to_owned(),
        Some(operation) => format!("{} {operation}", opcode.transport()),
        None => opcode.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::packet::PortId;
    use model::wire::{Aeth, Bth, Ipv4, Path, Syndrome};

    fn frame_of(opcode: BthOpcode, payload: &[u8]) -> Vec<u8> {
        let bth = Bth { opcode, dest_qp: 0x11, psn: 7, ack_request: true, ..Bth::default() };
        let aeth = Aeth { syndrome: Syndrome(0x60), msn: 3 };
        let headers = Headers { bth, aeth, ..Headers::default() };
        let ip = Ipv4 { ttl: 64, src: [198, 18, 0, 1], dst: [198, 18, 0, 2], ..Ipv4::default() };
        let (src_mac, dst_mac) = (PortId::default().mac(), [1; 6]);
        let path = Path { src_mac, dst_mac, network: Network::V4(ip), ..Path::default() };
        let mut bytes = vec![0; 5000];
        let len = frame::encode(&path, &headers, payload, &mut bytes).unwrap();
        bytes.truncate(len);
        bytes
    }

    /// Of a frame that is cut off after its headers the same is said.
    #[test]
    fn lines_are_made_of_headers() {
        let whole = frame_of(BthOpcode(0x0d), &[5; 1024]);
        let ways = "  198.18.0.1 → 198.18.0.2   RRoCE";
        let info = "RC RDMA Read Response First QP=0x000011 PSN=7 NAK PSN sequence error MSN=3 AckReq";
        for kept in [&whole[..], &whole[..58]] {
            assert_eq!(packet(kept, whole.len() as u32), format!("{ways} 1086 {info}"));
        }
        assert_eq!(packet(&whole[..50], 1086), format!("{ways} 1086 malformed"));
    }

    #[test]
    fn other_frames_have_a_type() {
        let mut bytes = frame_of(BthOpcode(0x04), &[]);
        bytes[12..14].copy_from_slice(&[0x08, 0x06]);
        let said = packet(&bytes, 60);
        assert_eq!(said, "02:56:42:00:00:00 → 01:01:01:01:01:01 Ethernet 60 type 0x0806");
        assert!(packet(&[1, 2], 2).ends_with("Ethernet 2 too short"));
    }

    #[test]
    fn times_begin_with_the_first_packet_or_with_simulated_time() {
        let frame = frame_of(BthOpcode(0x04), &[]);
        for (simulated, begins) in [(false, "    1 0.000000000"), (true, "    1 5.000000001")] {
            let mut lines = Lines::new(simulated);
            let at = 5_000_000_001;
            let (from, to) = (PortId::default(), PortId { card: 1, port: 0 });
            let seen = Seen { at, from, to, received: false, qpns: [0; 2], length: frame.len() as u32 };
            lines.put(&seen, &frame);
            assert!(lines.text.starts_with(begins), "{}", lines.text);
            lines.put(&Seen { at: at + 3, ..seen }, &frame);
            assert!(lines.text.lines().nth(1).unwrap().starts_with(&begins[..1]));
        }
    }
}
