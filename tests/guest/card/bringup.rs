//! Bring-up, the registers, and a card that another process holds.

use std::io::Read;

use driver::backend::vfio::Vfio;
use driver::Registers;
use fpga_regs::regs::{self, Health, Mode};

use crate::open;

/// The card comes up, answers commands, and can be opened again.
pub fn bring_up(address: &str) -> driver::Result<()> {
    for _ in 0..2 {
        let device = open(address)?;
        device.check()?;
        assert_ne!(device.node_guid(), 0, "a card has a serial number");
        assert!(device.limits().max_qp() > 0 && device.limits().ports() > 0);
        let before = device.time();
        let port = device.query_port(1)?;
        assert!(port.link_up, "port 1: {port:?}");
        assert!(device.time() > before, "the card's clock runs");
        device.alloc_pd()?.destroy()?;
    }
    Ok(())
}

/// Every register can be read; writable ones keep a written value, read-only ones do not.
pub fn walk(address: &str) -> driver::Result<()> {
    let card = Vfio::open(address)?;
    let read = |offset: u32, bytes: u32| match bytes {
        8 => card.read64(offset),
        _ => card.read32(offset).into(),
    };
    let mut seen = 0;
    for (name, offset, register) in regs::registers() {
        if register.mode == Mode::WO {
            continue;
        }
        let value = read(offset, register.bytes);
        let gone = if register.bytes == 8 { u64::MAX } else { u32::MAX.into() };
        assert_ne!(value, gone, "{name} at {offset:#x} reads all ones");
        // What moves on its own is not compared: the card's clock, the heartbeat in its health.
        let settled = match offset {
            regs::TIME => 0,
            regs::HEALTH => !u64::from(Health(0).with_heartbeat(u16::MAX).0),
            _ => u64::MAX,
        };
        if register.mode == Mode::RO {
            match register.bytes {
                8 => card.write64(offset, !value),
                _ => card.write32(offset, !value as u32),
            }
            let after = read(offset, register.bytes);
            assert_eq!(after & settled, value & settled, "{name} at {offset:#x} is read only");
        }
        seen += 1;
    }
    assert!(seen > 100, "{seen} registers");
    assert_eq!(card.read32(regs::ID), regs::ID_VALUE);
    assert_eq!(card.read32(regs::VERSION), regs::VERSION_VALUE);
    for pattern in
        [0, u32::MAX, 0x5555_5555, 0xaaaa_aaaa, 0x0123_4567].into_iter().chain((0..32).map(|b| 1 << b))
    {
        card.write32(regs::SCRATCH, pattern);
        assert_eq!(card.read32(regs::SCRATCH), pattern, "SCRATCH keeps what is written");
    }
    println!("{seen} registers");
    Ok(())
}

/// Opens the card and keeps it until standard input ends.
pub fn hold(address: &str) -> driver::Result<()> {
    let device = open(address)?;
    println!("holding {address}");
    let _ = std::io::stdin().read(&mut [0]);
    device.check()
}
