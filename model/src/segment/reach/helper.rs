//! The thread that copies between the segment and this process's private memory
//! for whoever runs the cards.
//!
//! It exists once large memory that cannot be moved or shared is registered. It
//! sleeps unless it is asked, and looks for more work for some microseconds
//! after each job. What it is asked is another process's data: it copies only
//! from and to what is registered, as this process itself remembers it.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use super::ask::{move_bytes, Ask};
use super::bounce::{Bounce, Order, Transfer, ASLEEP, AWAKE, NONE};
use super::private::{Direction, OwnMemory};
use super::ranges::{Range, FOREIGN};
use crate::segment::futex::{futex_wait, futex_wake};
use crate::segment::{now_ns, Segment};

/// Smaller pieces are no reason for a thread.
const LEAST: u64 = 32 * 1024;
/// How long it looks for another job before it sleeps.
const LINGER_NS: u64 = 50_000;

/// This process's side. Used with the process's lock held.
#[derive(Default)]
pub(in crate::segment) struct Helper {
    memory: Arc<Memory>,
    thread: Option<JoinHandle<()>>,
}

/// What is shared with the thread.
#[derive(Default)]
struct Memory {
    registered: Mutex<Vec<Registration>>,
    asked: OnceLock<Arc<dyn Ask>>,
    stop: AtomicBool,
}

struct Registration {
    start: u64,
    len: u64,
    writable: bool,
    /// The parts that are private memory: first address and the one behind.
    pieces: Vec<(u64, u64)>,
}

impl Memory {
    fn registered(&self) -> MutexGuard<'_, Vec<Registration>> {
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Helper {
    /// A registration has been made of these ranges.
    pub(in crate::segment) fn add(
        &mut self,
        segment: &Segment,
        (start, len, writable): (u64, u64, bool),
        ranges: &[Range],
    ) {
        let private = ranges.iter().filter(|range| range.backing == FOREIGN && range.len >= LEAST);
        let pieces: Vec<(u64, u64)> = private.map(|range| (range.start, range.end())).collect();
        if pieces.is_empty() {
            return;
        }
        self.memory.registered().push(Registration { start, len, writable, pieces });
        if self.thread.is_none() {
            self.thread = spawn(segment, &self.memory);
        }
    }

    /// Does what this process is asked for memory of others, too.
    pub(in crate::segment) fn answer_with(&mut self, segment: &Segment, ask: Arc<dyn Ask>) {
        let _ = self.memory.asked.set(ask);
        if self.thread.is_none() {
            self.thread = spawn(segment, &self.memory);
        }
    }

    /// A registration is over: returns when its memory is not touched any more.
    pub(in crate::segment) fn remove(&mut self, start: u64, len: u64) {
        let mut all = self.memory.registered();
        if let Some(at) = all.iter().position(|one| (one.start, one.len) == (start, len)) {
            all.remove(at);
        }
    }

    /// Ends the thread, before the segment is unmapped.
    pub(in crate::segment) fn stop(&mut self, segment: &Segment) {
        let Some(thread) = self.thread.take() else { return };
        let state = &segment.own_bounce().helper.state;
        self.memory.stop.store(true, SeqCst);
        state.store(NONE, SeqCst);
        futex_wake(state, 1);
        let _ = thread.join();
        state.store(NONE, SeqCst);
    }
}

impl Segment {
    fn own_bounce(&self) -> &Bounce {
        &self.tables().bounce[usize::from(self.member())]
    }
}

/// An address of the segment that the thread may use: it is joined before the
/// segment is unmapped.
struct Place {
    bounce: *const Bounce,
    memory: OwnMemory,
}

// SAFETY: shared memory that is used through atomics, or copied.
unsafe impl Send for Place {}

fn spawn(segment: &Segment, memory: &Arc<Memory>) -> Option<JoinHandle<()>> {
    let place = Place { bounce: segment.own_bounce(), memory: segment.local().own_memory() };
    let memory = memory.clone();
    let builder = std::thread::Builder::new().name("verbena-copy".into()).stack_size(128 * 1024);
    let mut old = MaybeUninit::<libc::sigset_t>::uninit();
    // The program's signals are for its own threads.
    // SAFETY: the sets are plain data, initialised before they are read; a new
    // thread inherits the mask.
    unsafe {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigfillset(all.as_mut_ptr());
        // But not those that it causes itself, a trapped instruction for one.
        for own in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP] {
            libc::sigdelset(all.as_mut_ptr(), own);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr());
    }
    let thread = builder.spawn(move || place.run(&memory)).ok();
    // SAFETY: as above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, old.as_ptr(), std::ptr::null_mut()) };
    thread
}

