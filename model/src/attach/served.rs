//! [`ServedCard`]: a card of a segment that this process opens for a client.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use driver::Registers;
use fpga_regs::DOORBELL_BASE;

use super::card::Joined;
use super::error::OpenError;
use super::wall::card::WallCard;
use crate::cells::ServerBell;
use crate::device::tables::EQS;
use crate::segment::{futex_wait, Segment};

/// Interrupt vectors of a function.
pub const VECTORS: usize = EQS;

/// A card whose DMA addresses are those of a client, and whose interrupts are passed on.
pub struct ServedCard(WallCard);

impl ServedCard {
    /// Opens card `card` (from 0) of the net whose keeper listens at `socket`.
    pub fn open(socket: &Path, card: u32) -> Result<ServedCard, OpenError> {
        let Joined::Wall(runner) = Joined::new(socket)? else { return Err(OpenError::Simulated) };
        let card = ServedCard(WallCard::open(runner, card, true)?);
        card.bell().0.store(ServerBell::SERVED, Ordering::Release);
        Ok(card)
    }

    /// The segment, which the client's memory is offered to.
    pub(crate) fn segment(&self) -> &Segment {
        self.0.runner.segment()
    }

    fn bell(&self) -> &ServerBell {
        &self.0.runner.net().servers[self.0.function.card as usize][self.0.function.index as usize]
    }

    /// Reads a register of BAR0 (outside the doorbell pages) of 32 or 64 bits.
    pub fn read(&self, offset: u32) -> u64 {
        self.0.read64(offset)
    }

    /// Writes a register of BAR0 of 32 or 64 bits, or rings a doorbell. False: the cards could not be had for it.
    #[must_use]
    pub fn write(&self, offset: u32, value: u64) -> bool {
        if offset >= DOORBELL_BASE {
            self.0.doorbell(offset, value);
            return true;
        }
        self.0.registers(|device, f, env| device.bar_write(f, offset, value, env)).is_some()
    }

    /// Nothing can be done to the cards any more.
    pub fn is_condemned(&self) -> bool {
        self.0.may_vanish()
    }

    /// How often each vector was raised, as running numbers.
    pub fn raised(&self) -> [u32; VECTORS] {
        let words = self.0.function.words(self.0.runner.net());
        std::array::from_fn(|v| words[v].load(Ordering::Acquire))
    }

    /// A mark for [`ServedCard::wait`], taken before reading [`ServedCard::raised`].
    pub fn mark(&self) -> u32 {
        self.bell().0.load(Ordering::Acquire)
    }

    /// Waits until something was raised after `mark`, or the time is over.
    pub fn wait(&self, mark: u32, timeout: Duration) {
        self.0.beside_pending(timeout, |timeout| futex_wait(&self.bell().0, mark, Some(timeout)));
    }

    /// Ends a [`ServedCard::wait`].
    pub fn wake(&self) {
        self.bell().ring();
    }
}
