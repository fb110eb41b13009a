//! The bytes of every opcode in the ring, and of WQEs that run over its end.
#![allow(unsafe_code)]

use driver::{Bind, Data, InlineSges, QpCaps, SendFlags, SendWr, Sge};
use fpga_regs::{Access, Cqe, QpType, WqeOpcode};
use std::fmt::Write;

use crate::setup::{ah, Setup, CAPS};

/// Units of 16 bytes, those that are all zero left out.
fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (unit, chunk) in bytes.chunks(16).enumerate() {
        if chunk.iter().any(|byte| *byte != 0) {
            write!(text, "{:04x}:", unit * 16).unwrap();
            for (index, byte) in chunk.iter().enumerate() {
                let gap = if index % 4 == 0 { " " } else { "" };
                write!(text, "{gap}{byte:02x}").unwrap();
            }
            text.push('\n');
        }
    }
    text
}

const SGES: [Sge; 3] = [
    Sge { addr: 0x1111_2222_3333_4444, length: 0x100, lkey: 0xaa01 },
    Sge { addr: 0x5555_6666_7777_8888, length: 0x200, lkey: 0xaa02 },
    Sge { addr: 0x9999_aaaa_bbbb_cccc, length: 0x300, lkey: 0xaa03 },
];

fn request(opcode: WqeOpcode) -> SendWr<'static> {
    SendWr {
        wr_id: 1,
        opcode,
        flags: SendFlags::SIGNALED,
        imm: 0x0403_0201,
        remote_addr: 0x0123_4567_89ab_cdef,
        rkey: 0xbb01,
        compare_add: 0x1010_1010_1010_1010,
        swap: 0x2020_2020_2020_2020,
        remote_qpn: 0x654321,
        remote_qkey: 0x1111_1111,
        bind: Some(Bind {
            addr: 0x7000,
            length: 0x1000,
            mr_lkey: 0xcc01,
            mw_rkey: 0xcc02,
            access: Access::REMOTE_WRITE | Access::REMOTE_READ,
        }),
        data: Data::Sges(&SGES[..1]),
        ..SendWr::default()
    }
}

fn posted(qp_type: QpType, wr: &SendWr<'_>) -> String {
    let setup = Setup::with(qp_type, CAPS);
    let handle = (qp_type == QpType::UD).then(|| ah(&setup.pd, 2));
    let mut post = setup.qp.send();
    post.push(&SendWr { ah: handle.as_ref(), ..*wr }).unwrap();
    post.ring();
    dump(&setup.card().send_ring(setup.qp.qpn()))
}

#[test]
fn every_opcode() {
    let mut text = String::new();
    for (qp_type, opcode) in [
        (QpType::RC, WqeOpcode::NOP),
        (QpType::RC, WqeOpcode::SEND),
        (QpType::RC, WqeOpcode::SEND_WITH_IMM),
        (QpType::RC, WqeOpcode::SEND_WITH_INV),
        (QpType::RC, WqeOpcode::WRITE),
        (QpType::RC, WqeOpcode::WRITE_WITH_IMM),
        (QpType::RC, WqeOpcode::READ),
        (QpType::RC, WqeOpcode::CMP_SWAP),
        (QpType::RC, WqeOpcode::FETCH_ADD),
        (QpType::RC, WqeOpcode::LOCAL_INV),
        (QpType::RC, WqeOpcode::BIND_MW),
        (QpType::UC, WqeOpcode::WRITE),
        (QpType::UD, WqeOpcode::SEND),
        (QpType::UD, WqeOpcode::SEND_WITH_IMM),
    ] {
        writeln!(text, "{qp_type} {opcode}").unwrap();
        text.push_str(&posted(qp_type, &request(opcode)));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn elements_and_flags() {
    let mut text = String::new();
    for count in 0..=3 {
        writeln!(text, "{count} elements").unwrap();
        text.push_str(&posted(
            QpType::RC,
            &SendWr { data: Data::Sges(&SGES[..count]), ..request(WqeOpcode::WRITE) },
        ));
    }
    for flag in SendFlags::all().iter() {
        writeln!(text, "{flag:?}").unwrap();
        let wr = SendWr { flags: flag, data: Data::Sges(&[]), ..request(WqeOpcode::SEND) };
        text.push_str(&posted(QpType::RC, &wr));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn inline_data() {
    let bytes: Vec<u8> = (1..=64).collect();
    let mut text = String::new();
    for length in [0, 1, 8, 12, 13, 16, 17, 64] {
        writeln!(text, "{length} bytes").unwrap();
        let wr = SendWr { data: Data::Bytes(&bytes[..length]), ..request(WqeOpcode::SEND) };
        let one = posted(QpType::RC, &wr);
        text.push_str(&one);
        // The same bytes in three pieces of ordinary memory.
        let (first, rest) = bytes[..length].split_at(length / 3);
        let (second, third) = rest.split_at(rest.len() / 2);
        let pieces = [first, second, third].map(|piece| Sge {
            addr: piece.as_ptr() as u64,
            length: piece.len() as u32,
            lkey: 0,
        });
        // SAFETY: the pieces live until after the post.
        let data = Data::Inline(unsafe { InlineSges::new(&pieces) });
        assert_eq!(posted(QpType::RC, &SendWr { data, ..request(WqeOpcode::SEND) }), one);
    }
    insta::assert_snapshot!(text);
}

#[test]
fn over_the_rings_end() {
    let caps = QpCaps { max_send_wr: 1, max_send_sge: 30, max_inline: 512, ..CAPS };
    let setup = Setup::with(QpType::RC, caps);
    let ring = setup.card().send_ring(setup.qp.qpn()).len() / 64;
    assert_eq!(ring, 16, "one request of nine blocks");
    let sges: Vec<Sge> =
        (0..30).map(|n| Sge { addr: 0x1_0000 + n, length: n as u32, lkey: n as u32 }).collect();
    let bytes: Vec<u8> = (0..512).map(|n| n as u8).collect();
    let mut text = String::new();
    let mut index = 0;
    for (data, blocks) in [
        (Data::Sges(&sges), 8),
        (Data::Sges(&sges[..2]), 1),
        (Data::Bytes(&bytes), 9),
        (Data::Sges(&sges), 8),
    ] {
        let mut post = setup.qp.send();
        post.push(&SendWr { wr_id: index, data, ..request(WqeOpcode::WRITE) }).unwrap();
        post.ring();
        let cqe = Cqe::new().with_qpn(setup.qp.qpn()).with_wqe_index(index as u32);
        setup.card().complete(setup.cq.cqn(), cqe);
        assert_eq!(setup.ids(), [index]);
        writeln!(text, "at block {index}").unwrap();
        text.push_str(&dump(&setup.card().send_ring(setup.qp.qpn())));
        index += blocks;
    }
    insta::assert_snapshot!(text);
}
