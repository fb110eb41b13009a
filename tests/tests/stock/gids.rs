//! GIDs of VLANs and of RoCE version 1, with stock programs: what the tables say, and each frame that is sent.

use fpga_regs::regs::port;
use tests::place_for;
use tests::stock::{free_port, need, Pair, Program, StockNet, LIMIT};

use crate::capture::tshark::tshark;
use crate::pcap::read;

/// An address of each card in a VLAN, at index 2 of its port's table.
const IN_VLAN: [&str; 4] = ["--gid", "0=10.107.0.1,vlan=107", "--gid", "1=10.107.0.2,vlan=107"];

/// Runs a program between the two cards by the GIDs with this index, and gives the frames that were sent.
fn sent(options: &[&str], program: &str, arguments: &[&str]) -> Vec<Vec<u8>> {
    let (_directory, path) = place_for("sent.pcap");
    let file = path.to_str().expect("a plain path");
    let (net, holder) = StockNet::held(&[options, &["--pcap", file]].concat());
    let pair = Pair::new(&net, program, arguments);
    pair.run().unwrap_or_else(|said| panic!("{options:?} {program} {arguments:?}: {said}"));
    net.expect_gone_after(holder);
    let frames = read(&path);
    assert!(frames.len() >= 20, "{options:?} {program}: only {} frames", frames.len());
    frames
}

/// CRC-32 as Ethernet has it, bit by bit.
fn crc32(bytes: impl IntoIterator<Item = u8>) -> u32 {
    let step = |crc: u32, byte: u8| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 })
    };
    !bytes.into_iter().fold(!0, step)
}

/// The ICRC of a RoCEv1 packet from its GRH on, by annex A16.4.3 and volume 1, 7.8.1: eight bytes of ones stand for the local
/// route header; traffic class, flow label, hop limit and the reserved byte of the BTH count as ones.
fn icrc_of_version_1(packet: &[u8]) -> u32 {
    let mut masked = packet[..packet.len() - 4].to_vec();
    masked[0] |= 0x0f;
    masked[1..4].fill(0xff);
    masked[7] = 0xff;
    masked[40 + 4] = 0xff;
    crc32([0xff; 8].into_iter().chain(masked))
}

/// The pingpongs compare every byte with `-c`. UD takes the answer's service level from its address handle, as all do.
const PROGRAMS: [(&str, &[&str]); 5] = [
    ("ibv_rc_pingpong", &["-c", "-n", "20", "-s", "3000", "-m", "1024"]),
    ("ibv_uc_pingpong", &["-c", "-n", "20", "-s", "1000"]),
    ("ibv_ud_pingpong", &["-c", "-n", "20", "-s", "1000"]),
    ("ibv_srq_pingpong", &["-c", "-n", "20", "-s", "1000", "-q", "2"]),
    ("ibv_xsrq_pingpong", &["-n", "20", "-s", "1000"]),
];

#[test]
fn the_tables_list_them_after_the_usual_ones() {
    need("ibv_devinfo");
    for network in ["own", "host"] {
        let net = StockNet::new();
        let options = [&["--network", network, "--roce-v1"][..], &IN_VLAN].concat();
        let devinfo = net.command(&options, "ibv_devinfo", &["-v", "-d", "verbena0", "-i", "1"]);
        let ended = Program::start(devinfo).wait(LIMIT);
        let gids: Vec<_> = ended.said.lines().filter(|line| line.contains("GID[")).collect();
        let expected = [
            ("fe80::56:42ff:fe00:0", "RoCE v2"),
            ("::ffff:198.18.0.1", "RoCE v2"),
            ("::ffff:10.107.0.1", "RoCE v2"),
            ("fe80:0000:0000:0000:0056:42ff:fe00:0000", "RoCE v1"),
            ("0000:0000:0000:0000:0000:ffff:c612:0001", "RoCE v1"),
            ("0000:0000:0000:0000:0000:ffff:0a6b:0001", "RoCE v1"),
        ];
        assert_eq!(gids.len(), expected.len(), "{network}: {}", ended.said);
        for (line, (gid, kind)) in gids.iter().zip(expected) {
            assert!(line.contains(&format!("{gid}, {kind}")), "{network}: {line}, not {gid}, {kind}");
        }
    }
}

