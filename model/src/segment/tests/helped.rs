//! Private memory of another process: with its help, and through windows.
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::super::reach::bounce::{ASLEEP, NONE};
use super::super::{Backing, DmaFault, Segment};
use super::child::{tell, wait, Other};
use super::{eventually, pattern, Buffer, Net};

const LEN: usize = 1 << 20;

/// A mapping of a new file, which stays where it is when it is registered.
fn map_file(flags: libc::c_int) -> (std::fs::File, Buffer) {
    let file = tempfile::tempfile().unwrap();
    file.set_len(LEN as u64 + 4096).unwrap();
    // SAFETY: a new mapping at an address of the kernel's choice.
    let ptr = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut(), LEN + 4096, access, flags, file.as_raw_fd(), 0)
    };
    assert_ne!(ptr, libc::MAP_FAILED);
    (file, Buffer { ptr: ptr.cast(), len: LEN + 4096 })
}

fn cpu_time() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is ours.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let micros = |t: libc::timeval| t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64;
    micros(usage.ru_utime) + micros(usage.ru_stime)
}

/// Tells the sum of all bytes and the processor time each time it is asked.
fn serve(segment: &Segment, buffer: &Buffer) {
    segment.map(buffer.ptr.wrapping_add(8), LEN, true).unwrap();
    tell(&[segment.member().into(), buffer.iova() + 8]);
    while wait() {
        let time = cpu_time();
        let sum = buffer.bytes().iter().map(|&byte| u64::from(byte)).sum();
        tell(&[sum, time]);
    }
    segment.unmap(buffer.ptr.wrapping_add(8), LEN).unwrap();
}

/// Child: memory that nobody else can map.
pub(super) fn private_file(socket: &Path) {
    let segment = Segment::attach(socket).unwrap();
    serve(&segment, &map_file(libc::MAP_PRIVATE).1);
}

/// Child: a shared mapping; the file gets shorter when told.
pub(super) fn shared_file(socket: &Path) {
    let segment = Segment::attach(socket).unwrap();
    let (file, buffer) = map_file(libc::MAP_SHARED);
    segment.map(buffer.ptr, LEN, true).unwrap();
    tell(&[segment.member().into(), buffer.iova()]);
    wait();
    tell(&[buffer.bytes().iter().map(|&byte| u64::from(byte)).sum()]);
    wait();
    file.set_len(4096).unwrap();
    tell(&[]);
    wait();
    segment.unmap(buffer.ptr, LEN).unwrap();
    drop(buffer);
    // Something else at the same place, hopefully.
    segment.map(map_file(libc::MAP_PRIVATE).1.ptr, 4096, true).unwrap();
    tell(&[]);
    wait();
}

struct Pair {
    net: Net,
    other: Other,
    a: std::sync::Arc<Segment>,
    member: u16,
    iova: u64,
    mine: Buffer,
}

impl Pair {
    fn new(role: &str) -> Pair {
        let net = Net::start();
        let a = net.attach();
        let mut other = Other::start(role, &net.socket());
        let told = other.hear();
        let mine = Buffer::filled(LEN, 5);
        a.map(mine.ptr, LEN, true).unwrap();
        Pair { net, other, a, member: told[0] as u16, iova: told[1], mine }
    }

    /// One copy to the other; how long it took.
    fn put(&self, len: usize) -> (Result<(), DmaFault>, Duration) {
        let guard = self.a.lock(Duration::from_secs(5)).unwrap();
        let begin = Instant::now();
        let from = (self.a.member(), self.mine.iova());
        (guard.copy((self.member, self.iova), from, len as u64), begin.elapsed())
    }

    fn helper(&self) -> (u32, u32) {
        let helper = &self.a.tables().bounce[usize::from(self.member)].helper;
        (helper.state.load(Ordering::SeqCst), helper.served.load(Ordering::SeqCst))
    }
}

