//! `l3fwd` and `l3fwd-power`, routers of DPDK's examples, compiled as Debian ships them.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tests::stock::{alone, cpu_time, need, peers, EalFiles, Program, StockNet, Testpmd};

use super::LIMIT;
use crate::pcap::{read, write};

/// Of the first port of card 0 and of those of card 1.
const ROUTER: [u8; 6] = [2, 0x56, 0x42, 0, 0, 0];
const OTHERS: [[u8; 6]; 2] = [[2, 0x56, 0x42, 0, 1, 0], [2, 0x56, 0x42, 0, 1, 1]];

/// Frames to each destination.
const EACH: usize = 300;
/// Where frames go, and the router's port that has the route: l3fwd's own. Without one a frame leaves where it came in.
const ROUTES: [(&str, usize); 5] =
    [("198.18.0.9", 0), ("198.18.1.9", 1), ("2001:200::9", 0), ("2001:200:0:1::9", 1), ("203.0.113.9", 0)];

/// Compiles an example.
fn compile(directory: &Path, name: &str) -> PathBuf {
    need("make");
    let examples = peers().join("usr/share/dpdk/examples");
    let mut copy = Command::new("cp");
    copy.arg("-r").args([name, "common"].map(|name| examples.join(name))).arg(directory);
    assert!(copy.status().is_ok_and(|status| status.success()), "{copy:?}");
    let place = directory.join(name);
    let mut make = Command::new("make");
    make.arg("-C").arg(&place);
    let ended = Program::start(make).wait(5 * LIMIT);
    assert!(ended.good(), "apt-get install libdpdk-dev, or: tests/setup programs: {ended}");
    place.join("build").join(name)
}

/// The sum of a header's words; 0xffff if its checksum is right.
fn sum(header: &[u8]) -> u32 {
    let all: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    (all >> 16) + (all & 0xffff)
}

/// The `n`th UDP datagram for an address, in a frame for the router.
fn frame(n: usize, to: IpAddr) -> Vec<u8> {
    let payload: Vec<u8> = (0..20 + n % 1400).map(|k| (k * 7 + n) as u8).collect();
    let length = (8 + payload.len()) as u16;
    let mut frame = [&ROUTER[..], &OTHERS[0]].concat();
    match to {
        IpAddr::V4(to) => {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend((20 + length).to_be_bytes());
            frame.extend([0, n as u8, 0, 0, 64, 17, 0, 0]);
            frame.extend(Ipv4Addr::new(192, 0, 2, 1).octets());
            frame.extend(to.octets());
            let check = !(sum(&frame[14..34]) as u16);
            frame[24..26].copy_from_slice(&check.to_be_bytes());
        }
        IpAddr::V6(to) => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([17, 64]);
            frame.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
            frame.extend(to.octets());
        }
    }
    // UDP without a checksum.
    frame.extend([0, 9, 0, 9]);
    frame.extend(length.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(payload);
    frame
}

/// What the router makes of it at the port where it leaves.
fn routed(mut frame: Vec<u8>, port: usize) -> Vec<u8> {
    frame[..6].copy_from_slice(&OTHERS[port]);
    frame[6..12].copy_from_slice(&ROUTER);
    frame[11] = port as u8;
    if frame[12..14] == [8, 0] {
        // The time to live, and the checksum with it (RFC 1624).
        frame[22] -= 1;
        frame[24..26].copy_from_slice(&[0, 0]);
        let check = !(sum(&frame[14..34]) as u16);
        frame[24..26].copy_from_slice(&check.to_be_bytes());
    }
    frame
}

