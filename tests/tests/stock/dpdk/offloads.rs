//! What the card does for a frame: its checksums and its hash.

use super::*;

/// Frames of the suite, of TCP and of UDP, with so much payload, whose checksums are wrong.
fn packets(payload: usize) -> Vec<Vec<u8>> {
    let packet = |(to, to_port, from, from_port, _): (&str, u16, &str, u16, u32), protocol: u8| {
        let ports = [from_port.to_be_bytes(), to_port.to_be_bytes()].concat();
        let data: Vec<u8> = (0..payload).map(|n| (n * 7) as u8).collect();
        let body = match protocol {
            6 => [&ports[..], &[0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 16, 0, 1, 1, 0, 0], &data].concat(),
            _ => [&ports[..], &(8 + payload as u16).to_be_bytes(), &[1, 1], &data].concat(),
        };
        let mut frame = vec![2, 0x56, 0x42, 0, 1, 0, 2, 9, 9, 9, 9, 9];
        match (from.parse().expect("an address"), to.parse().expect("an address")) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let length = (20 + body.len() as u16).to_be_bytes();
                frame.extend([8, 0, 0x45, 0, length[0], length[1], 0, 1, 0x40, 0, 64, protocol, 1, 1]);
                frame.extend([from.octets(), to.octets()].concat());
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let length = (body.len() as u16).to_be_bytes();
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, length[0], length[1], protocol, 64]);
                frame.extend([from.octets(), to.octets()].concat());
            }
            _ => panic!("one version of IP"),
        }
        frame.extend(body);
        frame.resize(frame.len().max(60), 0);
        frame
    };
    SUITE.into_iter().flat_map(|row| [6, 17].map(|protocol| packet(row, protocol))).collect()
}

/// A testpmd that sends the frames of a device to the second card, by a port with these settings.
fn forward(net: &StockNet, reader: &str, mode: &str, settings: &[String]) -> Testpmd {
    let mut sender = Testpmd::start(net, &[reader, "net_verbena0"], &["-i"]);
    sender.types(&format!("port stop 1\n{}\nport start 1", settings.join("\n")));
    sender.types(&format!("set eth-peer 1 02:56:42:00:01:00\nset fwd {mode}\nstart"));
    sender
}

/// In mode `csum` it fills in checksums itself (`sw`) or leaves them to the card (`hw`).
fn checksums(by: &str) -> [String; 3] {
    ["ip", "tcp", "udp"].map(|of| format!("csum set {of} {by} 1"))
}

/// testpmd's own sums are the oracle: frames with wrong checksums leave with the same bytes, whoever computes them.
#[test]
pub fn checksums_are_those_that_testpmd_computes() {
    let net = StockNet::alone();
    let pcap = Pcap::new();
    let sent = [packets(0), packets(1), packets(3), packets(999)].concat();
    let reader = pcap.reader(&sent);
    let [by_program, by_card] = ["sw", "hw"].map(|by| {
        let mut receiver = Testpmd::start(&net, &["net_verbena1", &pcap.writer()], &["--stats-period=1"]);
        receiver.expect("NIC statistics");
        let sender = forward(&net, &reader, "csum", &checksums(by));
        receiver.expect(&format!("RX-packets: {} ", sent.len()));
        sender.quit();
        receiver.interrupt();
        pcap.frames()
    });
    assert_eq!(by_program.len(), sent.len());
    let same = by_program.iter().zip(&sent).filter(|(done, sent)| done[14..] == sent[14..]).count();
    assert_eq!(same, 0, "testpmd computes all of them");
    let wrong = by_card.iter().zip(&by_program).position(|(card, program)| card != program);
    assert_eq!(wrong, None, "the first frame with another checksum");
    net.expect_gone();
}

/// What a verbose testpmd says of so many frames.
fn told(mut receiver: Testpmd, sender: Testpmd, count: usize) -> String {
    receiver.expect_that("not all came", |said| said.matches("ol_flags").count() >= count);
    sender.quit();
    receiver.quit()
}