#[test]
fn a_helper_copies_both_ways_and_sleeps_when_idle() {
    let mut pair = Pair::new("private_file");
    let (member, iova) = (pair.member, pair.iova);
    let me = pair.a.member();
    let expected: u64 = (0..LEN).map(|i| u64::from(pattern(i, 5))).sum();
    let stack = Buffer::new(LEN); // not registered: copies go through the slots
    let helped = |pair: &Pair| pair.helper().1;
    // On a busy machine the helper is seldom run at once, and asked less and less.
    let begin = helped(&pair);
    let until = Instant::now() + Duration::from_secs(120);
    for round in (0..=u8::MAX).cycle() {
        for len in [LEN, 65_536, 65_537, LEN - 1, 300_001] {
            // Where the kernel is the faster one it would be asked only now and then.
            pair.a.tables().bounce[usize::from(member)].runner.pace.forget();
            pair.mine.bytes().iter_mut().enumerate().for_each(|(i, b)| *b = pattern(i, 5 ^ round));
            let (result, _) = pair.put(len);
            result.unwrap();
            let guard = pair.a.lock(Duration::from_secs(5)).unwrap();
            assert_eq!(guard.resolve(member, iova).unwrap().0, Backing::Foreign);
            stack.bytes().fill(0);
            guard.read(member, iova, &mut stack.bytes()[..len]).unwrap();
            assert!(stack.bytes()[..len] == pair.mine.bytes()[..len], "round {round}, {len}");
            pair.mine.bytes().fill(0);
            guard.copy((me, pair.mine.iova()), (member, iova), len as u64).unwrap();
            assert!(stack.bytes()[..len] == pair.mine.bytes()[..len], "round {round}, {len}");
            guard.write(member, iova, &stack.bytes()[..len]).unwrap();
        }
        if helped(&pair) > begin + 20 {
            break;
        }
        assert!(Instant::now() < until, "the helper hardly helped: {} jobs", helped(&pair) - begin);
    }
    pair.mine.bytes().iter_mut().enumerate().for_each(|(i, b)| *b = pattern(i, 5));
    pair.put(LEN).0.unwrap();
    assert!(eventually(|| pair.helper().0 == ASLEEP));
    pair.other.go_on();
    let before = pair.other.hear();
    assert_eq!(before[0], expected);
    std::thread::sleep(Duration::from_millis(300));
    pair.other.go_on();
    // Adding up the bytes takes some time.
    let after = pair.other.hear();
    assert!(after[1] - before[1] < 100_000, "{} us of processor time", after[1] - before[1]);
    let Pair { net, other, a, .. } = pair;
    other.finish();
    assert!(eventually(|| a.pid_of(member).is_none()));
    let helper = &a.tables().bounce[usize::from(member)].helper;
    assert_eq!(helper.state.load(Ordering::SeqCst), NONE);
    drop(a);
    net.finish();
}

#[test]
fn a_stopped_owner_does_not_hold_up_the_cards_for_long() {
    let mut pair = Pair::new("private_file");
    for _ in 0..10 {
        let stop = AtomicBool::new(false);
        let pid = pair.other.pid() as libc::pid_t;
        // SAFETY: signals our own child.
        let signal = |which| unsafe { assert_eq!(libc::kill(pid, which), 0) };
        let longest = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                signal(libc::SIGSTOP);
                std::thread::sleep(Duration::from_millis(30));
                stop.store(true, Ordering::Relaxed);
            });
            let mut longest = Duration::ZERO;
            while !stop.load(Ordering::Relaxed) {
                let (result, took) = pair.put(LEN);
                longest = longest.max(took);
                let timed_out = |fault| matches!(fault, DmaFault::Unreachable { errno: libc::ETIMEDOUT, .. });
                assert!(result.is_ok() || timed_out(result.unwrap_err()));
            }
            longest
        });
        signal(libc::SIGCONT);
        assert!(longest < Duration::from_secs(10), "{longest:?}");
    }
    // It goes on as before.
    let expected: u64 = (0..LEN).map(|i| u64::from(pattern(i, 5))).sum();
    let all_there = eventually(|| {
        let ok = pair.put(LEN).0.is_ok();
        pair.other.go_on();
        ok && pair.other.hear()[0] == expected
    });
    assert!(all_there);
    pair.other.finish();
}

#[test]
fn an_owner_killed_during_copies_is_a_fault_and_no_hang() {
    for round in 0..8 {
        let mut pair = Pair::new("private_file");
        let pid = pair.other.pid() as libc::pid_t;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_micros(5000 + 777 * round));
                // SAFETY: kills our own child.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            });
            loop {
                let (result, took) = pair.put(LEN);
                assert!(took < Duration::from_secs(10), "{took:?}");
                if result.is_err() {
                    break;
                }
            }
        });
        pair.other.kill();
        assert!(eventually(|| pair.a.pid_of(pair.member).is_none()));
        assert!(eventually(|| pair.helper().0 == NONE));
    }
}

