//! The card's own memory: parts of it, copies from and to them, and regions of them.

use std::sync::Arc;

use fpga_regs::regs::{self, FeatureSet};
use fpga_regs::{AdminOpcode, Command};

use crate::admin::MAILBOX;
use crate::card::Card;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::object::Object;

/// A part of the card's own memory.
pub struct Dm<C: Card> {
    pub(crate) object: Object<C>,
    len: u64,
}

impl<C: Card> Device<C> {
    /// Bytes of the card's own memory, of all who use the card; 0: it has none.
    pub fn memory_bytes(&self) -> u32 {
        match self.features().contains(FeatureSet::ON_CARD_MEMORY) {
            true => self.card().read32(regs::MEMORY),
            false => 0,
        }
    }

    /// `len` zeroed bytes of the card's own memory, aligned to 2^`log_align`.
    pub fn alloc_dm(self: &Arc<Self>, len: u64, log_align: u32) -> Result<Arc<Dm<C>>> {
        self.need(FeatureSet::ON_CARD_MEMORY, "memory of the card's own")?;
        let command = Command::of(AdminOpcode::ALLOC_MEMORY).with_param0(len).with_param1(log_align.into());
        let offset = self.admin().run(command, &[])?.object();
        let object = Object::new(self, "part of the card's memory", AdminOpcode::FREE_MEMORY, offset);
        Ok(Arc::new(Dm { object, len }))
    }
}

impl<C: Card> Dm<C> {
    /// Where byte `at` of it is in the card's memory; fails unless `len` bytes from there on are of it.
    pub(crate) fn place(&self, at: u64, len: u64) -> Result<u32> {
        if at > self.len || len > self.len - at {
            return Err(Error::Limit {
                what: "bytes of a part of the card's memory",
                asked: at.saturating_add(len),
                limit: self.len,
            });
        }
        Ok(self.object.number + at as u32)
    }

    fn copy_place(&self, at: u64, len: usize) -> Result<u32> {
        if at % 4 != 0 || len % 4 != 0 {
            return Err(Error::invalid("copies from and to the card's memory are of whole words of 4 bytes"));
        }
        self.place(at, len as u64)
    }

    /// Copies bytes there, from byte `at` on; both are multiples of 4.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let place = self.copy_place(at, bytes.len())?;
        let command = Command::of(AdminOpcode::WRITE_MEMORY);
        for (n, chunk) in bytes.chunks(MAILBOX).enumerate() {
            let command = command.with_object(place + (n * MAILBOX) as u32);
            self.object.dev.admin().run(command, chunk)?;
        }
        Ok(())
    }

    /// Copies bytes from there, from byte `at` on; both are multiples of 4.
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> Result<()> {
        let place = self.copy_place(at, bytes.len())?;
        let command = Command::of(AdminOpcode::READ_MEMORY);
        for (n, chunk) in bytes.chunks_mut(MAILBOX).enumerate() {
            let command = command.with_object(place + (n * MAILBOX) as u32);
            self.object.dev.admin().read(command, chunk)?;
        }
        Ok(())
    }

    /// Frees it; fails while there is a region of it.
    pub fn destroy(&self) -> Result<()> {
        self.object.destroy()
    }
}
