//! What handing over between two processes costs here: the least that simulated time can do with.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use model::segment::{futex_wait, futex_wake};

use crate::pin::pin;

/// Nanoseconds each way, both spinning on a shared word.
pub fn spinning() -> f64 {
    let wait = |word: &AtomicU32, value| {
        while word.load(Ordering::Acquire) != value {
            std::hint::spin_loop();
        }
    };
    ping_pong(500_000, false, wait, |_| ())
}

/// Nanoseconds each way, both sleeping in the kernel.
pub fn futex(one_core: bool) -> f64 {
    let wait = |word: &AtomicU32, value| loop {
        let seen = word.load(Ordering::Acquire);
        if seen == value {
            return;
        }
        futex_wait(word, seen, None);
    };
    let wake = |word: &AtomicU32| {
        futex_wake(word, 1);
    };
    ping_pong(20_000, one_core, wait, wake)
}

fn ping_pong(rounds: u32, one_core: bool, wait: fn(&AtomicU32, u32), wake: fn(&AtomicU32)) -> f64 {
    // SAFETY: a new shared mapping, of which both use the first word only, atomically.
    let word = unsafe {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        let at = libc::mmap(std::ptr::null_mut(), 4096, access, flags, -1, 0);
        assert_ne!(at, libc::MAP_FAILED, "mmap failed");
        AtomicU32::from_ptr(at.cast())
    };
    let give = |value| {
        word.store(value, Ordering::Release);
        wake(word);
    };
    // SAFETY: the benchmark has one thread; the child only touches the mapping and exits.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork failed");
    if pid == 0 {
        // SAFETY: ends with the parent, so that nothing is left behind.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        pin(usize::from(!one_core));
        for round in 0..rounds {
            wait(word, 2 * round + 1);
            give(2 * round + 2);
        }
        // SAFETY: no destructors of the parent's objects may run here.
        unsafe { libc::_exit(0) };
    }
    let before = affinity();
    pin(0);
    let start = Instant::now();
    for round in 0..rounds {
        give(2 * round + 1);
        wait(word, 2 * round + 2);
    }
    let ns = start.elapsed().as_nanos() as f64 / f64::from(rounds) / 2.0;
    // SAFETY: our child; the set is plain data; the mapping is not used afterwards.
    unsafe {
        libc::waitpid(pid, std::ptr::null_mut(), 0);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &before);
        libc::munmap(word.as_ptr().cast(), 4096);
    }
    ns
}

fn affinity() -> libc::cpu_set_t {
    // SAFETY: a CPU set is plain data; the call writes it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        set
    }
}
