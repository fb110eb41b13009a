//! Stock programs between the card and rxe.

use super::mads::frames;
use super::manager::perftest_by_address;
use super::pairs::Beside;
use super::SHORT;
use tests::guest::{Link, Rxe};
use tests::stock::wait_for;

/// Indices of the GIDs of IPv4 and IPv6: they are the same here and there.
const IPV4: u32 = 1;
const IPV6: u32 = 0;

/// Tests of perftest: program, options. Few iterations: the guest's processors are emulated. The time-out of queue pairs is
/// a second, since the guest may not run for long. Both ends have room for 16 READs at once.
const PERFTEST: &[(&str, &str)] = &[
    ("ib_write_bw", "-s 65536 -n 20"),
    ("ib_write_bw", "-c UC -s 4096 -n 20"),
    ("ib_read_bw", "-s 65536 -n 20 -o 16"),
    ("ib_send_bw", "-s 10000 -n 20"),
    ("ib_send_bw", "-c UC -s 4096 -n 20 -t 8"),
    ("ib_send_bw", "-c UD -s 1024 -n 20 -t 8"),
    ("ib_atomic_bw", "-A CMP_AND_SWAP -n 20 -o 16"),
    ("ib_atomic_bw", "-A FETCH_AND_ADD -n 20 -o 16"),
    ("ib_write_lat", "-s 8 -n 20"),
    ("ib_read_lat", "-s 8 -n 20 -o 16"),
    ("ib_send_lat", "-s 100 -n 20"),
    ("ib_send_lat", "-c UD -s 100 -n 20"),
    ("ib_atomic_lat", "-n 20 -o 16"),
];

/// The same by IPv6, fewer: what takes the other path through either end.
const PERFTEST_V6: &[(&str, &str)] = &[
    ("ib_read_bw", "-s 20000 -n 10 -o 16"),
    ("ib_send_bw", "-s 20000 -n 10"),
    ("ib_send_bw", "-c UD -s 1024 -n 10 -t 8"),
    ("ib_atomic_bw", "-A FETCH_AND_ADD -n 10 -o 16"),
];

/// rxe has counted the packets that the card has sent: it counts those whose ICRC is right, and not the few that come
/// when their queue pair is gone, at the end of a program.
fn nothing_was_damaged(mut beside: Beside) {
    let counter = "cat /sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts";
    let received: usize = beside.rxe.machine().good(counter, SHORT).trim().parse().expect("a number");
    let sent = beside.sent();
    assert!(sent > 100, "only {sent} frames in the record");
    assert!(received <= sent && (sent - received) * 100 < sent, "rxe received {received} of {sent} packets");
}

#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn perftest_beside_rxe() {
    let mut beside = Beside::start(Link::Datagrams);
    for (gid, tests) in [(IPV4, PERFTEST), (IPV6, PERFTEST_V6)] {
        for (program, options) in tests {
            let options = format!("-x {gid} -F -u 18 {options}");
            beside.both_ways(program, &format!("-d verbena0 {options}"), &format!("-d rxe0 {options}"));
        }
    }
    for mtu in [256, 512, 1024, 2048, 4096] {
        let options = format!("-x {IPV6} -F -u 18 -n 10 -s 20000 -m {mtu}");
        beside.both_ways("ib_write_bw", &format!("-d verbena0 {options}"), &format!("-d rxe0 {options}"));
    }
    perftest_by_address(&mut beside);
    nothing_was_damaged(beside);
}

/// These compare each byte that arrives, and end with an error if one is wrong.
#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn pingpongs_beside_rxe() {
    let mut beside = Beside::start(Link::Stream);
    for gid in [IPV4, IPV6] {
        for (program, options) in [
            ("ibv_rc_pingpong", "-s 10000 -m 1024"),
            ("ibv_rc_pingpong", "-s 4096 -m 4096 -e"),
            ("ibv_rc_pingpong", "-s 3000 -m 256"),
            ("ibv_uc_pingpong", "-s 3000 -m 512"),
            ("ibv_ud_pingpong", "-s 1000"),
            ("ibv_srq_pingpong", "-s 3000 -m 2048 -q 4"),
        ] {
            let options = format!("-g {gid} -c -n 30 {options}");
            let ways =
                beside.both_ways(program, &format!("-d verbena0 {options}"), &format!("-d rxe0 {options}"));
            for said in ways {
                assert_eq!(said.matches(" iters in ").count(), 2, "{program} {options}: {said}");
                assert!(!said.contains("invalid data"), "{program} {options}: {said}");
            }
        }
    }
    nothing_was_damaged(beside);
}

