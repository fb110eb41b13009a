//! A field's value as text.

use crate::field::Named;
use std::fmt::Write;

/// A flag.
pub(crate) fn yes_no(value: u64) -> String {
    if value == 0 { "no" } else { "yes" }.to_string()
}

/// A number: decimal, and hexadecimal where that differs.
pub(crate) fn number(value: u64) -> String {
    if value < 10 {
        value.to_string()
    } else {
        format!("{value} ({value:#x})")
    }
}

/// The name of a value, with its number; unknown ones as `0x..`.
pub(crate) fn named(value: u64, names: &[Named]) -> String {
    match names.iter().find(|known| known.value == value) {
        Some(known) => format!("{} ({value})", known.name),
        None => format!("{value:#x} (unknown)"),
    }
}

/// The names of the bits that are set, and what is left as `0x..`.
pub(crate) fn flags(value: u64, names: &[Named]) -> String {
    let mut rest = value;
    let mut parts = Vec::new();
    for known in names {
        if value & known.value != 0 {
            parts.push(known.name.to_string());
            rest &= !known.value;
        }
    }
    if rest != 0 {
        parts.push(format!("{rest:#x}"));
    }
    if parts.is_empty() {
        return "-".to_string();
    }
    parts.join("|")
}

/// An Ethernet address.
pub(crate) fn mac(raw: &[u8]) -> String {
    let parts: Vec<String> = raw.iter().map(|byte| format!("{byte:02x}")).collect();
    parts.join(":")
}

/// A GID, written as the IPv6 address that it is.
pub(crate) fn gid(raw: &[u8]) -> String {
    match <[u8; 16]>::try_from(raw) {
        Ok(gid) => std::net::Ipv6Addr::from(gid).to_string(),
        Err(_) => hex(raw),
    }
}

/// Bytes in the order of memory.
pub(crate) fn hex(raw: &[u8]) -> String {
    raw.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// `Debug` of a format: the fields as decoded.
pub(crate) fn debug(
    out: &mut std::fmt::Formatter<'_>,
    format: &crate::field::Format,
    bytes: &[u8],
) -> std::fmt::Result {
    let mut fields = out.debug_struct(format.name);
    for field in format.fields {
        fields.field(field.name, &format_args!("{}", field.text(bytes)));
    }
    fields.finish()
}