impl Place {
    fn run(&self, memory: &Memory) {
        // SAFETY: mapped until this thread has been joined.
        let bounce = unsafe { &*self.bounce };
        let helper = &bounce.helper;
        let mut next = bounce.head();
        loop {
            helper.state.store(AWAKE, SeqCst);
            if self.work(bounce, memory, &mut next) {
                helper.vain.store(0, Relaxed);
            } else {
                helper.vain.store(helper.vain.load(Relaxed).saturating_add(1), Relaxed);
            }
            // Whoever publishes a job just now takes it back soon.
            helper.state.store(ASLEEP, SeqCst);
            while helper.state.load(SeqCst) == ASLEEP && !memory.stop.load(SeqCst) {
                futex_wait(&helper.state, ASLEEP, None);
            }
            if memory.stop.load(SeqCst) {
                return;
            }
        }
    }

    /// Does jobs until none has come for a while; true if there was one.
    fn work(&self, bounce: &Bounce, memory: &Memory, next: &mut u64) -> bool {
        let mut idle_since = now_ns();
        let mut worked = false;
        let mut recent = 0;
        for spins in 1_u64.. {
            if bounce.serve(next, |order| self.copy(memory, &mut recent, order)) {
                worked = true;
                let served = &bounce.helper.served;
                served.store(served.load(Relaxed).wrapping_add(1), Relaxed);
                idle_since = 0;
                continue;
            }
            std::hint::spin_loop();
            if spins % 128 == 0 {
                let now = now_ns();
                if idle_since == 0 {
                    idle_since = now;
                }
                if now - idle_since > LINGER_NS || memory.stop.load(Relaxed) {
                    break;
                }
            }
        }
        worked
    }

    /// False when that is not allowed.
    fn copy(&self, memory: &Memory, recent: &mut usize, order: Order) -> bool {
        let end = order.offset.checked_add(order.len as u64);
        if end.is_none_or(|end| end > self.memory.total_bytes) {
            return false;
        }
        if let Some(ask) = memory.asked.get() {
            // A process that asks others for memory registers none of its own.
            let here = self.memory.base.wrapping_add(order.offset) as *mut u8;
            let direction = if order.write { Direction::Write } else { Direction::Read };
            // SAFETY: inside the segment.
            return unsafe { move_bytes(&**ask, order.iova, here, order.len, direction) };
        }
        // Held during the copy: who unregisters waits for the end of it.
        let registered = memory.registered();
        if !covered(&registered, recent, &order) {
            return false;
        }
        // The program may have unmapped it all the same.
        let here = self.memory.base.wrapping_add(order.offset) as *mut u8;
        let direction = if order.write { Direction::Write } else { Direction::Read };
        let whole = Transfer { member: 0, iova: order.iova, here, len: order.len, direction };
        self.memory.copy(whole).is_ok()
    }
}

/// True when all of it is registered private memory. `recent` is where the last
/// one was found.
fn covered(registered: &[Registration], recent: &mut usize, order: &Order) -> bool {
    let Some(end) = order.iova.checked_add(order.len as u64) else {
        return false;
    };
    let mut at = order.iova;
    while at < end {
        let piece_end = |registration: &Registration| {
            let mut pieces = registration.pieces.iter();
            let holds = |piece: &&(u64, u64)| piece.0 <= at && at < piece.1;
            let allowed = registration.writable || !order.write;
            pieces.find(holds).filter(|_| allowed).map(|piece| piece.1)
        };
        let hit = registered.get(*recent).and_then(piece_end);
        let hit = hit.or_else(|| {
            let found = registered.iter().enumerate();
            let (index, end) = found.filter_map(|(i, one)| Some((i, piece_end(one)?))).next()?;
            *recent = index;
            Some(end)
        });
        match hit {
            Some(to) => at = to,
            None => return false,
        }
    }
    true
}
