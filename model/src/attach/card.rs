//! [`SegmentCard`]: one opened card of a segment as the driver's backend.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use driver::{CardError, DmaMemory, Hints, Interrupts, Memory, Registers};
use fpga_regs::{
    CqArm, RqDoorbell, SqDoorbell, SrqDoorbell, DOORBELL_BASE, DOORBELL_CQ_ARM, DOORBELL_PAGE_BYTES,
    DOORBELL_RQ, DOORBELL_SQ, DOORBELL_SRQ,
};

use super::wall::runner::Runner;
use crate::cells::owner;
use crate::device::defect::Defect;
use crate::device::tables::{EQS, MAX_QPS, MAX_SRQS};
use crate::panics::tidied;
use crate::segment::layout::PAGE;
use crate::segment::{futex_wait, AttachError, LockError, Segment};
use crate::sim::event::Event;

/// Empty polls in a row after which a poll offers its core to others, each time this many have passed.
const YIELD_AFTER: u32 = 256;

/// Why a card could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The segment could not be joined.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The cards are busy or stopped.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The net has fewer cards.
    #[error("the net has {count} cards: there is no card {card} (start it with --cards {})", .card + 1)]
    NoCard {
        /// Asked for.
        card: u32,
        /// Cards of the net.
        count: u8,
    },
    /// Too many open contexts.
    #[error("the card has no free function: too many programs have it open")]
    NoFunction,
    /// A card in simulated time was to be served.
    #[error("the net's cards run in simulated time, which a client behind a socket has no part in: serve cards of a net that was started without --clock virtual")]
    Simulated,
}

/// A card of a segment, opened by this process.
pub struct SegmentCard {
    pub(super) runner: Arc<Runner<Segment>>,
    pub(super) card: u8,
    pub(super) function: u16,
    /// As whom it rings doorbells.
    owner: u32,
    /// The card runs in simulated time.
    pub(super) simulated: bool,
    /// Interrupts seen, by vector.
    seen: [AtomicU32; EQS],
}

/// Segments that this process has joined, by socket: all its contexts share one membership.
static JOINED: Mutex<Option<HashMap<PathBuf, Weak<Runner<Segment>>>>> = Mutex::new(None);

fn join(socket: &Path) -> Result<Arc<Runner<Segment>>, OpenError> {
    let mut joined = JOINED.lock().unwrap_or_else(PoisonError::into_inner);
    let joined = joined.get_or_insert_with(HashMap::new);
    // A forked child has no part in its parent's segment and joins anew.
    let live = joined.get(socket).and_then(Weak::upgrade).filter(|r| !r.segment().is_detached());
    if let Some(runner) = live {
        return Ok(runner);
    }
    let runner = Arc::new(Runner::new(Segment::attach(socket)?));
    joined.insert(socket.into(), Arc::downgrade(&runner));
    Ok(runner)
}

impl SegmentCard {
    /// Opens card `card` (from 0) of the net whose keeper listens at `socket`.
    pub fn open(socket: &Path, card: u32) -> Result<SegmentCard, OpenError> {
        Self::attach(join(socket)?, card)
    }

    /// As [`SegmentCard::open`], with a membership and so with DMA addresses of its own.
    pub(super) fn open_alone(socket: &Path, card: u32) -> Result<SegmentCard, OpenError> {
        Self::attach(Arc::new(Runner::new(Segment::attach(socket)?)), card)
    }

