//! The limits of this machine: what no card in shared memory can beat.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::pin::pin;

/// Bytes per second of a hot copy of `size` bytes on one core.
pub fn memcpy(size: usize) -> f64 {
    pin(0);
    let from = vec![1u8; size];
    let mut to = vec![0u8; size];
    typical(5, || {
        let rounds = ((256 << 20) / size).max(8);
        let start = Instant::now();
        for _ in 0..rounds {
            to.copy_from_slice(std::hint::black_box(&from));
            std::hint::black_box(&mut to);
        }
        (rounds * size) as f64 / start.elapsed().as_secs_f64()
    })
}

/// Two processes that share a page: the parent on core 0, the child on core 1.
fn between_processes(bytes: usize, child: impl FnOnce(*mut u8), parent: impl FnOnce(*mut u8) -> f64) -> f64 {
    // SAFETY: a new shared mapping; both sides use it as their closures agree.
    let shared = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
            -1,
            0,
        )
    };
    assert_ne!(shared, libc::MAP_FAILED, "mmap failed");
    // SAFETY: the benchmark has one thread; the child only touches the mapping and exits.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork failed");
    if pid == 0 {
        // SAFETY: ends with the parent, so that nothing is left behind.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        pin(1);
        child(shared.cast());
        // SAFETY: no destructors of the parent's objects may run here.
        unsafe { libc::_exit(0) };
    }
    pin(0);
    let result = parent(shared.cast());
    // SAFETY: our child; the mapping is not used afterwards.
    unsafe {
        libc::waitpid(pid, std::ptr::null_mut(), 0);
        libc::munmap(shared, bytes);
    }
    result
}

/// The word at byte `at` of the shared mapping.
fn word<'a>(base: *mut u8, at: usize) -> &'a AtomicU64 {
    // SAFETY: `at` is aligned and inside the mapping, which outlives both closures.
    unsafe { AtomicU64::from_ptr(base.add(at).cast()) }
}

/// Nanoseconds that a cache line takes from one core to the other: half a round trip, spinning.
pub fn line_one_way() -> f64 {
    const ROUNDS: u64 = 500_000;
    let once = || {
        between_processes(
            4096,
            |base| {
                for n in 1..=ROUNDS {
                    while word(base, 0).load(Ordering::Acquire) != n {
                        std::hint::spin_loop();
                    }
                    word(base, 1024).store(n, Ordering::Release);
                }
            },
            |base| {
                let start = Instant::now();
                for n in 1..=ROUNDS {
                    word(base, 0).store(n, Ordering::Release);
                    while word(base, 1024).load(Ordering::Acquire) != n {
                        std::hint::spin_loop();
                    }
                }
                start.elapsed().as_nanos() as f64 / ROUNDS as f64 / 2.0
            },
        )
    };
    typical(3, once)
}

/// Bytes per second that go from one process to another through four slots of 32 KiB: one copies in, the other
/// out, at the same time. So much reaches memory that only its owner can write, with the owner's help.
pub fn double_copy() -> f64 {
    const CHUNK: usize = 32 << 10;
    const SLOTS: u64 = 4;
    const CHUNKS: u64 = 20_000;
    let slot = |n: u64| 4096 + (n % SLOTS) as usize * CHUNK;
    let once = || {
        between_processes(
            4096 + SLOTS as usize * CHUNK,
            move |base| {
                let mut to = vec![1u8; CHUNK];
                for n in 0..CHUNKS {
                    while word(base, 0).load(Ordering::Acquire) <= n {
                        std::hint::spin_loop();
                    }
                    // SAFETY: the slot is in the mapping, and ours until the count below is stored.
                    unsafe { std::ptr::copy_nonoverlapping(base.add(slot(n)), to.as_mut_ptr(), CHUNK) };
                    std::hint::black_box(&mut to);
                    word(base, 1024).store(n + 1, Ordering::Release);
                }
            },
            move |base| {
                let from = vec![1u8; CHUNK];
                let start = Instant::now();
                for n in 0..CHUNKS {
                    while word(base, 1024).load(Ordering::Acquire) + SLOTS <= n {
                        std::hint::spin_loop();
                    }
                    let from = std::hint::black_box(&from);
                    // SAFETY: the slot is in the mapping, and ours until the count below is stored.
                    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), base.add(slot(n)), CHUNK) };
                    word(base, 0).store(n + 1, Ordering::Release);
                }
                while word(base, 1024).load(Ordering::Acquire) < CHUNKS {
                    std::hint::spin_loop();
                }
                (CHUNKS as usize * CHUNK) as f64 / start.elapsed().as_secs_f64()
            },
        )
    };
    typical(5, once)
}

/// Messages per second through a ring of 64-byte slots that publishes each message.
pub fn bare_ring() -> f64 {
    const SLOTS: u64 = 128;
    const MESSAGES: u64 = 5_000_000;
    let slot = |n: u64| 4096 + (n % SLOTS) as usize * 64;
    let once = || {
        between_processes(
            4096 + SLOTS as usize * 64,
            move |base| {
                let mut sum = 0u64;
                for n in 0..MESSAGES {
                    while word(base, 0).load(Ordering::Acquire) <= n {
                        std::hint::spin_loop();
                    }
                    for w in 0..8 {
                        sum = sum.wrapping_add(word(base, slot(n) + w * 8).load(Ordering::Relaxed));
                    }
                    word(base, 1024).store(n + 1, Ordering::Release);
                }
                std::hint::black_box(sum);
            },
            move |base| {
                let start = Instant::now();
                for n in 0..MESSAGES {
                    // A bare ring: both sides look at the other's index for each message.
                    while n - word(base, 1024).load(Ordering::Acquire) >= SLOTS {
                        std::hint::spin_loop();
                    }
                    for w in 0..8 {
                        word(base, slot(n) + w * 8).store(n, Ordering::Relaxed);
                    }
                    word(base, 0).store(n + 1, Ordering::Release);
                }
                while word(base, 1024).load(Ordering::Acquire) < MESSAGES {
                    std::hint::spin_loop();
                }
                MESSAGES as f64 / start.elapsed().as_secs_f64()
            },
        )
    };
    typical(3, once)
}

/// The median of several tries: one lucky or disturbed try decides nothing.
pub fn typical(tries: u32, mut once: impl FnMut() -> f64) -> f64 {
    let mut found: Vec<f64> = (0..tries)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(20));
            once()
        })
        .collect();
    found.sort_by(f64::total_cmp);
    if std::env::var_os("SPEED_VERBOSE").is_some() {
        eprintln!("  tries: {found:.3?}");
    }
    found[found.len() / 2]
}
