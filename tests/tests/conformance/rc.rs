//! Reliable connections, through the driver on the model.

use fpga_regs::{CqeOpcode, CqeStatus, WqeOpcode};
use tests::{connect, Net, Options};

/// Sizes around every boundary of segmentation at MTU 1024, and large ones.
const SIZES: [usize; 12] = [0, 1, 7, 64, 1023, 1024, 1025, 2048, 4097, 65_536, 100_001, 500_000];

#[test]
fn write_reaches_the_peer_at_every_size_and_mtu() {
    let (_net, a, b) = Net::new(2).both();
    for mtu in 1..=5 {
        let (mut x, y) = connect(&a, &b, Options { mtu, ..Default::default() });
        x.buffer.pattern(mtu);
        for (n, &size) in SIZES.iter().enumerate() {
            let sge = [x.sge(13, size)];
            x.completes(x.remote(n as u64, WqeOpcode::WRITE, &sge, &y, 501));
            assert!(x.buffer[13..13 + size] == y.buffer[501..501 + size], "mtu {mtu}, {size} bytes");
            assert_eq!(y.buffer[501 + size], 0, "mtu {mtu}: nothing is written behind {size} bytes");
            assert!(y.poll().is_none(), "a WRITE completes nothing at the peer");
        }
    }
}

#[test]
fn send_read_and_atomics() {
    let net = Net::new(2);
    let (mut x, mut y) = net.pair(Options::default());
    x.buffer.pattern(1);
    for (n, &size) in SIZES.iter().enumerate() {
        let n = n as u64;
        y.recv(100 + n, &[y.sge(0, 300_000), y.sge(400_000, 300_000)]);
        x.completes(x.wr(n, WqeOpcode::SEND, &[x.sge(1, size)]));
        let wc = y.expect(100 + n);
        assert_eq!((wc.opcode, wc.byte_len as usize), (CqeOpcode::RECV, size));
        let first = size.min(300_000);
        assert!(x.buffer[1..1 + first] == y.buffer[..first]);
        assert!(x.buffer[1 + first..1 + size] == y.buffer[400_000..400_000 + size - first]);
    }
    y.buffer.pattern(9);
    for (n, &size) in SIZES.iter().enumerate() {
        let n = n as u64;
        let half = size / 2;
        x.post(&[x.remote(n, WqeOpcode::READ, &[x.sge(3, half), x.sge(500_001, size - half)], &y, 77)]);
        let wc = x.expect(n);
        assert_eq!((wc.opcode, wc.byte_len as usize), (CqeOpcode::RDMA_READ, size));
        assert!(x.buffer[3..3 + half] == y.buffer[77..77 + half]);
        assert!(x.buffer[500_001..500_001 + size - half] == y.buffer[77 + half..77 + size]);
    }
    y.buffer[..8].copy_from_slice(&40u64.to_le_bytes());
    let result = [x.sge(64, 8)];
    let mut add = x.remote(1, WqeOpcode::FETCH_ADD, &result, &y, 0);
    add.compare_add = 2;
    x.post(&[add]);
    assert_eq!(x.expect(1).opcode, CqeOpcode::FETCH_ADD);
    assert_eq!(x.buffer[64..72], 40u64.to_le_bytes());
    assert_eq!(y.buffer[..8], 42u64.to_le_bytes());
    for (compare, after) in [(41u64, 42u64), (42, 7)] {
        let mut swap = x.remote(2, WqeOpcode::CMP_SWAP, &result, &y, 0);
        swap.compare_add = compare;
        swap.swap = 7;
        x.post(&[swap]);
        assert_eq!(x.expect(2).opcode, CqeOpcode::COMP_SWAP);
        assert_eq!(x.buffer[64..72], 42u64.to_le_bytes());
        assert_eq!(y.buffer[..8], after.to_le_bytes());
    }
}

#[test]
fn a_chain_completes_in_order_and_unsignaled_requests_retire_silently() {
    let (_net, a) = Net::one();
    let (x, y) = connect(&a, &a, Options { depth: 8, ..Default::default() });
    for round in 0..100u64 {
        let sge = [x.sge(0, 100)];
        let mut first = x.remote(round, WqeOpcode::WRITE, &sge, &y, 0);
        first.flags = Default::default();
        let second = x.remote(round + 1000, WqeOpcode::READ, &sge, &y, 0);
        x.post(&[first, first, second, first, second]);
        x.expect(round + 1000);
        x.expect(round + 1000);
        assert!(x.poll().is_none());
    }
}

#[test]
fn a_bad_rkey_is_a_remote_access_error_and_the_rest_is_flushed() {
    let net = Net::new(2);
    let (x, y) = net.pair(Options::default());
    y.recv(50, &[y.sge(0, 10)]);
    let sge = [x.sge(0, 100)];
    let mut bad = x.remote(1, WqeOpcode::WRITE, &sge, &y, 0);
    bad.rkey ^= 0x100;
    let mut unsignaled = x.remote(2, WqeOpcode::WRITE, &sge, &y, 0);
    unsignaled.flags = Default::default();
    x.post(&[bad, unsignaled, x.wr(3, WqeOpcode::SEND, &sge)]);
    let statuses = [x.wait(), x.wait(), x.wait()].map(|wc| (wc.wr_id, wc.status));
    let flushed = CqeStatus::WR_FLUSH_ERR;
    assert_eq!(statuses, [(1, CqeStatus::REM_ACCESS_ERR), (2, flushed), (3, flushed)]);
    let wc = y.wait();
    assert_eq!((wc.wr_id, wc.status), (50, flushed));
}
