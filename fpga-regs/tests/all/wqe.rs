//! Send WQEs: each opcode, the numbers of SGEs, inline data, every flag.

use fpga_regs::{decode, *};
use insta::assert_snapshot;

/// The decoded text; also checks that taking apart reverses building.
fn show(builder: &WqeBuilder) -> String {
    let bytes = builder.build().unwrap();
    let parts = WqeBuilder::parse(&bytes).unwrap();
    assert_eq!(parts.build().unwrap(), bytes);
    assert_eq!((&parts.sges, &parts.inline), (&builder.sges, &builder.inline));
    let decoded = decode::wqe(&bytes);
    assert_eq!(decoded.problems, Vec::<String>::new());
    decoded.to_string()
}

fn new(opcode: WqeOpcode) -> WqeBuilder {
    WqeBuilder::new(opcode).ctrl(|ctrl| ctrl.with_index(0x1234).with_signaled(true))
}

fn sges(mut builder: WqeBuilder, count: u32) -> WqeBuilder {
    for i in 0..count {
        builder = builder.sge(0x7f00_0000_1000 + u64::from(i) * 0x1000, 64 + i, 0x100 + i * 0x100);
    }
    builder
}

fn data(count: usize) -> Vec<u8> {
    (0..count).map(|i| b'a' + (i % 26) as u8).collect()
}

fn address() -> WqeAddress {
    let mut dgid = [0; 16];
    dgid[10..].copy_from_slice(&[0xff, 0xff, 198, 18, 1, 2]);
    WqeAddress::new()
        .with_dgid(dgid)
        .with_dmac([2, 0x56, 0x42, 0, 1, 1])
        .with_sgid_index(1)
        .with_port(2)
        .with_dest_qpn(0x11)
        .with_qkey(0x1111_1111)
        .with_flow_label(0xabcde)
        .with_traffic_class(0x20)
        .with_hop_limit(64)
        .with_udp_sport(0xc000)
        .with_vlan(7)
        .with_vlan_present(true)
        .with_static_rate(3)
        .with_sl(5)
}

#[test]
fn opcodes() {
    use WqeOpcode as Op;
    let imm = |opcode| new(opcode).ctrl(|ctrl| ctrl.with_imm(0xdead_beef));
    let addr = 0x5600_0000_2000;
    let bind = WqeBind::new()
        .with_addr(addr)
        .with_length(4096)
        .with_mr_lkey(0x300)
        .with_mw_rkey(0x401)
        .with_access(Access::REMOTE_READ | Access::REMOTE_WRITE);
    let all = [
        new(Op::NOP),
        sges(new(Op::SEND), 1),
        sges(imm(Op::SEND_WITH_IMM), 1),
        sges(imm(Op::SEND_WITH_INV), 1),
        sges(new(Op::WRITE).remote(addr, 0x777), 1),
        sges(imm(Op::WRITE_WITH_IMM).remote(addr, 0x777), 1),
        sges(new(Op::READ).remote(addr, 0x777), 1),
        new(Op::CMP_SWAP).remote(addr, 0x777).atomic(5, 6).sge(0x1000, 8, 0x100),
        new(Op::FETCH_ADD).remote(addr, 0x777).atomic(1, 0).sge(0x1000, 8, 0x100),
        imm(Op::LOCAL_INV),
        imm(Op::BIND_MW).bind(bind),
        sges(
            new(Op::RAW_ETH).ctrl(|ctrl| {
                ctrl.with_ip_csum(true).with_l4_csum(true).with_vlan_insert(true).with_vlan_tci(0x6007)
            }),
            2,
        ),
        sges(new(Op::RAW_TSO).tso(WqeTso::new().with_mss(1460).with_header(&data(54))), 2),
    ];
    assert_eq!(all.len(), WqeOpcode::VALUES.len(), "an opcode is missing");
    for builder in all {
        let name = format!("opcode_{}", builder.ctrl.opcode());
        assert_snapshot!(name.to_lowercase(), show(&builder));
    }
}

#[test]
fn datagrams() {
    let send = sges(new(WqeOpcode::SEND).address(address()), 1);
    assert_snapshot!("ud_send", show(&send));
    let send =
        new(WqeOpcode::SEND_WITH_IMM).address(address()).ctrl(|ctrl| ctrl.with_imm(9)).inline(&data(13));
    assert_snapshot!("ud_send_with_imm_inline", show(&send));
    let send = sges(new(WqeOpcode::SEND).address(address()), MAX_SGE as u32);
    assert_eq!(send.build().unwrap().len(), (MAX_WQE_BLOCKS - 1) * WQE_BLOCK);
    let send = new(WqeOpcode::SEND).address(address()).inline(&data(MAX_INLINE));
    assert!(send.build().unwrap().len() <= MAX_WQE_BLOCKS * WQE_BLOCK);
}

