//! Tables of fields and names in Markdown.

use fpga_regs::field::{Field, Format, Kind, Names};
use std::fmt::Write;

/// A doc comment as one line, without the links of rustdoc.
pub fn line(doc: &str) -> String {
    let words: Vec<&str> = doc.split_whitespace().collect();
    words.join(" ").replace("[`", "`").replace("`]", "`").replace("Self::", "").replace('|', "\\|")
}

fn kind(field: &Field) -> String {
    match field.kind {
        Kind::Bool => "flag".to_string(),
        Kind::Uint => format!("u{}", field.width),
        Kind::Mac => "MAC".to_string(),
        Kind::Gid => "GID".to_string(),
        Kind::Enum(names) | Kind::Flags(names) => {
            let anchor = names.name.to_lowercase();
            format!("[{}](#{anchor})", names.name)
        }
    }
}

/// The place of a field in memory: bytes, or a byte and bits.
fn place(field: &Field) -> String {
    let byte = field.byte();
    let last = (field.bit + field.width - 1) / 8;
    match (field.is_bytes(), field.width) {
        (true, 8) => format!("{byte}"),
        (true, _) => format!("{byte}..{last}"),
        (false, 1) => format!("{byte}.{}", field.bit % 8),
        (false, _) => format!("{byte}, bits {}..{}", field.bit % 8, field.bit % 8 + field.width - 1),
    }
}

/// The bits of a field in its register.
fn bits(field: &Field) -> String {
    match field.width {
        1 => format!("{}", field.bit),
        _ => format!("{}..{}", field.bit, field.bit + field.width - 1),
    }
}

/// Fields by byte.
pub fn fields(page: &mut String, fields: &[Field]) {
    page.push_str("| byte | field | type | meaning |\n|---|---|---|---|\n");
    for field in fields {
        let (place, kind, doc) = (place(field), kind(field), line(field.doc));
        let _ = writeln!(page, "| {place} | `{}` | {kind} | {doc} |", field.name);
    }
    page.push('\n');
}

/// Fields by bit.
pub fn register_fields(page: &mut String, format: &Format) {
    page.push_str("| bits | field | type | meaning |\n|---|---|---|---|\n");
    for field in format.fields {
        let (bits, kind, doc) = (bits(field), kind(field), line(field.doc));
        let _ = writeln!(page, "| {bits} | `{}` | {kind} | {doc} |", field.name);
    }
    page.push('\n');
}

/// A format under a heading.
pub fn format(page: &mut String, format: &Format) {
    let (name, doc, bytes) = (format.name, line(format.doc), format.bytes);
    let _ = writeln!(page, "### {name}\n\n{doc} {bytes} bytes.\n");
    fields(page, format.fields);
}

/// Formats under an opening.
pub fn section(text: &mut String, opening: &str, formats: &[&Format]) {
    text.push_str(opening);
    for each in formats {
        format(text, each);
    }
}

/// The page with one line end after its last line.
pub fn end(mut text: String) -> String {
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// The names of an enum, or of the bits of a set, under a heading.
pub fn names(page: &mut String, names: &Names, bits: bool) {
    let what = if bits { "bit" } else { "value" };
    let _ = writeln!(page, "### {}\n\n{}\n", names.name, line(names.doc));
    let _ = writeln!(page, "| {what} | name | meaning |\n|---|---|---|");
    for known in names.values {
        let number = if bits {
            known.value.trailing_zeros().to_string()
        } else if known.value < 10 {
            known.value.to_string()
        } else {
            format!("{} ({:#x})", known.value, known.value)
        };
        let _ = writeln!(page, "| {number} | {} | {} |", known.name, line(known.doc));
    }
    page.push('\n');
}

/// Every enum and set that these formats use, once, in the order of use.
pub fn all_names(page: &mut String, formats: &[&Format], skip: &[&str]) {
    let mut seen: Vec<&str> = skip.to_vec();
    for field in formats.iter().flat_map(|format| format.fields) {
        let (used, bits) = match field.kind {
            Kind::Enum(used) => (used, false),
            Kind::Flags(used) => (used, true),
            _ => continue,
        };
        if !seen.contains(&used.name) {
            seen.push(used.name);
            names(page, used, bits);
        }
    }
}
