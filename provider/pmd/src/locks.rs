//! Whether the program is about to lock all memory that is mapped: that would allocate all memory of the net, which is
//! sparse and about a terabyte.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::path::Path;
use std::ptr::null_mut;

/// Bytes beyond the limit that are asked for.
const BEYOND: libc::rlim_t = 1 << 20;

/// Why the port is not for this program, if it is testpmd, which locks all memory that it may.
pub fn check() -> Result<(), String> {
    if !(testpmd_locks(std::env::args_os()) && may_lock_all()) {
        return Ok(());
    }
    Err("testpmd would lock all memory of the net, about a terabyte, and would not survive it: start it with \
         --no-mlockall behind its --"
        .into())
}

/// Whether a program with these words is a testpmd that locks its memory: it does, unless it is told not to.
fn testpmd_locks(words: impl Iterator<Item = OsString>) -> bool {
    let mut words = words.map(|word| word.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    let name = Path::new(&program).file_name().unwrap_or_default();
    // Its options may be as short as is enough to tell them apart, and the last one counts.
    let asked = |word: String| match word {
        word if word.starts_with("--no-m") && "--no-mlockall".starts_with(&word) => Some(false),
        word if word.starts_with("--ml") && "--mlockall".starts_with(&word) => Some(true),
        _ => None,
    };
    (name == "dpdk-testpmd" || name == "testpmd") && words.filter_map(asked).last().unwrap_or(true)
}

/// Whether the kernel lets this process lock any memory: it has no limit, or the privilege to exceed it. Else `mlockall`
/// fails, which does no harm.
fn may_lock_all() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: room for the limit.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) } == 0;
    let Some(bytes) = limit.rlim_cur.checked_add(BEYOND).and_then(|bytes| usize::try_from(bytes).ok()) else {
        return true;
    };
    if !known {
        return true;
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new addresses, which nobody reads or writes; a lock on fault allocates nothing.
    unsafe {
        let range = libc::mmap(null_mut(), bytes, libc::PROT_NONE, flags, -1, 0);
        if range == libc::MAP_FAILED {
            // A limit beyond all addresses.
            return true;
        }
        let locked = libc::mlock2(range, bytes, libc::MLOCK_ONFAULT as _) == 0;
        libc::munmap(range, bytes);
        locked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locks(line: &str) -> bool {
        testpmd_locks(line.split(' ').map(OsString::from))
    }

    #[test]
    fn testpmd_locks_unless_it_is_told_not_to() {
        assert!(locks("dpdk-testpmd"));
        assert!(locks("/usr/bin/dpdk-testpmd --no-huge -m 64 -- -i"));
        assert!(locks("testpmd -- --no-mlockall -i --mlockall"));
        assert!(!locks("dpdk-testpmd --no-huge -- --no-mlockall -i"));
        assert!(!locks("dpdk-testpmd --no-huge -- --no-ml"));
        assert!(locks("dpdk-testpmd -- --no-mlockall --ml"));
        assert!(!locks("l3fwd --file-prefix dpdk-testpmd -- -p 1"));
    }
}