/// Child: copies without pause to a member until it is killed.
pub(super) fn keep_copying(socket: &Path) {
    let segment = Segment::attach(socket).unwrap();
    let mine = Buffer::filled(LEN, 9);
    segment.map(mine.ptr, LEN, true).unwrap();
    let numbers = |text: String| text.split(',').map(|n| n.parse().unwrap()).collect::<Vec<u64>>();
    let target = numbers(std::env::var("VERBENA_TEST_TARGET").unwrap());
    tell(&[]);
    loop {
        let guard = segment.lock(Duration::from_secs(5)).unwrap();
        guard.recovery_done();
        let to = (target[0] as u16, target[1]);
        guard.copy(to, (segment.member(), mine.iova()), LEN as u64).unwrap();
    }
}

#[test]
fn a_runner_killed_during_copies_leaves_no_late_writes() {
    let pair = Pair::new("private_file");
    for round in 0..8 {
        let target = format!("{},{}", pair.member, pair.iova);
        let mut runner =
            Other::start_with("keep_copying", &pair.net.socket(), &[("VERBENA_TEST_TARGET", &target)]);
        runner.hear();
        std::thread::sleep(Duration::from_micros(5000 + 777 * round));
        runner.kill();
        let guard = pair.a.lock(Duration::from_secs(5)).unwrap();
        guard.recovery_done();
        guard.copy((pair.member, pair.iova), (pair.a.member(), pair.mine.iova()), LEN as u64).unwrap();
        std::thread::sleep(Duration::from_millis(2));
        let mut bytes = vec![0; LEN];
        guard.read(pair.member, pair.iova, &mut bytes).unwrap();
        assert!(bytes == pair.mine.bytes(), "round {round}");
    }
    pair.other.finish();
}

#[test]
fn a_shared_file_is_reached_through_a_window_and_may_get_shorter() {
    let mut pair = Pair::new("shared_file");
    let expected: u64 = (0..LEN).map(|i| u64::from(pattern(i, 5))).sum();
    pair.put(LEN).0.unwrap();
    let guard = pair.a.lock(Duration::from_secs(5)).unwrap();
    let window = |at: u64| guard.through_window(pair.member, pair.iova + at, 8, true);
    if window(0).is_none() {
        // Without rights the kernel copies; that is tested elsewhere.
        eprintln!("no window here");
    }
    assert_eq!(window(LEN as u64 + 4096), None);
    drop(guard);
    assert_eq!(pair.helper().0, NONE, "no thread where none is needed");
    pair.other.go_on();
    assert_eq!(pair.other.hear(), [expected]);
    pair.other.go_on();
    pair.other.hear();
    // The file is a page long: what is behind it is a fault and kills nobody.
    pair.put(4096).0.unwrap();
    assert!(matches!(pair.put(LEN).0, Err(DmaFault::Unreachable { errno: libc::EFAULT, .. })));
    pair.other.go_on();
    pair.other.hear();
    let guard = pair.a.lock(Duration::from_secs(5)).unwrap();
    assert_eq!(guard.through_window(pair.member, pair.iova, 8, true), None);
    drop(guard);
    pair.other.finish();
}

#[test]
fn two_registrations_share_a_window_until_the_last_is_over() {
    let net = Net::start();
    let (a, b) = (net.attach(), net.attach());
    let (_file, buffer) = map_file(libc::MAP_SHARED);
    a.map(buffer.ptr, 8192, true).unwrap();
    a.map(buffer.ptr.wrapping_add(4096), LEN - 4096, true).unwrap();
    let window = |at: u64| {
        let guard = b.lock(Duration::from_secs(5)).unwrap();
        let window = guard.through_window(a.member(), buffer.iova() + at, 8, true);
        window.map(|(ptr, ..)| ptr)
    };
    let Some(first) = window(0) else { return };
    assert_eq!(window(4096), Some(first.wrapping_add(4096)));
    buffer.bytes()[4096] = 77;
    // SAFETY: inside the window.
    assert_eq!(unsafe { first.add(4096).read_volatile() }, 77);
    a.unmap(buffer.ptr, 8192).unwrap();
    assert!(window(4096).is_some());
    a.unmap(buffer.ptr.wrapping_add(4096), LEN - 4096).unwrap();
    assert_eq!(window(4096), None);
    // Another file at the same place: the old window is not used for it.
    a.map(buffer.ptr, 8192, true).unwrap();
    let other = tempfile::tempfile().unwrap();
    other.set_len(LEN as u64).unwrap();
    // SAFETY: replaces a part of our own mapping.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
        let at = buffer.ptr.cast();
        assert_eq!(libc::mmap(at, 8192, libc::PROT_READ | libc::PROT_WRITE, flags, other.as_raw_fd(), 0), at);
    }
    a.map(buffer.ptr, 8192, true).unwrap();
    assert_eq!(window(0), None);
}
