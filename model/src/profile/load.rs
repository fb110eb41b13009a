//! Reading a profile file.

use std::fmt;
use std::path::Path;

use toml::{Table, Value};

use super::check::check;
use super::{Number, Profile, NUMBERS, SECTIONS};

/// The profiles that come with Verbena: name and file.
pub const BUILTIN: &[(&str, &str)] = &[
    ("f10a", include_str!("../../profiles/f10a.toml")),
    ("cx4lx", include_str!("../../profiles/cx4lx.toml")),
    ("cx3", include_str!("../../profiles/cx3.toml")),
    ("cx5-25g", include_str!("../../profiles/cx5-25g.toml")),
];

/// The file of a profile that comes with Verbena.
pub fn builtin(name: &str) -> Option<&'static str> {
    BUILTIN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// A profile, with the texts of its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The numbers.
    pub profile: Profile,
    /// Name.
    pub name: String,
    /// One sentence.
    pub about: String,
    /// What the file says about each number of [`NUMBERS`], in that order.
    pub notes: Vec<Note>,
}

/// A number as its file gives it.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// Value, in the unit of the file.
    pub value: f64,
    /// Where it comes from.
    pub source: String,
}

impl Note {
    /// An estimate: no published figure exists.
    pub fn is_estimate(&self) -> bool {
        self.source == ESTIMATE || self.source.starts_with("estimate:")
    }

    /// Chosen so that the model meets a measurement, which the text names.
    pub fn is_fitted(&self) -> bool {
        self.source.starts_with("fit to ")
    }
}

/// The source of an estimated number; its reason may follow after a colon.
const ESTIMATE: &str = "estimate";

/// Why a profile was refused.
#[derive(Debug, PartialEq, Eq)]
pub struct ProfileError {
    /// The file, or the name of a built-in profile.
    pub file: String,
    /// Every fault.
    pub faults: Vec<Fault>,
}

/// What is wrong with a key.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// Key with its section, or empty: the whole file.
    pub key: String,
    /// Reason.
    pub reason: String,
}

impl fmt::Display for ProfileError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, fault) in self.faults.iter().enumerate() {
            let end = if nth == 0 { "" } else { "\n" };
            let colon = if fault.key.is_empty() { "" } else { ": " };
            write!(out, "{end}{}: {}{colon}{}", self.file, fault.key, fault.reason)?;
        }
        Ok(())
    }
}

impl std::error::Error for ProfileError {}

impl Profile {
    /// Loads a built-in profile by its name, or a file (a path has a `/` or ends in `.toml`).
    pub fn load(name_or_path: &str) -> Result<Loaded, ProfileError> {
        if let Some(text) = builtin(name_or_path) {
            return parse(name_or_path, text);
        }
        let whole = |reason| ProfileError {
            file: name_or_path.to_owned(),
            faults: vec![Fault { key: String::new(), reason }],
        };
        if !name_or_path.contains('/') && !name_or_path.ends_with(".toml") {
            let known: Vec<&str> = BUILTIN.iter().map(|(name, _)| *name).collect();
            return Err(whole(format!(
                "no such card profile; there are {}, and files whose name ends in .toml",
                known.join(", ")
            )));
        }
        let text = std::fs::read_to_string(Path::new(name_or_path))
            .map_err(|error| whole(format!("cannot be read: {error}")))?;
        parse(name_or_path, &text)
    }
}

/// Reads a profile's text; `file` is for messages.
pub(super) fn parse(file: &str, text: &str) -> Result<Loaded, ProfileError> {
    let mut faults = Faults(Vec::new());
    let mut loaded = Loaded {
        profile: Profile::default(),
        name: String::new(),
        about: String::new(),
        notes: Vec::with_capacity(NUMBERS.len()),
    };
    match text.parse::<Table>() {
        Err(error) => faults.say("", format!("is not TOML: {}", error.to_string().trim_end())),
        Ok(table) => read(&table, &mut loaded, &mut faults),
    }
    if faults.0.is_empty() {
        return Ok(loaded);
    }
    Err(ProfileError { file: file.to_owned(), faults: faults.0 })
}

