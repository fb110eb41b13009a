//! The exact wire: every packet as a frame, with and without faults, and the record of all frames.

#[path = "exact_wire/counters.rs"]
mod counters;
#[path = "exact_wire/faults.rs"]
mod faults;
#[path = "exact_wire/record.rs"]
mod record;
#[path = "exact_wire/verbs.rs"]
mod verbs;

use std::path::Path;

use driver::{Device, SendFlags, SendWr};
use fpga_regs::{CqeOpcode, QpType, WqeOpcode};
use model::attach::NetOptions;
use model::link::{Capture, LinkOptions, Wire};
use tests::{datagram, Options, TestCard};

/// A net of two cards on the exact wire, with faults as on the command line.
fn exact(faults: &str) -> NetOptions {
    let faults = faults.parse().expect("faults");
    NetOptions {
        link: LinkOptions { wire: Wire::Exact, faults, ..LinkOptions::default() },
        ..NetOptions::from(2)
    }
}

/// The same options with a record of all frames.
fn recorded(mut options: NetOptions, path: &Path, snaplen: u32) -> NetOptions {
    options.link.capture = Some(Capture { path: path.to_owned(), snaplen, card: None });
    options
}

/// A counter of both ports' cards, added up.
fn counter(devices: &[&Device<TestCard>], name: &str) -> u64 {
    devices.iter().map(|device| tests::counter(device, 1, name)).sum()
}

/// One of each verb between two cards, in an order that does not depend on the wire.
fn one_of_each(a: &std::sync::Arc<Device<TestCard>>, b: &std::sync::Arc<Device<TestCard>>, gid: u8) {
    let options = Options { gid, ..Options::default() };
    let (mut x, y) = tests::connect(a, b, options);
    x.buffer.pattern(5);
    y.recv(1, &[y.sge(0, 4000)]);
    x.completes(x.wr(1, WqeOpcode::SEND, &[x.sge(0, 3001)]));
    assert_eq!(y.expect(1).byte_len, 3001);
    x.completes(x.remote(2, WqeOpcode::WRITE, &[x.sge(0, 2050)], &y, 5000));
    assert!(x.buffer[..2050] == y.buffer[5000..7050]);
    y.recv(3, &[]);
    let sge = [x.sge(0, 1023)];
    let mut write = x.remote(3, WqeOpcode::WRITE_WITH_IMM, &sge, &y, 10_000);
    write.imm = 77;
    write.flags = SendFlags::SIGNALED | SendFlags::SOLICITED;
    x.completes(write);
    let wc = y.expect(3);
    assert_eq!((wc.opcode, wc.imm, wc.byte_len), (CqeOpcode::RECV_RDMA_WITH_IMM, 77, 1023));
    x.completes(x.remote(4, WqeOpcode::READ, &[x.sge(100_000, 2049)], &y, 5001));
    assert!(x.buffer[100_000..102_049] == y.buffer[5001..7050]);
    let result = [x.sge(64, 8)];
    let mut add = x.remote(5, WqeOpcode::FETCH_ADD, &result, &y, 50_000);
    add.compare_add = 11;
    let mut swap = x.remote(6, WqeOpcode::CMP_SWAP, &result, &y, 50_000);
    (swap.compare_add, swap.swap) = (11, 0x0102_0304_0506_0708);
    x.post(&[add, swap]);
    x.expect(5);
    x.expect(6);
    assert_eq!(x.buffer[64..72], 11u64.to_le_bytes());
    assert_eq!(y.buffer[50_000..50_008], 0x0102_0304_0506_0708u64.to_le_bytes());

    let (x, y) = tests::connect(a, b, Options { qp_type: QpType::UC, ..options });
    y.recv(7, &[y.sge(0, 2000)]);
    x.completes(x.wr(7, WqeOpcode::SEND, &[x.sge(0, 1999)]));
    y.expect(7);
    x.completes(x.remote(8, WqeOpcode::WRITE, &[x.sge(0, 1)], &y, 5000));

    let (x, y) = tests::connect(a, b, Options { qp_type: QpType::UD, ..options });
    let ah = x.pd.create_ah(&x.av(y.gid())).expect("an AH");
    y.recv(9, &[y.sge(0, 2000)]);
    let sges = [x.sge(0, 333)];
    let wr = x.wr(9, WqeOpcode::SEND_WITH_IMM, &sges);
    x.completes(SendWr { imm: 0x0102_0304, ..datagram(&ah, y.qp.qpn(), wr) });
    let wc = y.expect(9);
    assert_eq!((wc.byte_len, wc.src_qp, wc.imm), (373, x.qp.qpn(), 0x0102_0304));
}
