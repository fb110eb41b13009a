//! The SystemVerilog package.

use super::text::{about, line, meaning, pieces, snake, upper, Piece, NOTICE};
use crate::catalog::{self, Block};
use crate::field::{Field, Format, Kind, Names};
use std::fmt::Write;

/// `verbena_pkg.sv`.
pub fn package() -> String {
    let mut text = format!("// {}\n// {}\n", NOTICE[0], NOTICE[1]);
    // A package is used in part; some fields are called as C++ calls other things.
    text.push_str("\n/* verilator lint_off UNUSEDPARAM */\n/* verilator lint_off SYMRSVDWORD */\n\npackage verbena_pkg;\n");
    title(&mut text, "Constants");
    for constant in catalog::constants() {
        parameter(&mut text, constant.name, 32, constant.value, constant.doc);
    }
    for block in catalog::BLOCKS {
        registers(&mut text, &block);
    }
    title(&mut text, "Values");
    for (names, set) in catalog::names() {
        values(&mut text, names, set);
    }
    title(&mut text, "Registers and doorbells with fields");
    catalog::words().for_each(|word| structure(&mut text, word));
    title(&mut text, "Queue entries, commands and contexts in memory");
    catalog::formats().for_each(|format| structure(&mut text, format));
    text.push_str("endpackage\n\n/* verilator lint_on SYMRSVDWORD */\n/* verilator lint_on UNUSEDPARAM */\n");
    text
}

/// A member's name: that of the field, unless the language took it.
pub fn member(field: &Field) -> String {
    match field.name {
        "module" => "module_".to_string(),
        name => name.to_string(),
    }
}

/// Name of a format's struct.
pub fn type_name(format: &Format) -> String {
    format!("{}_t", snake(format.name))
}

/// The enum type of a member, where an enum has as many bits as the field.
fn enum_name(field: &Field) -> Option<String> {
    match field.kind {
        Kind::Enum(names) if names.bits == field.width => Some(format!("{}_e", snake(names.name))),
        _ => None,
    }
}

fn title(text: &mut String, title: &str) {
    let _ = writeln!(text, "\n  // ---- {title} ----\n");
}

fn parameter(text: &mut String, name: &str, bits: usize, value: u64, doc: &str) {
    let _ = writeln!(text, "  // {}", line(doc));
    let _ = writeln!(text, "  localparam logic [{}:0] {name} = {bits}'h{value:x};", bits - 1);
}

fn registers(text: &mut String, block: &Block) {
    let name = block.name.to_uppercase();
    title(text, &format!("Registers: {}", block.name));
    if block.count > 1 {
        parameter(text, &format!("{name}_FIRST"), 32, block.base.into(), "Offset of the first one.");
        parameter(text, &format!("{name}_STRIDE"), 32, block.stride.into(), "Bytes from one to the next.");
        parameter(text, &format!("{name}_COUNT"), 32, block.count.into(), "How many there are.");
    }
    for register in block.registers {
        let doc = about(register);
        let name = format!("{name}_REG_{}", register.name);
        parameter(text, &name, 32, register.offset.into(), &doc);
        if let Some(reset) = register.reset {
            let bits = register.bytes as usize * 8;
            let _ = writeln!(text, "  localparam logic [{}:0] {name}_RESET = {bits}'h{reset:x};", bits - 1);
        }
    }
}

/// An enum type, or the masks of a set.
fn values(text: &mut String, names: &Names, set: bool) {
    let (owner, bits) = (upper(names.name), names.bits);
    let _ = writeln!(text, "  // {}", line(names.doc));
    if set {
        for known in names.values {
            parameter(text, &format!("{owner}_{}", known.name), bits, known.value, known.doc);
        }
        text.push('\n');
        return;
    }
    let _ = writeln!(text, "  typedef enum logic [{}:0] {{", bits - 1);
    for (index, known) in names.values.iter().enumerate() {
        let comma = if index + 1 == names.values.len() { "" } else { "," };
        let (value, doc) = (known.value, line(known.doc));
        let _ = writeln!(text, "    {owner}_{} = {bits}'h{value:x}{comma} // {doc}", known.name);
    }
    let _ = writeln!(text, "  }} {}_e;\n", snake(names.name));
}

/// A packed struct, the highest bit first, and the place of each field.
fn structure(text: &mut String, format: &Format) {
    let _ = writeln!(text, "  // {}", line(format.doc));
    text.push_str("  typedef struct packed {\n");
    for piece in pieces(format).iter().rev() {
        let _ = match piece {
            Piece::Reserved(bit, width) => {
                writeln!(text, "    logic [{}:0] reserved_{bit};", width - 1)
            }
            Piece::Field(field) => {
                let kind = match (enum_name(field), field.width) {
                    (Some(name), _) => name,
                    (None, 1) => "logic".to_string(),
                    (None, width) => format!("logic [{}:0]", width - 1),
                };
                writeln!(text, "    {kind} {}; // {}", member(field), meaning(field))
            }
        };
    }
    let (kind, owner) = (type_name(format), upper(format.name));
    let _ = writeln!(text, "  }} {kind};");
    let _ = writeln!(text, "  localparam int unsigned {owner}_BITS = {};", format.bytes * 8);
    for field in format.fields {
        let name = field.name.to_uppercase();
        let _ = writeln!(text, "  localparam int unsigned {owner}_{name}_LSB = {};", field.bit);
        let _ = writeln!(text, "  localparam int unsigned {owner}_{name}_WIDTH = {};", field.width);
    }
    text.push('\n');
}
