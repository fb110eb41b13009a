//! `verbena peek` and `verbena poke`: one register.

use anyhow::{bail, ensure, Context, Result};
use clap::Args;
use fpga_regs::regs::{self, Mode};

use super::device::DeviceArgs;
use super::regs::Cell;
use crate::args::number;

/// Options of `verbena peek`.
#[derive(Args, Clone, Debug)]
pub struct PeekArgs {
    /// Its name (STATUS, port1.LINK) or its offset in BAR0 (0x24)
    pub register: String,
    #[command(flatten)]
    pub device: DeviceArgs,
}

/// Options of `verbena poke`.
#[derive(Args, Clone, Debug)]
pub struct PokeArgs {
    /// Its name (SCRATCH) or its offset in BAR0 (0x1c)
    pub register: String,
    /// The value, as 17 or 0x11
    pub value: String,
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Write also registers whose write makes the card do something
    #[arg(long)]
    pub force: bool,
}

pub fn peek(args: PeekArgs) -> Result<u8> {
    let cell = Cell::named(&args.register)?;
    ensure!(cell.register.mode != Mode::WO, "{} can only be written: reads give zero", cell.name);
    let opened = args.device.open()?;
    say!("{}", regs::describe(cell.offset, cell.read(&opened.card).value));
    opened.finish()?;
    Ok(0)
}

/// Writes a register that means nothing, or any with force.
pub fn poke(args: PokeArgs) -> Result<u8> {
    let cell = Cell::named(&args.register)?;
    let value = number(&args.value).with_context(|| format!("`{}` is no number", args.value))?;
    ensure!(
        cell.register.bytes != 4 || value <= u32::MAX.into(),
        "{} has 32 bits: {value:#x} does not fit",
        cell.name
    );
    if let (Some(why), false) = (side_effect(&cell), args.force) {
        bail!("{} is not written without --force: {why}", cell.name);
    }
    let opened = args.device.open()?;
    let card = &opened.card;
    let readable = cell.register.mode != Mode::WO;
    if readable {
        say!("was  {}", regs::describe(cell.offset, cell.read(card).value));
    }
    match cell.register.bytes {
        8 => card.write64(cell.offset, value),
        _ => card.write32(cell.offset, value as u32),
    }
    say!("wrote {value:#x}");
    if readable {
        let now = cell.read(card).value;
        say!("is   {}", regs::describe(cell.offset, now));
    }
    opened.finish()?;
    Ok(0)
}

/// What a write to a register would do; nothing for the one that keeps what is written.
fn side_effect(cell: &Cell) -> Option<&'static str> {
    match (cell.register.mode, cell.offset) {
        (_, regs::SCRATCH) => None,
        (Mode::RO, _) => Some("it is read-only, so a write shows how the card bears a wrong one"),
        (Mode::WO, _) => Some("it is a doorbell: the card would fetch work from a queue"),
        (_, regs::CONTROL) => Some("it enables and resets the function"),
        (_, regs::ASQ_BASE | regs::ACQ_BASE | regs::ADMIN_SIZE) => {
            Some("the card would read and write memory at what it says")
        }
        (_, regs::ASQ_DOORBELL) => Some("the card would fetch commands from memory"),
        _ => Some("it tells the card what a driver has consumed or masked"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_scratch_register_is_harmless() {
        let harmless: Vec<String> = super::super::regs::cells()
            .filter(|cell| side_effect(cell).is_none())
            .map(|cell| cell.name)
            .collect();
        assert_eq!(harmless, ["SCRATCH"]);
        assert!(side_effect(&Cell::named("page0.SQ").unwrap()).unwrap().contains("doorbell"));
    }

    #[test]
    fn numbers() {
        assert_eq!(number("0x1f").unwrap(), 31);
        assert_eq!(number("31").unwrap(), 31);
        assert!(number("1f").is_err());
    }
}
