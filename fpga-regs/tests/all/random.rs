//! Any bytes give text; what was built comes back when taken apart.

use fpga_regs::{decode, regs, *};
use proptest::collection::vec;
use proptest::prelude::*;

fn printable(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c == '\n' || !c.is_control())
}

fn kinds() -> impl Iterator<Item = &'static str> {
    let contexts = decode::CONTEXTS.iter().map(|(kind, _)| *kind);
    decode::KINDS.iter().copied().chain(contexts)
}

fn part<const N: usize>() -> impl Strategy<Value = [u8; N]> {
    vec(any::<u8>(), N).prop_map(|bytes| *bytes.first_chunk().unwrap())
}

prop_compose! {
    /// The parts of any WQE that can be built.
    fn wqe()(
        opcode in 0u8..13,
        flags in 0u8..128,
        index in any::<u16>(),
        imm in any::<u32>(),
        address in proptest::option::of(part::<48>()),
        extended: bool,
        (remote, atomic, bind, tso) in (part::<16>(), part::<16>(), part::<32>(), part::<144>()),
        sges in vec((any::<u64>(), 0u32..1 << 26, any::<u32>()), 0..=MAX_SGE),
        inline in proptest::option::of(vec(any::<u8>(), 0..=MAX_INLINE)),
    ) -> WqeBuilder {
        let opcode = WqeOpcode(opcode);
        let mut wqe = WqeBuilder::new(opcode)
            .ctrl(|ctrl| ctrl.with_flags(flags & !WqeCtrl::INLINE).with_index(index).with_imm(imm));
        let takes = |segment| opcode.segments(Service::Datagram).contains(&segment);
        if let (true, Some(address)) = (takes(Segment::Address), address) {
            wqe.address = Some(WqeAddress::from_bytes(&address));
        }
        let on_xrc = opcode.segments(Service::Extended) != opcode.segments(Service::Connected);
        if extended && on_xrc && wqe.address.is_none() {
            wqe.extended = true;
            wqe.remote = WqeRemote::from_bytes(&remote);
        }
        if takes(Segment::Remote) {
            wqe.remote = WqeRemote::from_bytes(&remote);
        }
        if takes(Segment::Bind) {
            wqe.bind = WqeBind::from_bytes(&bind);
        }
        if takes(Segment::Tso) {
            wqe.tso = WqeTso::from_bytes(&tso);
        }
        if takes(Segment::Atomic) {
            wqe.atomic = WqeAtomic::from_bytes(&atomic);
            return wqe.sge(imm.into(), 8, imm);
        }
        match inline {
            Some(data) if opcode.allows_inline() => wqe.inline = Some(data),
            _ if opcode.has_data() => {
                for (addr, length, lkey) in sges {
                    wqe = wqe.sge(addr, length, lkey);
                }
            }
            _ => {}
        }
        wqe
    }
}

proptest! {
    #[test]
    fn built_then_taken_apart(wqe in wqe()) {
        let bytes = wqe.build().unwrap();
        prop_assert_eq!(bytes.len() % WQE_BLOCK, 0);
        prop_assert!(bytes.len() <= MAX_WQE_BLOCKS * WQE_BLOCK);
        let mut parts = WqeBuilder::parse(&bytes).unwrap();
        prop_assert_eq!(parts.ctrl.blocks() as usize * WQE_BLOCK, bytes.len());
        let length = match &wqe.inline {
            Some(data) => data.len() as u64,
            None => wqe.sges.iter().map(|sge| u64::from(sge.length())).sum(),
        };
        prop_assert_eq!(u64::from(parts.ctrl.length()), length);
        prop_assert_eq!(decode::wqe(&bytes).problems, Vec::<String>::new());
        // What `build` fills in is not among the parts that were given.
        parts.ctrl = parts
            .ctrl
            .with_ds(0)
            .with_num_sge(0)
            .with_length(0)
            .with_inline(false);
        prop_assert_eq!(parts, wqe);
    }

    #[test]
    fn any_64_bytes_give_text(bytes in vec(any::<u8>(), 64)) {
        for kind in kinds() {
            prop_assert!(printable(&decode::text(kind, &bytes).unwrap()), "{}", kind);
        }
    }

    #[test]
    fn any_length_gives_text(bytes in vec(any::<u8>(), 0..700)) {
        for kind in kinds() {
            prop_assert!(printable(&decode::text(kind, &bytes).unwrap()), "{}", kind);
        }
        let _ = WqeBuilder::parse(&bytes);
    }

    /// Known opcodes reach every branch.
    #[test]
    fn any_bytes_of_a_known_opcode_give_text(opcode in 0u8..13, bytes in vec(any::<u8>(), 1..700)) {
        let mut bytes = bytes;
        bytes[0] = opcode;
        prop_assert!(printable(&decode::wqe(&bytes).to_string()));
        let _ = WqeBuilder::parse(&bytes);
    }

    #[test]
    fn any_register_gives_text(offset in any::<u32>(), near in 0u32..regs::BAR0_BYTES, value: u64) {
        prop_assert!(printable(&regs::describe(offset, value)));
        prop_assert!(printable(&regs::describe(near, value)));
    }

    #[test]
    fn hex_comes_back(bytes in vec(any::<u8>(), 1..100)) {
        let text: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        prop_assert_eq!(decode::parse_hex(&text.join(" ")), Ok(bytes));
    }
}
