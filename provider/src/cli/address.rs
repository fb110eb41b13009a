//! Addresses of the cards (MAC, GUID, GID) and their text in sysfs.

/// Entries of a port's GID table.
pub const GID_TABLE: usize = 16;
/// Ports of a card.
pub const PORTS: u8 = 2;

/// MAC address of a port (both counted from 0).
pub fn mac(card: u8, port: u8) -> [u8; 6] {
    [0x02, 0x56, 0x42, 0x00, card, port]
}

/// Modified EUI-64 of a MAC address, with the universal/local bit inverted.
pub fn eui64(mac: [u8; 6]) -> [u8; 8] {
    let [a, b, c, d, e, f] = mac;
    [a ^ 0x02, b, c, 0xff, 0xfe, d, e, f]
}

/// The card's node GUID.
pub fn node_guid(card: u8) -> [u8; 8] {
    eui64(mac(card, 0))
}

/// Entry `index` of a port's GID table; all zero where the entry is empty.
pub fn gid(card: u8, port: u8, index: usize) -> [u8; 16] {
    let mut gid = [0; 16];
    match index {
        0 => {
            gid[0] = 0xfe;
            gid[1] = 0x80;
            gid[8..].copy_from_slice(&eui64(mac(card, port)));
        }
        1 => {
            gid[10] = 0xff;
            gid[11] = 0xff;
            gid[12..].copy_from_slice(&[198, 18, port, card.wrapping_add(1)]);
        }
        _ => {}
    }
    gid
}

/// Groups of four hex digits between colons, as sysfs writes GUIDs and GIDs.
pub fn sysfs_text(bytes: &[u8]) -> String {
    let groups: Vec<String> = bytes
        .chunks(2)
        .map(|pair| pair.iter().map(|byte| format!("{byte:02x}")).collect())
        .collect();
    groups.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guid_is_the_eui64_of_port_0() {
        assert_eq!(sysfs_text(&node_guid(3)), "0056:42ff:fe00:0300");
    }

    #[test]
    fn gids_are_link_local_and_ipv4_mapped() {
        assert_eq!(
            sysfs_text(&gid(1, 0, 0)),
            "fe80:0000:0000:0000:0056:42ff:fe00:0100"
        );
        assert_eq!(
            sysfs_text(&gid(1, 1, 1)),
            "0000:0000:0000:0000:0000:ffff:c612:0102"
        );
        assert_eq!(gid(0, 0, 2), [0; 16]);
    }
}