/// The guest asks for the card's address once before `ibv_modify_qp` to RTR fails there, a second later, and does not ask
/// while it believes that the last net's Ethernet address is the new one's: the new net announces its addresses.
#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn a_new_net_is_known_at_once() {
    let gid = ["--gid", "0=fd56:42::1"];
    for link in [Link::Stream, Link::Datagrams] {
        let mut beside = Beside::start_with(link, &gid);
        let v6 = index_there(&mut beside, "fd56:0042");
        let mut gids = [(IPV4, IPV4), (2, v6)];
        let mut before = 0;
        for _ in 0..4 {
            // However long a busy QEMU takes to connect.
            wait_for("no announcement", || {
                let all = frames(&beside.rxe.record());
                all[before..].iter().any(|frame| frame[0] & 1 == 1 && frame[6..12] != Rxe::MAC)
            });
            for (here, there) in gids {
                // The guest has heard the announcements of both when the first pair ends: they come before all else.
                before = frames(&beside.rxe.record()).len();
                let of = |device, gid| format!("-d {device} -g {gid} -c -n 30 -s 100");
                beside.both_ways_resolved("ibv_rc_pingpong", &of("verbena0", here), &of("rxe0", there));
            }
            let all = frames(&beside.rxe.record());
            let sent: Vec<_> = all[before..].iter().filter(|frame| frame[6..12] == Rxe::MAC).collect();
            let ours = all[before..].iter().find(|frame| frame[6..12] != Rxe::MAC).expect("a frame");
            let stray = sent.iter().find(|frame| frame[0] & 1 == 0 && frame[..6] != ours[6..12]);
            assert!(stray.is_none(), "the guest sent to the last net: {stray:02x?}");
            assert!(sent.len() > 2 * 30, "{} frames", sent.len());
            gids.reverse();
            before = all.len();
            beside = beside.renewed(&gid);
        }
    }
}

/// The index of rxe's GID that is an address of the VLAN, when it has that.
fn index_there(beside: &mut Beside, gid: &str) -> u32 {
    let find = format!(
        "cd /sys/class/infiniband/rxe0/ports/1/gids; \
         for i in $(seq 300); do grep -l {gid} * && exit; sleep 0.1; done | head -n 1"
    );
    beside.rxe.machine().good(&find, SHORT).trim().parse().unwrap_or_else(|_| panic!("rxe has no GID {gid}"))
}

/// On a VLAN of the kernel's: perftest and pingpongs both ways, in frames that all have its tag; ARP and neighbour discovery
/// have it, too.
#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn a_vlan_beside_rxe() {
    const SL: u16 = 5;
    let gids = ["--gid", "0=10.107.0.1,vlan=107", "--gid", "0=fd00:107::1,vlan=107"];
    let mut beside = Beside::start_with(Link::Datagrams, &gids);
    let make = "modprobe 8021q && ip link add link eth0 name eth0.107 type vlan id 107 && \
                echo 0 >/proc/sys/net/ipv6/conf/eth0.107/accept_dad; \
                ip addr add 10.107.0.100/24 dev eth0.107 && ip addr add fd00:107::100/64 dev eth0.107 && \
                ip link set eth0.107 up";
    beside.rxe.machine().good(make, SHORT);
    // The card's are behind the two of every port.
    for (here, gid) in [(2, "0000:ffff:0a6b:0064"), (3, "fd00:0107")] {
        let there = index_there(&mut beside, gid);
        for (program, options) in [
            ("ibv_rc_pingpong", "-c -n 20 -s 3000 -m 1024"),
            ("ibv_uc_pingpong", "-c -n 20 -s 1000"),
            ("ibv_ud_pingpong", "-c -n 20 -s 1000"),
        ] {
            let of = |device, gid| format!("-d {device} -g {gid} -l {SL} {options}");
            for said in beside.both_ways(program, &of("verbena0", here), &of("rxe0", there)) {
                assert!(!said.contains("invalid data"), "{program}: {said}");
            }
        }
        for (program, options) in [
            ("ib_write_bw", "-s 65536 -n 20"),
            ("ib_read_bw", "-s 65536 -n 20 -o 16"),
            ("ib_send_lat", "-c UD -s 100 -n 20"),
        ] {
            let of = |device, gid| format!("-d {device} -x {gid} -S {SL} -F -u 18 {options}");
            beside.both_ways(program, &of("verbena0", here), &of("rxe0", there));
        }
    }
    let (mut ours, mut theirs) = (0, 0);
    for frame in frames(&beside.rxe.record()) {
        let tci = u16::from_be_bytes([frame[14], frame[15]]);
        let tagged = frame[12..14] == [0x81, 0] && tci & 0xfff == 107;
        let (inner, rest) =
            if tagged { (&frame[16..18], &frame[18..]) } else { (&frame[12..14], &frame[14..]) };
        let port = match inner {
            [0x08, 0x00] => &rest[22..24],
            [0x86, 0xdd] if rest[6] == 17 => &rest[42..44],
            _ => continue,
        };
        if port != 4791u16.to_be_bytes() {
            continue;
        }
        assert!(tagged, "without the tag: {frame:02x?}");
        match frame[6..12] == Rxe::MAC {
            true => theirs += 1,
            false => {
                assert_eq!(tci >> 13, SL, "{frame:02x?}");
                ours += 1;
            }
        }
    }
    // Those that the record has whole.
    assert!(ours > 50 && theirs > 50, "{ours} and {theirs} frames");
    nothing_was_damaged(beside);
}
