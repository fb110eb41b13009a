//! The shared segment: memory that holds the cards and all that they reach.
//!
//! One sparse file in memory, mapped by every process that uses a net of cards. It has three wings: the file and its
//! members ([`keeper`]), reaching memory ([`reach`]) and moving memory ([`moving`]). The cards are an area of the file
//! that this module does not interpret.
//!
//! | file | idea |
//! |---|---|
//! | [`layout`], [`page`] | what is where in the file, and its units |
//! | [`lock`], `island`, `gate`, `robust`, `announced` | the lock of all cards and those of islands, which the kernel releases when their holder dies |
//! | [`futex`] | waiting on a word of shared memory |
//! | [`extents`], [`heap`] | the owner of each page of the heap, and memory of it for rings |
//! | `registry`, `local_lock`, `fork`, `signals` | the segments of this process, and what happens to them in a forked child |
//! | `error` | why memory was not mapped |
#![allow(unsafe_code)]

mod announced;
mod error;
pub mod extents;
mod fork;
pub mod futex;
mod gate;
pub mod heap;
mod island;
pub mod keeper;
pub mod layout;
mod local_lock;
pub mod lock;
pub mod moving;
pub mod page;
pub mod reach;
mod registry;
mod robust;
mod signals;
#[cfg(test)]
mod tests;

/// What [`gate`] is made of; its model check replaces it.
mod atomic {
    use std::sync::atomic::compiler_fence;
    pub use std::sync::atomic::{fence, AtomicU32, Ordering};

    /// Between a lock that was taken and a look at the gate. On x86 a lock is taken by a locked instruction, which orders
    /// like a fence.
    #[inline(always)]
    pub fn after_lock() {
        match cfg!(target_arch = "x86_64") {
            true => compiler_fence(Ordering::SeqCst),
            false => fence(Ordering::SeqCst),
        }
    }
}

use std::cell::UnsafeCell;
use std::ops::RangeInclusive;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{fence, AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

pub use error::SegmentError;
pub use futex::{futex_raise, futex_wait, futex_wake};
pub use heap::Area;
pub use island::{Entry, Island, Label, Turn};
pub use keeper::attach::AttachError;
pub use keeper::{KeeperError, KeeperOptions};
pub use layout::{Layout, ISLANDS, KEEPER_MEMBER};
pub use lock::{Guard, LockError, ALL};
pub use page::{MAX_MEMBERS, PAGE};
pub use reach::dma::Backing;
pub use reach::transfer::DmaFault;
pub use reach::Reach;

use crate::panics::tidied;
use layout::{Control, Tables};
use moving::maps::Mapping;
use moving::mover;
use reach::{ask, kernel, offered_files, Found};

/// A segment, as this process has mapped it. Share it by `Arc`.
///
/// Dropping it gives moved buffers back to private memory and leaves the
/// segment. In a child made by `fork` it is dead: [`Segment::is_detached`].
pub struct Segment {
    base: *mut u8,
    member: u16,
    local: Box<Local>,
}

// SAFETY: the mapping is shared memory that all access goes through atomics or
// the lock; the local state is atomics, or guarded as its fields say.
unsafe impl Send for Segment {}
// SAFETY: as above.
unsafe impl Sync for Segment {}

/// What only this process knows about its segment. It has a fixed address, for
/// the fork handlers.
struct Local {
    base: u64,
    total_bytes: u64,
    /// Descriptors are raw because a forked child closes them under us.
    memfd: RawFd,
    wake: RawFd,
    connection: Option<RawFd>,
    /// By which ports send to the outside.
    sockets: Vec<RawFd>,
    /// Device and inode of the file, as /proc/self/maps shows them.
    identity: ((u32, u32), u64),
    detached: AtomicBool,
    /// Some pages were moved: a fork has to search for them.
    moved_pages: AtomicBool,
    /// The lock holder is repairing the cards.
    repairing: AtomicBool,
    /// Memory of the segment was registered again: a page may have several addresses.
    overlapped: AtomicBool,
    /// Bytes of the cards' area. Sizes are never read from the segment again, where any member could change them.
    world_bytes: AtomicU64,
    /// By island: what its lock holder has found out about memory. Made when first needed.
    found: [AtomicPtr<Found>; ISLANDS],
    /// Lent memory that stays mapped, start and end. Changed only with all the cards.
    lent: UnsafeCell<Vec<(u64, u64)>>,
    /// Used only with the process's lock held.
    offers: UnsafeCell<offered_files::Offers>,
    /// As above.
    answerer: UnsafeCell<ask::Answerer>,
    /// Does DMA that only this process can do.
    asked: std::sync::OnceLock<std::sync::Arc<dyn ask::Ask>>,
}

impl Local {
    /// What was found out with any lock. Its holder alone uses it.
    fn found(&mut self) -> impl Iterator<Item = &mut Found> {
        // SAFETY: made by `Found::of` and freed with `self`, which is borrowed.
        self.found.iter_mut().filter_map(|found| unsafe { found.get_mut().as_mut() })
    }

    /// The file of the segment; not of one that is detached.
    fn file(&self) -> BorrowedFd<'_> {
        debug_assert!(!self.detached.load(Ordering::Relaxed));
        // SAFETY: our descriptor, open while we are not detached.
        unsafe { BorrowedFd::borrow_raw(self.memfd) }
    }

    /// Whether this is a mapping of the segment.
    fn is_mapped_by(&self, mapping: &Mapping) -> bool {
        (mapping.device, mapping.inode) == self.identity
    }

    fn own_memory(&self) -> kernel::OwnMemory {
        kernel::OwnMemory { memfd: self.memfd, base: self.base, total_bytes: self.total_bytes }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        for found in &mut self.found {
            let found = std::mem::replace(found.get_mut(), std::ptr::null_mut());
            if !found.is_null() {
                // SAFETY: a box of `Found::of`, taken out of its place.
                drop(unsafe { Box::from_raw(found) });
            }
        }
    }
}

