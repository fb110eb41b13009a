//! All verbs over frames, without faults.

use fpga_regs::{CqeOpcode, CqeStatus, WqeOpcode};
use tests::{connect, Net, Options};

use super::{counter, exact, one_of_each};

/// Sizes around every boundary of segmentation and padding, and large ones.
const SIZES: [usize; 16] =
    [0, 1, 2, 3, 5, 63, 255, 257, 1023, 1024, 1025, 2048, 4097, 65_537, 100_003, 500_001];

#[test]
fn write_send_and_read_at_odd_sizes_and_every_mtu() {
    let (_net, a, b) = Net::with(exact("")).both();
    for mtu in 1..=5u8 {
        let (mut x, mut y) = connect(&a, &b, Options { mtu, gid: mtu % 2, ..Default::default() });
        x.buffer.pattern(mtu);
        for (n, &size) in SIZES.iter().enumerate() {
            let n = n as u64;
            let half = size / 3;
            x.completes(x.remote(
                n,
                WqeOpcode::WRITE,
                &[x.sge(13, half), x.sge(13 + half, size - half)],
                &y,
                501,
            ));
            assert!(x.buffer[13..13 + size] == y.buffer[501..501 + size], "WRITE, mtu {mtu}, {size} bytes");
            assert_eq!(y.buffer[501 + size], 0, "mtu {mtu}: nothing is written behind {size} bytes");
            y.buffer[501..501 + size].fill(0);
            y.recv(100, &[y.sge(1, half), y.sge(1 + half, size)]);
            x.completes(x.wr(n, WqeOpcode::SEND, &[x.sge(7, size)]));
            let wc = y.expect(100);
            assert_eq!((wc.opcode, wc.byte_len as usize), (CqeOpcode::RECV, size));
            assert!(x.buffer[7..7 + size] == y.buffer[1..1 + size], "SEND, mtu {mtu}, {size} bytes");
            x.completes(x.remote(
                n,
                WqeOpcode::READ,
                &[x.sge(500_021, half), x.sge(500_021 + half, size - half)],
                &y,
                1,
            ));
            assert!(
                x.buffer[500_021..500_021 + size] == y.buffer[1..1 + size],
                "READ, mtu {mtu}, {size} bytes"
            );
            x.buffer[500_021..500_021 + size].fill(0);
            y.buffer[1..1 + size].fill(0);
        }
    }
    for quiet in ["retransmits", "out_of_sequence", "duplicate", "rx_icrc_errors", "rx_malformed", "rx_no_qp"]
    {
        assert_eq!(counter(&[&a, &b], quiet), 0, "{quiet}");
    }
}

#[test]
fn one_of_each_verb_over_ipv4_and_ipv6() {
    let (_net, a, b) = Net::with(exact("")).both();
    for gid in [0, 1] {
        one_of_each(&a, &b, gid);
        one_of_each(&a, &a, gid);
    }
}

#[test]
fn packets_and_bytes_are_counted_as_they_are_on_the_wire() {
    let (_net, a, b) = Net::with(exact("")).both();
    let (x, y) = connect(&a, &b, Options::default());
    x.completes(x.remote(1, WqeOpcode::WRITE, &[x.sge(0, 3000)], &y, 0));
    // WRITE first, middle, last; an ACK. Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4; RETH 16; AETH 4.
    let count = |device, name| counter(&[device], name);
    assert_eq!((count(&a, "tx_packets"), count(&a, "tx_bytes")), (3, 3 * 58 + 16 + 3000));
    assert_eq!((count(&b, "rx_packets"), count(&b, "rx_bytes")), (3, 3 * 58 + 16 + 3000));
    assert_eq!((count(&b, "tx_packets"), count(&b, "tx_bytes")), (1, 62));
    assert_eq!((count(&a, "rx_packets"), count(&a, "rx_bytes")), (1, 62));
}

#[test]
fn refusals_travel_as_frames_too() {
    let (_net, a, b) = Net::with(exact("")).both();
    let (x, y) = connect(&a, &b, Options::default());
    let sge = [x.sge(0, 3000)];
    let mut bad = x.remote(1, WqeOpcode::WRITE, &sge, &y, 0);
    bad.rkey ^= 0x100;
    x.post(&[bad]);
    assert_eq!(x.wait().status, CqeStatus::REM_ACCESS_ERR);
    assert_eq!(counter(&[&b], "access_nak"), 1);

    let (x, _y) = connect(&a, &b, Options { rnr_retry: 2, ..Default::default() });
    x.post(&[x.wr(2, WqeOpcode::SEND, &[x.sge(0, 3000)])]);
    assert_eq!(x.wait().status, CqeStatus::RNR_RETRY_EXC_ERR);
    assert_eq!(counter(&[&b], "rnr_nak"), 3);
}
