//! Admin commands and replies.

use super::lines::Decoded;
use super::queue::context;
use crate::admin::*;
use crate::commands::CommandSpec;
use crate::field::{Field, Format};

/// A command; bytes after it are taken for the context that it reads.
pub fn command(bytes: &[u8]) -> Decoded {
    let mut decoded = Decoded::default();
    let Some(command) = Command::from_slice(bytes) else {
        decoded.title = "command, cut short".to_string();
        decoded.segment("Command", &Command::FORMAT, Command::FIELDS, bytes, 0);
        return decoded;
    };
    let spec = command.opcode().spec();
    decoded.title = format!("command: {}", command.opcode());
    let fields = match spec {
        Some(spec) => named(Command::FIELDS, "param", spec.params),
        None => Command::FIELDS.to_vec(),
    };
    decoded.segment("Command", &Command::FORMAT, &fields, bytes, 0);
    name_object(&mut decoded, spec.map_or("", |spec| spec.object));
    let rest = &bytes[Command::BYTES..];
    match spec.and_then(|spec| spec.input) {
        Some(format) if !rest.is_empty() => {
            decoded.segment(format.name, format, format.fields, bytes, Command::BYTES);
            let end = Command::BYTES + format.bytes;
            super::recv::padding(&mut decoded, bytes, end);
        }
        _ => decoded.beyond(bytes, Command::BYTES),
    }
    decoded
}

/// The context that a command reads (`input`) or writes; `None` where it has
/// none.
pub fn mailbox(opcode: AdminOpcode, input: bool, bytes: &[u8]) -> Option<Decoded> {
    let spec = opcode.spec()?;
    let format: &Format = if input { spec.input } else { spec.output }?;
    Some(context(format, bytes))
}

/// A reply, without knowing to which command.
pub fn reply(bytes: &[u8]) -> Decoded {
    decode_reply(None, bytes)
}

/// The reply to a command of this opcode.
pub fn reply_to(opcode: AdminOpcode, bytes: &[u8]) -> Decoded {
    decode_reply(opcode.spec(), bytes)
}

fn decode_reply(spec: Option<&CommandSpec>, bytes: &[u8]) -> Decoded {
    let mut decoded = Decoded { title: "reply".to_string(), ..Decoded::default() };
    let mut fields = Reply::FIELDS.to_vec();
    if let Some(spec) = spec {
        decoded.title = format!("reply to {}", spec.opcode);
        fields = named(Reply::FIELDS, "value", spec.values);
    }
    match Reply::from_slice(bytes) {
        Some(reply) => decoded.title += &format!(": {}", reply.status()),
        None => decoded.title += ", cut short",
    }
    decoded.segment("Reply", &Reply::FORMAT, &fields, bytes, 0);
    name_object(&mut decoded, spec.map_or("", |spec| spec.result));
    decoded.beyond(bytes, Reply::BYTES);
    decoded
}

/// The fields of an entry with this command's names for the general ones.
fn named(fields: &[Field], general: &str, own: &[Field]) -> Vec<Field> {
    let covered = |field: &Field| own.iter().any(|own| overlap(field, own));
    fields
        .iter()
        .filter(|field| !(field.name.starts_with(general) && covered(field)))
        .chain(own)
        .copied()
        .collect()
}

fn overlap(a: &Field, b: &Field) -> bool {
    a.bit < b.bit + b.width && b.bit < a.bit + a.width
}

/// Says what the object's number is the number of.
fn name_object(decoded: &mut Decoded, object: &str) {
    let lines = decoded.sections.iter_mut().flat_map(|each| &mut each.lines);
    if let Some(line) = lines.into_iter().find(|line| line.name == "object") {
        if !object.is_empty() {
            line.text.push_str(&format!(", {object}"));
        }
    }
}
