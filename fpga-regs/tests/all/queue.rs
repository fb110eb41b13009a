//! Completion and event queue entries.

use fpga_regs::{decode, *};
use insta::assert_snapshot;

fn full() -> Cqe {
    Cqe::new()
        .with_wqe_index(0x1_0003)
        .with_qpn(0x12)
        .with_srcqp(0x34)
        .with_byte_len(4096)
        .with_imm(0x0102_0304)
        .with_timestamp(1_000_000_007)
        .with_sl(3)
        .with_pkey_index(1)
        .with_vlan_tci(0x6007)
        .with_generation(2)
        .with_phase(true)
}

#[test]
fn completions() {
    let send = Cqe::new()
        .with_wqe_index(7)
        .with_qpn(0x12)
        .with_opcode(CqeOpcode::RDMA_WRITE)
        .with_timestamp(99)
        .with_phase(true);
    assert_snapshot!("cqe_send_side", decode::cqe(send.as_bytes()).to_string());
    let recv = full()
        .with_opcode(CqeOpcode::RECV)
        .with_flags(Cqe::RECV | Cqe::IMM | Cqe::GRH | Cqe::VLAN | Cqe::IP_CSUM_OK);
    assert_snapshot!("cqe_receive", decode::cqe(recv.as_bytes()).to_string());
    let inv = full().with_opcode(CqeOpcode::RECV).with_flags(Cqe::RECV | Cqe::INV);
    assert_snapshot!("cqe_invalidated", decode::cqe(inv.as_bytes()).to_string());
    let error = full()
        .with_opcode(CqeOpcode::RDMA_READ)
        .with_status(CqeStatus::REM_ACCESS_ERR)
        .with_syndrome(Syndrome::NAK_REMOTE_ACCESS);
    assert_snapshot!("cqe_error", decode::cqe(error.as_bytes()).to_string());
    let unknown = full().with_opcode(CqeOpcode(77)).with_status(CqeStatus(200)).with_syndrome(Syndrome(0xee));
    assert_snapshot!("cqe_unknown", decode::cqe(unknown.as_bytes()).to_string());
    assert_snapshot!("cqe_cut_short", decode::cqe(&recv.as_bytes()[..30]).to_string());
}

#[test]
fn every_opcode_and_status_has_its_name() {
    let mut text = String::new();
    for value in 0..=255 {
        let cqe = Cqe::new().with_opcode(CqeOpcode(value));
        if cqe.opcode().name().is_some() {
            text += &decode::cqe(cqe.as_bytes()).title;
            text.push('\n');
        }
    }
    for known in CqeStatus::VALUES {
        let cqe = Cqe::new().with_status(CqeStatus(known.value as u8));
        text += &decode::cqe(cqe.as_bytes()).title;
        text.push('\n');
    }
    assert_snapshot!("cqe_names", text);
}

#[test]
fn events() {
    for known in EventKind::VALUES {
        let eqe = Eqe::new()
            .with_kind(EventKind(known.value as u8))
            .with_port(1)
            .with_object(0x21)
            .with_timestamp(123_456_789)
            .with_data(5)
            .with_phase(known.value % 2 == 0);
        let name = format!("eqe_{}", known.name.to_lowercase());
        assert_snapshot!(name, decode::eqe(eqe.as_bytes()).to_string());
    }
}

#[test]
fn several_entries_are_decoded_one_by_one() {
    let bytes = [*full().as_bytes(), *Cqe::new().as_bytes()].concat();
    let text = decode::text("cqe", &bytes).unwrap();
    assert_eq!(text.matches("CQE: ").count(), 2);
}