/// By testpmd's verbose lines.
#[test]
pub fn packets_have_their_hash_and_say_which_checksums_are_right() {
    let net = StockNet::alone();
    let pcap = Pcap::new();
    let sent = packets(100);
    let reader = pcap.reader(&sent);
    for (mode, right) in [("csum", true), ("io", false)] {
        let mut receiver = Testpmd::start(&net, &["net_verbena1"], &["-i", "--rxq=2", "--txq=2"]);
        receiver.types("port config all rss all\nset fwd rxonly\nset verbose 1\nstart");
        receiver.expect("rxonly packet forwarding");
        let sender = forward(&net, &reader, mode, &checksums("hw"));
        let said = told(receiver, sender, sent.len());
        for (.., hash) in SUITE {
            let text = format!("RSS hash={hash:#x} ");
            assert_eq!(said.matches(&text).count(), 2, "{text} of TCP and UDP: {said}");
        }
        let count = |flag: &str| said.matches(flag).count();
        let all = sent.len();
        let ipv4 = 2 * SUITE.iter().filter(|row| row.0.contains('.')).count();
        let expected = if right { (all, ipv4) } else { (0, 0) };
        let found = (count(" RTE_MBUF_F_RX_L4_CKSUM_GOOD"), count(" RTE_MBUF_F_RX_IP_CKSUM_GOOD"));
        assert_eq!(found, expected, "{said}");
        assert_eq!(count(" RTE_MBUF_F_RX_RSS_HASH"), all);
    }
    net.expect_gone();
}

/// testpmd asks for a tag in each frame that it sends, and another has it in the frame, or beside it.
#[test]
pub fn tags_are_inserted_and_stripped() {
    let net = StockNet::alone();
    let pcap = Pcap::new();
    let sent = packets(100);
    let reader = pcap.reader(&sent);
    let tag = ["tx_vlan set 1 291".to_owned()];

    let mut receiver = Testpmd::start(&net, &["net_verbena1", &pcap.writer()], &["--stats-period=1"]);
    receiver.expect("NIC statistics");
    let sender = forward(&net, &reader, "mac", &tag);
    receiver.expect(&format!("RX-packets: {} ", sent.len()));
    sender.quit();
    receiver.interrupt();
    let came = pcap.frames();
    assert_eq!(came.len(), sent.len());
    for (came, sent) in came.iter().zip(&sent) {
        assert_eq!(came[12..16], [0x81, 0, 1, 0x23]);
        assert_eq!(came[16..], sent[12..]);
    }

    for (option, stripped) in [("--enable-hw-vlan-strip", sent.len()), ("--rxq=1", 0)] {
        let mut receiver = Testpmd::start(&net, &["net_verbena1"], &["-i", option]);
        receiver.types("set fwd rxonly\nset verbose 1\nstart");
        receiver.expect("rxonly packet forwarding");
        let sender = forward(&net, &reader, "mac", &tag);
        let said = told(receiver, sender, sent.len());
        assert_eq!(said.matches("VLAN tci=0x123").count(), stripped, "{option}: {said}");
        assert_eq!(said.matches(" RTE_MBUF_F_RX_VLAN_STRIPPED").count(), stripped, "{option}: {said}");
        let tagged = said.matches("type=0x8100").count();
        assert_eq!(tagged, sent.len() - stripped, "{option}: {said}");
    }
    net.expect_gone();
}

/// The check sequence of IEEE 802.3 3.2.9, bit by bit, in the order of the wire.
fn check_sequence(frame: &[u8]) -> [u8; 4] {
    let bits = frame.iter().flat_map(|byte| (0..8).map(move |bit| u32::from(byte >> bit & 1)));
    let crc = bits.fold(u32::MAX, |crc, bit| crc >> 1 ^ if (crc ^ bit) & 1 == 1 { 0xedb8_8320 } else { 0 });
    (!crc).to_le_bytes()
}

/// Packets of a port that keeps them end with the check sequence of the wire, which statistics do not count.
#[test]
fn check_sequences_are_kept() {
    let net = StockNet::alone();
    assert_eq!(check_sequence(b"123456789"), 0xcbf4_3926u32.to_le_bytes(), "of CRC catalogues");
    let pcap = Pcap::new();
    let sent = frames();
    let reader = pcap.reader(&sent);
    let mut receiver = Testpmd::start(&net, &["net_verbena1", &pcap.writer()], &["-i", ROOM, ANY_LENGTH]);
    let said =
        receiver.does("port stop 0\nport config 0 rx_offload keep_crc on\nport start 0\nset fwd io\nstart");
    assert!(!said.contains("rror"), "{said}");
    let sender = forward(&net, &reader, "io", &[]);
    receiver.asks("show port stats 0", &format!("RX-packets: {} ", sent.len()));
    sender.quit();
    let bytes: usize = sent.iter().map(Vec::len).sum();
    receiver.does_saying("show port stats 0", &[&format!("RX-bytes:  {bytes}")]);
    receiver.quit();
    let came = pcap.frames();
    assert_eq!(came.len(), sent.len());
    let whole = |frame: &Vec<u8>| [&frame[..], &check_sequence(frame)].concat();
    let wrong = came.iter().zip(&sent).position(|(came, sent)| *came != whole(sent));
    assert_eq!(wrong, None, "the first frame that is not as it was on the wire");
    net.expect_gone();
}

