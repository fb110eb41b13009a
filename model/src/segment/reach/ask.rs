//! Memory that a served card's client does not share: its server reads and writes it by messages.
//!
//! A lock holder in the server's process does that itself. One in another process puts the request into the server's
//! mailbox and waits. A thread of the server answers. The lock allows one request at a time, so a mailbox has
//! one slot.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::transfer::{Direction, DmaFault, Transfer};
use super::Reach;
use crate::plain::Plain;
use crate::segment::futex::{futex_wait, futex_wake};
use crate::segment::now_ns;
use crate::segment::registry;
use crate::segment::signals::SignalsBlocked;
use crate::segment::Segment;

/// Does DMA for the cards. Called by any thread that holds the segment's lock; must return within seconds.
pub trait Ask: Send + Sync {
    /// Reads at `iova`; false when that is refused.
    fn read(&self, iova: u64, to: &mut [u8]) -> bool;
    /// Writes at `iova`; false when that is refused.
    fn write(&self, iova: u64, from: &[u8]) -> bool;
}

/// Bytes of one request; longer copies are several.
const CHUNK: usize = 32 * 1024;
/// How long a request may take: longer than a server waits for its client.
const PATIENCE_NS: u64 = 3_000_000_000;
/// From then on a waiting lock holder sleeps between two checks.
const SPIN_NS: u64 = 1_000_000;

/// States of a mailbox: no thread answers.
const CLOSED: u32 = 0;
/// No request; the thread sleeps.
const EMPTY: u32 = 1;
/// A request waits for the thread.
const POSTED: u32 = 2;
/// The thread works on it.
const TAKEN: u32 = 3;
/// The thread has done it.
const DONE: u32 = 4;
/// The client refused it.
const REFUSED: u32 = 5;

/// Where other members leave requests for one member.
#[derive(Plain)]
#[repr(C, align(4096))]
pub struct Mailbox {
    state: AtomicU32,
    /// Bytes.
    len: AtomicU32,
    /// 1: to the client.
    write: AtomicU32,
    iova: AtomicU64,
    data: UnsafeCell<[u8; CHUNK]>,
}

/// The thread that answers. Used with the process's lock held.
#[derive(Default)]
pub(in crate::segment) struct Answerer(Option<JoinHandle<()>>);

impl Answerer {
    /// Ends the thread, before the segment is unmapped.
    pub(in crate::segment) fn stop(&mut self, segment: &Segment) {
        let Some(thread) = self.0.take() else { return };
        let mailbox = segment.own_mailbox();
        mailbox.state.store(CLOSED, Release);
        futex_wake(&mailbox.state, 1);
        let _ = thread.join();
    }
}

impl Segment {
    /// Lets `ask` do the DMA that this member's map leaves to it ([`super::ranges::Place::asked`]). Once.
    pub fn answer_with(&self, ask: Arc<dyn Ask>) {
        if self.local.asked.set(ask.clone()).is_err() {
            return;
        }
        let _held = registry::enter();
        let mailbox = OwnMailbox(self.own_mailbox());
        self.own_mailbox().state.store(EMPTY, Release);
        // The program's signals are for its own threads; a new one inherits the mask.
        let _signals = SignalsBlocked::new();
        let builder = std::thread::Builder::new().name("verbena-dma".into()).stack_size(128 * 1024);
        let thread = builder.spawn(move || mailbox.answer(&*ask)).ok();
        if thread.is_none() {
            // Other members get an error at once, instead of waiting for an answer.
            self.own_mailbox().state.store(CLOSED, Release);
        }
        // SAFETY: the process's lock is held.
        unsafe { &mut *self.local.answerer.get() }.0 = thread;
    }

    fn own_mailbox(&self) -> &Mailbox {
        &self.tables().mailboxes[usize::from(self.member())]
    }
}

/// The mailbox, for the thread: that is joined before the segment is unmapped.
struct OwnMailbox(*const Mailbox);

// SAFETY: shared memory, used through atomics or as `state` says.
unsafe impl Send for OwnMailbox {}

impl OwnMailbox {
    /// Until the mailbox is closed.
    fn answer(&self, ask: &dyn Ask) {
        // SAFETY: mapped until this thread has been joined.
        let mailbox = unsafe { &*self.0 };
        loop {
            match mailbox.state.load(Acquire) {
                CLOSED => return,
                POSTED if mailbox.becomes(POSTED, TAKEN) => {}
                other => {
                    futex_wait(&mailbox.state, other, None);
                    continue;
                }
            }
            let len = (mailbox.len.load(Relaxed) as usize).min(CHUNK);
            let write = mailbox.write.load(Relaxed) != 0;
            let direction = if write { Direction::Write } else { Direction::Read };
            let (iova, data) = (mailbox.iova.load(Relaxed), mailbox.data.get().cast());
            // SAFETY: `data` has at least `len` bytes, which are this thread's while the state is TAKEN.
            let done = unsafe { serve(ask, iova, data, len, direction) };
            mailbox.becomes(TAKEN, if done { DONE } else { REFUSED });
        }
    }
}

