//! The table in which a completion finds its QP: one cache line a QP, indexed by the QPN's low bits.
//!
//! All fields are atomics and all zeroes is an empty line, so the table takes no memory until
//! QPs are created, and a completion of a destroyed QP finds an empty line or that of another QP.
#![allow(unsafe_code)]

use std::alloc::{alloc_zeroed, dealloc, handle_alloc_error, Layout};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::OnceLock;

use crate::srq_ring::SrqShared;

/// Lines of the table.
const LINES: usize = 1 << 16;
/// Marks a line as taken, beside the 24 bits of the QPN.
const TAKEN: u32 = 1 << 31;

/// What the completion of a send needs to know, indexed by the first block of its WQE.
#[derive(Debug, Default)]
pub(crate) struct SendShadow {
    /// The caller's id.
    pub wr_id: AtomicU64,
    /// Block index after the WQE | running WQE count with it << 32.
    pub end: AtomicU64,
}

/// The part of a QP that polling needs.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct QpLine {
    id: AtomicU32,
    /// CQ of the send side.
    pub send_cqn: AtomicU32,
    /// CQ of the receive side.
    pub recv_cqn: AtomicU32,
    /// Blocks of the SQ ring - 1.
    pub sq_mask: AtomicU32,
    /// One entry a block.
    pub sq_shadow: AtomicPtr<SendShadow>,
    /// Blocks completed | WQEs completed << 32.
    pub sq_retired: AtomicU64,
    /// One wr_id an entry of the RQ.
    pub rq_shadow: AtomicPtr<AtomicU64>,
    /// Entries of the RQ - 1.
    pub rq_mask: AtomicU32,
    /// Receives completed.
    pub rq_retired: AtomicU32,
    /// The SRQ that receives come from, or null.
    pub srq: AtomicPtr<SrqShared>,
    /// The send ring in its lock, of a type that only the device knows.
    pub sq: AtomicPtr<u8>,
}

const _: () = assert!(size_of::<QpLine>() == 64);

impl QpLine {
    /// Whether this line belongs to `qpn`.
    #[inline]
    pub fn is(&self, qpn: u32) -> bool {
        self.id.load(Ordering::Acquire) == qpn | TAKEN
    }
}

/// The part of an XRC SRQ that polling needs: its receives are of queue pairs that need not be this device's.
#[derive(Debug, Default)]
struct SrqLine {
    /// Where they complete.
    cqn: AtomicU32,
    /// The SRQ, or null.
    srq: AtomicPtr<SrqShared>,
}

/// All lines of a device.
pub(crate) struct QpTable {
    lines: NonNull<QpLine>,
    /// The memory that they are in.
    memory: NonNull<u8>,
    /// By number, from the first XRC SRQ on.
    srqs: OnceLock<Box<[SrqLine]>>,
}

// SAFETY: the table hands out only shared references to lines made of atomics.
unsafe impl Send for QpTable {}
// SAFETY: as above.
unsafe impl Sync for QpTable {}

impl QpTable {
    /// One line more than there are, so that they can begin at a line's bound. Asked for as aligned, the allocator would
    /// write all of the zeroes, and none of the memory would be left untouched.
    fn layout() -> Layout {
        Layout::array::<u64>((LINES + 1) * size_of::<QpLine>() / size_of::<u64>())
            .expect("a constant that fits")
    }

    /// A table without QPs.
    pub fn new() -> Self {
        // SAFETY: the layout is not empty.
        let raw = unsafe { alloc_zeroed(Self::layout()) };
        let Some(memory) = NonNull::new(raw) else { handle_alloc_error(Self::layout()) };
        // SAFETY: less than a line is skipped, of the one that is more.
        let lines = unsafe { memory.add(memory.align_offset(align_of::<QpLine>())) }.cast();
        QpTable { lines, memory, srqs: OnceLock::new() }
    }

    /// The line that `qpn` has if it has one; check with [`QpLine::is`].
    #[inline]
    pub fn line(&self, qpn: u32) -> &QpLine {
        // SAFETY: the index is below LINES, and zeroed memory is a valid QpLine.
        unsafe { self.lines.add(qpn as usize & (LINES - 1)).as_ref() }
    }

    /// Takes the line of `qpn`, filled in by `fill`; false if another QP has it.
    pub fn insert(&self, qpn: u32, fill: impl FnOnce(&QpLine)) -> bool {
        let line = self.line(qpn);
        if line.id.load(Ordering::Acquire) != 0 {
            return false;
        }
        fill(line);
        line.id.store(qpn | TAKEN, Ordering::Release);
        true
    }

