//! Stock programs between the card and rxe.

use super::manager::perftest_by_address;
use super::pairs::Beside;
use super::SHORT;
use tests::guest::Link;

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
    for (program, options) in PERFTEST {
        let options = format!("-x {IPV4} -F -u 18 {options}");
        beside.both_ways(program, &format!("-d verbena0 {options}"), &format!("-d rxe0 {options}"));
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