impl Mailbox {
    fn becomes(&self, from: u32, to: u32) -> bool {
        self.state.compare_exchange(from, to, AcqRel, Relaxed).is_ok()
    }

    /// The owner has ended. With the lock held.
    pub(in crate::segment) fn close(&self) {
        self.state.store(CLOSED, Relaxed);
    }
}

impl Reach<'_> {
    /// Copies from or to memory that the owner has to be asked for.
    pub(super) fn ask(&self, transfer: Transfer) -> Result<(), DmaFault> {
        let Transfer { member, iova, here, len, direction } = transfer;
        if member != self.segment().member() {
            return self.ask_owner(transfer);
        }
        let done = self.segment().local.asked.get().is_some_and(|ask| {
            // SAFETY: the caller's memory, at least that long.
            unsafe { serve(&**ask, iova, here, len, direction) }
        });
        done.then_some(()).ok_or(transfer.unreachable(libc::EIO))
    }

    /// Leaves a copy to the owner's thread and waits for it.
    fn ask_owner(&self, mut left: Transfer) -> Result<(), DmaFault> {
        let mailboxes = &self.segment().tables().mailboxes;
        let mailbox = mailboxes.get(usize::from(left.member)).ok_or(left.unreachable(libc::EIO))?;
        let write = matches!(left.direction, Direction::Write);
        let data: *mut u8 = mailbox.data.get().cast();
        while left.len != 0 {
            let now = left.first(left.len.min(CHUNK));
            // An earlier request may have been given up while the thread worked on it.
            self.settle(now, mailbox)?;
            if write {
                // SAFETY: the caller's memory, and the mailbox's, which is not the thread's now.
                unsafe { std::ptr::copy_nonoverlapping(now.here, data, now.len) };
            }
            mailbox.iova.store(now.iova, Relaxed);
            mailbox.len.store(now.len as u32, Relaxed);
            mailbox.write.store(write.into(), Relaxed);
            if !mailbox.becomes(EMPTY, POSTED) {
                return Err(now.unreachable(libc::EIO));
            }
            futex_wake(&mailbox.state, 1);
            if !self.settle(now, mailbox)? {
                return Err(now.unreachable(libc::EIO));
            }
            if !write {
                // SAFETY: as above.
                unsafe { std::ptr::copy_nonoverlapping(data, now.here, now.len) };
            }
            left = left.after(now.len);
        }
        Ok(())
    }

    /// Waits until a mailbox is empty. True when its last request was done; an error when the owner does not answer.
    fn settle(&self, request: Transfer, mailbox: &Mailbox) -> Result<bool, DmaFault> {
        let begin = now_ns();
        for spins in 0_u64.. {
            match mailbox.state.load(Acquire) {
                POSTED | TAKEN => {}
                EMPTY => return Ok(false),
                done @ (DONE | REFUSED) if mailbox.becomes(done, EMPTY) => return Ok(done == DONE),
                _ => return Err(request.unreachable(libc::EIO)),
            }
            if spins % 64 != 63 {
                std::hint::spin_loop();
                continue;
            }
            let waited = now_ns() - begin;
            let alive = waited < SPIN_NS || self.exists(request.member);
            if waited > PATIENCE_NS || !alive {
                mailbox.becomes(POSTED, EMPTY);
                return Err(request.unreachable(libc::ETIMEDOUT));
            }
            match waited < SPIN_NS {
                true => std::thread::yield_now(),
                false => std::thread::sleep(Duration::from_micros(100)),
            }
        }
        Ok(false)
    }

    /// The last holder of the lock died: none of its requests may be done later.
    pub(in crate::segment) fn settle_requests(&self) {
        let tables = self.segment().tables();
        for (member, mailbox) in (0..).zip(&tables.mailboxes) {
            // The mailboxes of others were never touched: reading them would allocate memory.
            if self.segment().pid_of(member).is_some() && !mailbox.becomes(POSTED, EMPTY) {
                let none = std::ptr::null_mut();
                let request = Transfer { member, iova: 0, here: none, len: 0, direction: Direction::Read };
                let _ = self.settle(request, mailbox);
            }
        }
    }
}

/// # Safety
/// `here` is valid for `len` bytes.
unsafe fn serve(ask: &dyn Ask, iova: u64, here: *mut u8, len: usize, direction: Direction) -> bool {
    // SAFETY: by contract.
    unsafe {
        match direction {
            Direction::Read => ask.read(iova, std::slice::from_raw_parts_mut(here, len)),
            Direction::Write => ask.write(iova, std::slice::from_raw_parts(here, len)),
        }
    }
}
