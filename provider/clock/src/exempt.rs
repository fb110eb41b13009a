//! Code that sees the machine's time: the vDSO, and libraries that asked for it.
#![allow(unsafe_code)]

use std::ffi::{c_int, CStr};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use contract::imports::Library;

use crate::sys::{self, sys};

const MAX: usize = 16;

/// First and last address of code that sees the machine's time; 0: a free place.
static RANGES: [(AtomicUsize, AtomicUsize); MAX] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; MAX];

/// True if the code at `address` sees the machine's time.
pub fn contains(address: usize) -> bool {
    RANGES
        .iter()
        .map(|(from, to)| (from.load(Ordering::Acquire), to.load(Ordering::Relaxed)))
        .take_while(|range| range.0 != 0)
        .any(|(from, to)| (from..to).contains(&address))
}

fn add(&Range { start: from, end: to }: &Range<usize>) {
    for (start, end) in &RANGES {
        if start.load(Ordering::Acquire) == from {
            return;
        }
        if start.load(Ordering::Acquire) == 0 {
            end.store(to, Ordering::Relaxed);
            start.store(from, Ordering::Release);
            return;
        }
    }
}

/// The vDSO reads the time stamp counter for the C library's own use, and scales it with the
/// kernel's figures: it must get the machine's. This library has no business with either.
pub fn start() {
    // SAFETY: getauxval only reads what the kernel passed.
    let vdso = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
    for inside in [vdso, contains as *const () as usize] {
        if let Some(library) = Library::containing(inside) {
            add(&library.addresses);
        }
    }
}

/// clock_gettime(2) of the machine by a system call: a tenth of what the vDSO's takes, whose `rdtsc` traps.
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    // SAFETY: the caller keeps the contract of clock_gettime(2).
    sys::errno(unsafe { sys!(libc::SYS_clock_gettime, clock, time) }) as c_int
}

/// Gives the library that contains `inside` the C library's own functions of these names and the
/// machine's time stamp counter. Returns the number of imports that were patched, or `None` if something is wrong.
pub fn exempt(inside: usize, names: impl Iterator<Item = &'static str>) -> Option<usize> {
    let library = Library::containing(inside)?;
    if contains(library.addresses.start) {
        return Some(0);
    }
    add(&library.addresses);
    let mut patched = 0;
    for name in names {
        let name = CStr::from_bytes_with_nul(name.as_bytes()).ok()?;
        let real = if name == c"clock_gettime" {
            clock_gettime as *const () as usize
        } else {
            // SAFETY: a valid name.
            unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) as usize }
        };
        if real != 0 {
            // SAFETY: `real` is the function of that name, in a library that is never unloaded.
            patched += unsafe { library.replace_import(name, real) }.ok()?;
        }
    }
    Some(patched)
}
