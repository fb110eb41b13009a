//! Code that sees the machine's time: the vDSO, and libraries that asked for it.
#![allow(unsafe_code)]

use contract::imports::replace_import;
use std::ffi::{c_int, c_void, CStr};
use std::sync::atomic::{AtomicUsize, Ordering};

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

fn add(from: usize, to: usize) {
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
        if let Some((from, to)) = range_of(inside) {
            add(from, to);
        }
    }
}

struct Search {
    inside: usize,
    found: Option<(usize, usize)>,
}

/// The addresses of the loaded object that contains `inside`.
fn range_of(inside: usize) -> Option<(usize, usize)> {
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid description, and `data` is the Search below.
        let (info, search) = unsafe { (&*info, &mut *data.cast::<Search>()) };
        // SAFETY: the program headers of a loaded object stay mapped.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let loads = headers.iter().filter(|h| h.p_type == libc::PT_LOAD);
        let base = info.dlpi_addr as usize;
        let from = loads.clone().map(|h| base + h.p_vaddr as usize).min().unwrap_or(0);
        let to = loads.map(|h| base + (h.p_vaddr + h.p_memsz) as usize).max().unwrap_or(0);
        let holds = (from..to).contains(&search.inside);
        if holds {
            search.found = Some((from, to));
        }
        holds.into()
    }
    let mut search = Search { inside, found: None };
    // SAFETY: the callback gets `search` back as its data and is called only during this call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}

/// clock_gettime(2) of the machine by a system call: a tenth of what the vDSO's takes, whose `rdtsc` traps.
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    // SAFETY: the caller keeps the contract of clock_gettime(2).
    sys::errno(unsafe { sys!(libc::SYS_clock_gettime, clock, time) }) as c_int
}

/// Gives the library that contains `inside` the C library's own functions and the machine's time
/// stamp counter. Returns the number of imports that were patched, or `None` if something is wrong.
pub fn exempt(inside: usize) -> Option<usize> {
    let (from, to) = range_of(inside)?;
    if contains(from) {
        return Some(0);
    }
    add(from, to);
    let mut patched = 0;
    for name in crate::REPLACED.iter().flat_map(|names| names.iter()) {
        let name = CStr::from_bytes_with_nul(name.as_bytes()).ok()?;
        let real = if name == c"clock_gettime" {
            clock_gettime as *const () as usize
        } else {
            // SAFETY: a valid name.
            unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) as usize }
        };
        if real != 0 {
            // SAFETY: `real` is the function of that name, in a library that is never unloaded.
            patched += unsafe { replace_import(inside, name, real) }.ok()?;
        }
    }
    Some(patched)
}

/// See [`contract::clock::Exempt`].
#[cfg_attr(not(test), no_mangle)]
pub extern "C" fn verbena_clock_exempt(inside: *const c_void) -> c_int {
    exempt(inside as usize).map_or(-1, |patched| patched as c_int)
}
