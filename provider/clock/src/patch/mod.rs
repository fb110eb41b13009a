//! An `rdtsc` that traps again and again becomes a jump to code that answers it without a trap.
//!
//! The results are those of the trap, which calls the same function ([`crate::tsc::answer`]). What may
//! be patched is decided by [`mapping`], [`displaced`] and [`targets`]; all else goes on trapping.
//! Threads may be anywhere meanwhile: the first byte becomes a faulting instruction, then the others are
//! written, then the first, and each time all processors are told. A fault in between is answered as
//! the trap would be, and the jump faults wherever an instruction began ([`stub`]).
#![allow(unsafe_code)]

mod displaced;
mod entry;
mod mapping;
mod stub;
mod targets;

use std::ffi::{c_int, CStr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use self::displaced::{JUMP, LONGEST};
use self::stub::HLT;
use crate::sys::sys;

/// Environment variable: `trap` leaves programs as they are.
const VARIABLE: &CStr = c"VERBENA_RDTSC";

/// The trap after which a site is patched: that costs as much as about fifty.
const AFTER: u32 = 64;

/// The count of a site that is never patched.
const REFUSED: u32 = u32::MAX;

/// From membarrier(2): the other threads' processors see changed code.
const REGISTER_SYNC_CORE: c_int = 1 << 6;
const SYNC_CORE: c_int = 1 << 5;

/// An instruction that has trapped.
struct Site {
    /// Its address; 0: a free place.
    at: AtomicUsize,
    traps: AtomicU32,
    /// Its length.
    first: AtomicUsize,
    /// Its stub's code, and the replaced instructions there; 0: not patched.
    stub: AtomicUsize,
    moved: AtomicUsize,
}

/// Those that have trapped first. Others go on doing so.
static SITES: [Site; 128] = [const {
    Site {
        at: AtomicUsize::new(0),
        traps: AtomicU32::new(0),
        first: AtomicUsize::new(0),
        stub: AtomicUsize::new(0),
        moved: AtomicUsize::new(0),
    }
}; 128];

static ON: AtomicBool = AtomicBool::new(false);

/// A thread is patching.
static BUSY: AtomicBool = AtomicBool::new(false);

/// What is at an address that has faulted.
#[derive(Debug, PartialEq, Eq)]
pub enum Patched {
    /// An instruction of this length that reads the counter.
    Reads(usize),
    /// An instruction that is now at this address.
    Moved(usize),
}

/// Reads the environment. A program that was given a wrong value ends.
///
/// Registers for membarrier(2) while there is one thread. Later the kernel would wait for all processors,
/// some milliseconds in which the timeline takes a thread for one that waits for time to pass.
pub fn start() {
    // SAFETY: a valid name; the value is used before the program runs. Nothing is allocated: the program's heap
    // is to be the same, whatever is asked for.
    let value = unsafe {
        let value = libc::getenv(VARIABLE.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    };
    match value.map(CStr::to_bytes) {
        None | Some(b"patch") => {
            // SAFETY: plain numbers.
            let registered = unsafe { sys!(libc::SYS_membarrier, REGISTER_SYNC_CORE, 0, 0) } == 0;
            ON.store(registered, Ordering::Relaxed);
        }
        Some(b"trap") => {}
        Some(text) => {
            let (name, text) = (VARIABLE.to_string_lossy(), String::from_utf8_lossy(text));
            eprintln!("verbena: {name}: `{text}` is neither `patch` nor `trap`");
            std::process::exit(2);
        }
    }
}

/// A forked child has one thread, which does not patch.
pub fn forked() {
    BUSY.store(false, Ordering::Relaxed);
}

/// What was at `address`, where something has faulted, if it is part of a patch.
pub fn at(address: usize) -> Option<Patched> {
    let mut sites = SITES.iter().take_while(|site| site.at.load(Ordering::Acquire) != 0);
    sites.find_map(|site| {
        let (stub, begin) = (site.stub.load(Ordering::Acquire), site.at.load(Ordering::Relaxed));
        let offset = address.wrapping_sub(begin);
        if stub == 0 || offset >= JUMP || !is_ours(address - offset, stub, address) {
            return None;
        }
        let first = site.first.load(Ordering::Relaxed);
        match offset.checked_sub(first) {
            None if offset == 0 => Some(Patched::Reads(first)),
            None => None,
            Some(behind) => Some(Patched::Moved(site.moved.load(Ordering::Relaxed) + behind)),
        }
    })
}

/// True if the patch is still there, and not another library in its place.
fn is_ours(begin: usize, stub: usize, executed: usize) -> bool {
    if begin / 4096 != executed / 4096 {
        return true; // whose page may be gone
    }
    // SAFETY: the page of an instruction that was executed.
    let byte = |n: usize| unsafe { ((begin + n) as *const u8).read_volatile() };
    byte(0) == HLT || byte(0) == stub::jump(begin, stub)[0] && byte(1) == stub::jump(begin, stub)[1]
}

/// The instruction of `first` bytes at `address` has trapped. To be called in the handler, after it was
/// answered; not on a small stack.
pub fn trapped(address: usize, first: usize) {
    if !ON.load(Ordering::Relaxed) {
        return;
    }
    let claim = |site: &&Site| match site.at.compare_exchange(0, address, Ordering::AcqRel, Ordering::Acquire)
    {
        Ok(_) => true,
        Err(taken) => taken == address,
    };
    let Some(site) = SITES.iter().find(claim) else { return };
    let traps = site.traps.load(Ordering::Relaxed);
    if traps == REFUSED {
        return;
    }
    site.traps.store(traps + 1, Ordering::Relaxed);
    if traps + 1 >= AFTER && !BUSY.swap(true, Ordering::Acquire) {
        if patch(site, address, first).is_none() {
            site.traps.store(REFUSED, Ordering::Relaxed);
        }
        BUSY.store(false, Ordering::Release);
    }
}

fn patch(site: &Site, address: usize, first: usize) -> Option<()> {
    let code = mapping::code_at(address)?;
    let (before, here) = code.split_at(address - code.as_ptr() as usize);
    // SAFETY: it has just been executed.
    if unsafe { crate::tsc::length_of_rdtsc(address) } != Some(first) {
        return Some(()); // another thread has
    }
    let replaced = displaced::replaced(&here[..here.len().min(LONGEST)], first)?;
    let base = address - before.len();
    if targets::any(code, base, address + 1..address + JUMP) {
        return None;
    }
    let entry = entry::entry()?;
    let memory = Memory::open()?;
    // SAFETY: what the jump replaces.
    let stub = unsafe { stub::make(here, first, replaced, entry) }?;
    site.first.store(first, Ordering::Relaxed);
    site.moved.store(stub.moved, Ordering::Relaxed);
    site.stub.store(stub.code, Ordering::Release);
    let jump = stub::jump(address, stub.code);
    // Each of these states works, should the next one not be reached.
    memory.write(address, &[HLT])?;
    memory.write(address + 1, &jump[1..])?;
    memory.write(address, &jump[..1])
}

/// The memory of this process as a file: it can be written without a change of its protection, and a
/// private mapping's pages become the process's own.
struct Memory(isize);

impl Memory {
    fn open() -> Option<Memory> {
        let flags = libc::O_RDWR | libc::O_CLOEXEC;
        // SAFETY: a valid path.
        let fd = unsafe { sys!(libc::SYS_openat, libc::AT_FDCWD, c"/proc/self/mem".as_ptr(), flags) };
        (fd >= 0).then_some(Memory(fd))
    }

    /// Writes code, and lets all processors see it.
    fn write(&self, address: usize, bytes: &[u8]) -> Option<()> {
        // SAFETY: the bytes can be read; that the code may change is what `patch` has found out.
        let written = unsafe { sys!(libc::SYS_pwrite64, self.0, bytes.as_ptr(), bytes.len(), address) };
        // SAFETY: plain numbers.
        let seen = unsafe { sys!(libc::SYS_membarrier, SYNC_CORE, 0, 0) };
        (written == bytes.len() as isize && seen == 0).then_some(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: opened by `open`.
        unsafe { sys!(libc::SYS_close, self.0) };
    }
}
