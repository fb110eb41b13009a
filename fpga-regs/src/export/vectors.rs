//! Golden entries as files: hex for `$readmemh`, and their fields as JSON.

use super::samples::{samples, Entry, Sample};
use super::text::line;
use super::File;
use crate::catalog;
use crate::field::{Field, Format, Kind};
use serde::{Serialize, Serializer};
use std::fmt::Write;

/// A sample and the word of its file where it starts.
pub struct Placed {
    /// The sample.
    pub sample: Sample,
    /// Its first word.
    pub word: usize,
}

/// The samples of a kind, one after the other.
pub fn placed(entry: Entry) -> Vec<Placed> {
    let mut word = 0;
    let own = samples().into_iter().filter(|sample| sample.entry == entry);
    own.map(|sample| {
        let place = Placed { word, sample };
        word += place.words();
        place
    })
    .collect()
}

impl Placed {
    /// How many words it takes.
    pub fn words(&self) -> usize {
        self.sample.bytes.len().div_ceil(self.sample.entry.word())
    }
}

/// `vectors/<entry>.hex` and `vectors/<entry>.json`.
pub fn files() -> Vec<File> {
    let both = |entry: Entry| {
        let placed = placed(entry);
        let path = |end| format!("vectors/{}.{end}", entry.name());
        [
            File { path: path("hex"), text: hex(entry, &placed) },
            File { path: path("json"), text: json(entry, &placed) },
        ]
    };
    Entry::ALL.into_iter().flat_map(both).collect()
}

/// One word a line, its last byte first, as `$readmemh` reads numbers.
fn hex(entry: Entry, placed: &[Placed]) -> String {
    let bits = entry.word() * 8;
    let mut text = format!("// {}\n// Words of {bits} bits.\n", super::text::NOTICE[0]);
    for Placed { word, sample } in placed {
        let _ = writeln!(text, "// {} @ {word}: {}", sample.name, sample.title);
        for bytes in sample.bytes.chunks(entry.word()) {
            let padding = entry.word() - bytes.len();
            text.push_str(&"00".repeat(padding));
            bytes.iter().rev().for_each(|byte| {
                let _ = write!(text, "{byte:02x}");
            });
            text.push('\n');
        }
    }
    text
}

/// A map that keeps its order.
struct Ordered<K, V>(Vec<(K, V)>);

impl<K: Serialize, V: Serialize> Serialize for Ordered<K, V> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// A format in JSON.
#[derive(Serialize)]
struct FormatText {
    bytes: usize,
    fields: Ordered<&'static str, FieldText>,
}

/// A field's place and meaning in JSON.
#[derive(Serialize)]
struct FieldText {
    bit: usize,
    width: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<&'static str>,
    doc: String,
}

/// A golden entry in JSON.
#[derive(Serialize)]
struct Vector<'a> {
    name: &'a str,
    title: &'a str,
    word: usize,
    words: usize,
    /// In the order of memory.
    hex: String,
    parts: Vec<PartText>,
}

/// The fields of a part, as numbers with `0x`.
#[derive(Serialize)]
struct PartText {
    format: &'static str,
    byte: usize,
    fields: Ordered<&'static str, String>,
}

fn json(entry: Entry, placed: &[Placed]) -> String {
    let formats = catalog::formats().filter(|format| {
        let mut parts = placed.iter().flat_map(|each| &each.sample.parts);
        parts.any(|part| part.format.name == format.name)
    });
    let mut text = format!("{{\n\"notice\": {},\n", quoted(super::text::NOTICE[0]));
    let _ = writeln!(text, "\"entry\": {},\n\"word_bits\": {},", quoted(entry.name()), entry.word() * 8);
    list(
        &mut text,
        "formats",
        '{',
        '}',
        formats.map(|each| format!("{}: {}", quoted(each.name), format(each))),
    );
    text.push_str(",\n");
    list(&mut text, "vectors", '[', ']', placed.iter().map(vector));
    text.push_str("\n}\n");
    text
}

/// `"name": [` and the items, one a line.
fn list(text: &mut String, name: &str, open: char, close: char, items: impl Iterator<Item = String>) {
    let items: Vec<String> = items.collect();
    let _ = write!(text, "\"{name}\": {open}\n{}\n{close}", items.join(",\n"));
}

fn quoted(text: &str) -> String {
    to_json(&text)
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("text and numbers have a JSON form")
}

fn format(format: &Format) -> String {
    let field = |field: &Field| {
        let values = match field.kind {
            Kind::Enum(names) | Kind::Flags(names) => Some(names.name),
            _ => None,
        };
        (field.name, FieldText { bit: field.bit, width: field.width, values, doc: line(field.doc) })
    };
    let fields = Ordered(format.fields.iter().map(field).collect());
    to_json(&FormatText { bytes: format.bytes, fields })
}

fn vector(placed: &Placed) -> String {
    let Sample { name, title, bytes, parts, .. } = &placed.sample;
    let part = |part: &super::Part| {
        let field = |field: &Field| {
            let value = field.wide(&bytes[part.byte..]).expect("a part is inside its sample");
            (field.name, format!("{value:#x}"))
        };
        PartText {
            format: part.format.name,
            byte: part.byte,
            fields: Ordered(part.format.fields.iter().map(field).collect()),
        }
    };
    to_json(&Vector {
        name,
        title,
        word: placed.word,
        words: placed.words(),
        hex: crate::field_text::hex(bytes),
        parts: parts.iter().map(part).collect(),
    })
}
