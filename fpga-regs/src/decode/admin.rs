//! Admin commands and replies.

use super::lines::Decoded;
use super::queue::whole;
use crate::admin::*;
use crate::field::Field;

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
        Some(spec) => named(spec.params),
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

/// A reply, without knowing to which command.
pub fn reply(bytes: &[u8]) -> Decoded {
    let title = match Reply::from_slice(bytes) {
        Some(reply) => format!("reply: {}", reply.status()),
        None => "reply, cut short".to_string(),
    };
    whole(title, &Reply::FORMAT, bytes)
}

/// The fields of a command with its opcode's names for the general ones.
fn named(own: &[Field]) -> Vec<Field> {
    let covered = |field: &Field| own.iter().any(|own| overlap(field, own));
    let rest = Command::FIELDS.iter().filter(|field| !(field.name.starts_with("param") && covered(field)));
    rest.chain(own).copied().collect()
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
