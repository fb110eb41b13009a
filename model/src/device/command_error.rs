//! Why a command of the admin queue is refused.

use fpga_regs::{AdminStatus, Syndrome};

/// What a command fails with.
pub(super) type Refused = (AdminStatus, Syndrome);

/// Fails if something is wrong with a command.
pub(super) fn refuse_if(wrong: bool, why: Refused) -> Result<(), Refused> {
    match wrong {
        true => Err(why),
        false => Ok(()),
    }
}

/// There is no object of this number.
pub(super) const NOT_FOUND: Refused = (AdminStatus::NOT_FOUND, Syndrome::NO_OBJECT);
/// Others still use it.
pub(super) const IN_USE: Refused = (AdminStatus::IN_USE, Syndrome::STILL_USED);
/// There is no place for another one.
pub(super) const FULL: Refused = (AdminStatus::NO_RESOURCE, Syndrome::TABLE_FULL);
/// Memory that the command names cannot be read or written.
pub(super) const DMA_FAULT: Refused = (AdminStatus::DMA_ERROR, Syndrome::BAD_IOVA);
