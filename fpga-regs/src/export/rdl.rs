//! The registers in SystemRDL 2.0.

use super::text::{line, snake, NOTICE};
use crate::catalog::{self, Block};
use crate::field::{Field, Kind, Names};
use crate::regs::{Mode, Register};
use std::fmt::Write;

/// `verbena.rdl`.
pub fn map() -> String {
    let mut text = format!("// {}\n// {}\n\n", NOTICE[0], NOTICE[1]);
    for names in enums() {
        enumeration(&mut text, names);
    }
    text.push_str("addrmap verbena {\n");
    property(&mut text, 1, "name", "Verbena BAR0");
    property(&mut text, 1, "desc", "The registers of a function of the card.");
    text.push_str("    littleendian;\n    lsb0;\n\n");
    registers(&mut text, 1, catalog::GLOBAL.registers);
    open(&mut text, 1, &catalog::PORT);
    registers(&mut text, 2, catalog::PORT.registers);
    open(&mut text, 2, &catalog::GID);
    registers(&mut text, 3, catalog::GID.registers);
    close(&mut text, 2, &catalog::GID);
    close(&mut text, 1, &catalog::PORT);
    open(&mut text, 1, &catalog::PAGE);
    registers(&mut text, 2, catalog::PAGE.registers);
    close(&mut text, 1, &catalog::PAGE);
    text.push_str("};\n");
    text
}

/// The enums of register fields.
fn enums() -> Vec<&'static Names> {
    let mut all: Vec<&Names> = Vec::new();
    for field in catalog::words().flat_map(|word| word.fields) {
        if let Kind::Enum(names) = field.kind {
            if !all.contains(&names) {
                all.push(names);
            }
        }
    }
    all
}

fn quoted(text: &str) -> String {
    line(text).replace('\\', "\\\\").replace('"', "\\\"")
}

fn property(text: &mut String, depth: usize, name: &str, value: &str) {
    let _ = writeln!(text, "{:1$}{name} = \"{2}\";", "", depth * 4, quoted(value));
}

fn enumeration(text: &mut String, names: &Names) {
    let _ = writeln!(text, "// {}\nenum {}_e {{", line(names.doc), snake(names.name));
    for known in names.values {
        let (value, doc) = (known.value, quoted(known.doc));
        let _ = writeln!(text, "    {} = {value:#x} {{ desc = \"{doc}\"; }};", known.name);
    }
    text.push_str("};\n\n");
}

fn open(text: &mut String, depth: usize, block: &Block) {
    let _ = writeln!(text, "{:1$}regfile {{", "", depth * 4);
    property(text, depth + 1, "name", block.name);
    text.push('\n');
}

fn close(text: &mut String, depth: usize, block: &Block) {
    let Block { name, base, stride, count, .. } = block;
    let _ = writeln!(text, "{:1$}}} {name}[{count}] @ {base:#x} += {stride:#x};\n", "", depth * 4);
}

fn registers(text: &mut String, depth: usize, registers: &[Register]) {
    for register in registers {
        one(text, depth, register);
    }
}

fn one(text: &mut String, depth: usize, register: &Register) {
    let indent = " ".repeat(depth * 4);
    let bits = register.bytes as usize * 8;
    let _ = writeln!(text, "{indent}reg {{");
    property(text, depth + 1, "desc", register.doc);
    let _ = writeln!(text, "{indent}    regwidth = {bits};\n{indent}    accesswidth = {bits};");
    for access in access(register) {
        let _ = writeln!(text, "{indent}    default {access};");
    }
    for (name, field) in fields(register) {
        bits_of(text, depth + 1, &name, &field, register);
    }
    let (name, offset) = (register.name, register.offset);
    let _ = match register.count {
        1 => writeln!(text, "{indent}}} {name} @ {offset:#x};\n"),
        count => writeln!(text, "{indent}}} {name}[{count}] @ {offset:#x} += {:#x};\n", register.bytes),
    };
}

/// The access properties of software and hardware.
fn access(register: &Register) -> &'static [&'static str] {
    match register.mode {
        // State and counters begin with zero: what a reset sets to another number is a constant.
        Mode::RO if register.reset.is_some_and(|reset| reset != 0) => &["sw = r", "hw = na"],
        Mode::RO => &["sw = r", "hw = w"],
        // Hardware that may write has a new value in every clock, and what software wrote is gone.
        Mode::RW => &["sw = rw", "hw = r"],
        Mode::WO => &["sw = w", "hw = r"],
        // A write to other bits in the same clock is not to lose what hardware sets.
        Mode::W1C => &["sw = rw", "onwrite = woclr", "hw = r", "hwset", "hwclr", "precedence = hw"],
    }
}

/// The fields and their names; one field where the register is one number.
fn fields(register: &Register) -> Vec<(String, Field)> {
    let bits = register.bytes as usize * 8;
    let part = |bit, width| Field { name: "VALUE", doc: register.doc, bit, width, kind: Kind::Uint };
    match (register.fields(), register.mode) {
        // `hwset` sets all of a field, and hardware sets one bit.
        ([], Mode::W1C) => (0..bits).map(|bit| (format!("VALUE{bit}"), part(bit, 1))).collect(),
        ([], _) => vec![("VALUE".to_string(), part(0, bits))],
        (fields, _) => fields.iter().map(|field| (field.name.to_string(), *field)).collect(),
    }
}

fn bits_of(text: &mut String, depth: usize, name: &str, field: &Field, register: &Register) {
    let mut properties = format!("desc = \"{}\";", quoted(field.doc));
    if let Kind::Enum(names) = field.kind {
        let _ = write!(properties, " encode = {}_e;", snake(names.name));
    }
    // Software starts a reset, and hardware says that it is over.
    if (register.name, name) == ("CONTROL", "reset") {
        properties.push_str(" onwrite = woset; hwclr; precedence = hw;");
    }
    let reset = match register.reset {
        Some(reset) => {
            let value = reset >> field.bit & (u64::MAX >> (64 - field.width));
            format!(" = {}'h{value:x}", field.width)
        }
        None => String::new(),
    };
    let (high, low) = (field.bit + field.width - 1, field.bit);
    // The backslash keeps a name apart from the words of the language.
    let _ = writeln!(text, "{:1$}field {{ {properties} }} \\{name} [{high}:{low}]{reset};", "", depth * 4);
}
