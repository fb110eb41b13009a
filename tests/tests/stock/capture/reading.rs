//! Reading a pcapng file, by a parser that is not ours.

use std::fs::File;
use std::path::Path;

use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::DataLink;

/// A packet of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Nanoseconds.
    pub time: u64,
    /// The name of its interface.
    pub port: String,
    /// It came in there.
    pub inbound: bool,
    /// Its length on the wire.
    pub len: usize,
    /// What was kept of it.
    pub kept: Vec<u8>,
}

impl Packet {
    /// Its BTH. All frames of these tests are of IPv4, without a tag.
    pub fn bth(&self) -> &[u8] {
        assert_eq!(self.kept[12..14], [8, 0], "IPv4: {:x?}", self.kept);
        &self.kept[14 + 20 + 8..]
    }

    /// The opcode of its BTH.
    pub fn opcode(&self) -> u8 {
        self.bth()[0]
    }

    /// The queue pair that it is for.
    pub fn dest_qpn(&self) -> u32 {
        u32::from_be_bytes(self.bth()[4..8].try_into().unwrap()) & 0xff_ffff
    }

    /// The cards that it goes from and to, by the MAC addresses.
    pub fn way(&self) -> (u8, u8) {
        (self.kept[10], self.kept[4])
    }
}

/// All packets of a whole file.
pub fn packets(path: &Path) -> Vec<Packet> {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut reader = PcapNgReader::new(file).expect("a pcapng file");
    let (mut ports, mut all) = (Vec::new(), Vec::new());
    while let Some(block) = reader.next_block() {
        match block.expect("a whole block") {
            Block::InterfaceDescription(block) => {
                assert_eq!(block.linktype, DataLink::ETHERNET);
                assert!(block.options.contains(&InterfaceDescriptionOption::IfTsResol(9)), "{block:?}");
                let name = block.options.iter().find_map(|option| match option {
                    InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                    _ => None,
                });
                ports.push(name.expect("a name"));
            }
            Block::EnhancedPacket(block) => {
                let [EnhancedPacketOption::Flags(direction @ 1..=2)] = block.options[..] else {
                    panic!("no direction: {:?}", block.options)
                };
                all.push(Packet {
                    time: block.timestamp.as_nanos() as u64,
                    port: ports[block.interface_id as usize].clone(),
                    inbound: direction == 1,
                    len: block.original_len as usize,
                    kept: block.data.to_vec(),
                });
            }
            block => panic!("an unexpected block: {block:?}"),
        }
    }
    all
}
