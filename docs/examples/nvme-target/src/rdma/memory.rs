//! Registered memory, in chunks that can be given away.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{null_mut, NonNull};
use std::sync::Arc;

use rdma_sys::*;
use rustix::mm::{mmap_anonymous, munmap, MapFlags, ProtFlags};

use super::endpoint::Endpoint;
use super::owned::Owned;

struct Pages {
    start: NonNull<c_void>,
    length: usize,
}

// SAFETY: memory is the same in all threads. Only chunks give access to it.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `chunks`, and all chunks are gone.
        let _ = unsafe { munmap(self.start.as_ptr(), self.length) };
    }
}

/// Memory that the card may write. The fields are dropped from top to bottom: the card lets go of it first.
struct Region {
    mr: Owned<ibv_mr>,
    _pages: Pages,
    _endpoint: Arc<Endpoint>,
}

/// A piece of registered memory that belongs to whoever has this: to the program, or, from post to completion, to the card.
pub struct Chunk {
    start: NonNull<u8>,
    length: usize,
    region: Arc<Region>,
}

// SAFETY: no two chunks overlap.
unsafe impl Send for Chunk {}

/// Registers memory for a connection: `count` chunks of `length` bytes, all zero. Errors are those of `mmap` and `ibv_reg_mr`.
pub fn chunks(endpoint: &Arc<Endpoint>, count: usize, length: usize) -> io::Result<Vec<Chunk>> {
    let all = count * length;
    // SAFETY: a new mapping, where the kernel likes.
    let start =
        unsafe { mmap_anonymous(null_mut(), all, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)? };
    let start = NonNull::new(start).ok_or_else(io::Error::last_os_error)?;
    let pages = Pages { start, length: all };
    let access = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0 as i32;
    // SAFETY: the memory is there until it is deregistered, by the order of the fields.
    let mr = unsafe { Owned::new(ibv_reg_mr(endpoint.pd(), start.as_ptr(), all, access), ibv_dereg_mr)? };
    let region = Arc::new(Region { mr, _pages: pages, _endpoint: endpoint.clone() });
    let chunk = |n: usize| Chunk {
        // SAFETY: within the mapping.
        start: unsafe { start.cast::<u8>().add(n * length) },
        length,
        region: region.clone(),
    };
    Ok((0..count).map(chunk).collect())
}

impl Chunk {
    /// Its first bytes, as work requests name them.
    pub(super) fn first(&self, length: usize) -> ibv_sge {
        assert!(length <= self.length, "{length} of {} bytes", self.length);
        // SAFETY: the region is registered as long as it is there.
        let lkey = unsafe { (*self.region.mr.raw()).lkey };
        ibv_sge { addr: self.start.as_ptr() as u64, length: length as u32, lkey }
    }
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: within the mapping. The card does not write to it, since whoever posts it gives it away.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Chunk {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}
