//! Hexadecimal text, as given on a command line or in a file.

use fpga_regs::decode::{parse_hex, text, HexError};

#[test]
fn what_is_accepted() {
    for given in
        ["01 02 ab", "0102AB", "0x01,0x02,0xab", "01:02:ab", "0102_ab\n", "# a WQE\n01 02 # start\nab"]
    {
        assert_eq!(parse_hex(given), Ok(vec![1, 2, 0xab]), "{given:?}");
    }
}

#[test]
fn what_is_refused() {
    assert_eq!(parse_hex("01\n0g"), Err(HexError::Character('g', 2)));
    assert_eq!(parse_hex("123"), Err(HexError::HalfByte(1)));
    assert_eq!(parse_hex(" # nothing"), Err(HexError::Empty));
    let error = parse_hex("zz").unwrap_err().to_string();
    assert_eq!(error, "line 1: 'z' is not a hexadecimal digit");
}

#[test]
fn an_unknown_kind_names_the_known_ones() {
    let error = text("wqx", &[]).unwrap_err().to_string();
    assert_eq!(
        error,
        "nothing of kind \"wqx\" can be decoded; known: wqe, recv, cqe, eqe, cmd, reply, \
         qp, cq, srq, eq, mr, mw, port, flow, table, lag, ethernet, limits"
    );
}
