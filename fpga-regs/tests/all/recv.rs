//! Receive WQEs, of a receive queue and of a shared one.

use fpga_regs::{decode, *};
use insta::assert_snapshot;

fn wqe(sges: u8) -> Vec<u8> {
    let head = RecvHead::new()
        .with_num_sge(sges)
        .with_next(0x102)
        .with_index(0x1_0007)
        .with_length(u32::from(sges) * 4096);
    let mut bytes = head.as_bytes().to_vec();
    for i in 0..u64::from(sges) {
        let sge = WqeSge::new().with_addr(0x7f00_0000_0000 + i * 4096).with_length(4096).with_lkey(0x200);
        bytes.extend_from_slice(sge.as_bytes());
    }
    bytes.resize(1 << recv_stride_log(usize::from(sges)), 0);
    bytes
}

#[test]
fn sge_lists() {
    for sges in [0, 1, 3, MAX_SGE as u8] {
        let decoded = decode::recv_wqe(&wqe(sges));
        assert!(decoded.problems.is_empty());
        assert_snapshot!(format!("recv_{sges}_sges"), decoded.to_string());
    }
}

#[test]
fn strides_hold_what_they_must() {
    for (sges, bytes) in [(0, 16), (1, 32), (2, 64), (3, 64), (4, 128), (7, 128), (MAX_SGE, 512)] {
        assert_eq!(1 << recv_stride_log(sges), bytes, "{sges} SGEs");
    }
}

#[test]
fn cut_short() {
    assert_snapshot!("recv_cut_short", decode::recv_wqe(&wqe(3)[..40]).to_string());
}