/// By both clocks and on both wires: each frame has the tag, with the service level as its priority.
#[test]
fn frames_of_a_vlan_have_its_tag() {
    for (clock, wire) in [("wall", "fast"), ("wall", "exact"), ("virtual", "fast"), ("virtual", "exact")] {
        let options = [&IN_VLAN[..], &["--clock", clock, "--wire", wire]].concat();
        for (program, arguments) in PROGRAMS {
            let arguments = [&["-g", "2", "-l", "5"], arguments].concat();
            for frame in sent(&options, program, &arguments) {
                let what = format!("{clock} {wire} {program}: {:02x?}", &frame[..60.min(frame.len())]);
                assert_eq!(frame[12..14], [0x81, 0x00], "no tag: {what}");
                assert_eq!(u16::from_be_bytes([frame[14], frame[15]]), 5 << 13 | 107, "{what}");
                assert_eq!(frame[16..18], [0x08, 0x00], "not IPv4: {what}");
                let network = [10, 107, 0];
                assert_eq!((&frame[30..33], &frame[34..37]), (&network[..], &network[..]), "{what}");
            }
        }
    }
}

/// The same with a global route header instead of IP and UDP, whose ICRC is computed again here.
#[test]
fn frames_of_version_1_have_a_global_route_header() {
    for (clock, wire) in [("wall", "fast"), ("wall", "exact"), ("virtual", "exact")] {
        for (gid, tag) in [("3", None), ("4", None), ("5", Some(2 << 13 | 107))] {
            let options = [&IN_VLAN[..], &["--roce-v1", "--clock", clock, "--wire", wire]].concat();
            for (program, arguments) in PROGRAMS {
                let arguments = [&["-g", gid, "-l", "2"], arguments].concat();
                for frame in sent(&options, program, &arguments) {
                    let what = format!("{clock} {wire} {program} GID {gid}: {frame:02x?}");
                    let (found, rest) = match frame[12..14] {
                        [0x81, 0] => (Some(u16::from_be_bytes([frame[14], frame[15]])), &frame[16..]),
                        _ => (None, &frame[12..]),
                    };
                    assert_eq!((found, &rest[..2]), (tag, &[0x89, 0x15][..]), "{what}");
                    let packet = &rest[2..];
                    let length = usize::from(u16::from_be_bytes([packet[4], packet[5]]));
                    assert_eq!((packet[0] >> 4, packet[6], length), (6, 0x1b, packet.len() - 40), "{what}");
                    let icrc = u32::from_le_bytes(*packet.last_chunk().expect("an ICRC"));
                    assert_eq!(icrc, icrc_of_version_1(packet), "{what}");
                }
            }
        }
    }
}

/// Whoever is in another VLAN, or of another version, hears nothing: the request times out, and what came is counted.
#[test]
fn both_ends_are_alike_or_hear_nothing() {
    need("ibv_rc_pingpong");
    for wire in ["fast", "exact"] {
        let others = ["--gid", "1=10.108.0.2,vlan=108", "--roce-v1", "--wire", wire];
        let (net, _holder) = StockNet::held(&[&IN_VLAN[..], &others].concat());
        // What the server's port drops, since no queue pair takes it.
        let dropped = || net.register(0, 0, port::RX_NO_QP);
        // The server has 0 to 2 of version 2 and 3 to 5 of version 1, the client, with another VLAN, 0 to 3 and 4 to 7.
        for (server, client) in [("2", "3"), ("2", "1"), ("1", "2"), ("1", "5"), ("4", "1")] {
            let number = free_port();
            let at = number.to_string();
            let options = ["-n", "1", "-p", &at, "-d"];
            let here = [&options[..], &["verbena0", "-g", server]].concat();
            let mut listens = net.start("ibv_rc_pingpong", &here);
            listens.expect_listening(number);
            let before = dropped();
            let there = [&options[..], &["verbena1", "-g", client, "localhost"]].concat();
            let ended = net.start("ibv_rc_pingpong", &there).wait(LIMIT);
            let said = ended.said;
            assert!(said.contains("transport retry counter exceeded"), "{wire} {server} {client}: {said}");
            let counted = dropped() - before;
            assert!(counted > 0, "{wire} {server} {client}: nothing was counted as dropped");
        }
    }
}

