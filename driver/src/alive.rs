//! Whether the card is still there and as the driver left it: looked at by whoever waits long for one
//! that may be pulled out, or reset by somebody else.

use std::time::{Duration, Instant};

use fpga_regs::regs::{self, Status};

use crate::card::{Card, CardError};
use crate::device::Device;
use crate::error::{CqError, Error, Result};

/// Empty polls of a CQ between two looks: some milliseconds.
pub(crate) const LOOK_EVERY: u32 = 1 << 16;
/// Time between two looks of who waits for an interrupt.
const PATIENCE: Duration = Duration::from_millis(500);

impl<C: Card> Device<C> {
    /// Fails if the card is gone, was reset, or has failed, since it was opened.
    pub fn check(&self) -> Result<()> {
        let status = Status(self.card().read32(regs::STATUS));
        if status.0 == u32::MAX {
            return Err(CardError::Gone.into());
        }
        if status.ready() && !status.error() {
            return Ok(());
        }
        Err(Error::Lost { status: status.0, cause: self.card().read32(regs::ERROR_CAUSE) })
    }

    /// [`Device::check`] for a CQ that stays empty.
    #[cold]
    pub(crate) fn check_polled(&self) -> std::result::Result<(), CqError> {
        match self.check() {
            Ok(()) => Ok(()),
            Err(Error::Lost { .. }) => Err(CqError::Lost),
            Err(_) => Err(CqError::Gone),
        }
    }

    /// Waits for an interrupt; if the card may vanish it looks whether it did.
    pub(crate) fn wait_checked(&self, vector: u32, timeout: Duration) -> Result<bool> {
        if !self.card().may_vanish() {
            return Ok(self.card().wait_interrupt(vector, timeout)?);
        }
        let until = Instant::now().checked_add(timeout);
        loop {
            let left = until.map_or(PATIENCE, |until| until.saturating_duration_since(Instant::now()));
            if self.card().wait_interrupt(vector, left.min(PATIENCE))? {
                return Ok(true);
            }
            self.check()?;
            if left <= PATIENCE && until.is_some() {
                return Ok(false);
            }
        }
    }
}
