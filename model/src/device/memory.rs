//! The card's own memory: who has which part of it, and copies from and to it.

use fpga_regs::{AdminStatus, Command, Syndrome};

use super::command_error::{refuse_if, Refused, DMA_FAULT, FULL, IN_USE, NOT_FOUND};
use super::objects::owned;
use super::tables::{Key, Part};
use super::Device;
use crate::dma::{Addr, CARD_MEMORY};
use crate::env::Env;

/// Parts begin at cache lines.
const LOG_LINE: u64 = 6;
/// Bytes copied at a time.
const CHUNK: usize = 256;

impl Device {
    fn memory_at(&self, offset: u64) -> Addr {
        Addr { iova: offset, domain: Addr::ON_CARD | self.id }
    }

    /// The lowest place that is free.
    pub(super) fn alloc_memory(&mut self, f: u16, c: &Command, env: &mut impl Env) -> Result<u32, Refused> {
        let (bytes, log_align) = (c.param0(), c.param1().max(LOG_LINE));
        let all = CARD_MEMORY as u64;
        if bytes == 0 || log_align > all.trailing_zeros().into() {
            return Err((AdminStatus::BAD_PARAM, Syndrome::BAD_SIZE));
        }
        refuse_if(bytes > all, (AdminStatus::LIMIT, Syndrome::BAD_SIZE))?;
        let used = || self.parts.iter().filter(|part| part.used.get());
        let fits = |start: &u64| {
            let end = start + bytes;
            end <= all && used().all(|part| end <= part.start() || part.end() <= *start)
        };
        let starts = used().map(Part::end).chain([0]).map(|at| at.next_multiple_of(1 << log_align));
        let start = starts.filter(fits).min();
        let slot = self.parts.iter().position(|part| !part.used.get());
        let (Some(start), Some(slot)) = (start, slot) else {
            return Err(FULL);
        };
        for at in (start..start + bytes).step_by(CHUNK) {
            let len = (start + bytes - at).min(CHUNK as u64) as usize;
            self.write_part(at, &[0; CHUNK][..len], env)?;
        }
        self.parts[slot] =
            Part { used: true.into(), function: f, start: start as u32, len: bytes as u32, users: 0 };
        Ok(start as u32)
    }

    pub(super) fn free_memory(&mut self, f: u16, start: u32) -> Result<(), Refused> {
        let part = self.part_of(f, start.into(), 1)?;
        refuse_if(self.parts[part].start != start, NOT_FOUND)?;
        refuse_if(self.parts[part].users != 0, IN_USE)?;
        self.parts[part].used = false.into();
        Ok(())
    }

    /// The part of function `f` that these bytes are of.
    pub(super) fn part_of(&self, f: u16, start: u64, len: u64) -> Result<usize, Refused> {
        let holds = |part: &Part| {
            part.used.get() && part.start() <= start && start < part.end() && len <= part.end() - start
        };
        let found = self.parts.iter().position(holds);
        owned(found.map(|part| (true, self.parts[part].function)), f)?;
        found.ok_or(NOT_FOUND)
    }

    /// Counts a region of the card's memory, or no longer.
    pub(super) fn count_region(&mut self, key: &Key, more: bool) {
        if key.domain != self.memory_at(0).domain {
            return;
        }
        if let Ok(part) = self.part_of(key.function, key.iova, key.length) {
            let users = &mut self.parts[part].users;
            *users = if more { users.wrapping_add(1) } else { users.wrapping_sub(1) };
        }
    }

    /// WRITE_MEMORY, or READ_MEMORY.
    pub(super) fn copy_memory(
        &mut self,
        f: u16,
        c: &Command,
        write: bool,
        env: &mut impl Env,
    ) -> Result<(), Refused> {
        let (start, len) = (u64::from(c.object()), u64::from(if write { c.in_len() } else { c.out_len() }));
        refuse_if((start | len) % 4 != 0, (AdminStatus::BAD_PARAM, Syndrome::BAD_SIZE))?;
        self.part_of(f, start, len)?;
        let iova = if write { c.in_iova() } else { c.out_iova() };
        let host = Addr { iova, domain: self.functions[f as usize].domain };
        let fault = |_| DMA_FAULT;
        for at in (0..len).step_by(CHUNK) {
            let bytes = &mut [0; CHUNK][..(len - at).min(CHUNK as u64) as usize];
            if write {
                env.read(host.add(at), bytes).map_err(fault)?;
                self.write_part(start + at, bytes, env)?;
            } else {
                env.read(self.memory_at(start + at), bytes).map_err(fault)?;
                env.write(host.add(at), bytes).map_err(fault)?;
            }
        }
        Ok(())
    }

    fn write_part(&self, at: u64, bytes: &[u8], env: &mut impl Env) -> Result<(), Refused> {
        env.write(self.memory_at(at), bytes).map_err(|_| (AdminStatus::INTERNAL, Syndrome::NONE))
    }
}
