//! Memory of another process that is a mapping of a file.
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use memmap2::{MmapOptions, MmapRaw};

use super::super::{Backing, DmaFault, Segment};
use super::child::{tell, wait, Other};
use super::{eventually, pattern, Buffer, Net};

const LEN: usize = 1 << 20;

/// A mapping of a new file, which stays where it is when it is registered.
fn map_file(flags: libc::c_int) -> (std::fs::File, Buffer) {
    let file = tempfile::tempfile().unwrap();
    file.set_len(LEN as u64 + 4096).unwrap();
    let memory = match flags {
        libc::MAP_SHARED => MmapRaw::map_raw(&file).unwrap(),
        // SAFETY: nobody else has the file.
        _ => unsafe { MmapOptions::new().map_copy(&file) }.unwrap().into(),
    };
    (file, Buffer::of(memory))
}

/// Child: a private mapping, which no other process can map. Tells the sum of its bytes each time it is asked.
pub(super) fn private_file(socket: &Path) {
    let segment = Segment::attach(socket).unwrap();
    let (_file, buffer) = map_file(libc::MAP_PRIVATE);
    segment.map(buffer.ptr.wrapping_add(8), LEN, true).unwrap();
    tell(&[segment.member().into(), buffer.iova() + 8]);
    while wait() {
        tell(&[buffer.bytes().iter().map(|&byte| u64::from(byte)).sum()]);
    }
    segment.unmap(buffer.ptr.wrapping_add(8), LEN).unwrap();
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
    // Something else, perhaps at the same address.
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
        let (net, a) = Net::joined();
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
}

#[test]
fn the_kernel_copies_both_ways_what_nobody_else_can_map() {
    let mut pair = Pair::new("private_file");
    let (member, iova) = (pair.member, pair.iova);
    let me = pair.a.member();
    let mut bytes = vec![0; LEN];
    for len in [LEN, 65_536, 65_537, 300_001] {
        pair.put(len).0.unwrap();
        let guard = pair.a.lock(Duration::from_secs(5)).unwrap();
        assert_eq!(guard.resolve(member, iova).unwrap().0, Backing::Private);
        bytes.fill(0);
        guard.read(member, iova, &mut bytes[..len]).unwrap();
        assert!(bytes[..len] == pair.mine.bytes()[..len], "{len}");
        pair.mine.bytes().fill(0);
        guard.copy((me, pair.mine.iova()), (member, iova), len as u64).unwrap();
        assert!(bytes[..len] == pair.mine.bytes()[..len], "{len}");
        pair.mine.fill(5);
        guard.write(member, iova, &bytes[..len]).unwrap();
    }
    pair.put(LEN).0.unwrap();
    pair.other.go_on();
    assert_eq!(pair.other.hear(), [(0..LEN).map(|i| u64::from(pattern(i, 5))).sum::<u64>()]);
    let Pair { net, other, a, .. } = pair;
    other.finish();
    assert!(eventually(|| a.pid_of(member).is_none()));
    drop(a);
    net.finish();
}

#[test]
fn an_owner_killed_during_copies_is_a_fault_and_no_hang() {
    for round in 0..4 {
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
fn a_lock_holder_killed_during_copies_leaves_no_late_writes() {
    let pair = Pair::new("private_file");
    for round in 0..4 {
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
fn a_shared_file_is_mapped_by_others_and_may_get_shorter() {
    let mut pair = Pair::new("shared_file");
    let expected: u64 = (0..LEN).map(|i| u64::from(pattern(i, 5))).sum();
    pair.put(LEN).0.unwrap();
    let guard = pair.a.lock(Duration::from_secs(5)).unwrap();
    let view = |at: u64| guard.through_file(pair.member, pair.iova + at, 8, true);
    if view(0).is_none() {
        // Without rights the kernel copies; that is tested elsewhere.
        eprintln!("no mapping here");
    }
    assert_eq!(view(LEN as u64 + 4096), None);
    drop(guard);
    pair.other.go_on();
    assert_eq!(pair.other.hear(), [expected]);
    pair.other.go_on();
    pair.other.hear();
    // The file is a page long: the missing part is a fault and kills no process.
    pair.put(4096).0.unwrap();
    assert!(matches!(pair.put(LEN).0, Err(DmaFault::Unreachable { errno: libc::EFAULT, .. })));
    pair.other.go_on();
    pair.other.hear();
    let guard = pair.a.lock(Duration::from_secs(5)).unwrap();
    assert_eq!(guard.through_file(pair.member, pair.iova, 8, true), None);
    drop(guard);
    pair.other.finish();
}

#[test]
fn two_registrations_share_an_offer_until_the_last_has_ended() {
    let net = Net::start();
    let (a, b) = (net.attach(), net.attach());
    let (_file, buffer) = map_file(libc::MAP_SHARED);
    a.map(buffer.ptr, 8192, true).unwrap();
    a.map(buffer.ptr.wrapping_add(4096), LEN - 4096, true).unwrap();
    let view = |at: u64| {
        let guard = b.lock(Duration::from_secs(5)).unwrap();
        let view = guard.through_file(a.member(), buffer.iova() + at, 8, true);
        view.map(|(ptr, ..)| ptr)
    };
    let Some(first) = view(0) else { return };
    assert_eq!(view(4096), Some(first.wrapping_add(4096)));
    buffer.bytes()[4096] = 77;
    // SAFETY: inside the mapping.
    assert_eq!(unsafe { first.add(4096).read_volatile() }, 77);
    a.unmap(buffer.ptr, 8192).unwrap();
    assert!(view(4096).is_some());
    a.unmap(buffer.ptr.wrapping_add(4096), LEN - 4096).unwrap();
    assert_eq!(view(4096), None);
    // Another file at the same place: the old mapping is not used for it.
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
    assert_eq!(view(0), None);
}
