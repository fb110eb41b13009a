//! From an offset in BAR0 and a value to text.

use super::gid::{self, GID_ENTRIES, GID_ENTRY_BYTES};
use super::port::{self, GID_TABLE, PORT_BASE, PORT_BYTES};
use super::register::Register;
use super::{global, page, GLOBAL_BYTES, PORTS};
use crate::doorbell::{DOORBELL_BASE, DOORBELL_PAGES, DOORBELL_PAGE_BYTES};
use crate::field_text;

/// A register found by its offset in BAR0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Name with the block's and the cell's number, as `port1.LINK`; ports count from 1.
    pub name: String,
    /// The table entry.
    pub register: &'static Register,
}

/// Every register with its name and its offset in BAR0, one for each port, GID
/// entry and doorbell page; an array once.
pub fn registers() -> impl Iterator<Item = (String, u32, &'static Register)> {
    let place = |prefix: String, base: u32, table: &'static [Register]| {
        table.iter().map(move |register| {
            let name = format!("{prefix}{}", register.name);
            (name, base + register.offset, register)
        })
    };
    let ports = (0..PORTS).flat_map(move |p| {
        let gids = (0..GID_ENTRIES).flat_map(move |index| {
            let prefix = format!("port{}.gid{index}.", p + 1);
            place(prefix, port::gid_entry(p, index), gid::REGISTERS)
        });
        place(format!("port{}.", p + 1), port::base(p), port::REGISTERS).chain(gids)
    });
    let pages = (0..DOORBELL_PAGES).flat_map(move |n| {
        let base = DOORBELL_BASE + n * DOORBELL_PAGE_BYTES;
        place(format!("page{n}."), base, page::REGISTERS)
    });
    place(String::new(), 0, global::REGISTERS).chain(ports).chain(pages)
}

/// The register at `offset` of BAR0; `None` where nothing is. The upper half
/// of a 64-bit register is found as that register.
pub fn locate(offset: u32) -> Option<Located> {
    let (prefix, rest, table) = block(offset)?;
    let register = table.iter().find(|register| {
        (register.offset..register.offset + register.bytes * register.count).contains(&rest)
    })?;
    let cell = (rest - register.offset) / register.bytes;
    let name = match register.count {
        1 => format!("{prefix}{}", register.name),
        _ => format!("{prefix}{}[{cell}]", register.name),
    };
    Some(Located { name, register })
}

/// The block's name, the offset in it, and its table.
fn block(offset: u32) -> Option<(String, u32, &'static [Register])> {
    if offset < GLOBAL_BYTES {
        return Some((String::new(), offset, global::REGISTERS));
    }
    let p = (offset - PORT_BASE) / PORT_BYTES;
    if p < PORTS {
        let name = format!("port{}.", p + 1);
        let rest = (offset - PORT_BASE) % PORT_BYTES;
        let index = rest.saturating_sub(GID_TABLE) / GID_ENTRY_BYTES;
        return match rest >= GID_TABLE {
            false => Some((name, rest, port::REGISTERS)),
            true if index < GID_ENTRIES => {
                Some((format!("{name}gid{index}."), (rest - GID_TABLE) % GID_ENTRY_BYTES, gid::REGISTERS))
            }
            true => None,
        };
    }
    let rest = offset.checked_sub(DOORBELL_BASE)?;
    let n = rest / DOORBELL_PAGE_BYTES;
    (n < DOORBELL_PAGES).then(|| {
        let prefix = format!("page{n}.");
        (prefix, rest % DOORBELL_PAGE_BYTES, page::REGISTERS)
    })
}

/// One line: the register's name, the value, and its fields.
pub fn describe(offset: u32, value: u64) -> String {
    let Some(Located { name, register }) = locate(offset) else {
        return format!("{offset:#07x} (no register) = {value:#x}");
    };
    let bytes = value.to_le_bytes();
    let mut text = format!("{offset:#07x} {name} = {value:#x}");
    let fields = register.fields();
    if fields.is_empty() {
        return text;
    }
    let mut parts: Vec<String> =
        fields.iter().map(|field| format!("{} {}", field.name, field.text(&bytes))).collect();
    let known = fields.iter().fold(0u64, |mask, field| mask | ones(field.width) << field.bit);
    if value & !known != 0 {
        parts.push(format!("reserved {}", field_text::number(value & !known)));
    }
    text.push_str(&format!(" ({})", parts.join(", ")));
    text
}

/// The lowest `width` bits.
fn ones(width: usize) -> u64 {
    u64::MAX >> (64 - width)
}