impl Segment {
    /// The index of this process in the member table.
    #[inline]
    pub fn member(&self) -> u16 {
        self.member
    }

    /// True in a child made by `fork`: the memory of this segment is gone here
    /// (its place reads zero) and every call fails. The child may attach again.
    #[inline]
    pub fn is_detached(&self) -> bool {
        self.local.detached.load(Ordering::Relaxed)
    }

    /// The cards' area: zero when the keeper's `init` first sees it.
    #[inline]
    pub fn world_ptr(&self) -> *mut u8 {
        self.ptr_at(layout::WORLD_OFFSET)
    }

    /// Bytes of the cards' area.
    pub fn world_bytes(&self) -> u64 {
        self.local.world_bytes.load(Ordering::Relaxed)
    }

    /// Where the heap begins.
    #[inline]
    fn heap_offset(&self) -> u64 {
        layout::WORLD_OFFSET + self.world_bytes()
    }

    /// Bytes of the heap.
    fn heap_bytes(&self) -> u64 {
        self.local.total_bytes.saturating_sub(self.heap_offset())
    }

    /// Sets the size of the cards' area; false when the segment has no room for it.
    fn sized(&self, world_bytes: u64) -> bool {
        self.local.world_bytes.store(world_bytes, Ordering::Relaxed);
        let end = layout::WORLD_OFFSET.checked_add(world_bytes);
        end.is_some_and(|end| end <= self.local.total_bytes)
    }

    /// The address, in this process, of an offset in the segment. The offset
    /// must be below the segment's size.
    #[inline]
    pub fn ptr_at(&self, offset: u64) -> *mut u8 {
        self.base.wrapping_add(offset as usize)
    }

    /// Makes all earlier findings invalid, about any island. With the lock of all cards.
    pub fn new_generation(&self) {
        self.control(ALL).new_generation();
        self.islands().for_each(|island| self.control(island).new_generation());
    }

    /// The journal of who has all the cards; see [`layout::Control`].
    #[inline]
    pub fn journal(&self) -> &AtomicU64 {
        &self.control(ALL).journal
    }

    /// Process id of a member, `None` if the index is not in use.
    #[inline]
    pub fn pid_of(&self, member: u16) -> Option<u32> {
        let entry = self.tables().members.get(usize::from(member))?;
        (entry.state.load(Ordering::Acquire) == layout::MEMBER_ACTIVE)
            .then(|| entry.pid.load(Ordering::Relaxed))
    }

    /// Makes the keeper check the timers soon.
    pub fn wake_keeper(&self) {
        if !self.is_detached() {
            // SAFETY: our descriptor, open while we are not detached.
            let wake = unsafe { BorrowedFd::borrow_raw(self.local.wake) };
            // Only a counter at its maximum fails, and that wakes as well.
            let _ = rustix::io::write(wake, &1_u64.to_ne_bytes());
        }
    }

