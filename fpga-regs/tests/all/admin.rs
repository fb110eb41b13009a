//! Admin commands, replies and contexts.

use fpga_regs::commands::COMMANDS;
use fpga_regs::field::Format;
use fpga_regs::{decode, *};
use insta::assert_snapshot;

/// Bytes in which every field has a value of its own.
fn filled(format: &Format) -> Vec<u8> {
    let mut bytes = vec![0; format.bytes];
    for (index, field) in format.fields.iter().enumerate() {
        let value = match field.kind {
            Kind::Enum(names) => names.values[names.values.len() - 1].value,
            Kind::Flags(_) => 0x15,
            Kind::Bool => 1,
            _ => (index + 1) as u64,
        };
        let place = value << (field.bit % 8);
        let width = field.width.div_ceil(8).min(8);
        let bytes = &mut bytes[field.byte()..field.byte() + width];
        let word = place.to_le_bytes();
        bytes.iter_mut().zip(word).for_each(|(to, from)| *to |= from);
    }
    bytes
}

fn command(opcode: AdminOpcode) -> Command {
    let mut command = Command::of(opcode).with_tag(0x21);
    let spec = opcode.spec().unwrap();
    if !spec.object.is_empty() {
        command.set_object(0x17);
    }
    if let Some(format) = spec.input {
        command = command.with_in_iova(0x7f00_0000_8000).with_in_len(format.bytes as u32);
    }
    if let Some(format) = spec.output {
        command = command.with_out_iova(0x7f00_0000_9000).with_out_len(format.bytes as u32);
    }
    match opcode {
        AdminOpcode::MODIFY_QP => command
            .with_param0((QpAttrMask::STATE | QpAttrMask::AV | QpAttrMask::DEST_QPN).bits().into())
            .with_param1(u64::from(QpState::RTR.0))
            .with_param2(0xff),
        AdminOpcode::SET_PORT => command.with_param0(PortAttrMask::GID.bits().into()),
        AdminOpcode::CREATE_MW => command.with_param0(3).with_param1(2),
        AdminOpcode::OPEN_XRCD => {
            command.with_param0(0x1234).with_param1(0x801).with_param2(XrcdFlags::CREATE.bits().into())
        }
        AdminOpcode::OPEN_QP => command.with_param0(5),
        AdminOpcode::ATTACH_MCAST | AdminOpcode::DETACH_MCAST | AdminOpcode::RESOLVE => {
            let mut gid = [0; 16];
            gid[..2].copy_from_slice(&[0xfe, 0x80]);
            gid[15] = 1;
            command.with_gid(gid)
        }
        _ => command,
    }
}

#[test]
fn every_opcode_has_a_specification() {
    let named: Vec<u64> = AdminOpcode::VALUES.iter().map(|known| known.value).collect();
    let specified: Vec<u64> = COMMANDS.iter().map(|spec| u64::from(spec.opcode.0)).collect();
    assert_eq!(named, specified);
}

#[test]
fn commands() {
    for spec in COMMANDS {
        let mut bytes = command(spec.opcode).as_bytes().to_vec();
        bytes.extend(spec.input.map(filled).unwrap_or_default());
        let name = format!("command_{}", spec.opcode).to_lowercase();
        assert_snapshot!(name, decode::command(&bytes).to_string());
    }
    let unknown = Command::of(AdminOpcode(0x99)).with_param3(1);
    let text = decode::command(unknown.as_bytes()).to_string();
    assert_snapshot!("command_unknown", text);
}

#[test]
fn replies() {
    let reply = Reply::new().with_tag(0x21).with_object(0x17).with_phase(true);
    assert_snapshot!("reply", decode::reply(reply.as_bytes()).to_string());
    let mac = [2, 0x56, 0x42, 0, 1, 1];
    assert_eq!(reply.with_mac(mac).mac(), mac);
    let failed = reply
        .with_status(AdminStatus::LIMIT)
        .with_syndrome(Syndrome::BAD_SIZE)
        .with_value0(1 << 20)
        .with_value1(7);
    assert_snapshot!("reply_failed", decode::reply(failed.as_bytes()).to_string());
    let names: Vec<String> = AdminStatus::VALUES
        .iter()
        .map(|known| {
            let reply = Reply::new().with_status(AdminStatus(known.value as u8));
            decode::reply(reply.as_bytes()).title
        })
        .collect();
    assert_snapshot!("reply_names", names.join("\n"));
}

#[test]
fn contexts() {
    for (kind, format) in decode::CONTEXTS {
        let text = decode::text(kind, &filled(format)).unwrap();
        assert_snapshot!(format!("context_{kind}"), text);
    }
}

#[test]
fn mtu_codes_are_those_of_verbs() {
    let bytes: Vec<Option<u32>> = (0..=6).map(|code| Mtu(code).bytes()).collect();
    let wanted = [256, 512, 1024, 2048, 4096].map(Some);
    assert_eq!(bytes[1..6], wanted);
    assert_eq!((bytes[0], bytes[6]), (None, None));
}
