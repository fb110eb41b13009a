//! `verbena regs`: registers with their fields and what they mean.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{bail, ensure, Context, Result};
use clap::Args;
use fpga_regs::regs::{registers, Mode, Register};
use serde::{Deserialize, Serialize};

use super::device::{AnyCard, DeviceArgs};
use crate::{args, output};

/// Options of `verbena regs`.
#[derive(Args, Clone, Debug)]
pub struct RegsArgs {
    /// A block (global, port1, port2, port1.gid0) or a register (STATUS, port1.LINK); default: all registers, and the
    /// entries of GID tables that are in use
    pub block: Option<String>,
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Print again what has changed, at this interval, until ended
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1", value_parser = args::seconds)]
    pub watch: Option<Duration>,
    /// With --watch: end after this many rounds
    #[arg(long, value_name = "N", requires = "watch")]
    pub count: Option<u64>,
    /// Print JSON, which `verbena diff` compares
    #[arg(long, conflicts_with = "watch")]
    pub json: bool,
    /// Say what each register and field means
    #[arg(long)]
    pub doc: bool,
}

/// The value of one cell of a register.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// Offset in BAR0.
    pub offset: u32,
    /// Name, as `port1.LINK`.
    pub name: String,
    pub value: u64,
    pub doc: String,
    pub fields: Vec<FieldValue>,
}

/// The value of one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldValue {
    pub name: String,
    pub text: String,
    pub doc: String,
}

/// A register, one cell of it, by its name and offset.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Name, as `port1.LINK`.
    pub name: String,
    /// Offset in BAR0.
    pub offset: u32,
    /// The table's entry.
    pub register: &'static Register,
}

/// Every cell that can be read.
pub fn cells() -> impl Iterator<Item = Cell> {
    let readable = registers().filter(|(.., register)| register.mode != Mode::WO);
    readable.flat_map(|(name, offset, register)| {
        (0..register.count).map(move |cell| Cell {
            name: if register.count == 1 { name.clone() } else { format!("{name}[{cell}]") },
            offset: offset + cell * register.bytes,
            register,
        })
    })
}

impl Cell {
    /// The cell of a name, or of an offset as `0x20`, that may be written only.
    pub fn named(text: &str) -> Result<Cell> {
        let offset = match text.strip_prefix("0x") {
            Some(hex) => Some(u32::from_str_radix(hex, 16).context("the offset is no number")?),
            None => text.parse().ok(),
        };
        if let Some(offset) = offset {
            let located = fpga_regs::regs::locate(offset).with_context(|| {
                format!("there is no register at {offset:#x} of BAR0 (verbena regs lists all)")
            })?;
            ensure!(
                offset % located.register.bytes == 0,
                "{} has {} bytes: {offset:#x} is inside it",
                located.name,
                located.register.bytes
            );
            return Ok(Cell { name: located.name, offset, register: located.register });
        }
        let pages = registers().filter(|(.., register)| register.mode == Mode::WO && register.count == 1);
        let written = pages.map(|(name, offset, register)| Cell { name, offset, register });
        let found = cells().chain(written).find(|cell| cell.name.eq_ignore_ascii_case(text));
        found.with_context(|| format!("there is no register `{text}` (verbena regs lists all)"))
    }

    pub fn read(&self, card: &AnyCard) -> Value {
        let value = match self.register.bytes {
            8 => card.read64(self.offset),
            _ => card.read32(self.offset).into(),
        };
        self.decode(value)
    }

    pub fn decode(&self, value: u64) -> Value {
        let bytes = value.to_le_bytes();
        let fields = self.register.fields().iter().map(|field| FieldValue {
            name: field.name.into(),
            text: field.text(&bytes),
            doc: one_line(field.doc),
        });
        Value {
            offset: self.offset,
            name: self.name.clone(),
            value,
            doc: one_line(self.register.doc),
            fields: fields.collect(),
        }
    }

    fn of_block(&self, block: &str) -> bool {
        let global = !self.name.contains('.');
        let name = self.name.to_ascii_lowercase();
        let block = block.to_ascii_lowercase();
        (block == "global" && global)
            || name == block
            || name.starts_with(&format!("{block}."))
            || name.starts_with(&format!("{block}["))
    }
}

