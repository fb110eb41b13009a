//! Steps that need nothing but registers.

use std::time::{Duration, Instant};

use fpga_regs::regs::{self, Control, FeatureSet, Features, Id, Status, Version};

use super::lab::{failed, skipped, Check, Lab};
use crate::board::admin;
use crate::board::look::wrong_id;
use crate::board::pci::{BUS_MASTER, MEMORY};

/// Configuration space names the card and lets it work.
pub fn config_space(lab: &mut Lab<'_>) -> Check {
    let Some(config) = &lab.opened.config else {
        return skipped("this device has no PCI configuration space to look at");
    };
    let (vendor, device) = config.id();
    if (vendor, device) != (regs::VENDOR_ID, regs::DEVICE_ID) {
        return failed(
            format!("vendor {:04x}, device {:04x}", regs::VENDOR_ID, regs::DEVICE_ID),
            format!("vendor {vendor:04x}, device {device:04x}"),
            "configuration space bytes 0 to 3: all ones is an empty slot or a link that did not train",
        );
    }
    if config.class() >> 8 != regs::CLASS_CODE >> 8 {
        return failed(
            format!("class {:06x}", regs::CLASS_CODE),
            format!("class {:06x}", config.class()),
            "configuration space bytes 9 to 11",
        );
    }
    if config.on_a_bus && config.bar0() & !0xf == 0 {
        return failed("BAR0 has an address", "it is zero", "configuration space byte 0x10; rescan the bus");
    }
    let command = config.command();
    if command & (MEMORY | BUS_MASTER) != MEMORY | BUS_MASTER {
        return failed(
            "memory access and bus mastering are on",
            format!("command {command:#06x}"),
            "configuration space byte 4, bits 1 and 2",
        );
    }
    Ok(format!("{vendor:04x}:{device:04x}, command {command:#06x}, status {:#06x}", config.status()))
}

/// BAR0 answers, and its clock runs.
pub fn bar(lab: &mut Lab<'_>) -> Check {
    let card = lab.card();
    let id = card.read32(regs::ID);
    if id == u32::MAX || id == 0 {
        return failed(
            format!("offset 0 of BAR0 (ID) reads {:#010x}", regs::ID_VALUE),
            format!("{id:#010x}: nothing answers"),
            "COMMAND.memory of configuration space, the address in BAR0, the card's PCIe core",
        );
    }
    let (start, first) = (Instant::now(), card.read64(regs::TIME));
    std::thread::sleep(Duration::from_millis(20));
    let counted = card.read64(regs::TIME).wrapping_sub(first);
    let real = start.elapsed().as_nanos() as u64;
    if counted == 0 || counted > 10 * real || counted < real / 10 {
        return failed(
            format!("TIME counts about {real} ns in as many"),
            format!("it counted {counted}"),
            "TIME (0x30): 64-bit reads, and the card's clock",
        );
    }
    Ok(format!("ID reads {id:#010x}, TIME runs"))
}

/// The card is a Verbena card of a version that is known.
pub fn identity(lab: &mut Lab<'_>) -> Check {
    let card = lab.card();
    let id = Id(card.read32(regs::ID));
    if id.0 != regs::ID_VALUE {
        let field = if id.vendor() == regs::VENDOR_ID {
            "ID.device (bits 16 to 31)"
        } else {
            "ID.vendor (bits 0 to 15)"
        };
        return failed(
            format!("ID is {:04x}:{:04x}", regs::VENDOR_ID, regs::DEVICE_ID),
            format!("wrong identity: ID {}", wrong_id(id)),
            format!("register ID (0x0), {field}: another bitstream is loaded"),
        );
    }
    let version = Version(card.read32(regs::VERSION));
    if version.major() != regs::VERSION_MAJOR {
        return failed(
            format!("VERSION.major is {}", regs::VERSION_MAJOR),
            format!("it is {}", version.major()),
            "register VERSION (0x4), bits 16 to 31",
        );
    }
    let features = Features(card.read64(regs::FEATURES)).set();
    if !features.contains(FeatureSet::RC) {
        return failed(
            "FEATURES has RC",
            format!("FEATURES is {:#x}", features.bits()),
            "register FEATURES (0x8), bit 0",
        );
    }
    Ok(format!("version {}.{}, serial {:016x}", version.major(), version.minor(), card.read64(regs::SERIAL)))
}

/// The scratch register keeps every bit.
pub fn scratch(lab: &mut Lab<'_>) -> Check {
    let card = lab.card();
    let walking = (0..32).flat_map(|bit| [1u32 << bit, !(1u32 << bit)]);
    let patterns = [0, u32::MAX, 0x5555_5555, 0xaaaa_aaaa, 0x1234_5678].into_iter().chain(walking);
    let mut count = 0;
    for pattern in patterns {
        card.write32(regs::SCRATCH, pattern);
        let got = card.read32(regs::SCRATCH);
        if got != pattern {
            let wrong: Vec<String> =
                (0..32).filter(|bit| (got ^ pattern) >> bit & 1 == 1).map(|bit| bit.to_string()).collect();
            return failed(
                format!("SCRATCH reads {pattern:#010x}, as written"),
                format!("{got:#010x}"),
                format!("register SCRATCH (0x1c), bits {}: a data line or a byte enable", wrong.join(", ")),
            );
        }
        count += 1;
    }
    Ok(format!("{count} patterns"))
}

/// A reset begins and ends.
pub fn reset(lab: &mut Lab<'_>) -> Check {
    let card = lab.card();
    let start = Instant::now();
    if let Err((status, control)) = admin::reset(card) {
        return failed(
            format!("STATUS.resetting and CONTROL.reset are clear within {} ms", admin::PATIENCE.as_millis()),
            format!("the reset does not end: {status:?}, {control:?}"),
            "register STATUS (0x24), bit 1: the reset logic waits for a clock, a PLL or memory calibration",
        );
    }
    let took = start.elapsed();
    let status = Status(card.read32(regs::STATUS));
    if status.error() || status.ready() {
        let cause = regs::Cause(card.read32(regs::ERROR_CAUSE));
        return failed(
            "after a reset the function is neither ready nor in error",
            format!("{status:?}, cause {}", cause.code()),
            "registers STATUS (0x24) and ERROR_CAUSE (0x2c)",
        );
    }
    if Control(card.read32(regs::CONTROL)).enable() {
        return failed(
            "after a reset CONTROL.enable is clear",
            "it is set",
            "register CONTROL (0x20), bit 0",
        );
    }
    Ok(format!("took {} us", took.as_micros()))
}
