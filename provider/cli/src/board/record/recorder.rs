//! A card that passes everything to another one, and records it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{LineWriter, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use driver::{CardError, DmaMemory, Hints, Interrupts, Memory, Registers};
use fpga_regs::regs;

use super::line::{Line, HEADER};
use super::rings::{Reachable, Rings};
use crate::board::device::AnyCard;

pub struct Recorder {
    card: AnyCard,
    state: Mutex<State>,
}

struct State {
    /// By the line: however the command ends, what was done is there.
    out: LineWriter<File>,
    memory: Reachable,
    rings: Rings,
    /// What was read since the last other event.
    seen: HashMap<u32, u64>,
    /// The first failure to write.
    failed: Option<std::io::Error>,
}

impl State {
    fn note(&mut self, line: &Line) {
        match line {
            Line::Read { at, value } => {
                if self.seen.insert(*at, *value) == Some(*value) {
                    return;
                }
            }
            _ => self.seen.clear(),
        }
        if let Err(error) = writeln!(self.out, "{line}") {
            self.failed.get_or_insert(error);
        }
    }

    fn note_all(&mut self, lines: Vec<Line>) {
        lines.iter().for_each(|line| self.note(line));
    }

    fn scan(&mut self) {
        let lines = self.rings.scan(&self.memory);
        self.note_all(lines);
    }

    /// Before everything of the function ends.
    fn last_look(&mut self) {
        self.scan();
        let odd = self.rings.odd(&self.memory);
        self.note_all(odd);
    }
}

impl Recorder {
    /// Notes what is done with `card` in a new file.
    pub fn new(card: AnyCard, file: &Path, name: &str) -> Result<Recorder> {
        let what = || format!("writing {}", file.display());
        let mut out = LineWriter::new(File::create(file).with_context(what)?);
        writeln!(out, "{HEADER}\n# {name}").with_context(what)?;
        let (memory, rings) = (Reachable::default(), Rings::default());
        let state = State { out, memory, rings, seen: HashMap::new(), failed: None };
        Ok(Recorder { card, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes out what is left.
    pub fn finish(&self) -> Result<()> {
        let mut state = self.state();
        state.last_look();
        let flushed = state.out.flush();
        let failed = state.failed.take().map_or(flushed, Err);
        failed.context("writing the record")
    }

    /// An access whose order counts: there is one at a time.
    fn access<R>(&self, before: impl FnOnce(&mut State), access: impl FnOnce() -> (R, Option<Line>)) -> R {
        let mut state = self.state();
        before(&mut state);
        let (result, line) = access();
        state.scan();
        if let Some(line) = line {
            state.note(&line);
        }
        result
    }

    fn write(&self, at: u32, value: u64, write: impl FnOnce()) {
        let before = |state: &mut State| {
            let reset = at == regs::CONTROL && regs::Control(value as u32).reset();
            match reset {
                true => state.last_look(),
                false => state.scan(),
            }
            let State { rings, memory, .. } = state;
            let posted = rings.register(at, value, memory);
            state.note_all(posted);
            state.note(&Line::Write { at, value });
        };
        self.access(before, || (write(), None));
    }

    fn ring(&self, at: u32, value: u64, ring: impl FnOnce()) {
        let before = |state: &mut State| {
            state.scan();
            let State { rings, memory, .. } = state;
            let posted = rings.bell(at, value, memory);
            state.note_all(posted);
            state.note(&Line::Bell { at, value });
        };
        self.access(before, || (ring(), None));
    }
}

impl Registers for Recorder {
    fn read32(&self, at: u32) -> u32 {
        self.access(State::scan, || {
            let value = self.card.read32(at);
            (value, Some(Line::Read { at, value: value.into() }))
        })
    }

    fn write32(&self, at: u32, value: u32) {
        self.write(at, value.into(), || self.card.write32(at, value));
    }

    fn read64(&self, at: u32) -> u64 {
        self.access(State::scan, || {
            let value = self.card.read64(at);
            (value, Some(Line::Read { at, value }))
        })
    }

    fn write64(&self, at: u32, value: u64) {
        match at >= fpga_regs::DOORBELL_BASE {
            true => self.doorbell(at, value),
            false => self.write(at, value, || self.card.write64(at, value)),
        }
    }

    fn doorbell(&self, at: u32, value: u64) {
        self.ring(at, value, || self.card.doorbell(at, value));
    }
}

impl Memory for Recorder {
    fn alloc(&self, bytes: usize) -> Result<DmaMemory, CardError> {
        let memory = self.card.alloc(bytes)?;
        let mut state = self.state();
        state.memory.add(memory.iova, memory.len, memory.ptr);
        state.note(&Line::Memory { iova: memory.iova, len: memory.len as u64 });
        Ok(memory)
    }

    fn free(&self, memory: DmaMemory) {
        let mut state = self.state();
        state.scan();
        state.memory.remove(memory.iova);
        state.note(&Line::Gone { iova: memory.iova });
        drop(state);
        self.card.free(memory);
    }

    fn map(&self, addr: *mut u8, len: usize, writable: bool) -> Result<u64, CardError> {
        let iova = self.card.map(addr, len, writable)?;
        self.state().note(&Line::Memory { iova, len: len as u64 });
        Ok(iova)
    }

    fn unmap(&self, iova: u64, addr: *mut u8, len: usize) {
        self.state().note(&Line::Gone { iova });
        self.card.unmap(iova, addr, len);
    }
}

impl Interrupts for Recorder {
    fn wait_interrupt(&self, vector: u32, timeout: Duration) -> Result<bool, CardError> {
        let fired = self.card.wait_interrupt(vector, timeout)?;
        let mut state = self.state();
        state.scan();
        state.note(&Line::Interrupt { vector, fired });
        Ok(fired)
    }
}

impl Hints for Recorder {
    fn expect_doorbell(&self) {
        self.card.expect_doorbell();
    }

    fn expect_posts(&self, qpn: u32) {
        self.card.expect_posts(qpn);
    }

    fn relax(&self, empty_polls: u32) {
        self.card.relax(empty_polls);
        self.state().scan();
    }
}
