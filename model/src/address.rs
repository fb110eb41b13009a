//! The addresses of a segment's cards: MAC, GIDs, GUIDs. All follow from the card's number.

use crate::packet::PortId;
use crate::wire::path::{ipv4_to_gid, multicast_mac};

/// Entries of a port's GID table.
pub const GID_TABLE_LEN: usize = 16;

/// Name of a port's network interface.
pub fn interface_name(port: PortId) -> String {
    format!("verbena{}p{}", port.card, port.port + 1)
}

/// EUI-64 of a MAC address (RFC 4291 appendix A).
pub fn eui64(mac: [u8; 6]) -> [u8; 8] {
    [mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]]
}

/// Node GUID of a card.
pub fn node_guid(card: u8) -> [u8; 8] {
    eui64(PortId { card, port: 0 }.mac())
}

/// GID `index` of a port (RoCE v2): 0 is link-local, 1 the IPv4 address 198.18.port.(card + 1) (RFC 2544's
/// range for benchmarks); the others are empty.
pub fn gid(port: PortId, index: u8) -> [u8; 16] {
    match index {
        0 => {
            let mut gid = [0u8; 16];
            gid[..2].copy_from_slice(&[0xfe, 0x80]);
            gid[8..].copy_from_slice(&eui64(port.mac()));
            gid
        }
        1 => ipv4_to_gid([198, 18, port.port, port.card + 1]),
        _ => [0; 16],
    }
}

/// The port that owns a GID: what ARP or neighbour discovery would find on the segment.
/// Multicast GIDs resolve to their Ethernet group address.
pub fn resolve(gid: &[u8; 16], cards: u8) -> Option<[u8; 6]> {
    if let Some(mac) = multicast_mac(gid) {
        return Some(mac);
    }
    (0..cards)
        .flat_map(|card| (0..crate::packet::PORTS as u8).map(move |port| PortId { card, port }))
        .find(|&port| (0..2).any(|i| &self::gid(port, i) == gid))
        .map(PortId::mac)
}
