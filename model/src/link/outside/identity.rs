//! Who the cards of a net are where those of other hosts meet them.

use std::fs;
use std::path::Path;

use crate::address::{gid, link_local, Gid, Guids};
use crate::packet::PortId;

/// The GUIDs of a net's cards, of which a port leads outside: they follow from the machine, its name and the net's socket, so
/// they are the same each time and no other net's.
pub fn guids(net: &Path) -> Guids {
    let read = |path: &str| fs::read(path).ok().filter(|bytes| !bytes.is_empty());
    // Without the one, as in some containers, the other is the same until the machine is started again.
    let machine = read("/etc/machine-id").or_else(|| read("/proc/sys/kernel/random/boot_id"));
    let name = read("/proc/sys/kernel/hostname");
    let (machine, name) = (machine.unwrap_or_default(), name.unwrap_or_default());
    // However the path is spelled. The socket itself need not be there yet.
    let directory = net.parent().and_then(|directory| directory.canonicalize().ok());
    let net = directory.zip(net.file_name()).map_or(net.to_owned(), |(directory, file)| directory.join(file));
    Guids::unique(&[&machine, &name, net.as_os_str().as_encoded_bytes()])
}

/// The GIDs of a port that is a host of its own on a link: link-local by its Ethernet address, and the IPv4 address that it
/// has in a net.
pub fn own_gids(guids: Guids, port: PortId) -> [Gid; 2] {
    [link_local(guids.mac(port)), gid(port, 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_nets_have_the_same_cards() {
        let [one, other] = ["/run/one.sock", "/run/other.sock"].map(|net| guids(Path::new(net)));
        assert_eq!(one, guids(Path::new("/run/one.sock")));
        let port = |card, port| PortId { card, port };
        let mut seen = std::collections::HashSet::new();
        for card in 0..16 {
            for guids in [one, other, Guids::INSIDE] {
                assert!(seen.insert(guids.node(card).to_vec()));
            }
            for (guids, number) in [(one, 0), (one, 1), (other, 0), (other, 1)] {
                let mac = guids.mac(port(card, number));
                assert!(seen.insert(mac.to_vec()) && mac[..3] == [2, 0x56, 0x42]);
                assert_eq!(PortId::from_mac(mac), PortId::NOBODY, "it is no card of a segment");
                assert!(seen.insert(own_gids(guids, port(card, number))[0].to_vec()));
            }
        }
        assert_eq!(own_gids(one, port(3, 1))[1], gid(port(3, 1), 1));
    }
}
