//! Name, unit and range of each number of a profile: one table for struct, file and text.

use std::fmt;

use super::{Profile, Rate};

/// Unit of a number in a profile file, and its form in the struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds in the file, picoseconds in the struct.
    Nanoseconds,
    /// A frequency in MHz in the file, its period in picoseconds in the struct.
    Megahertz,
    /// Gigabits (10^9) a second in the file, a [`Rate`] in the struct.
    Gigabits,
    /// Bytes.
    Bytes,
    /// A plain count.
    Count,
    /// Periods of `sq.clock_mhz`.
    Cycles,
}

impl Unit {
    /// Whether the file may give a fraction.
    pub(super) fn fractional(self) -> bool {
        matches!(self, Unit::Nanoseconds | Unit::Megahertz | Unit::Gigabits)
    }

    /// From the file's number to the struct's.
    pub(super) fn store(self, value: f64) -> u64 {
        let scaled = match self {
            Unit::Nanoseconds => value * 1e3,
            Unit::Megahertz => 1e6 / value,
            Unit::Gigabits => value * 1e9,
            Unit::Bytes | Unit::Count | Unit::Cycles => value,
        };
        scaled.round() as u64
    }

    /// From the struct's number to the file's.
    pub fn show(self, stored: u64) -> f64 {
        match self {
            Unit::Nanoseconds => stored as f64 / 1e3,
            Unit::Megahertz => 1e6 / stored as f64,
            Unit::Gigabits => stored as f64 / 1e9,
            Unit::Bytes | Unit::Count | Unit::Cycles => stored as f64,
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Unit::Nanoseconds => "ns",
            Unit::Megahertz => "MHz",
            Unit::Gigabits => "Gb/s",
            Unit::Bytes => "B",
            Unit::Count => "",
            Unit::Cycles => "cycles",
        })
    }
}

/// One number of a profile.
pub struct Number {
    /// Table of the file, field of [`Profile`].
    pub section: &'static str,
    /// Key in that table, with its unit where it has one.
    pub key: &'static str,
    /// Unit.
    pub unit: Unit,
    /// Smallest value, in the file's unit.
    pub min: f64,
    /// Largest value, in the file's unit.
    pub max: f64,
    /// What it is, in Markdown.
    pub about: &'static str,
    /// The stored value.
    pub get: fn(&Profile) -> u64,
    pub(super) set: fn(&mut Profile, u64),
}

impl Number {
    /// The value in the file's unit.
    pub fn value(&self, profile: &Profile) -> f64 {
        self.unit.show((self.get)(profile))
    }

    /// `section.key`, as messages name it.
    pub fn name(&self) -> String {
        format!("{}.{}", self.section, self.key)
    }
}

/// How a field stores its number.
pub(super) trait Stored: Copy {
    fn raw(self) -> u64;
    fn from_raw(raw: u64) -> Self;
}

impl Stored for u64 {
    fn raw(self) -> u64 {
        self
    }
    fn from_raw(raw: u64) -> u64 {
        raw
    }
}

impl Stored for u32 {
    fn raw(self) -> u64 {
        self.into()
    }
    fn from_raw(raw: u64) -> u32 {
        raw as u32 // The table's bounds fit.
    }
}

impl Stored for Rate {
    fn raw(self) -> u64 {
        self.bits_per_second()
    }
    fn from_raw(raw: u64) -> Rate {
        Rate::new(raw)
    }
}

/// Declares the sections of a profile: the structs, and the table of their numbers.
///
/// `field: type = "key" Unit min..max`.
macro_rules! sections {
    ($(
        $(#[doc = $section_doc:literal])+
        $section:ident: $Section:ident {
            $(
                $(#[doc = $doc:literal])+
                $field:ident: $type:ty = $key:literal $unit:ident $min:literal..$max:expr;
            )+
        }
    )+) => {
        $(
            $(#[doc = $section_doc])+
            #[repr(C)]
            #[derive(Clone, Copy, Debug, Default, PartialEq, $crate::plain::Plain)]
            pub struct $Section {
                $($(#[doc = $doc])+ pub $field: $type,)+
            }
        )+

        /// Every number of a profile, in the order of the files.
        pub const NUMBERS: &[Number] = &[$($(Number {
            section: stringify!($section),
            key: $key,
            unit: Unit::$unit,
            min: $min as f64,
            max: $max as f64,
            about: concat!($($doc),+),
            get: |profile| profile.$section.$field.raw(),
            set: |profile, raw| profile.$section.$field = Stored::from_raw(raw),
        },)+)+];

        /// What each section is about.
        pub const SECTIONS: &[(&str, &str)] = &[$((stringify!($section), concat!($($section_doc),+)),)+];
    };
}
pub(super) use sections;
