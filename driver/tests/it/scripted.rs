//! A card that exists only as a list: every BAR access must be the next one of the script.
//!
//! For tests of sequences. DMA memory has predictable addresses (from [`FIRST_IOVA`] on, page after
//! page), so scripts can name it; [`Step::Act`] reads it and writes what a card would write. Any difference
//! from the script is a panic that names what was expected, what was done, and the registers.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use driver::{CardError, DmaMemory, Hints, Interrupts, Memory, Registers};
use fpga_regs::regs::describe;

/// First address of DMA memory.
pub const FIRST_IOVA: u64 = 0x1_0000_0000;
/// Bytes of the unit in which DMA memory is handed out.
const PAGE: usize = 4096;

/// What a card would do between two accesses.
pub type Action = Box<dyn FnOnce(&mut Ranges) + Send>;

/// One step of a script.
pub enum Step {
    /// The driver reads a register and gets this value.
    Read32(u32, u32),
    /// The driver writes this value to a register.
    Write32(u32, u32),
    /// As `Read32`, of 64 bits.
    Read64(u32, u64),
    /// As `Write32`, of 64 bits.
    Write64(u32, u64),
    /// The driver rings a doorbell.
    Doorbell(u32, u64),
    /// The driver waits for an interrupt; it fires or not.
    Wait(u32, bool),
    /// Runs as soon as the step before it is done.
    Act(Action),
}

impl fmt::Debug for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Read32(at, value) => write!(out, "read32 {}", describe(*at, (*value).into())),
            Step::Write32(at, value) => write!(out, "write32 {}", describe(*at, (*value).into())),
            Step::Read64(at, value) => write!(out, "read64 {}", describe(*at, *value)),
            Step::Write64(at, value) => write!(out, "write64 {}", describe(*at, *value)),
            Step::Doorbell(at, value) => write!(out, "doorbell {}", describe(*at, *value)),
            Step::Wait(vector, fires) => write!(out, "wait for vector {vector} (fires: {fires})"),
            Step::Act(_) => write!(out, "action"),
        }
    }
}

/// All DMA memory of a scripted card.
#[derive(Default)]
pub struct Ranges {
    ranges: Vec<Range>,
    next: u64,
}

struct Range {
    iova: u64,
    len: usize,
    // u64s: aligned as atomics in it need.
    words: Box<[u64]>,
    live: bool,
}

impl Ranges {
    fn alloc(&mut self, bytes: usize) -> DmaMemory {
        let len = bytes.next_multiple_of(PAGE);
        let mut words = vec![0u64; len / 8].into_boxed_slice();
        let iova = FIRST_IOVA + self.next;
        self.next += len as u64;
        let ptr = words.as_mut_ptr().cast();
        self.ranges.push(Range { iova, len, words, live: true });
        DmaMemory { ptr, iova, len }
    }

    fn at(&mut self, iova: u64, len: usize) -> *mut u8 {
        let found = self.ranges.iter_mut().find(|range| {
            range.live && iova >= range.iova && iova + len as u64 <= range.iova + range.len as u64
        });
        match found {
            Some(range) => range.words.as_mut_ptr().cast::<u8>().wrapping_add((iova - range.iova) as usize),
            None => panic!("the card was given no DMA memory at {iova:#x} for {len} bytes"),
        }
    }

    /// Reads as the card would.
    pub fn read(&mut self, iova: u64, len: usize) -> Vec<u8> {
        let from = self.at(iova, len);
        // SAFETY: `at` has checked the range; scripts run while the driver is inside a call.
        unsafe { std::slice::from_raw_parts(from, len) }.to_vec()
    }

    /// Writes as the card would.
    pub fn write(&mut self, iova: u64, bytes: &[u8]) {
        let to = self.at(iova, bytes.len());
        // SAFETY: as in `read`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }

    /// Ranges that were not freed.
    pub fn live(&self) -> usize {
        self.ranges.iter().filter(|range| range.live).count()
    }
}

#[derive(Default)]
struct State {
    steps: VecDeque<Step>,
    done: usize,
    memory: Ranges,
    relaxed: usize,
}

impl State {
    /// Runs the actions at the head of the script.
    fn act(&mut self) {
        while let Some(Step::Act(_)) = self.steps.front() {
            if let Some(Step::Act(action)) = self.steps.pop_front() {
                self.done += 1;
                action(&mut self.memory);
            }
        }
    }
}

/// A scripted card; clones share one script, so a test keeps one beside the driver's.
#[derive(Clone, Default)]
pub struct Scripted(Arc<Mutex<State>>);

impl Scripted {
    /// A card with an empty script: every access is wrong.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds steps to the script.
    pub fn expect(&self, steps: impl IntoIterator<Item = Step>) {
        let mut state = self.state();
        state.steps.extend(steps);
        if state.done == 0 || !state.steps.is_empty() {
            state.act();
        }
    }