/// Doc text is written over several lines, each with its space.
fn one_line(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub fn regs(args: RegsArgs) -> Result<u8> {
    let chosen: Vec<Cell> = match &args.block {
        Some(block) => cells().filter(|cell| cell.of_block(block)).collect(),
        None => cells().collect(),
    };
    if chosen.is_empty() {
        let block = args.block.unwrap_or_default();
        bail!(
            "there is no block or register `{block}`: blocks are global, port1, port2, and port1.gid0 to port2.gid15; \
             verbena regs lists all registers"
        );
    }
    let opened = args.device.open()?;
    let mut values = read(&opened.card, &chosen);
    if args.json {
        say!("{}", serde_json::to_string_pretty(&values)?);
        opened.finish()?;
        return Ok(0);
    }
    for value in values.iter().filter(|value| args.block.is_some() || worth_showing(value)) {
        show(value, args.doc)?;
    }
    if let Some(pause) = args.watch {
        let mut looks = 1;
        while args.count.is_none_or(|count| looks < count) && !output::failed() {
            std::thread::sleep(pause);
            looks += 1;
            let now = read(&opened.card, &chosen);
            for (before, after) in values.iter().zip(&now).filter(|(before, after)| before != after) {
                changes(before, after).iter().for_each(|line| say!("{line}"));
            }
            values = now;
        }
    }
    opened.finish()?;
    Ok(0)
}

fn read(card: &AnyCard, chosen: &[Cell]) -> Vec<Value> {
    chosen.iter().map(|cell| cell.read(card)).collect()
}

/// Tables that are mostly empty are shown where they are not.
fn worth_showing(value: &Value) -> bool {
    value.value != 0 || !(value.name.contains(".gid") || value.name.contains('['))
}

fn show(value: &Value, doc: bool) -> Result<()> {
    let mut text = format!("{:#07x}  {:<24} {:#x}\n", value.offset, value.name, value.value);
    if doc {
        writeln!(text, "             {}", value.doc)?;
    }
    for field in &value.fields {
        match doc {
            true => writeln!(text, "           {:<24} {:<20} {}", field.name, field.text, field.doc)?,
            false => writeln!(text, "           {:<24} {}", field.name, field.text)?,
        }
    }
    output::print(format_args!("{text}"));
    Ok(())
}

/// What differs between two values of a register, field by field.
pub fn changes(before: &Value, after: &Value) -> Vec<String> {
    if before.fields.is_empty() {
        return vec![format!("{}: {:#x} -> {:#x}", after.name, before.value, after.value)];
    }
    let pairs = before.fields.iter().zip(&after.fields);
    let mut lines: Vec<String> = pairs
        .filter(|(before, after)| before.text != after.text)
        .map(|(before, now)| format!("{}.{}: {} -> {}", after.name, now.name, before.text, now.text))
        .collect();
    if lines.is_empty() {
        lines.push(format!("{} (reserved bits): {:#x} -> {:#x}", after.name, before.value, after.value));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_by_name_and_offset() {
        assert_eq!(Cell::named("status").unwrap().offset, 0x24);
        assert_eq!(Cell::named("0x24").unwrap().name, "STATUS");
        assert_eq!(Cell::named("EQ_CONSUMER[3]").unwrap().offset, 0x10c);
        assert_eq!(Cell::named("port2.LINK").unwrap().offset, 0x2000);
        assert_eq!(Cell::named("page3.SQ").unwrap().offset, 0x13000);
        assert!(Cell::named("0x9").unwrap_err().to_string().contains("is inside it"));
        assert!(Cell::named("0xf00").unwrap_err().to_string().contains("no register at 0xf00"));
        assert!(Cell::named("NOSUCH").is_err());
    }

    #[test]
    fn blocks_hold_their_registers() {
        let count = |block: &str| cells().filter(|cell| cell.of_block(block)).count();
        assert_eq!(count("port1.gid3"), 6);
        assert_eq!(count("STATUS"), 1);
        assert!(count("global") > 40 && count("port1") > 100);
        assert_eq!(count("por"), 0);
    }
}
