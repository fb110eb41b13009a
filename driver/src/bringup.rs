//! From a card in any state to a function that takes commands: identity, version, reset, enable.

use std::time::{Duration, Instant};

use fpga_regs::regs::{self, Control, Features, Id, Status, Version};

use crate::card::{Card, CardError};
use crate::error::{Error, Result};

/// Time that a reset or enable may take.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Checks that the driver knows this card; returns its features.
pub(crate) fn identify<C: Card>(card: &C) -> Result<Features> {
    let raw = card.read32(regs::ID);
    if raw == u32::MAX {
        return Err(CardError::Gone.into());
    }
    let id = Id(raw);
    if raw != regs::ID_VALUE {
        return Err(Error::Foreign { vendor: id.vendor(), device: id.device() });
    }
    let version = Version(card.read32(regs::VERSION));
    if version.major() != regs::VERSION_MAJOR {
        return Err(Error::Version { major: version.major(), minor: version.minor() });
    }
    Ok(Features(card.read64(regs::FEATURES)))
}

/// Resets the function to its state after power-on; it does no DMA afterwards.
pub(crate) fn reset<C: Card>(card: &C) -> Result<()> {
    card.write32(regs::CONTROL, Control(0).with_reset(true).0);
    wait(card, "the reset of the card", |status| {
        !status.resetting() && !Control(card.read32(regs::CONTROL)).reset()
    })
}

/// Starts the function; the admin rings are set.
pub(crate) fn enable<C: Card>(card: &C) -> Result<()> {
    card.write32(regs::CONTROL, Control(0).with_enable(true).0);
    wait(card, "enabling the card", |status| status.ready())
}

fn wait<C: Card>(card: &C, what: &'static str, done: impl Fn(Status) -> bool) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    let mut spins = 0;
    loop {
        let status = Status(card.read32(regs::STATUS));
        if status.0 == u32::MAX {
            return Err(CardError::Gone.into());
        }
        if !status.error() && done(status) {
            return Ok(());
        }
        if status.error() && !status.resetting() || Instant::now() >= deadline {
            let cause = card.read32(regs::ERROR_CAUSE);
            return Err(Error::BringUp { what, after: TIMEOUT, status: status.0, cause });
        }
        card.relax(spins);
        spins = spins.saturating_add(1);
    }
}
