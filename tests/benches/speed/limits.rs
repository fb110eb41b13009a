//! What this machine does without a card: what a figure of perftest is set beside.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::pin::pin;
use crate::row::median;

/// Bytes per second of a hot copy of `size` bytes on one core, between buffers as perftest's are once they are
/// registered: whole pages of shared memory.
pub fn memcpy(size: usize) -> f64 {
    pin(0);
    let (from, to) = (Shared::new(size), Shared::new(size));
    let rounds = ((256 << 20) / size).max(8);
    typical(5, || {
        let start = Instant::now();
        for _ in 0..rounds {
            let (from, to) = (std::hint::black_box(from.0), std::hint::black_box(to.0));
            // SAFETY: two mappings of `size` bytes that are used here only.
            unsafe { std::ptr::copy_nonoverlapping(from, to, size) };
        }
        (rounds * size) as f64 / start.elapsed().as_secs_f64()
    })
}

/// A new shared mapping, all of whose pages are there.
struct Shared(*mut u8, usize);

impl Shared {
    fn new(bytes: usize) -> Shared {
        // SAFETY: a new mapping.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        assert_ne!(at, libc::MAP_FAILED, "mmap failed");
        Shared(at.cast(), bytes)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: our mapping, which is not used any more.
        unsafe { libc::munmap(self.0.cast(), self.1) };
    }
}

/// Two processes that share a page: the parent on core 0, the child on core 1.
pub fn between_processes(
    bytes: usize,
    child: impl FnOnce(*mut u8),
    parent: impl FnOnce(*mut u8) -> f64,
) -> f64 {
    let mapping = &Shared::new(bytes);
    // Both sides use it as their closures agree.
    let Shared(shared, _) = *mapping;
    // SAFETY: the benchmark has one thread; the child only touches the mapping and exits.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork failed");
    if pid == 0 {
        // SAFETY: ends with the parent, so that nothing is left behind.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        pin(1);
        child(shared);
        // SAFETY: no destructors of the parent's objects may run here.
        unsafe { libc::_exit(0) };
    }
    pin(0);
    let result = parent(shared);
    // SAFETY: our child.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    result
}

/// The word at byte `at` of the shared mapping.
pub fn word<'a>(base: *mut u8, at: usize) -> &'a AtomicU64 {
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

/// Bytes per second of messages that one process copies into sixteen slots and another one sums, at the same time: what
/// `tests/c/reader.c` does, without verbs.
pub fn copy_and_read(size: usize) -> f64 {
    const SLOTS: u64 = 16;
    let messages = ((128 << 20) / size) as u64;
    let slot = move |n: u64| 4096 + (n % SLOTS) as usize * size;
    let once = || {
        between_processes(
            4096 + SLOTS as usize * size,
            move |base| {
                let mut sum = 0u64;
                for n in 0..messages {
                    while word(base, 0).load(Ordering::Acquire) <= n {
                        std::hint::spin_loop();
                    }
                    // SAFETY: the slot is in the mapping, and ours until the count below is stored.
                    let read =
                        unsafe { std::slice::from_raw_parts(base.add(slot(n)).cast::<u64>(), size / 8) };
                    sum = read.iter().fold(sum, |sum, word| sum.wrapping_add(*word));
                    word(base, 1024).store(n + 1, Ordering::Release);
                }
                std::hint::black_box(sum);
            },
            move |base| {
                let from = vec![1u8; size];
                let start = Instant::now();
                for n in 0..messages {
                    while word(base, 1024).load(Ordering::Acquire) + SLOTS <= n {
                        std::hint::spin_loop();
                    }
                    let from = std::hint::black_box(&from);
                    // SAFETY: the slot is in the mapping, and ours until the count below is stored.
                    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), base.add(slot(n)), size) };
                    word(base, 0).store(n + 1, Ordering::Release);
                }
                while word(base, 1024).load(Ordering::Acquire) < messages {
                    std::hint::spin_loop();
                }
                (messages as usize * size) as f64 / start.elapsed().as_secs_f64()
            },
        )
    };
    typical(3, once)
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

/// Sets an option of a socket, of this level.
pub fn set<T>(socket: &impl AsRawFd, (level, option): (i32, i32), value: T) {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: a value of this length, which is read during the call.
    let set =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), length) };
    assert_eq!(set, 0, "option {option}: {}", std::io::Error::last_os_error());
}

/// As many datagrams of `segment` bytes as every kernel takes at a time (UDP_MAX_SEGMENTS).
pub fn most_segments(segment: usize) -> usize {
    const LONGEST: usize = 65_000;
    (LONGEST / segment).min(64)
}

/// Bytes per second that one process gets out of UDP datagrams of `segment` bytes, which another one gives to the kernel so many
/// at a time, in turns (UDP_SEGMENT), and the kernel to the first one together (UDP_GRO); by the loopback interface.
pub fn udp_blast(segment: usize, counts: &[usize]) -> f64 {
    let once = || {
        let [from, to] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
        from.connect(to.local_addr().expect("its address")).expect("a way");
        set(&from, (libc::SOL_UDP, libc::UDP_SEGMENT), segment as i32);
        set(&to, (libc::SOL_UDP, libc::UDP_GRO), 1i32);
        set(&to, (libc::SOL_SOCKET, libc::SO_RCVBUF), 32i32 << 20);
        between_processes(
            4096,
            |base| {
                let sends: Vec<_> = counts.iter().map(|count| vec![1; count * segment]).collect();
                while word(base, 0).load(Ordering::Relaxed) == 0 {
                    for bytes in &sends {
                        // What the other side has no room for is lost.
                        let _ = from.send(bytes);
                    }
                }
            },
            |base| {
                let mut bytes = vec![0; 1 << 16];
                let mut receive = |time: Duration| {
                    let (start, mut count) = (Instant::now(), 0);
                    while start.elapsed() < time {
                        count += to.recv(&mut bytes).expect("a datagram");
                    }
                    count as f64 / start.elapsed().as_secs_f64()
                };
                receive(Duration::from_millis(50));
                let found = receive(Duration::from_millis(400));
                word(base, 0).store(1, Ordering::Relaxed);
                found
            },
        )
    };
    typical(3, once)
}

/// The median of several tries: one lucky or disturbed try decides nothing.
pub fn typical(tries: u32, mut once: impl FnMut() -> f64) -> f64 {
    let found = (0..tries).map(|_| {
        std::thread::sleep(Duration::from_millis(20));
        once()
    });
    median("tries", found.collect())
}