    fn attach(runner: Arc<Runner<Segment>>, card: u32) -> Result<SegmentCard, OpenError> {
        let member = runner.segment().member();
        let simulated = runner.simulated();
        let attach = |world: &mut crate::world::World, _: &mut super::wall::env::Wall<'_>| {
            if card >= world.count() as u32 {
                return Err(OpenError::NoCard { card, count: world.count() });
            }
            world.cards[card as usize].attach(member).ok_or(OpenError::NoFunction)
        };
        let function = if simulated {
            let timeline = Arc::downgrade(&runner);
            crate::sim::threads::prepare();
            crate::sim::threads::on_thread_end(move || {
                timeline.upgrade().is_none_or(|timeline| timeline.leave())
            });
            let function = runner.turn(attach)??;
            runner.note_function(card as u8, function);
            function
        } else {
            runner.control(attach)??
        };
        let words = &runner.net().interrupts[card as usize][function as usize];
        let seen = std::array::from_fn(|v| AtomicU32::new(words[v].load(Ordering::Acquire)));
        Ok(SegmentCard { card: card as u8, function, owner: owner(Some(function)), simulated, seen, runner })
    }

    /// The simulated time that this card runs in, if it does.
    pub fn clocked(&self) -> Option<crate::sim::threads::Clocked> {
        self.simulated.then(|| crate::sim::threads::Clocked::new(Arc::clone(&self.runner)))
    }

    /// Runs what the open card's registers ask for; `fallback` when the cards cannot be had.
    pub(super) fn registers<R>(
        &self,
        fallback: R,
        access: impl FnOnce(&mut crate::device::Device, u16, &mut super::wall::env::Wall<'_>) -> R,
    ) -> R {
        let (card, f) = (self.card as usize, self.function);
        let access = |world: &mut crate::world::World, env: &mut super::wall::env::Wall<'_>| {
            access(&mut world.cards[card], f, env)
        };
        let run = || if self.simulated { self.runner.turn(access) } else { self.runner.control(access) };
        tidied(None, || run().ok()).unwrap_or(fallback)
    }

    /// What is on its way to memory in simulated time arrives.
    fn drain_writes(&self) {
        if self.simulated {
            self.runner.drain_writes();
        }
    }

    fn read(&self, offset: u32) -> u64 {
        // A card that does not answer reads all ones, as on PCIe.
        self.registers(u64::MAX, |device, f, env| device.bar_read(f, offset, env))
    }

    fn write(&self, offset: u32, value: u64) {
        self.registers((), |device, f, env| device.bar_write(f, offset, value, env));
    }

    /// The place of a thread about to be started that waits for this card's interrupts. `None` where the
    /// card runs by the machine's time.
    pub fn follower(&self) -> Option<crate::sim::threads::Follower> {
        self.simulated
            .then(|| crate::sim::threads::Follower::new(&self.runner, self.card, self.function))
            .flatten()
    }

    /// Makes the card a defective one, for all who use it.
    pub fn set_defect(&self, defect: Defect) {
        self.registers((), |device, _, _| device.defect = defect);
    }

    /// Makes a thread of this process that waits for interrupt `vector` look around.
    pub fn wake(&self, vector: u32) {
        let words = &self.runner.net().interrupts[self.card as usize][self.function as usize];
        if let Some(word) = words.get(vector as usize) {
            word.fetch_add(1, Ordering::Release);
            crate::segment::futex_wake(word, u32::MAX >> 1);
        }
    }

    /// Whether doorbells of this owner are this function's: all programs reach all of them.
    #[inline(always)]
    fn owns(&self, owner: &AtomicU32) -> bool {
        owner.load(Ordering::Relaxed) == self.owner
    }

    /// A doorbell in simulated time: the program pays for it, the card sees it later.
    #[cold]
    #[inline(never)]
    fn bell(&self, offset: u32, value: u64) {
        let (card, function) = (self.card, self.function);
        let host = &self.runner.profile().host;
        let bells = &self.runner.net().bells[card as usize];
        match offset % DOORBELL_PAGE_BYTES {
            DOORBELL_SQ => {
                let bell = SqDoorbell(value);
                let qp = (bell.qpn() & 0xffff) as usize % MAX_QPS;
                if !self.owns(&bells.qp[qp].owner) {
                    return;
                }
                // What this process rang last.
                let last = &bells.qp[qp].posted[0];
                let blocks = bell.index().wrapping_sub(last.swap(bell.index(), Ordering::Relaxed));
                self.runner.send_bell(card, qp as u16, bell.index(), blocks);
            }
            DOORBELL_RQ => {
                let bell = RqDoorbell(value);
                let qp = (bell.qpn() & 0xffff) as usize % MAX_QPS;
                if !self.owns(&bells.qp[qp].owner) {
                    return;
                }
                let last = &bells.qp[qp].posted[1];
                let count = bell.index().wrapping_sub(last.swap(bell.index(), Ordering::Relaxed));
                let cost = host.post_recv_ps * u64::from(count) + host.doorbell_ps;
                let event = Event::RecvBell { card, qp: qp as u16, producer: bell.index() };
                self.runner.bell(cost, event);
            }
            DOORBELL_SRQ => {
                let bell = SrqDoorbell(value);
                let srq = (bell.srqn() as usize % MAX_SRQS) as u16;
                if !self.owns(&bells.srq[srq as usize].owner) {
                    return;
                }
                let event = Event::SharedBell { card, srq, producer: bell.index() };
                self.runner.bell(host.post_recv_ps + host.doorbell_ps, event);
            }
            DOORBELL_CQ_ARM => {
                self.runner.bell(host.doorbell_ps, Event::Arm { card, function, value });
            }
            _ => {}
        }
    }

    #[cold]
    fn arm(&self, arm: CqArm) {
        self.registers((), |device, f, env| {
            device.arm_cq(f, arm.cqn(), arm.solicited_only(), arm.index(), env)
        });
    }
}

/// A doorbell that is not its owner's.
#[cold]
#[inline(never)]
fn not_heard() {}

impl Drop for SegmentCard {
    fn drop(&mut self) {
        tidied((), || self.drain_writes());
        self.registers((), |device, f, env| device.detach(f, env));
    }
}

impl Registers for SegmentCard {
    fn read32(&self, offset: u32) -> u32 {
        self.read(offset) as u32
    }

    fn write32(&self, offset: u32, value: u32) {
        self.write(offset, value as u64);
    }

    fn read64(&self, offset: u32) -> u64 {
        self.read(offset)
    }

    fn write64(&self, offset: u32, value: u64) {
        if offset >= DOORBELL_BASE {
            self.doorbell(offset, value);
        } else {
            self.write(offset, value);
        }
    }

