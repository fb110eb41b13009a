//! Memory that is not reached by one plain access.
#![allow(unsafe_code)]

use std::sync::atomic::{compiler_fence, AtomicU64, Ordering};

use super::env::{fault, WallEnv};
use crate::dma::{Addr, Atomic, DmaFault, Pages, Undelivered};
use crate::env::Env;
use crate::packet::Payload;

impl WallEnv<'_> {
    #[cold]
    pub(super) fn words_slowly<const N: usize>(&mut self, from: Addr) -> Result<[u64; N], DmaFault> {
        let mut bytes = [[0; 8]; N];
        self.guard.read(from.domain, from.iova, bytes.as_flattened_mut()).map_err(fault)?;
        Ok(bytes.map(u64::from_le_bytes))
    }

    /// Writes a queue entry that is not aligned, or that this process cannot map as a whole.
    #[cold]
    pub(super) fn publish_slowly<const N: usize>(
        &mut self,
        to: Addr,
        entry: [u64; N],
    ) -> Result<(), DmaFault> {
        let bytes = entry.map(u64::to_le_bytes);
        let (last, body) = bytes.split_last().expect("an entry has words");
        self.write(to, body.as_flattened())?;
        let at = to.add(body.len() as u64 * 8);
        let Some(p) = self.reach(at).filter(|p| *p as usize % 8 == 0) else {
            // The phase bit is in the last byte.
            self.write(at, &last[..7])?;
            return self.write(at.add(7), &last[7..]);
        };
        // SAFETY: eight aligned bytes of the segment's heap or of a file that keeps its size, accessed atomically.
        unsafe { AtomicU64::from_ptr(p.cast()) }.store(u64::from_ne_bytes(*last), Ordering::Release);
        compiler_fence(Ordering::SeqCst);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn direct(&self, at: Addr, len: usize) -> Option<*mut u8> {
        self.guard.direct(at.domain, at.iova, len as u64)
    }

    #[cold]
    pub(super) fn atomic_by_copies(&mut self, at: Addr, op: Atomic) -> Result<u64, DmaFault> {
        let mut bytes = [0u8; 8];
        self.read(at, &mut bytes)?;
        let original = u64::from_ne_bytes(bytes);
        if let Some(new) = op.applied(original) {
            self.write(at, &new.to_ne_bytes())?;
        }
        Ok(original)
    }

    /// Writes `len` bytes of pages, from byte `offset` of them.
    #[cold]
    pub(super) fn deliver_pages(
        &mut self,
        to: Addr,
        pages: &Pages,
        offset: u64,
        len: u64,
    ) -> Result<(), Undelivered> {
        let mut done = 0;
        while done < len {
            let page = pages.at(offset + done, |at, entry| self.read(at, entry));
            let (from, contiguous) = page.map_err(|_| Undelivered::Unread)?;
            let n = contiguous.min(len - done);
            self.deliver(to.add(done), &Payload::Memory(from, n as u32), 0, n as usize)?;
            done += n;
        }
        Ok(())
    }

    /// The side at which a copy failed, from the member whose memory could not be reached.
    #[cold]
    pub(super) fn blame(&self, member: u16, to: Addr, from: Addr, len: usize) -> Undelivered {
        let reads = |at: u64| self.guard.read(from.domain, at, &mut [0]).is_ok();
        let both = to.domain == from.domain && reads(from.iova) && reads(from.iova + len as u64 - 1);
        match member == from.domain && !both {
            true => Undelivered::Unread,
            false => Undelivered::Unwritten,
        }
    }

    /// Eight bytes of memory, if this process can reach them at an address.
    #[inline(always)]
    pub(super) fn reach(&self, at: Addr) -> Option<*mut u8> {
        let mapped = || self.direct(Addr { domain: at.process(), ..at }, 8);
        self.direct(at, 8).or_else(|| self.guard.reach(at.domain, at.iova, 8)).or_else(mapped)
    }
}
