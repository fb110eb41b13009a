//! An open function of a card, as this process sees it: what both clocks have in common.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use driver::{CardError, DmaMemory};
use fpga_regs::{CqArm, Doorbell};

use super::error::OpenError;
use super::manager::Caller;
use crate::cells::{owner, Bells};
use crate::device::tables::{EQS, MAX_QPS, MAX_SRQS};
use crate::device::Device;
use crate::net::Net;
use crate::segment::page::PAGE;
use crate::segment::{futex_raise, futex_wait, Area, LockError, Segment};
use crate::world::World;

/// A doorbell that its owner rang, with the index of its queue in the card.
#[derive(Clone, Copy)]
pub(super) enum Rung {
    /// Of a send queue: WQEs up to `index` are ready.
    Send { qp: u16, index: u32 },
    /// Of a receive queue.
    Recv { qp: u16, index: u32 },
    /// Of a shared receive queue.
    Shared { srq: u16, index: u32 },
    /// Arms a CQ.
    Arm(CqArm),
}

/// See the module.
pub(super) struct Function {
    /// The card, from 0.
    pub card: u16,
    /// The function of that card.
    pub index: u16,
    /// The word that says whose doorbells are this function's.
    owner: u32,
    /// Interrupts seen, by vector.
    seen: [AtomicU32; EQS],
}

impl Function {
    /// Whether a doorbell, by its owner's word, is this function's.
    #[inline(always)]
    pub fn owns(&self, owner: &AtomicU32) -> bool {
        owner.load(Ordering::Relaxed) == self.owner
    }

    /// Gives a process a function of card `card`.
    pub fn attach(world: &mut World, card: u32, member: u16) -> Result<u16, OpenError> {
        if card >= world.count() as u32 {
            return Err(OpenError::NoCard { card, count: world.count() });
        }
        world.cards[card as usize].attach(member).ok_or(OpenError::NoFunction)
    }

    /// What [`attach`](Self::attach) gave.
    pub fn new(net: &Net, card: u32, index: u16) -> Function {
        Function::of(card as u16, index, &net.interrupts[card as usize][index as usize])
    }

    /// The same, with its interrupt words.
    pub fn of(card: u16, index: u16, words: &[AtomicU32; EQS]) -> Function {
        let seen = std::array::from_fn(|v| AtomicU32::new(words[v].load(Ordering::Acquire)));
        Function { card, index, owner: owner(Some(index)), seen }
    }

    /// What the connection manager is to know of it.
    pub fn caller(&self, segment: &Segment) -> Caller {
        Caller { member: segment.member(), function: self.index }
    }

    /// Its card.
    pub fn device<'w>(&self, world: &'w mut World) -> &'w mut Device {
        &mut world.cards[self.card as usize]
    }

    /// Its interrupt words.
    pub fn words<'n>(&self, net: &'n Net) -> &'n [AtomicU32; EQS] {
        &net.interrupts[self.card as usize][self.index as usize]
    }

    /// What a store to the doorbell pages says, if the doorbell is this function's: every program can reach all of them.
    #[inline(always)]
    pub fn hears(&self, bells: &Bells, offset: u32, value: u64) -> Option<Rung> {
        let owns = |owner: &AtomicU32| self.owns(owner);
        let qp = |qpn: u32| (qpn & 0xffff) as usize % MAX_QPS;
        match Doorbell::decode(offset, value)? {
            Doorbell::Send(bell) => {
                let qp = qp(bell.qpn());
                owns(&bells.qp[qp].owner).then(|| Rung::Send { qp: qp as u16, index: bell.index() })
            }
            Doorbell::Recv(bell) => {
                let qp = qp(bell.qpn());
                owns(&bells.qp[qp].owner).then(|| Rung::Recv { qp: qp as u16, index: bell.index() })
            }
            Doorbell::SharedRecv(bell) => {
                let srq = bell.srqn() as usize % MAX_SRQS;
                owns(&bells.srq[srq].owner).then(|| Rung::Shared { srq: srq as u16, index: bell.index() })
            }
            Doorbell::Arm(bell) => Some(Rung::Arm(bell)),
        }
    }

    /// Makes a thread of this process that waits for interrupt `vector` check again.
    pub fn wake(&self, net: &Net, vector: u32) {
        if let Some(word) = self.words(net).get(vector as usize) {
            futex_raise(word);
        }
    }

    /// See [`driver::Interrupts::wait_interrupt`]. The thread sleeps unless `may_sleep` says no, which gets the interrupt
    /// word and the value that it had.
    pub fn wait_interrupt(
        &self,
        (segment, net): (&Segment, &Net),
        vector: u32,
        timeout: Duration,
        may_sleep: impl Fn(&AtomicU32, u32) -> bool,
    ) -> Result<bool, CardError> {
        let v = vector as usize;
        let (Some(word), Some(seen)) = (self.words(net).get(v), self.seen.get(v)) else {
            return Err(CardError::NoVector { vector, count: EQS as u32 });
        };
        let until = Instant::now() + timeout;
        loop {
            let now = word.load(Ordering::Acquire);
            if now != seen.load(Ordering::Relaxed) {
                seen.store(now, Ordering::Relaxed);
                return Ok(true);
            }
            if segment.is_detached() {
                return Err(CardError::Gone);
            }
            if segment.is_condemned() {
                return Err(CardError::Setup(LockError::Condemned.to_string()));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            if may_sleep(word, now) {
                futex_wait(word, now, Some(left));
            }
        }
    }
}

/// How [`driver::Registers`] are accessed, for a card that has the device run an access with a method `registers`, which
/// is `None` where the cards cannot be had.
macro_rules! accesses {
    () => {
        fn read32(&self, offset: u32) -> u32 {
            self.read64(offset) as u32
        }

        fn write32(&self, offset: u32, value: u32) {
            self.registers(|device, f, env| device.bar_write(f, offset, value.into(), env));
        }

        fn read64(&self, offset: u32) -> u64 {
            // A card that does not answer reads all ones, as on PCIe.
            self.registers(|device, f, env| device.bar_read(f, offset, env)).unwrap_or(u64::MAX)
        }

        fn write64(&self, offset: u32, value: u64) {
            if offset >= fpga_regs::DOORBELL_BASE {
                return self.doorbell(offset, value);
            }
            self.registers(|device, f, env| device.bar_write(f, offset, value, env));
        }
    };
}
pub(super) use accesses;

/// See [`driver::Memory::alloc`].
pub(super) fn alloc(segment: &Segment, bytes: usize) -> Result<DmaMemory, CardError> {
    let area = segment.alloc(bytes).map_err(|e| CardError::Setup(e.to_string()))?;
    Ok(DmaMemory { ptr: area.ptr, iova: area.ptr as u64, len: area.len })
}

/// See [`driver::Memory::free`].
pub(super) fn free(segment: &Segment, memory: DmaMemory) {
    let offset = (memory.ptr as u64).wrapping_sub(segment.ptr_at(0) as u64);
    debug_assert!(offset % PAGE == 0);
    // What cannot be freed now is freed by the keeper when the process ends.
    let _ = segment.free(Area { ptr: memory.ptr, offset, len: memory.len });
}

/// See [`driver::Memory::map`].
pub(super) fn map(segment: &Segment, addr: *mut u8, len: usize, writable: bool) -> Result<u64, CardError> {
    let mapped = segment.map(addr, len, writable);
    mapped.map_err(|e| CardError::Map { addr: addr as u64, len, reason: e.to_string() })
}
