//! Which pages of this process's memory exist.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

use super::maps::open_self;
use crate::segment::page::PAGE;

/// Calls `visit(start, len)` for runs of pages in `start..end` (page aligned) that exist in memory or in swap, in
/// order. All other pages read zero.
pub fn each_populated(
    start: u64,
    end: u64,
    mut visit: impl FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<()> {
    let pagemap = open_self(c"/proc/self/pagemap")?;
    if scan(&pagemap, start, end, &mut visit)? {
        return Ok(());
    }
    read(pagemap, start, end, &mut visit)
}

/// `struct pm_scan_arg` of linux/fs.h.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_len: u64,
    max_pages: u64,
    inverted: u64,
    all_of: u64,
    any_of: u64,
    returned: u64,
}

/// `struct page_region` of linux/fs.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;

/// Lets the kernel find them (ioctl_pagemap_scan(2), Linux 6.7): missing pages cost nothing. False if the
/// kernel does not support that.
fn scan(
    pagemap: &OwnedFd,
    start: u64,
    end: u64,
    visit: &mut impl FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<bool> {
    let mut regions = [Region::default(); 256];
    let mut at = start;
    while at < end {
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            start: at,
            end,
            regions: regions.as_mut_ptr() as u64,
            regions_len: regions.len() as u64,
            any_of: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
            returned: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
            ..Scan::default()
        };
        // SAFETY: the kernel writes `scan` and at most as many regions as there are.
        let found = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
        if found < 0 {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => continue,
                // Nothing was visited yet: the caller may try the other way.
                _ if at == start => return Ok(false),
                _ => return Err(error),
            }
        }
        for region in &regions[..found as usize] {
            visit(region.start, region.end - region.start)?;
        }
        if scan.walk_end <= at {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        at = scan.walk_end;
    }
    Ok(true)
}

/// Reads an entry for each page, whether it exists or not (8 bytes, about 10 ns).
fn read(
    pagemap: OwnedFd,
    start: u64,
    end: u64,
    visit: &mut impl FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<()> {
    const PRESENT_OR_SWAPPED: u64 = 3 << 62;
    let pagemap = File::from(pagemap);
    let mut buffer = [0_u8; 32 * 1024];
    let mut run = (start, 0);
    let mut at = start;
    while at < end {
        let want = ((end - at) / PAGE * 8).min(buffer.len() as u64) as usize;
        let got = match pagemap.read_at(&mut buffer[..want], at / PAGE * 8) {
            Ok(got) => got & !7,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for entry in buffer[..got].chunks_exact(8) {
            let entry = u64::from_le_bytes(entry.try_into().unwrap_or_default());
            if entry & PRESENT_OR_SWAPPED != 0 {
                if run.1 == 0 {
                    run.0 = at;
                }
                run.1 += PAGE;
            } else if run.1 != 0 {
                visit(run.0, run.1)?;
                run.1 = 0;
            }
            at += PAGE;
        }
    }
    if run.1 != 0 {
        visit(run.0, run.1)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Visit<'a> = &'a mut dyn FnMut(u64, u64) -> io::Result<()>;

    /// The pages of a mapping that one of the two ways finds, as indices.
    fn found(start: u64, len: u64, way: impl FnOnce(Visit) -> io::Result<()>) -> Vec<u64> {
        let mut pages = Vec::new();
        way(&mut |at, bytes| {
            assert!(bytes > 0 && at % PAGE == 0 && bytes % PAGE == 0 && at + bytes <= start + len);
            pages.extend((at..at + bytes).step_by(PAGE as usize).map(|page| (page - start) / PAGE));
            Ok(())
        })
        .unwrap();
        pages
    }

    #[test]
    fn both_ways_find_the_pages_that_were_touched() {
        const PAGES: u64 = 1 << 16;
        let len = PAGES * PAGE;
        // SAFETY: a mapping of our own, which is touched only below; no huge pages, which would exist as a whole.
        let start = unsafe {
            let at = libc::mmap(
                std::ptr::null_mut(),
                len as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            );
            assert_ne!(at, libc::MAP_FAILED);
            libc::madvise(at, len as usize, libc::MADV_NOHUGEPAGE);
            at as u64
        };
        // More runs than fit into one call, some of several pages, the first and the last page.
        let mut touched: Vec<u64> = (0..PAGES / 2).step_by(97).chain(5000..5100).chain([PAGES - 1]).collect();
        touched.sort_unstable();
        touched.dedup();
        for page in &touched {
            // SAFETY: within the mapping.
            unsafe { ((start + page * PAGE) as *mut u8).write_volatile(1) };
        }
        let all = found(start, len, |visit| each_populated(start, start + len, visit));
        let pagemap = open_self(c"/proc/self/pagemap").unwrap();
        let one_by_one = found(start, len, |mut visit| read(pagemap, start, start + len, &mut visit));
        // SAFETY: the mapping from above.
        unsafe { libc::munmap(start as *mut libc::c_void, len as usize) };
        assert!(all == touched, "{} of {}", all.len(), touched.len());
        assert!(one_by_one == touched, "{} of {}", one_by_one.len(), touched.len());
    }
}