    /// Completions that name this XRC SRQ are its from now on; false if another has its number, or that is too large for the
    /// table.
    pub fn insert_srq(&self, srqn: u32, cqn: u32, srq: &SrqShared) -> bool {
        let srqs = self.srqs.get_or_init(|| (0..LINES).map(|_| SrqLine::default()).collect());
        let Some(line) = srqs.get(srqn as usize) else { return false };
        if !line.srq.load(Ordering::Acquire).is_null() {
            return false;
        }
        line.cqn.store(cqn, Ordering::Relaxed);
        line.srq.store(std::ptr::from_ref(srq).cast_mut(), Ordering::Release);
        true
    }

    /// No completion names it any more. The caller holds the lock of its CQ.
    pub fn remove_srq(&self, srqn: u32, srq: &SrqShared) {
        if let Some(line) = self.srqs.get().and_then(|srqs| srqs.get(srqn as usize)) {
            let (srq, none) = (std::ptr::from_ref(srq).cast_mut(), std::ptr::null_mut());
            // Unless its number was another's.
            let _ = line.srq.compare_exchange(srq, none, Ordering::Release, Ordering::Relaxed);
        }
    }

    /// The XRC SRQ of this number that completes to this CQ, or null.
    pub fn srq(&self, srqn: u32, cqn: u32) -> *const SrqShared {
        match self.srqs.get().and_then(|srqs| srqs.get(srqn as usize)) {
            Some(line) if line.cqn.load(Ordering::Relaxed) == cqn => line.srq.load(Ordering::Acquire),
            _ => std::ptr::null(),
        }
    }

    /// Empties the line of `qpn`. The caller holds the locks of both its CQs.
    pub fn remove(&self, qpn: u32) {
        let line = self.line(qpn);
        if line.is(qpn) {
            line.id.store(0, Ordering::Release);
        }
    }
}

impl Drop for QpTable {
    fn drop(&mut self) {
        // SAFETY: made by alloc_zeroed with the same layout; QpLine needs no drop.
        unsafe { dealloc(self.memory.as_ptr(), Self::layout()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spin::Spin;
    use crate::srq_ring::SrqRing;

    /// Resident memory of this process (bytes).
    fn resident() -> u64 {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("/proc");
        let pages = statm.split(' ').nth(1).expect("the second word");
        // SAFETY: no memory is involved.
        pages.parse::<u64>().expect("a number") * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64
    }

    #[test]
    fn an_empty_table_takes_no_memory() {
        let before = resident();
        let tables: Vec<_> = (0..64).map(|_| QpTable::new()).collect();
        let each = resident().saturating_sub(before) / tables.len() as u64;
        assert!(each < (LINES * size_of::<QpLine>()) as u64 / 4, "{each} B a table");
        assert_eq!(tables[1].line(0) as *const QpLine as usize % size_of::<QpLine>(), 0);
    }

    #[test]
    fn a_number_belongs_to_one_srq() {
        let [one, other] = [0, 1].map(|_| {
            let (entries, slots, free) = (std::ptr::null_mut(), Box::default(), Box::default());
            let (free_count, head, srqn, mask, stride_log, max_sge, page) = (0, 0, 7, 0, 0, 0, 0);
            let ring =
                SrqRing { entries, slots, free, free_count, head, srqn, mask, stride_log, max_sge, page };
            Spin::new(ring)
        });
        let table = QpTable::new();
        assert!(table.insert_srq(7, 1, &one) && !table.insert_srq(7, 1, &other));
        table.remove_srq(7, &other);
        assert!(std::ptr::eq(table.srq(7, 1), &one), "removing a stranger changes nothing");
        table.remove_srq(7, &one);
        assert!(table.srq(7, 1).is_null() && table.insert_srq(7, 1, &other));
        assert!(!table.insert_srq(1 << 16, 1, &one), "too large");
    }

    #[test]
    fn a_line_belongs_to_one_qpn() {
        let table = QpTable::new();
        assert!(table.insert(0x10007, |line| line.send_cqn.store(5, Ordering::Relaxed)));
        assert!(!table.insert(0x20007, |_| ()), "same low bits");
        assert!(table.line(0x10007).is(0x10007));
        assert!(!table.line(0x20007).is(0x20007));
        table.remove(0x20007);
        assert!(table.line(0x10007).is(0x10007), "removing a stranger changes nothing");
        table.remove(0x10007);
        assert!(!table.line(0x10007).is(0x10007));
        assert!(!table.line(0).is(0), "an empty line is not QP 0");
    }
}