/// Connections by address go by the VLAN of the address.
#[test]
fn connections_by_address_stay_in_the_vlan() {
    need("rping");
    let (_directory, path) = place_for("sent.pcap");
    let file = path.to_str().expect("a plain path");
    let (net, holder) = StockNet::held(&[&IN_VLAN[..], &["--pcap", file]].concat());
    let mut server = net.start("rping", &["-s", "-a", "10.107.0.1", "-C", "3", "-V"]);
    net.expect_listener(&mut server, 7174);
    net.run("rping", &["-c", "-a", "10.107.0.1", "-C", "3", "-V"], LIMIT);
    server.wait(LIMIT).expect_good();
    net.expect_gone_after(holder);
    let frames = read(&path);
    assert!(frames.len() > 20, "only {} frames", frames.len());
    let tagged = frames.iter().filter(|frame| frame[12..14] == [0x81, 0] && frame[15] == 107);
    assert_eq!(tagged.count(), frames.len());
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |options: &[&str], why: &str| {
        Program::start(StockNet::new().command(options, "true", &[])).wait(LIMIT).expect_refusal(why);
    };
    let udp = ["--port", "0=udp:127.0.0.1"];
    refused(&[&udp[..], &["--gid", "0=10.0.0.1,vlan=107"]].concat(), "use another medium");
    refused(&[&udp[..], &["--roce-v1"]].concat(), "carries RoCE version 2 only");
    refused(&[&udp[..], &["--gid", "1=127.0.0.1"]].concat(), "verbena0/1 has it already");
    refused(&[&udp[..], &["--port", "1=udp:127.0.0.1"]].concat(), "one port alone can be");
    refused(&["--gid", "7=10.0.0.1"], "the net has the cards verbena0 to verbena1");
    refused(&["--gid", "0=10.0.0.1,vlan=5000"], "vlan=1 to vlan=4094");
}

/// tshark finds the VLAN and its priority, packets of InfiniBand in both versions, and nothing malformed.
#[test]
#[ignore = "the long form of the checks"]
fn tshark_reads_them() {
    need("tshark");
    let (_directory, path) = place_for("sent.pcap");
    let file = path.to_str().expect("a plain path");
    for gid in ["2", "3", "5"] {
        let (net, holder) = StockNet::held(&[&IN_VLAN[..], &["--roce-v1", "--pcap", file]].concat());
        for (program, arguments) in PROGRAMS {
            let arguments = [&["-g", gid, "-l", "6"], arguments].concat();
            Pair::new(&net, program, &arguments).run().expect(program);
        }
        net.expect_gone_after(holder);
        let count = |filter: &str| tshark(&["-r", file, "-Y", filter]).lines().count();
        let all = read(&path).len();
        let tagged = if gid == "3" { 0 } else { all };
        let grh = if gid == "2" { 0 } else { all };
        for (filter, expected) in [
            ("_ws.malformed", 0),
            ("infiniband.bth", all),
            ("vlan.id == 107 && vlan.priority == 6", tagged),
            ("vlan", tagged),
            ("infiniband.grh", grh),
        ] {
            assert_eq!(count(filter), expected, "GID {gid}, of {all}: {filter}");
        }
    }
}
