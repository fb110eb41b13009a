//! The send ring: where the next WQE goes, and whether there is room.
#![allow(unsafe_code)]

use std::sync::atomic::Ordering;

use fpga_regs::WQE_BLOCK;

use crate::card::Card;
use crate::device::Device;
use crate::qp_table::{QpLine, SendShadow};

/// WQEs between the one being posted and the one whose line is fetched.
const AHEAD: u32 = 4;

/// Asks for a cache line in a state that can be written.
///
/// As an instruction: `_mm_prefetch` becomes a prefetch for reading on the x86-64 baseline, and a line that another
/// core has would travel twice.
#[inline(always)]
fn prefetch_for_write(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effects, whatever the address.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// The writing side of a send ring; with its lock it fills one cache line.
pub(crate) struct SqRing<C: Card> {
    /// The device, here so that posting touches no other line of the QP.
    dev: *const Device<C>,
    blocks: *mut u8,
    shadow: *const SendShadow,
    /// Running index of the next block.
    pub(crate) head: u32,
    /// Running count of WQEs.
    pub(crate) count: u32,
    /// As `head`, of what has completed, as of the last refresh.
    tail: u32,
    /// As `count`, of what has completed.
    tail_count: u32,
    /// Blocks - 1.
    pub(crate) mask: u32,
    /// WQEs that may be outstanding.
    max_count: u32,
    /// QPN | doorbell page << 24.
    qpn_page: u32,
    pub(crate) max_inline: u16,
    pub(crate) max_sge: u8,
    pub(crate) flags: u8,
}

// SAFETY: the pointers are to memory of the QP that owns this value; all access is under its lock.
unsafe impl<C: Card> Send for SqRing<C> {}

/// Sizes of a send ring.
pub(crate) struct SqSize {
    pub log: u32,
    pub max_count: u32,
    pub max_inline: u16,
    pub max_sge: u8,
}

impl<C: Card> SqRing<C> {
    /// Over memory that lives as long as the QP.
    pub fn new(
        dev: &Device<C>,
        blocks: *mut u8,
        shadow: *const SendShadow,
        size: &SqSize,
        qpn: u32,
        page: u32,
        flags: u8,
    ) -> Self {
        SqRing {
            dev,
            blocks,
            shadow,
            head: 0,
            count: 0,
            tail: 0,
            tail_count: 0,
            mask: (1 << size.log) - 1,
            max_count: size.max_count,
            qpn_page: qpn | page << 24,
            max_inline: size.max_inline,
            max_sge: size.max_sge,
            flags,
        }
    }

    #[inline]
    fn dev(&self) -> &Device<C> {
        // SAFETY: the QP that owns this value holds the device.
        unsafe { &*self.dev }
    }

    /// The card.
    #[inline]
    pub fn card(&self) -> &C {
        self.dev().card()
    }

    /// Most bytes of a RAW_TSO.
    pub fn max_tso(&self) -> u32 {
        self.dev().ethernet().max_tso()
    }

    #[inline]
    pub fn qpn(&self) -> u32 {
        self.qpn_page & 0xff_ffff
    }

    #[inline]
    pub fn page(&self) -> u32 {
        self.qpn_page >> 24
    }

    /// Whether a WQE of `blocks` fits at `head`.
    #[inline]
    pub fn has_room(&mut self, head: u32, count: u32, blocks: u32) -> bool {
        self.fits(head, count, blocks) || {
            self.refresh();
            self.fits(head, count, blocks)
        }
    }

    /// The QP's line in the table that polling uses.
    #[inline]
    fn line(&self) -> &QpLine {
        self.dev().qps.line(self.qpn())
    }

    #[inline]
    fn fits(&self, head: u32, count: u32, blocks: u32) -> bool {
        let used = head.wrapping_sub(self.tail);
        used + blocks <= self.mask + 1 && count.wrapping_sub(self.tail_count) < self.max_count
    }

    /// Reads what has completed.
    #[inline]
    fn refresh(&mut self) {
        let retired = self.line().sq_retired.load(Ordering::Acquire);
        self.tail = retired as u32;
        self.tail_count = (retired >> 32) as u32;
    }

    /// Where a block is.
    #[inline]
    pub fn block(&self, index: u32) -> *mut u8 {
        self.blocks.wrapping_add((index & self.mask) as usize * WQE_BLOCK)
    }

    /// Remembers the caller's id of a WQE, and where it ends.
    #[inline]
    pub fn remember(&self, index: u32, wr_id: u64, end: u32, count: u32) {
        // SAFETY: the shadow has an entry for each block.
        let shadow = unsafe { &*self.shadow.add((index & self.mask) as usize) };
        shadow.wr_id.store(wr_id, Ordering::Relaxed);
        shadow.end.store(u64::from(end) | u64::from(count) << 32, Ordering::Relaxed);
    }

    /// Fetches the lines that the next posts write. With many QPs in turn a ring leaves the cache between two
    /// posts, and each store would wait for its line.
    #[inline]
    pub fn prefetch(&self, index: u32) {
        let index = index.wrapping_add(AHEAD);
        prefetch_for_write(self.block(index));
        prefetch_for_write(self.shadow.wrapping_add((index & self.mask) as usize).cast());
    }

    /// The same for the first posts of a row; for later ones, each post fetches ahead.
    #[inline]
    pub fn expect_posts(&self) {
        for before in 0..=AHEAD {
            self.prefetch(self.head.wrapping_sub(before));
        }
    }

    /// Back to the state after creation; nothing is outstanding. The caller holds the CQs' locks.
    pub fn reset(&mut self) {
        self.head = 0;
        self.count = 0;
        self.tail = 0;
        self.tail_count = 0;
        self.line().sq_retired.store(0, Ordering::Release);
        for index in 0..=self.mask {
            self.remember(index, 0, 0, 0);
        }
    }
}