    // The driver's offsets are constants but for the page: a call that is inlined has one of the arms.
    #[inline(always)]
    fn doorbell(&self, offset: u32, value: u64) {
        if self.simulated {
            return self.bell(offset, value);
        }
        let bells = &self.runner.net().bells[self.card as usize];
        match offset % DOORBELL_PAGE_BYTES {
            DOORBELL_SQ => {
                let bell = SqDoorbell(value);
                let qp = (bell.qpn() & 0xffff) as usize % MAX_QPS;
                if !self.owns(&bells.qp[qp].owner) {
                    return not_heard();
                }
                bells.qp[qp].sq.store(bell.index(), Ordering::Release);
                self.runner.ring(self.card, qp as u16, bell.index());
            }
            DOORBELL_RQ => {
                let bell = RqDoorbell(value);
                let qp = (bell.qpn() & 0xffff) as usize % MAX_QPS;
                if !self.owns(&bells.qp[qp].owner) {
                    return;
                }
                // Ordered before the look at `watch`.
                bells.qp[qp].rq.swap(bell.index(), Ordering::SeqCst);
                if bells.qp[qp].watch.load(Ordering::SeqCst) != 0 {
                    self.runner.kick(self.card, qp as u16);
                }
            }
            DOORBELL_SRQ => {
                let bell = SrqDoorbell(value);
                let srq = bell.srqn() as usize % MAX_SRQS;
                if self.owns(&bells.srq[srq].owner) {
                    bells.srq[srq].producer.store(bell.index(), Ordering::Release);
                }
            }
            DOORBELL_CQ_ARM => self.arm(CqArm(value)),
            _ => {}
        }
    }

    fn may_vanish(&self) -> bool {
        self.runner.segment().is_condemned()
    }
}

impl Memory for SegmentCard {
    fn alloc(&self, bytes: usize) -> Result<DmaMemory, CardError> {
        let area = self.runner.segment().alloc(bytes);
        self.runner.look();
        let area = area.map_err(|e| CardError::Setup(e.to_string()))?;
        Ok(DmaMemory { ptr: area.ptr, iova: area.ptr as u64, len: area.len })
    }

    fn free(&self, memory: DmaMemory) {
        tidied((), || {
            self.drain_writes();
            let segment = self.runner.segment();
            let offset = (memory.ptr as u64).wrapping_sub(segment.ptr_at(0) as u64);
            debug_assert!(offset % PAGE == 0);
            let area = crate::segment::Area { ptr: memory.ptr, offset, len: memory.len };
            // What cannot be freed now is freed by the keeper when the process ends.
            let _ = segment.free(area);
            self.runner.look();
        });
    }

    fn map(&self, addr: *mut u8, len: usize, writable: bool) -> Result<u64, CardError> {
        let mapped = self.runner.segment().map(addr, len, writable);
        self.runner.look();
        mapped.map_err(|e| CardError::Map { addr: addr as u64, len, reason: e.to_string() })
    }

    fn unmap(&self, _iova: u64, addr: *mut u8, len: usize) {
        tidied((), || {
            self.drain_writes();
            let _ = self.runner.segment().unmap(addr, len);
            self.runner.look();
        });
    }
}

impl Interrupts for SegmentCard {
    fn wait_interrupt(&self, vector: u32, timeout: Duration) -> Result<bool, CardError> {
        let words = &self.runner.net().interrupts[self.card as usize][self.function as usize];
        let v = vector as usize;
        let (Some(word), Some(seen)) = (words.get(v), self.seen.get(v)) else {
            return Err(CardError::NoVector { vector, count: EQS as u32 });
        };
        let until = Instant::now() + timeout;
        loop {
            let now = word.load(Ordering::Acquire);
            if now != seen.load(Ordering::Relaxed) {
                seen.store(now, Ordering::Relaxed);
                if self.simulated {
                    self.runner.took_interrupt(self.card, self.function);
                }
                return Ok(true);
            }
            if self.runner.segment().is_detached() {
                return Err(CardError::Gone);
            }
            if self.runner.segment().is_condemned() {
                return Err(CardError::Setup(LockError::Condemned.to_string()));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            if self.simulated && !self.runner.block_for_interrupt(self.card, self.function, word, now) {
                continue;
            }
            futex_wait(word, now, Some(left));
        }
    }
}

impl Hints for SegmentCard {
    #[inline]
    fn expect_doorbell(&self) {
        self.runner.segment().expect_lock();
    }

    #[inline]
    fn expect_posts(&self, qpn: u32) {
        self.runner.expect_posts(self.card, qpn as u16);
    }

    #[inline]
    fn polled(&self, completions: usize) {
        if self.simulated {
            self.runner.polled(completions);
        }
    }

    #[inline]
    fn relax(&self, empty_polls: u32) {
        if self.simulated {
            return self.runner.polled_nothing();
        }
        std::hint::spin_loop();
        if empty_polls % YIELD_AFTER == YIELD_AFTER - 1 {
            if self.runner.segment().pending().load(Ordering::Relaxed) != 0 {
                self.runner.help();
            }
            std::thread::yield_now();
        }
    }
}
