//! Quantities as text: a number and a unit.

/// Units of a quantity: name and size, larger ones first; the first that divides a value is used to show it.
pub(super) type Units = &'static [(&'static str, u64)];

/// Bytes.
pub(super) const BYTES: Units = &[
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Picoseconds.
pub(super) const TIME: Units =
    &[("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1_000), ("ps", 1)];

/// Bits a second.
pub(super) const RATE: Units = &[
    ("Gb/s", 1_000_000_000),
    ("Mb/s", 1_000_000),
    ("kb/s", 1_000),
    ("Gbps", 1_000_000_000),
    ("Mbps", 1_000_000),
    ("kbps", 1_000),
    ("b/s", 1),
];

/// One, as a fraction is kept.
pub(super) const ONE: u64 = 1 << 32;

/// A number with one of the units, or 0 without.
pub(super) fn quantity(text: &str, units: Units) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(split);
    let size = units.iter().find(|(name, _)| *name == unit.trim())?.1;
    let value = number.parse::<f64>().ok()? * size as f64;
    (value < (1u64 << 53) as f64).then(|| value.round() as u64)
}

/// Bytes as text: a whole number, or a number with one of the units B, KB, KiB, MB, MiB, GB, GiB.
pub fn bytes(text: &str) -> Option<u64> {
    text.parse().ok().or_else(|| quantity(text, BYTES))
}

/// The shortest text of a quantity that says it exactly.
pub(super) fn show(value: u64, units: Units) -> String {
    let fits = |(_, size): &&(&str, u64)| value != 0 && value % size == 0;
    // The first of those that are as large.
    match units.iter().rev().filter(fits).max_by_key(|(_, size)| size) {
        Some((name, size)) => format!("{}{name}", value / size),
        None => "0".to_owned(),
    }
}

/// A fraction from 0 to 1, as `0.01` or `1/256`.
pub(super) fn fraction(text: &str) -> Option<u64> {
    let value = match text.split_once('/') {
        Some((over, under)) => over.parse::<f64>().ok()? / under.parse::<f64>().ok()?,
        None => text.parse::<f64>().ok()?,
    };
    (0.0..=1.0).contains(&value).then(|| (value * ONE as f64).round() as u64)
}

/// A fraction as text that reads back as the same one.
pub(super) fn show_fraction(value: u64) -> String {
    match ONE.checked_div(value) {
        Some(under) if under > 1 && under * value == ONE => format!("1/{under}"),
        _ => format!("{}", (value as f64 / ONE as f64 * 1e9).round() / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        assert_eq!(quantity("2MiB", BYTES), Some(2 << 20));
        assert_eq!(quantity("5KB", BYTES), Some(5000));
        assert_eq!(quantity("0.5KiB", BYTES), Some(512));
        assert_eq!(quantity("55us", TIME), Some(55_000_000));
        assert_eq!(quantity("40Mb/s", RATE), Some(40_000_000));
        assert_eq!(quantity("1.5Gbps", RATE), Some(1_500_000_000));
        assert_eq!(quantity("0", RATE), Some(0));
        for bad in ["", "5", "KB", "-5KB", "5 parsecs", "1e9KB", "99999999999999GB", "1.2.3KB"] {
            assert_eq!(quantity(bad, BYTES), None, "{bad}");
        }
    }

    #[test]
    fn what_is_shown_reads_back() {
        for value in [0, 1, 5000, 4096, 2 << 20, 10_000_000, 1_234_567] {
            assert_eq!(quantity(&show(value, BYTES), BYTES), Some(value));
            assert_eq!(quantity(&show(value, TIME), TIME), Some(value));
            assert_eq!(quantity(&show(value, RATE), RATE), Some(value));
        }
        assert_eq!((show(2 << 20, BYTES), show(200_000, BYTES)), ("2MiB".into(), "200KB".into()));
        for text in ["1/256", "1/16", "0.01", "0.123456789", "1", "0"] {
            let value = fraction(text).unwrap();
            assert_eq!(fraction(&show_fraction(value)), Some(value), "{text}");
        }
        for bad in ["2", "-0.1", "1/0", "x", "", "2/1"] {
            assert_eq!(fraction(bad), None, "{bad}");
        }
    }
}