    /// Reads and writes DMA memory between driver calls.
    pub fn memory<R>(&self, look: impl FnOnce(&mut Ranges) -> R) -> R {
        look(&mut self.state().memory)
    }

    /// Calls of `relax`.
    pub fn relaxed(&self) -> usize {
        self.state().relaxed
    }

    /// Panics if steps are left.
    pub fn finish(&self) {
        let state = self.state();
        assert!(
            state.steps.is_empty(),
            "the driver stopped after {} steps; expected: {:#?}",
            state.done,
            state.steps
        );
    }

    /// Takes the next step, which must equal `got` in everything but the value of a read.
    #[track_caller]
    fn next(&self, got: Step) -> Step {
        if std::thread::panicking() {
            // The test has failed already; accesses of the unwinding are not checked.
            return got;
        }
        let mut state = self.state();
        let same = match (state.steps.front(), &got) {
            (Some(Step::Read32(a, _)), Step::Read32(b, _)) => a == b,
            (Some(Step::Read64(a, _)), Step::Read64(b, _)) => a == b,
            (Some(Step::Write32(a, v)), Step::Write32(b, w)) => (a, v) == (b, w),
            (Some(Step::Write64(a, v)), Step::Write64(b, w)) => (a, v) == (b, w),
            (Some(Step::Doorbell(a, v)), Step::Doorbell(b, w)) => (a, v) == (b, w),
            (Some(Step::Wait(a, _)), Step::Wait(b, _)) => a == b,
            _ => false,
        };
        let done = state.done;
        match state.steps.pop_front() {
            Some(step) if same => {
                state.done += 1;
                state.act();
                step
            }
            Some(step) => panic!("step {done} of the script:\n  expected {step:?}\n  got      {got:?}"),
            None => panic!("the script is over after {done} steps, got {got:?}"),
        }
    }
}

impl Registers for Scripted {
    fn read32(&self, offset: u32) -> u32 {
        match self.next(Step::Read32(offset, 0)) {
            Step::Read32(_, value) => value,
            _ => unreachable!("next gives a step of the same kind"),
        }
    }

    fn write32(&self, offset: u32, value: u32) {
        self.next(Step::Write32(offset, value));
    }

    fn read64(&self, offset: u32) -> u64 {
        match self.next(Step::Read64(offset, 0)) {
            Step::Read64(_, value) => value,
            _ => unreachable!("next gives a step of the same kind"),
        }
    }

    fn write64(&self, offset: u32, value: u64) {
        self.next(Step::Write64(offset, value));
    }

    fn doorbell(&self, offset: u32, value: u64) {
        self.next(Step::Doorbell(offset, value));
    }
}

impl Memory for Scripted {
    fn alloc(&self, bytes: usize) -> Result<DmaMemory, CardError> {
        Ok(self.state().memory.alloc(bytes))
    }

    fn free(&self, memory: DmaMemory) {
        let mut state = self.state();
        let range = state.memory.ranges.iter_mut().find(|range| range.live && range.iova == memory.iova);
        // The words stay: a use after this would read stale bytes, not reused memory.
        range.expect("freed memory was allocated").live = false;
    }

    fn map(&self, addr: *mut u8, _len: usize, _writable: bool) -> Result<u64, CardError> {
        Ok(addr as u64)
    }

    fn unmap(&self, _iova: u64, _addr: *mut u8, _len: usize) {}
}

impl Interrupts for Scripted {
    fn wait_interrupt(&self, vector: u32, _timeout: Duration) -> Result<bool, CardError> {
        match self.next(Step::Wait(vector, false)) {
            Step::Wait(_, fires) => Ok(fires),
            _ => unreachable!("next gives a step of the same kind"),
        }
    }
}

impl Hints for Scripted {
    fn relax(&self, _empty_polls: u32) {
        self.state().relaxed += 1;
    }
}
