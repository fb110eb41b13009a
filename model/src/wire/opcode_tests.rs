use super::*;

#[test]
fn known_opcodes_are_those_of_the_table() {
    let known: Vec<u8> = (0..=255).filter(|&op| BthOpcode(op).is_known()).collect();
    let reliable = |transport: u8| (0x00..=0x14).chain(0x16..=0x17).map(move |op| transport << 5 | op);
    let unreliable = (0x20..=0x2b).chain(0x64..=0x65);
    let expected: Vec<u8> = reliable(0).chain(unreliable).chain([0x81]).chain(reliable(5)).collect();
    assert_eq!(known, expected);
}

#[test]
fn header_lengths() {
    let cases = [
        (0x00, 12), // SEND FIRST
        (0x05, 16), // SEND ONLY WITH IMM
        (0x06, 28), // WRITE FIRST
        (0x0b, 32), // WRITE ONLY WITH IMM
        (0x0c, 28), // READ REQUEST
        (0x0e, 12), // READ RESPONSE MIDDLE
        (0x10, 16), // READ RESPONSE ONLY
        (0x11, 16), // ACKNOWLEDGE
        (0x12, 24), // ATOMIC ACKNOWLEDGE
        (0x13, 40), // COMPARE SWAP
        (0x17, 16), // SEND ONLY WITH INVALIDATE
        (0x2a, 28), // UC WRITE ONLY
        (0x64, 20), // UD SEND ONLY
        (0x65, 24), // UD SEND ONLY WITH IMM
        (0x81, 28), // CNP
        (0xa1, 16), // XRC SEND MIDDLE
        (0xab, 36), // XRC WRITE ONLY WITH IMM
        (0xac, 32), // XRC READ REQUEST
        (0xae, 12), // XRC READ RESPONSE MIDDLE
        (0xb1, 16), // XRC ACKNOWLEDGE
        (0xb4, 44), // XRC FETCH ADD
    ];
    for (opcode, bytes) in cases {
        assert_eq!(BthOpcode(opcode).header_len(), bytes, "{}", BthOpcode(opcode));
    }
}

#[test]
fn a_known_opcode_has_one_position_and_an_operation() {
    for opcode in (0..=255).map(BthOpcode) {
        let positions = [opcode.is_first(), opcode.is_middle(), opcode.is_last(), opcode.is_only()];
        let count = positions.iter().filter(|&&p| p).count();
        assert_eq!(count, usize::from(opcode.is_known()), "{opcode}");
        assert_eq!(opcode.operation().is_some(), opcode.is_known(), "{opcode}");
        assert!(opcode.is_known() || !opcode.is_response());
    }
}

#[test]
fn constructors_and_predicates_agree() {
    for (first, last) in [(true, true), (true, false), (false, true), (false, false)] {
        let position = Position::new(first, last);
        for transport in [Transport::RC, Transport::UC, Transport::XRC] {
            for immediate in [false, true] {
                let op = BthOpcode::write(transport, position, immediate);
                assert_eq!(op.operation(), Some(Operation::Write));
                assert_eq!(op.transport(), transport);
                assert_eq!((op.starts_message(), op.ends_message()), (first, last));
                assert_eq!(op.has_reth(), first);
                assert_eq!(op.has_imm(), last && immediate);
            }
        }
        for extra in [Extra::None, Extra::Immediate, Extra::Invalidate] {
            let op = BthOpcode::send(Transport::RC, position, extra);
            assert_eq!(op.operation(), Some(Operation::Send));
            assert_eq!((op.starts_message(), op.ends_message()), (first, last));
            assert_eq!(op.has_imm(), last && extra == Extra::Immediate);
            assert_eq!(op.has_ieth(), last && extra == Extra::Invalidate);
        }
        let op = BthOpcode::read_response(position);
        assert_eq!(op.operation(), Some(Operation::ReadResponse));
        assert_eq!((op.starts_message(), op.ends_message()), (first, last));
        assert_eq!(op.has_aeth(), first || last);
    }
    let ud = BthOpcode::send(Transport::UD, Position::Only, Extra::Immediate);
    assert_eq!(ud, BthOpcode(0x65));
}

#[test]
fn names() {
    assert_eq!(BthOpcode(0x0c).to_string(), "RC_READ_REQUEST");
    assert_eq!(BthOpcode(0x17).to_string(), "RC_SEND_ONLY_WITH_INV");
    assert_eq!(BthOpcode(0x64).to_string(), "UD_SEND_ONLY");
    assert_eq!(BthOpcode(0xac).to_string(), "XRC_READ_REQUEST");
    assert_eq!(BthOpcode(0x81).to_string(), "CNP");
    assert_eq!(BthOpcode(0x15).to_string(), "0x15");
    assert_eq!(BthOpcode(0x37).to_string(), "0x37");
}
