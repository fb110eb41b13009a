//! Tests of the segment as a whole, with real processes.
//!
//! | file | idea |
//! |---|---|
//! | `child` | other processes: this test program, started again |
//! | `members`, `deaths`, `timers` | the keeper: members that come, end and die, and deadlines |
//! | `extents`, `ranges` | the tables of pages and of ranges, beside a simple model |
//! | `moving`, `growing`, `overlaps` | registration: what moves, what stays, and registrations that overlap |
//! | `reach`, `files`, `asked` | memory that stays: by the kernel, through files, by messages |
//! | `forks` | forked children |
//! | `speed` | how long it takes |

mod asked;
mod child;
mod deaths;
mod extents;
mod files;
mod forks;
mod growing;
mod members;
mod moving;
mod overlaps;
mod ranges;
mod reach;
mod speed;
mod timers;

use std::path::PathBuf;
use std::sync::mpsc::{channel, Receiver};
use std::sync::Arc;
use std::thread::JoinHandle;

use memmap2::{MmapOptions, MmapRaw};

use super::error::LOCK_PATIENCE;
use super::extents::Extents;
use super::keeper::{self, KeeperError, KeeperOptions};
use super::page::PAGE;
use super::{Backing, Segment};
use crate::eventually::eventually;

const GIB: u64 = 1 << 30;

/// A keeper in a thread of the test, in a directory of its own.
struct Net {
    directory: tempfile::TempDir,
    keeper: Option<JoinHandle<Result<(), KeeperError>>>,
    gone: Receiver<u16>,
}

fn options(socket_path: PathBuf) -> KeeperOptions {
    KeeperOptions {
        socket_path,
        heap_bytes: 64 * GIB,
        world_bytes: 1 << 20,
        namespaces: Vec::new(),
        sockets: Vec::new(),
        files: Vec::new(),
        beside: None,
        watch: None,
        init: Box::new(|_| {}),
        on_member_gone: Box::new(|_, _| true),
        on_timer: Box::new(|_| u64::MAX),
        on_look: None,
        on_alone: Box::new(|_, _| false),
    }
}

impl Net {
    fn start() -> Net {
        Net::start_with(|_| {})
    }

    /// With a member.
    fn joined() -> (Net, Arc<Segment>) {
        let net = Net::start();
        let member = net.attach();
        (net, member)
    }

    fn start_with(adjust: impl FnOnce(&mut KeeperOptions) + Send + 'static) -> Net {
        let directory = tempfile::tempdir().unwrap();
        let (report, gone) = channel();
        let mut net = Net { directory, keeper: None, gone };
        let socket = net.socket();
        net.keeper = Some(std::thread::spawn(move || {
            let mut options = options(socket);
            options.on_member_gone = Box::new(move |_, member| {
                let _ = report.send(member);
                true
            });
            adjust(&mut options);
            keeper::run(options)
        }));
        assert!(eventually(|| net.socket().exists()), "no keeper");
        net
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("net/socket")
    }

    fn attach(&self) -> Arc<Segment> {
        Arc::new(Segment::attach(&self.socket()).unwrap())
    }

    /// Waits for the keeper to end; nobody must be attached any longer.
    fn finish(mut self) {
        self.keeper.take().unwrap().join().unwrap().unwrap();
        assert!(!self.socket().exists());
        assert!(!self.socket().parent().unwrap().exists());
    }
}

/// Bytes of the heap that a member owns; none if it is not in use and owns none.
fn usage_of(segment: &Segment, member: u16) -> Option<u64> {
    let guard = segment.lock(LOCK_PATIENCE).unwrap();
    let bytes = Extents::new(&guard).usage()[usize::from(member)] * PAGE;
    drop(guard);
    (segment.pid_of(member).is_some() || bytes > 0).then_some(bytes)
}

/// Private anonymous memory, as `mmap` gives it.
struct Buffer {
    ptr: *mut u8,
    len: usize,
    _memory: MmapRaw,
}

impl Buffer {
    fn new(len: usize) -> Buffer {
        Buffer::of(MmapOptions::new().len(len).no_reserve_swap().map_anon().unwrap().into())
    }

    fn of(memory: MmapRaw) -> Buffer {
        Buffer { ptr: memory.as_mut_ptr(), len: memory.len(), _memory: memory }
    }

    fn filled(len: usize, seed: u8) -> Buffer {
        let buffer = Buffer::new(len);
        buffer.fill(seed);
        buffer
    }

    fn fill(&self, seed: u8) {
        self.bytes().iter_mut().enumerate().for_each(|(i, byte)| *byte = pattern(i, seed));
    }

    #[allow(clippy::mut_from_ref)]
    fn bytes(&self) -> &mut [u8] {
        // SAFETY: the mapping is ours; tests look at it from one place at a time.
        unsafe { std::slice::from_raw_parts_mut(self.ptr, self.len) }
    }

    fn is_pattern(&self, seed: u8) -> bool {
        is_pattern(self.bytes(), seed)
    }

    fn iova(&self) -> u64 {
        self.ptr as u64
    }

    /// New memory takes the place of a part of it.
    fn replace(&self, part: std::ops::Range<usize>) {
        let (access, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED);
        let at = self.ptr.wrapping_add(part.start).cast();
        // SAFETY: our own mapping.
        assert_eq!(unsafe { libc::mmap(at, part.len(), access, flags, -1, 0) }, at);
    }

    /// Ends it where the test has unmapped `gone`, where another test's thread may have memory by now.
    fn end_without(self, gone: std::ops::Range<usize>) {
        for rest in [0..gone.start, gone.end..self.len].into_iter().filter(|rest| !rest.is_empty()) {
            // SAFETY: our own mapping.
            unsafe { libc::munmap(self.ptr.add(rest.start).cast(), rest.len()) };
        }
        std::mem::forget(self);
    }
}

fn pattern(index: usize, seed: u8) -> u8 {
    (index.wrapping_mul(31) >> 3) as u8 ^ seed
}

/// The bytes of a pattern.
fn patterned(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| pattern(i, seed)).collect()
}

fn is_pattern(bytes: &[u8], seed: u8) -> bool {
    bytes.iter().enumerate().all(|(i, &byte)| byte == pattern(i, seed))
}

/// Where memory that a member has registered is, and how many bytes of it from there on.
fn backing(segment: &Segment, address: u64) -> Option<(Backing, u64)> {
    let guard = segment.lock(LOCK_PATIENCE).unwrap();
    guard.resolve(segment.member(), address)
}