#[test]
fn sends_of_xrc() {
    let send = sges(new(WqeOpcode::SEND).srqn(0x12), 2);
    assert_snapshot!("xrc_send", show(&send));
    let send = new(WqeOpcode::SEND_WITH_INV).srqn(0x12).ctrl(|ctrl| ctrl.with_imm(0x301)).inline(&data(13));
    assert_snapshot!("xrc_send_with_inv_inline", show(&send));
    // Others have the segment anyway.
    let write = sges(new(WqeOpcode::WRITE).remote(0x4000, 0x777).srqn(0x12), 1);
    assert_eq!(WqeBuilder::parse(&write.build().unwrap()).unwrap().remote.srqn(), 0x12);
}

#[test]
fn sge_lists() {
    for count in [0, 2, MAX_SGE as u32] {
        let write = sges(new(WqeOpcode::WRITE).remote(0x4000, 0x777), count);
        assert_snapshot!(format!("write_{count}_sges"), show(&write));
    }
    assert_snapshot!("send_0_sges", show(&new(WqeOpcode::SEND)));
}

#[test]
fn inline_data() {
    for count in [0, 1, 12, 13, 16, MAX_INLINE] {
        let write = new(WqeOpcode::WRITE).remote(0x4000, 0x777).inline(&data(count));
        assert_snapshot!(format!("write_inline_{count}"), show(&write));
    }
}

#[test]
fn flags_one_by_one() {
    let mut all = String::new();
    for bit in 0..8 {
        let bytes = sges(WqeBuilder::new(WqeOpcode::SEND).ctrl(|ctrl| ctrl.with_flags(1 << bit)), 0);
        let mut bytes = bytes.build().unwrap();
        bytes[2] = 1 << bit;
        let text: String = decode::wqe(&bytes)
            .lines()
            .filter(|line| line.byte == 2 && line.hex != "0")
            .map(|line| format!("bit {bit}: {} {}\n", line.name, line.text))
            .collect();
        all += &text;
    }
    assert_snapshot!("flags", all);
}

#[test]
fn what_cannot_be_built() {
    let text = |builder: WqeBuilder| builder.build().unwrap_err().to_string();
    let too_many = sges(new(WqeOpcode::SEND), MAX_SGE as u32 + 1);
    assert_eq!(text(too_many), "31 SGEs, at most 30 fit");
    let too_long = new(WqeOpcode::SEND).inline(&[0; MAX_INLINE + 1]);
    assert_eq!(text(too_long), "513 bytes inline, at most 512 fit");
    let read = new(WqeOpcode::READ).inline(&[1]);
    assert_eq!(text(read), "READ takes no inline data");
    let bind = sges(new(WqeOpcode::BIND_MW), 1);
    assert_eq!(text(bind), "BIND_MW takes no data");
    let swap = sges(new(WqeOpcode::CMP_SWAP), 1);
    assert_eq!(text(swap), "an atomic has one SGE of 8 bytes");
    let huge = new(WqeOpcode::SEND).sge(0, u32::MAX, 1).sge(0, u32::MAX, 1);
    assert_eq!(text(huge), "a message of 8589934590 bytes is too long");
    let write = new(WqeOpcode::WRITE).address(address());
    assert_eq!(text(write), "WRITE takes no address segment");
    assert_eq!(text(new(WqeOpcode(99))), "opcode 0x63 is not known");
}

#[test]
fn what_is_wrong_is_said() {
    let write = sges(new(WqeOpcode::WRITE).remote(0x4000, 0x777), 2);
    let bytes = write.build().unwrap();
    assert_snapshot!("cut_short", decode::wqe(&bytes[..56]).to_string());
    let mut wrong = bytes.clone();
    wrong[1] = 9;
    wrong[63] = 0x80;
    assert_snapshot!("wrong_size", decode::wqe(&wrong).to_string());
    wrong[0] = 0x55;
    assert_snapshot!("unknown_opcode", decode::wqe(&wrong).to_string());
    assert_snapshot!("nothing", decode::wqe(&[]).to_string());
    let mut reserved = bytes;
    reserved[2] |= 0x80;
    reserved[29] = 0x10;
    assert_snapshot!("reserved_bits", decode::wqe(&reserved).to_string());
}

#[test]
fn a_ring_is_decoded_wqe_by_wqe() {
    let mut ring = sges(new(WqeOpcode::SEND), 5).build().unwrap();
    ring.extend(new(WqeOpcode::NOP).build().unwrap());
    ring.extend([0; 64]);
    let all = decode::wqes(&ring);
    let titles: Vec<&str> = all.iter().map(|decoded| decoded.title.as_str()).collect();
    assert_eq!(titles, ["send WQE: SEND, 96 bytes", "send WQE: NOP, 16 bytes", "send WQE: NOP, 0 bytes"]);
    assert_eq!(decode::text("wqe", &ring).unwrap().lines().next(), Some(titles[0]));
}