/// A file of datagrams goes to a router; each comes back by the port of its route, with the right addresses, and nothing
/// else is changed.
#[test]
#[ignore = "the long form of the checks"]
fn datagrams_leave_by_their_routes() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let l3fwd = compile(directory.path(), "l3fwd");
    let net = StockNet::new();
    let files = EalFiles::new();
    let core = files.core.to_string();
    let eal = ["--no-huge", "--no-pci", "-m", "384", "-l", &core, "--file-prefix", &files.prefix];
    let devices = ["--vdev", "net_verbena0", "--vdev", "net_verbena0p2"];
    // Room for all frames: who forwards drops what does not leave at once, and who is not run for long holds up no others.
    let config = format!("--config=(0,0,{core}),(1,0,{core})");
    let own = ["--", "-p", "3", &config];
    let room = ["--rx-queue-size=2048", "--tx-queue-size=2048"];
    let next = ["--eth-dest=0,02:56:42:00:01:00", "--eth-dest=1,02:56:42:00:01:01"];
    let words = [&["-oL", l3fwd.to_str().expect("a path")], &eal[..], &devices, &own, &room, &next].concat();
    let mut router = net.start("stdbuf", &words);
    router.expect(&format!("L3FWD: entering main loop on lcore {core}"), LIMIT);

    let sent: Vec<_> = (0..EACH * ROUTES.len())
        .map(|n| {
            let (address, port) = ROUTES[n % ROUTES.len()];
            (frame(n, address.parse().expect("an address")), port)
        })
        .collect();
    let place = |name: &str| directory.path().join(name).display().to_string();
    write(place("sent").as_ref(), sent.iter().map(|(frame, _)| frame));
    // testpmd forwards between the first two of its ports, and between the others.
    let first = format!("net_pcap0,rx_pcap={},tx_pcap={}", place("sent"), place("0"));
    let second = format!("net_pcap1,tx_pcap={}", place("1"));
    let devices = [&first[..], "net_verbena1", "net_verbena1p2", &second];
    let mut host = Testpmd::start(&net, &devices, &["-i", "--forward-mode=io", "--rxd=2048", "--txd=2048"]);
    host.types("start");
    let leaving = |port: usize| sent.iter().filter(move |(_, route)| *route == port);
    for (port, of_testpmd) in [(0, 1), (1, 2)] {
        let all = format!("RX-packets: {} ", leaving(port).count());
        host.asks(&format!("show port stats {of_testpmd}"), &all);
    }
    host.quit();
    assert!(!router.has_ended(), "{}", router.said());
    drop(router);
    for port in [0, 1] {
        let received = read(directory.path().join(port.to_string()).as_path());
        let expected: Vec<_> = leaving(port).map(|(frame, _)| routed(frame.clone(), port)).collect();
        assert_eq!(received.len(), expected.len(), "port {port}");
        // l3fwd works on groups of packets and keeps the order within each route only.
        let all = |frames: &[Vec<u8>]| {
            let mut frames = frames.to_vec();
            frames.sort();
            frames
        };
        let wrong =
            all(&received).into_iter().zip(all(&expected)).find(|(received, expected)| received != expected);
        assert_eq!(wrong, None, "port {port}: what came, and what was expected");
    }
    fs::remove_dir_all(directory.path().join("l3fwd")).expect("what was compiled");
    net.expect_gone();
}

/// A router that sleeps while there is nothing to route, and wakes by the queue to which something comes.
#[test]
#[ignore = "the long form of the checks"]
fn a_router_sleeps_until_datagrams_come() {
    const DATAGRAMS: usize = 50;
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let l3fwd = compile(directory.path(), "l3fwd-power");
    let net = StockNet::new();
    let files = EalFiles::new();
    let core = files.core.to_string();
    let eal = ["-oL", l3fwd.to_str().expect("a path"), "--no-huge", "--no-pci", "-m", "384", "-l", &core];
    let devices = ["--file-prefix", &files.prefix, "--vdev", "net_verbena0", "--vdev", "net_verbena0p2"];
    let config = format!("--config=(0,0,{core}),(1,0,{core})");
    let own = ["--", "-p", "3", &config, "--interrupt-only"];
    let mut router = net.start("stdbuf", &[&eal[..], &devices, &own].concat());
    router.expect(&format!("entering main interrupt loop on lcore {core}"), LIMIT);

    // Its own loop looks every 10 ms whether it is to end.
    sleep(Duration::from_secs(1));
    let (used, began) = (cpu_time(router.pid()), Instant::now());
    sleep(Duration::from_secs(2));
    let used = cpu_time(router.pid()) - used;
    assert!(used < began.elapsed() / 5, "{used:?} used in {:?}: {}", began.elapsed(), router.said());
    assert!(!router.said().contains("is waked up"), "{}", router.said());

    let to = "2.1.1.9".parse().expect("an address");
    let sent: Vec<_> = (0..DATAGRAMS).map(|n| frame(n, to)).collect();
    let place = |name: &str| directory.path().join(name).display().to_string();
    write(place("sent").as_ref(), sent.iter());
    let first = format!("net_pcap0,rx_pcap={}", place("sent"));
    let second = format!("net_pcap1,tx_pcap={}", place("received"));
    let devices = [&first[..], "net_verbena1", "net_verbena1p2", &second];
    let mut host = Testpmd::start(&net, &devices, &["-i", "--forward-mode=io"]);
    host.types("start");
    host.asks("show port stats 2", &format!("RX-packets: {DATAGRAMS} "));
    router.expect(&format!("lcore {core} is waked up from rx interrupt on port 0 queue 0"), LIMIT);
    router.expect(&format!("lcore {core} sleeps until interrupt triggers"), LIMIT);
    assert!(!router.said().contains("on port 1 queue 0"), "{}", router.said());
    host.quit();
    drop(router);
    let received = read(directory.path().join("received").as_path());
    // Of l3fwd-power's own making: whom it sends to by its second port, and from whom.
    let addresses = [[2, 0, 0, 0, 0, 1], [2, 0x56, 0x42, 0, 0, 1]].concat();
    let datagram = |frame: &Vec<u8>| [&addresses, &frame[12..22], &frame[26..]].concat();
    let routed = |frame: &Vec<u8>| [&frame[..22], &frame[26..]].concat();
    assert!(received.iter().map(routed).eq(sent.iter().map(datagram)), "{} came", received.len());
    net.expect_gone();
}