/// Faults found so far.
pub(super) struct Faults(Vec<Fault>);

impl Faults {
    pub(super) fn say(&mut self, key: impl Into<String>, reason: impl Into<String>) {
        self.0.push(Fault { key: key.into(), reason: reason.into() });
    }
}

fn read(table: &Table, loaded: &mut Loaded, faults: &mut Faults) {
    unknown_keys(table, faults);
    loaded.name = text(table, "name", faults);
    loaded.about = text(table, "about", faults);
    let fits = loaded.name.len() <= loaded.profile.name.len();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if !fits || !loaded.name.chars().all(plain) {
        faults.say("name", "must be up to 16 letters, digits, `-`, `_` or `.`");
    } else {
        loaded.profile.name[..loaded.name.len()].copy_from_slice(loaded.name.as_bytes());
    }
    for number in NUMBERS {
        let value = table.get(number.section).and_then(Value::as_table).and_then(|s| s.get(number.key));
        match value.ok_or_else(|| "is missing".to_owned()).and_then(|value| one(number, value)) {
            Ok(note) => {
                (number.set)(&mut loaded.profile, number.unit.store(note.value));
                loaded.notes.push(note);
            }
            Err(reason) => faults.say(number.name(), reason),
        }
    }
    if faults.0.is_empty() {
        check(&loaded.profile, faults);
    }
}

fn text(table: &Table, key: &str, faults: &mut Faults) -> String {
    let text = table.get(key).and_then(Value::as_str).unwrap_or_default().trim();
    if text.is_empty() {
        faults.say(key, "is missing: a text in quotes");
    }
    text.to_owned()
}

fn unknown_keys(table: &Table, faults: &mut Faults) {
    for (section, value) in table {
        if section == "name" || section == "about" {
            continue;
        }
        if !SECTIONS.iter().any(|(known, _)| known == section) {
            let known: Vec<&str> = SECTIONS.iter().map(|(name, _)| *name).collect();
            faults.say(section, format!("unknown; the sections are {}", known.join(", ")));
            continue;
        }
        let Some(entries) = value.as_table() else {
            faults.say(section, "must be a section: [..] on a line of its own");
            continue;
        };
        for key in entries.keys() {
            if !NUMBERS.iter().any(|number| number.section == section && number.key == key) {
                let known = NUMBERS.iter().filter(|number| number.section == section);
                let known: Vec<&str> = known.map(|number| number.key).collect();
                faults.say(
                    format!("{section}.{key}"),
                    format!("unknown; this section has {}", known.join(", ")),
                );
            }
        }
    }
}

/// A number and its source: `[value, "source"]`.
fn one(number: &Number, value: &Value) -> Result<Note, String> {
    let bare = matches!(value, Value::Integer(_) | Value::Float(_));
    let (value, source) = match value.as_array().map(Vec::as_slice) {
        Some([value, Value::String(source)]) => (value, source.trim()),
        Some([_]) => return Err("has no source: [value, \"where it comes from, or estimate\"]".into()),
        None if bare => return Err("has no source: [value, \"where it comes from, or estimate\"]".into()),
        _ => return Err("must be [value, \"source\"]".into()),
    };
    if source.is_empty() {
        return Err("has an empty source; a number that nobody published is an \"estimate\"".into());
    }
    let value = match value {
        Value::Integer(value) => *value as f64,
        Value::Float(value) if number.unit.fractional() => *value,
        Value::Float(value) => return Err(format!("{value} must be a whole number")),
        _ => return Err("must begin with a number".into()),
    };
    let unit = match number.unit.to_string() {
        unit if unit.is_empty() => unit,
        unit => format!(" {unit}"),
    };
    if value.is_nan() {
        return Err("is not a number".into());
    }
    if value < 0.0 {
        return Err(format!("{value}{unit} must not be negative"));
    }
    if !(number.min..=number.max).contains(&value) {
        return Err(format!("{value}{unit} is impossible: {} to {}{unit}", number.min, number.max));
    }
    Ok(Note { value, source: source.to_owned() })
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
