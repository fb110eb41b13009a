//! What decoding gives, and how it is printed.

use crate::field::{Field, Format};
use crate::field_text;
use std::fmt;

/// One field, or one reserved byte that is not zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Byte in the entry.
    pub byte: usize,
    /// Bit in that byte, where the field is not made of whole bytes.
    pub bit: Option<usize>,
    /// The field's bytes in the order of memory, or its bits as one number.
    pub hex: String,
    /// Name of the field.
    pub name: String,
    /// Its value.
    pub text: String,
}

/// A segment of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// What it is.
    pub name: String,
    /// Its first byte in the entry.
    pub byte: usize,
    /// Its fields.
    pub lines: Vec<Line>,
}

/// A decoded entry; print it with `Display`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// What it is, in one line.
    pub title: String,
    /// Its segments.
    pub sections: Vec<Section>,
    /// What is wrong with it.
    pub problems: Vec<String>,
    /// Bytes are missing, or there are more than it has.
    pub wrong_length: bool,
}

impl Decoded {
    /// Every line of every section.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        self.sections.iter().flat_map(|section| &section.lines)
    }

    /// Adds the segment `format` at byte `at`; false if the bytes end first.
    pub(super) fn segment(
        &mut self,
        name: &str,
        format: &Format,
        fields: &[Field],
        bytes: &[u8],
        at: usize,
    ) -> bool {
        let rest = bytes.get(at..).unwrap_or_default();
        let lines = field_lines(format.bytes, fields, rest, at);
        if rest.len() < format.bytes {
            self.missing(name, format.bytes, rest.len());
        }
        if !lines.is_empty() {
            self.sections.push(Section { name: name.to_string(), byte: at, lines });
        }
        rest.len() >= format.bytes
    }

    /// Says that not all bytes are there.
    pub(super) fn missing(&mut self, name: &str, bytes: usize, there: usize) {
        self.problems.push(format!("{name} has {bytes} bytes, only {there} are there"));
        self.wrong_length = true;
    }

    /// Adds what comes after the last byte, if anything does.
    pub(super) fn beyond(&mut self, bytes: &[u8], end: usize) {
        if let Some(rest) = bytes.get(end..).filter(|rest| !rest.is_empty()) {
            self.raw("beyond the end", rest, end);
            self.wrong_length = true;
        }
    }

    /// Adds bytes without fields, 16 a line.
    pub(super) fn raw(&mut self, name: &str, bytes: &[u8], at: usize) {
        let line = |(row, bytes): (usize, &[u8])| Line {
            byte: at + row * 16,
            bit: None,
            hex: field_text::hex(bytes),
            name: name.to_string(),
            text: printable(bytes),
        };
        self.sections.push(Section {
            name: name.to_string(),
            byte: at,
            lines: bytes.chunks(16).enumerate().map(line).collect(),
        });
    }
}

/// The fields inside `bytes`, in order, and reserved bytes that are not
/// zero.
fn field_lines(size: usize, fields: &[Field], bytes: &[u8], at: usize) -> Vec<Line> {
    let bytes = &bytes[..bytes.len().min(size)];
    let mut reserved = bytes.to_vec();
    let mut lines = Vec::new();
    for field in fields {
        for bit in field.bit..field.bit + field.width {
            if let Some(byte) = reserved.get_mut(bit / 8) {
                *byte &= !(1 << (bit % 8));
            }
        }
        if field.bit + field.width > bytes.len() * 8 {
            continue;
        }
        lines.push(Line {
            byte: at + field.byte(),
            bit: (!field.is_bytes()).then_some(field.bit % 8),
            hex: if field.is_bytes() {
                field_text::hex(&bytes[field.byte()..(field.bit + field.width) / 8])
            } else {
                format!("{:x}", field.value(bytes).unwrap_or(0))
            },
            name: field.name.to_string(),
            text: field.text(bytes),
        });
    }
    let set = reserved.iter().enumerate().filter(|(_, bits)| **bits != 0);
    lines.extend(set.map(|(byte, bits)| Line {
        byte: at + byte,
        bit: None,
        hex: format!("{bits:02x}"),
        name: "reserved".to_string(),
        text: "must be zero".to_string(),
    }));
    lines.sort_by_key(|line| (line.byte, line.bit));
    lines
}

/// Bytes as characters; a dot for what cannot be printed.
fn printable(bytes: &[u8]) -> String {
    let show = |byte: &u8| match byte {
        0x20..=0x7e => char::from(*byte),
        _ => '.',
    };
    bytes.iter().map(show).collect()
}

impl fmt::Display for Decoded {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}", self.title)?;
        for section in &self.sections {
            writeln!(out, "{}", section.name)?;
            let lines = &section.lines;
            let hex = lines.iter().map(|line| line.hex.len()).max().unwrap_or(0);
            let name = lines.iter().map(|line| line.name.len()).max().unwrap_or(0);
            for line in lines {
                let at = match line.bit {
                    Some(bit) => format!("{:03x}.{bit}", line.byte),
                    None => format!("{:03x}", line.byte),
                };
                let row = format!("  {at:5}  {:hex$}  {:name$}  {}", line.hex, line.name, line.text);
                writeln!(out, "{}", row.trim_end())?;
            }
        }
        for problem in &self.problems {
            writeln!(out, "! {problem}")?;
        }
        Ok(())
    }
}
