//! Which stream a descriptor is, and how far it has been read and written.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_short};
use std::mem::{size_of, zeroed};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::address::Name;
use crate::sys::sys;
use crate::timeline;
use contract::clock::{kind, ConnKey, WaitFd, NEVER, UNCOUNTED};

/// Streams whose positions are kept, closed ones too: a descriptor may have been duplicated. When there are more, one in
/// the same place is forgotten, which loses the time of what is read and written later, so there are many times as many as
/// a process has at a time.
const SLOTS: usize = 1 << 16;

struct Slot {
    inode: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
    /// Inode of the other end of a socketpair.
    other: AtomicU64,
    /// [`GENERATION`] when the program opened it; 0: it did not, as far as is known.
    generation: AtomicU64,
}

static SLOT: [Slot; SLOTS] = [const {
    Slot {
        inode: AtomicU64::new(0),
        read: AtomicU64::new(0),
        written: AtomicU64::new(0),
        other: AtomicU64::new(0),
        generation: AtomicU64::new(0),
    }
}; SLOTS];

fn slot(inode: u64) -> &'static Slot {
    // Scattered: the kernel counts inodes by processor, and two rows of them that meet would fill all places there.
    let begin = (inode.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOTS.ilog2())) as usize;
    for i in 0..16 {
        let slot = &SLOT[(begin + i) % SLOTS];
        let free = slot.inode.compare_exchange(0, inode, Ordering::AcqRel, Ordering::Acquire);
        if free.is_ok() || free == Err(inode) {
            return slot;
        }
    }
    let slot = &SLOT[begin];
    slot.forget();
    slot.inode.store(inode, Ordering::Release);
    slot
}

impl Slot {
    fn forget(&self) {
        for cell in [&self.read, &self.written, &self.other, &self.generation, &self.inode] {
            cell.store(0, Ordering::Release);
        }
    }
}

/// A descriptor that carries bytes between processes.
pub struct Stream {
    inode: u64,
    /// What it reads.
    pub incoming: ConnKey,
    /// What it writes.
    pub outgoing: ConnKey,
    counted: bool,
}

impl Stream {
    /// The stream of `fd`; `None` for files, terminals and devices.
    pub fn of(fd: c_int) -> Option<Stream> {
        // SAFETY: all zero is a valid stat, and it is valid for writing.
        let stat = unsafe {
            let mut stat: libc::stat = zeroed();
            if sys!(libc::SYS_fstat, fd, &raw mut stat) != 0 {
                return None;
            }
            stat
        };
        match stat.st_mode & libc::S_IFMT {
            libc::S_IFSOCK => socket(fd, stat.st_ino),
            libc::S_IFIFO => {
                let key = ConnKey { kind: kind::PIPE, reserved: 0, from: stat.st_ino, to: 0 };
                Some(Stream { inode: stat.st_ino, incoming: key, outgoing: key, counted: true })
            }
            _ => None,
        }
    }

    /// True for a pipe, false for a socket.
    pub fn is_pipe(&self) -> bool {
        self.incoming.kind == kind::PIPE
    }

    /// The program is about to write `bytes`.
    pub fn sends(&self, bytes: usize) {
        let end = if self.counted {
            slot(self.inode).written.load(Ordering::Relaxed) + bytes as u64
        } else {
            UNCOUNTED
        };
        timeline::sent(&self.outgoing, end);
    }