    /// Gives the memory of whole pages of the cards' area back to the system. They are zero from then on.
    pub(crate) fn discard(&self, start: *const u8, bytes: usize) {
        let offset = (start as u64).wrapping_sub(self.base as u64);
        let end = offset.saturating_add(bytes as u64);
        assert!(offset >= layout::WORLD_OFFSET && end <= self.heap_offset(), "not of the cards' area");
        if !self.is_detached() {
            // What stays is freed with the segment.
            let _ = moving::pages::punch(self.local.file(), offset, bytes as u64);
        }
    }

    /// Waits for `time`, or until the keeper has ended; whether it has.
    pub(crate) fn keeper_ends_within(&self, time: Duration) -> bool {
        let Some(connection) = self.local.connection.filter(|_| !self.is_detached()) else { return true };
        // SAFETY: our descriptor, open while we are not detached.
        let connection = unsafe { BorrowedFd::borrow_raw(connection) };
        let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        // It says nothing after its welcome.
        rustix::event::poll(&mut [PollFd::new(&connection, PollFlags::IN)], Some(&time))
            .is_ok_and(|ready| ready > 0)
    }

    /// A descriptor by which ports send to the outside, as the keeper opened it.
    pub fn socket(&self, index: usize) -> Option<BorrowedFd<'_>> {
        let socket = *self.local.sockets.get(index)?;
        // SAFETY: our descriptor, open while we are not detached.
        (!self.is_detached()).then(|| unsafe { BorrowedFd::borrow_raw(socket) })
    }

    /// Asks for a check of the timers at `deadline` (CLOCK_MONOTONIC, ns). A
    /// system call only if the keeper would sleep for longer than that.
    #[inline]
    pub fn arm_deadline(&self, deadline: u64) {
        let timers = &self.tables().header.timers;
        // Who takes `next_deadline` looks at the timers after that: it sees this one, or is seen here.
        fence(Ordering::SeqCst);
        if deadline < timers.next_deadline.load(Ordering::Relaxed) {
            timers.next_deadline.fetch_min(deadline, Ordering::SeqCst);
            if deadline < timers.keeper_wake_at.load(Ordering::SeqCst)
                && timers.keeper_wake_at.swap(0, Ordering::SeqCst) != 0
            {
                self.wake_keeper();
            }
        }
    }

    /// Whether a deadline has passed that the keeper has not seen yet.
    #[inline]
    pub fn keeper_is_late(&self) -> bool {
        let asked = self.tables().header.timers.next_deadline.load(Ordering::Relaxed);
        asked != u64::MAX && asked <= now_ns()
    }

    #[inline]
    fn tables(&self) -> &Tables {
        // SAFETY: the mapping begins with the tables (checked when it was made)
        // and lives as long as `self`. What others change in it is atomic or
        // inside an UnsafeCell.
        unsafe { &*self.base.cast::<Tables>() }
    }

    /// The lock and journal of an island.
    #[inline(always)]
    pub fn control(&self, island: u16) -> &Control {
        &self.tables().header.controls[usize::from(island) % ISLANDS]
    }

    /// The locks in use: that of all the cards, and those of islands.
    fn controls(&self) -> impl Iterator<Item = u16> {
        std::iter::once(ALL).chain(self.islands())
    }

    /// The islands in use.
    #[inline]
    fn islands(&self) -> RangeInclusive<u16> {
        let last = self.tables().header.steady.islands.load(Ordering::Relaxed);
        1..=last.min(ISLANDS as u32 - 1) as u16
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        tidied((), || {
            if !self.is_detached() {
                let _held = registry::enter();
                // SAFETY: the process's lock is held, `self` is not shared.
                unsafe { &mut *self.local.answerer.get() }.stop(self);
            }
            mover::bring_all_home(self);
        });
        registry::leave(&self.local);
        if self.is_detached() {
            // The parent's: their addresses and descriptors may have other
            // uses here.
            self.local.found().for_each(Found::forget);
            std::mem::forget(std::mem::take(self.local.offers.get_mut()));
            std::mem::forget(std::mem::take(self.local.answerer.get_mut()));
        }
    }
}

/// CLOCK_MONOTONIC in nanoseconds: the clock of all deadlines of a segment.
pub fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // Not by the vDSO: its `rdtsc` traps in a program whose clock is virtual.
    // SAFETY: `now` is valid for writing.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
