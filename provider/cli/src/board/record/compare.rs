//! What differs between what the model does and what was recorded, by field.

use fpga_regs::regs::{self, gid, port};
use fpga_regs::{Field, Format};

/// The first difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Register or entry, with its offset or number.
    pub what: String,
    /// Field, with its place; empty where the whole differs.
    pub field: String,
    /// What the model does.
    pub expected: String,
    /// What was recorded.
    pub got: String,
}

/// Compares two registers' values. What another card has by right is left out: clock, serial number,
/// addresses, counters.
pub fn register(at: u32, model: u64, got: u64, ignore: &dyn Fn(&str) -> bool) -> Option<Difference> {
    let located = regs::locate(at)?;
    if differs_by_nature(at) || ignore(located.register.name) || ignore(&located.name) {
        return None;
    }
    let what = format!("register {} ({at:#x})", located.name);
    let fields = located.register.fields();
    if fields.is_empty() {
        let (expected, got) = (format!("{model:#x}"), format!("{got:#x}"));
        return (expected != got).then_some(Difference { what, field: String::new(), expected, got });
    }
    let skip = |field: &Field| {
        let name = format!("{}.{}", located.register.name, field.name);
        matches!(&*name, "HEALTH.heartbeat" | "HEALTH.temperature" | "VERSION.minor") || ignore(&name)
    };
    first(fields, &model.to_le_bytes(), &got.to_le_bytes(), &skip).map(|(field, expected, got)| {
        let last = field.bit + field.width - 1;
        let bits = if field.width == 1 {
            format!("bit {}", field.bit)
        } else {
            format!("bits {} to {last}", field.bit)
        };
        Difference { what, field: format!("{} ({bits})", field.name), expected, got }
    })
}

fn differs_by_nature(at: u32) -> bool {
    if matches!(at, regs::TIME | regs::SERIAL | regs::FUNCTION | regs::ASQ_BASE | regs::ACQ_BASE) {
        return true;
    }
    let Some(rest) = at.checked_sub(port::PORT_BASE).filter(|rest| *rest < regs::PORTS * port::PORT_BYTES)
    else {
        return false;
    };
    let rest = rest % port::PORT_BYTES;
    rest == port::MAC || (port::TX_PACKETS..port::GID_TABLE).contains(&rest) || is_gid(at)
}

/// Whether a word of a GID is there.
pub fn is_gid(at: u32) -> bool {
    let rest = at.wrapping_sub(port::PORT_BASE) % port::PORT_BYTES;
    (port::PORT_BASE..port::PORT_BASE + regs::PORTS * port::PORT_BYTES).contains(&at)
        && rest >= port::GID_TABLE
        && (rest - port::GID_TABLE) % gid::GID_ENTRY_BYTES < 16
}

/// Compares two entries of a format.
pub fn entry(
    what: String,
    format: &Format,
    model: &[u8],
    got: &[u8],
    skip: &[&str],
    ignore: &dyn Fn(&str) -> bool,
) -> Option<Difference> {
    if ignore(format.name) {
        return None;
    }
    let skip = |field: &Field| {
        skip.contains(&field.name)
            || field.name.ends_with("iova")
            || ignore(&format!("{}.{}", format.name, field.name))
    };
    let (field, expected, got) = first(format.fields, model, got, &skip)?;
    Some(Difference { what, field: format!("{} (byte {})", field.name, field.byte()), expected, got })
}

fn first<'a>(
    fields: &'a [Field],
    model: &[u8],
    got: &[u8],
    skip: &dyn Fn(&Field) -> bool,
) -> Option<(&'a Field, String, String)> {
    // How something ended says more than what else follows from that.
    let (verdict, rest): (Vec<&Field>, Vec<&Field>) = fields
        .iter()
        .filter(|field| !skip(field))
        .partition(|field| matches!(field.name, "status" | "syndrome"));
    let texts = verdict.into_iter().chain(rest).map(|field| (field, field.text(model), field.text(got)));
    texts.into_iter().find(|(_, model, got)| model != got)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_named_and_what_differs_by_nature_is_not() {
        let none = |_: &str| false;
        let found = register(regs::STATUS, 0, 2, &none).unwrap();
        assert_eq!((&*found.field, &*found.expected, &*found.got), ("resetting (bit 1)", "no", "yes"));
        assert_eq!(register(regs::STATUS, 0, 2, &|name| name == "STATUS"), None);
        assert_eq!(register(regs::TIME, 1, 2, &none), None);
        assert_eq!(register(regs::HEALTH, 1 << 16, 2 << 16, &none), None);
        assert_eq!(register(port::base(1) + port::MAC, 1, 2, &none), None);
        assert_eq!(register(port::gid_entry(1, 15) + 12, 1, 2, &none), None);
        assert!(register(port::base(1) + port::LINK, 1, 0, &none).unwrap().what.contains("port2.LINK"));
    }
}