    /// The kernel took `bytes`.
    pub fn has_sent(&self, bytes: usize) {
        slot(self.inode).written.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The program has read `bytes`: none at the end of the stream.
    pub fn has_received(&self, bytes: usize) {
        let end = if self.counted && bytes == 0 {
            NEVER
        } else if self.counted {
            slot(self.inode).read.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64
        } else {
            UNCOUNTED
        };
        timeline::received(&self.incoming, end);
    }

    /// The program writes no more.
    pub fn ends(&self) {
        if self.counted {
            timeline::closed(&self.outgoing);
        }
    }
}

/// Forks so far, plus one. Streams that were opened before the last one may be shared with another
/// process, and a close then ends nothing.
static GENERATION: AtomicU64 = AtomicU64::new(1);

/// The process is about to fork.
pub fn forks() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// The program has opened a stream.
pub fn opened(fd: c_int) {
    if let Some(inode) = inode(fd) {
        let slot = slot(inode);
        slot.forget();
        slot.inode.store(inode, Ordering::Relaxed);
        slot.generation.store(GENERATION.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// The program is about to close `fd`, which ends the stream that it writes.
pub fn closes(fd: c_int) {
    // SAFETY: plain numbers.
    let flags = unsafe { sys!(libc::SYS_fcntl, fd, libc::F_GETFL) };
    let only_reads = flags < 0 || flags as c_int & libc::O_ACCMODE == libc::O_RDONLY;
    if only_reads || timeline::is_borrowed() {
        return;
    }
    if let Some(stream) = Stream::of(fd) {
        if slot(stream.inode).generation.load(Ordering::Relaxed) == GENERATION.load(Ordering::Relaxed) {
            stream.ends();
        }
    }
}

/// The process ends, which closes all.
pub fn closes_all() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else { return };
    let fds: Vec<c_int> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    fds.into_iter().for_each(closes);
}

/// Remembers that two sockets are each other's ends.
pub fn pair(fds: [c_int; 2]) {
    fds.into_iter().for_each(opened);
    let inodes = fds.map(inode);
    if let [Some(a), Some(b)] = inodes {
        slot(a).other.store(b, Ordering::Relaxed);
        slot(b).other.store(a, Ordering::Relaxed);
    }
}

fn inode(fd: c_int) -> Option<u64> {
    // SAFETY: all zero is a valid stat, and it is valid for writing.
    unsafe {
        let mut stat: libc::stat = zeroed();
        (sys!(libc::SYS_fstat, fd, &raw mut stat) == 0).then_some(stat.st_ino)
    }
}

/// What a wait for `fd` waits for: the descriptor, or those in an epoll set.
pub fn waits(fd: c_int, events: c_short) -> Vec<WaitFd> {
    if fd < 0 {
        return Vec::new();
    }
    let Some(members) = epoll_members(fd) else { return vec![wait(fd, events as u32)] };
    members.into_iter().map(|(fd, events)| wait(fd, events)).collect()
}

fn wait(fd: c_int, events: u32) -> WaitFd {
    let (key, position) = match Stream::of(fd) {
        Some(stream) if stream.counted => (stream.incoming, slot(stream.inode).read.load(Ordering::Relaxed)),
        Some(stream) => (stream.incoming, 0),
        None => (ConnKey { from: inode(fd).unwrap_or(0), ..ConnKey::default() }, 0),
    };
    WaitFd { fd, events, key, position }
}

/// The descriptors in an epoll set with their events, as the kernel tells them.
fn epoll_members(fd: c_int) -> Option<Vec<(c_int, u32)>> {
    let target = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    if target.as_os_str() != "anon_inode:[eventpoll]" {
        return None;
    }
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    let member = |line: &str| {
        let mut words = line.strip_prefix("tfd:")?.split_whitespace();
        let fd = words.next()?.parse().ok()?;
        let events = u32::from_str_radix(words.nth(1)?, 16).ok()?;
        Some((fd, events & 0xffff))
    };
    Some(info.lines().filter_map(member).collect())
}

fn option(fd: c_int, name: c_int) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: both are valid for writing.
    let result =
        unsafe { sys!(libc::SYS_getsockopt, fd, libc::SOL_SOCKET, name, &raw mut value, &raw mut length) };
    (result == 0).then_some(value)
}

fn socket(fd: c_int, inode: u64) -> Option<Stream> {
    let local = Name::of(fd, libc::SYS_getsockname)?;
    let stream = match local.family {
        libc::AF_INET | libc::AF_INET6 => kind::TCP,
        libc::AF_UNIX => kind::UNIX,
        _ => return None,
    };
    let key = |kind, from, to| ConnKey { kind, reserved: 0, from, to };
    if option(fd, libc::SO_TYPE)? == libc::SOCK_DGRAM {
        let peer = Name::of(fd, libc::SYS_getpeername).map_or(0, |name| name.port());
        let (incoming, outgoing) = (key(kind::DATAGRAM, 0, local.port()), key(kind::DATAGRAM, 0, peer));
        return Some(Stream { inode, incoming, outgoing, counted: false });
    }
    if option(fd, libc::SO_ACCEPTCONN) == Some(1) {
        let listen = key(kind::LISTEN, 0, local.port());
        return Some(Stream { inode, incoming: listen, outgoing: listen, counted: false });
    }
    let other = slot(inode).other.load(Ordering::Relaxed);
    let (here, there) = if other != 0 {
        (inode, other)
    } else {
        (local.whole(), Name::of(fd, libc::SYS_getpeername)?.whole())
    };
    Some(Stream {
        inode,
        incoming: key(stream, there, here),
        outgoing: key(stream, here, there),
        counted: true,
    })
}

/// The key of a listening socket, or of a datagram's receiver, at an address.
///
/// # Safety
/// `address` is valid for `length` bytes.
pub unsafe fn target(kind: u32, address: *const libc::sockaddr, length: libc::socklen_t) -> Option<ConnKey> {
    // SAFETY: the caller's promise.
    let name = unsafe { Name::copy(address, length) };
    matches!(name.family, libc::AF_INET | libc::AF_INET6 | libc::AF_UNIX).then(|| ConnKey {
        kind,
        reserved: 0,
        from: 0,
        to: name.port(),
    })
}

/// The program connects to, or sends a datagram to, what `target` names.
pub fn reach(target: &ConnKey) {
    timeline::sent(target, UNCOUNTED);
}

/// Gives a UNIX socket without a name an abstract one, by which the other end can tell it from others.
pub fn name(fd: c_int) {
    let unnamed = Name::of(fd, libc::SYS_getsockname)
        .is_some_and(|name| name.family == libc::AF_UNIX && name.length <= size_of::<libc::sa_family_t>());
    if unnamed {
        let family = libc::AF_UNIX as libc::sa_family_t;
        // SAFETY: an address of the family alone asks for a name of the kernel's choice, unix(7).
        unsafe { sys!(libc::SYS_bind, fd, &raw const family, size_of::<libc::sa_family_t>()) };
    }
}
