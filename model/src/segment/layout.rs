//! Where everything is in the segment file.
//!
//! All of it is valid when zero: the keeper writes only the header, so that a
//! segment of a TiB costs a few pages. The segment contains no addresses,
//! only offsets from its start, since every process maps it elsewhere. The one
//! exception is the DMA map of a member, whose keys are that member's own
//! virtual addresses.

use crate::dma::CARD_MEMORY;
use crate::packet::MAX_CARDS;
use crate::plain::Plain;
use std::cell::UnsafeCell;
use std::mem::size_of;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{compiler_fence, AtomicU32, AtomicU64};

use super::extents::ExtentTable;
use super::gate::Gate;
use super::page::{page_ceil, MAX_MEMBERS, PAGE};
use super::robust::RobustLock;
use crate::segment::reach::ask::Mailbox;
use crate::segment::reach::dma::DmaMap;
use crate::segment::reach::offered_files::FileTable;

/// First eight bytes of every segment.
pub const MAGIC: u64 = u64::from_le_bytes(*b"VERBENA\x01");
/// Changes whenever anything in this file or in the cards that a net holds (`Net`) changes its place or its meaning.
pub const LAYOUT_VERSION: u32 = 32;
/// The keeper's own index in the member table.
pub const KEEPER_MEMBER: u16 = 0;
/// Islands of a net, and so queue pairs that can be run at the same time; number 0 is all the cards.
pub const ISLANDS: usize = 256;

/// The lock of an island, or (number 0) of all the cards, and what its holder writes with every message.
///
/// The second line keeps the neighbour that the prefetcher fetches along free of other users.
#[derive(Plain)]
#[repr(C, align(128))]
pub struct Control {
    pub(super) lock: RobustLock,
    /// Used by the lock holder: grows with every change that makes earlier findings
    /// invalid. Never 0.
    pub generation: AtomicU64,
    /// Written by the lock holder: what to repair if it dies.
    pub journal: AtomicU64,
}

impl Control {
    /// Makes earlier findings invalid. With the lock held.
    #[inline]
    pub fn new_generation(&self) {
        self.generation.store(self.generation.load(Relaxed) + 1, Relaxed);
    }

    /// Records for crash recovery what is about to be changed: a word of the [journal](crate::journal).
    #[inline(always)]
    pub fn write_journal(&self, word: u64) {
        self.journal.store(word, Relaxed);
        // The changes stay after this.
        compiler_fence(SeqCst);
    }

    /// What was recorded has been changed.
    #[inline(always)]
    pub fn close_journal(&self) {
        compiler_fence(SeqCst);
        self.journal.store(0, Relaxed);
    }
}

/// Read by all members on every operation, written rarely.
#[derive(Plain)]
#[repr(C, align(128))]
pub struct Steady {
    /// Grows before and after every change of any DMA map.
    pub dma_generation: AtomicU64,
    /// 1 from the moment that a dead holder's lock was taken over until the
    /// cards have been repaired.
    pub needs_recovery: AtomicU32,
    /// Of the last offer of a file.
    pub file_serial: AtomicU64,
    /// Closed while a thread has all the cards.
    pub gate: Gate,
    /// Islands of this epoch: 1 to this number.
    pub islands: AtomicU32,
    /// When the epoch began, or a thread last tried to begin one (CLOCK_MONOTONIC, ns).
    pub islands_found: AtomicU64,
}

/// When the cards' timers have to be checked.
#[derive(Plain)]
#[repr(C, align(128))]
pub struct Timers {
    /// Earliest deadline (CLOCK_MONOTONIC, ns) that was asked for;
    /// `u64::MAX` when there is none.
    pub next_deadline: AtomicU64,
    /// When the keeper wakes up by itself; 0 while it is awake (it reads
    /// `next_deadline` before it sleeps again).
    pub keeper_wake_at: AtomicU64,
}

/// The first pages of the segment.
#[derive(Plain)]
#[repr(C, align(4096))]
pub struct Header {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`LAYOUT_VERSION`].
    pub version: u32,
    /// Process id of the keeper.
    pub keeper_pid: u32,
    /// Size of the whole file.
    pub total_bytes: u64,
    /// Size of the world area (page aligned).
    pub world_bytes: u64,
    /// Where the heap begins.
    pub heap_offset: u64,
    /// Size of the heap.
    pub heap_bytes: u64,
    /// Locks and journals, by island.
    pub controls: [Control; ISLANDS],
    /// Read-mostly words.
    pub steady: Steady,
    /// Deadlines.
    pub timers: Timers,
}

/// No process has this index.
pub const MEMBER_FREE: u32 = 0;
/// A live process has this index.
pub const MEMBER_ACTIVE: u32 = 1;
/// The process has ended; what it owned is being freed.
pub const MEMBER_GONE: u32 = 2;

/// One process that uses the segment. Only the keeper writes it.
#[derive(Plain)]
#[repr(C, align(64))]
pub struct Member {
    /// [`MEMBER_FREE`], [`MEMBER_ACTIVE`] or [`MEMBER_GONE`].
    pub state: AtomicU32,
    /// Process id, as the keeper sees it.
    pub pid: AtomicU32,
    /// Grows each time the index passes to another process.
    pub generation: AtomicU64,
}

/// The own memory of a card, which all members reach.
#[derive(Plain)]
#[repr(C, align(4096))]
pub struct CardMemory(UnsafeCell<[u8; CARD_MEMORY]>);

/// Everything in front of the world area.
#[derive(Plain)]
#[repr(C, align(4096))]
pub struct Tables {
    /// Sizes, lock and hot words.
    pub header: Header,
    /// The processes that use the segment.
    pub members: [Member; MAX_MEMBERS],
    /// The owner of each page of the heap.
    pub extents: ExtentTable,
    /// What each member has made reachable for DMA.
    pub dma: [DmaMap; MAX_MEMBERS],
    /// Files that each member lets the others map.
    pub files: [FileTable; MAX_MEMBERS],
    /// Requests for memory that only one member can reach.
    pub mailboxes: [Mailbox; MAX_MEMBERS],
    /// The cards' own memory.
    pub card_memory: [CardMemory; MAX_CARDS],
}

/// Where the world area begins.
pub const WORLD_OFFSET: u64 = size_of::<Tables>() as u64;

const _: () = {
    assert!(size_of::<Control>() == 128);
    assert!(size_of::<Tables>() % PAGE as usize == 0);
    assert!(size_of::<Member>() == 64);
};

/// The sizes that a creator chose, rounded to pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of the world area.
    pub world_bytes: u64,
    /// Where the heap begins.
    pub heap_offset: u64,
    /// Bytes of the heap.
    pub heap_bytes: u64,
}

impl Layout {
    /// Rounds both sizes up to pages; `None` if the table of extents could
    /// not describe so large a heap (16 TiB).
    pub fn new(world_bytes: u64, heap_bytes: u64) -> Option<Layout> {
        let world_bytes = page_ceil(world_bytes)?;
        let heap_bytes = page_ceil(heap_bytes)?;
        if heap_bytes / PAGE > u64::from(u32::MAX) {
            return None;
        }
        let heap_offset = WORLD_OFFSET.checked_add(world_bytes)?;
        heap_offset.checked_add(heap_bytes)?;
        Some(Layout { world_bytes, heap_offset, heap_bytes })
    }

    /// Size of the whole file.
    pub fn total_bytes(&self) -> u64 {
        self.heap_offset + self.heap_bytes
    }
}

// Its file is built on its own, too: `tests/tests/islands.rs`.
impl Plain for Gate {}