/// Frames of all kinds, to the second card.
fn kinds() -> Vec<Vec<u8>> {
    let ipv4 = |protocol: u8, fragment: u16| {
        let part = fragment.to_be_bytes();
        let start =
            [8, 0, 0x45, 0, 0, 46, 0, 1, part[0], part[1], 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        [&start[..], &[0x50; 30]].concat()
    };
    let ipv6 = |next: u8, rest: &[u8]| {
        [&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 40, next, 64][..], &[0xfd; 32], rest, &[0x50; 40]].concat()
    };
    let (customer, service) = ([0x81, 0, 0, 5], [0x88, 0xa8, 0, 6]);
    let options = [&[8, 0, 0x46, 0, 0, 50][..], &ipv4(6, 0)[6..22], &[1, 1, 1, 0], &[0x50; 26]].concat();
    let (more, later) = (0x2000, 5);
    // Headers of IPv6 behind the first: options, a part of a packet.
    let (hops, part) = ([17, 0, 1, 4, 0, 0, 0, 0], [6, 0, 0, 1, 0, 0, 0, 9]);
    let after = [
        ipv4(6, 0),
        ipv4(17, 0x4000),
        ipv4(1, 0),
        ipv4(132, 0),
        ipv4(17, more),
        ipv4(6, later),
        options,
        ipv6(6, &[]),
        ipv6(17, &[]),
        ipv6(58, &[]),
        ipv6(0, &hops),
        ipv6(44, &part),
        [&customer[..], &ipv4(6, 0)].concat(),
        [&service[..], &customer, &ipv6(17, &[])].concat(),
        vec![8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
        vec![0x88, 0xb5],
    ];
    let frame = |after: Vec<u8>| {
        let mut frame = [&[2, 0x56, 0x42, 0, 1, 0, 2, 9, 9, 9, 9, 9][..], &after].concat();
        frame.resize(frame.len().max(60), 0);
        frame
    };
    after.into_iter().map(frame).collect()
}

/// The card says what a frame is as DPDK's own parser does (`sw ptype`), but for what the card does not tell apart: what is of
/// Ethernet, options of IP, and what is neither TCP nor UDP.
#[test]
pub fn kinds_of_packets_are_those_that_dpdk_finds() {
    let net = StockNet::alone();
    let pcap = Pcap::new();
    let sent = kinds();
    let reader = pcap.reader(&sent);
    let mut receiver = Testpmd::start(&net, &["net_verbena1"], &["-i"]);
    receiver.types("show port 0 ptypes\nset fwd rxonly\nset verbose 1\nstart");
    receiver.expect("rxonly packet forwarding");
    let sender = forward(&net, &reader, "io", &[]);
    let said = told(receiver, sender, sent.len());
    let told_apart = |word: &str| match word {
        word if word.starts_with("L2_ETHER") => "L2_ETHER".to_owned(),
        "L3_IPV4" | "L3_IPV4_EXT" | "L3_IPV6" | "L3_IPV6_EXT" => format!("{}_EXT_UNKNOWN", &word[..7]),
        "L4_TCP" | "L4_UDP" | "L4_FRAG" => word.to_owned(),
        _ => "L4_NONFRAG".to_owned(),
    };
    let mut kinds = std::collections::BTreeSet::new();
    let lines: Vec<_> = said.lines().filter(|line| line.contains("hw ptype: ")).collect();
    assert_eq!(lines.len(), sent.len(), "{said}");
    for line in lines {
        let words = |which: &str| -> Vec<&str> {
            let behind = line.split(which).nth(1).unwrap_or_default();
            behind.split(" - ").next().unwrap_or_default().split_whitespace().collect()
        };
        let mut found: Vec<_> = words("sw ptype: ").into_iter().map(told_apart).collect();
        if found.len() == 2 {
            found.push("L4_NONFRAG".to_owned());
        }
        assert_eq!(words("hw ptype: "), found, "{line}");
        kinds.insert(found.join(" "));
    }
    assert_eq!(kinds.len(), 9, "{kinds:?}");
    for announced in [
        "L2_ETHER",
        "L3_IPV4_EXT_UNKNOWN",
        "L3_IPV6_EXT_UNKNOWN",
        "L4_NONFRAG",
        "L4_FRAG",
        "L4_TCP",
        "L4_UDP",
    ] {
        assert!(said.contains(&format!("\n{announced} \n")), "{said}");
    }
    net.expect_gone();
}
