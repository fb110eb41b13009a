//! Names and comments as the exports write them.

use crate::field::{Field, Format, Kind};
use crate::regs::Register;

/// The first lines of every generated file, without comment signs.
pub const NOTICE: [&str; 2] = [
    "Generated from the crate `fpga-regs` of Verbena by `verbena export`; do not edit.",
    "All numbers are little endian: bit 0 is the lowest bit of byte 0.",
];

/// `WqeCtrl` as `wqe_ctrl`.
pub fn snake(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

/// `WqeCtrl` as `WQE_CTRL`.
pub fn upper(name: &str) -> String {
    snake(name).to_uppercase()
}

/// A doc comment as one line, without the links of rustdoc.
pub fn line(doc: &str) -> String {
    let words: Vec<&str> = doc.split_whitespace().collect();
    words.join(" ").replace("[`", "`").replace("`]", "`").replace("Self::", "")
}

/// What a register is, on one line.
pub fn about(register: &Register) -> String {
    let count = match register.count {
        1 => String::new(),
        count => format!(", {count} of them"),
    };
    format!("{} ({}, {} bytes{count})", line(register.doc), register.mode.name(), register.bytes)
}

/// A piece of a format, in the order of bits.
pub enum Piece<'a> {
    /// A field.
    Field(&'a Field),
    /// Reserved bits: the first, and how many.
    Reserved(usize, usize),
}

/// The fields of a format and the reserved bits between them, from bit 0 on.
pub fn pieces(format: &Format) -> Vec<Piece<'_>> {
    let mut fields: Vec<&Field> = format.fields.iter().collect();
    fields.sort_by_key(|field| field.bit);
    let mut all = Vec::new();
    let mut at = 0;
    for field in fields {
        if field.bit > at {
            all.push(Piece::Reserved(at, field.bit - at));
        }
        all.push(Piece::Field(field));
        at = field.bit + field.width;
    }
    if at < format.bytes * 8 {
        all.push(Piece::Reserved(at, format.bytes * 8 - at));
    }
    all
}

/// What a comment says of a field: its meaning, and where its values are named.
pub fn meaning(field: &Field) -> String {
    let doc = line(field.doc);
    match field.kind {
        Kind::Enum(names) | Kind::Flags(names) => format!("{doc} Values: {}.", names.name),
        Kind::Mac | Kind::Gid => format!("{doc} The first byte of the wire is the lowest."),
        Kind::Bool | Kind::Uint => doc,
    }
}
