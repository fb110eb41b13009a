//! The keeper: makes a segment, hands it out, and cleans up behind the dead.
//!
//! It has one thread that sleeps in `poll`. A connection that ends, for whatever
//! reason, is a member that is gone; no word of the member is needed, so a
//! `kill -9` leaves nothing. While nobody else runs the cards it runs their
//! timers.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{
    accept_with, recv, sendmsg, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
};

pub mod attach;
mod create;
mod listen;
pub mod protocol;

use crate::panics::guarded;
use crate::segment::layout::{KEEPER_MEMBER, MAX_MEMBERS, MEMBER_ACTIVE, MEMBER_FREE, MEMBER_GONE};
use crate::segment::moving::release::free_member;
use crate::segment::{now_ns, Segment};
use attach::AttachError;
use listen::{peer, Listener};
use protocol::{Hello, Kind, Verdict, Welcome, PROTOCOL_VERSION};

/// How long the first connection may take to come.
const GRACE: Duration = Duration::from_millis(200);
/// How long a client may take to say hello.
pub(in crate::segment) const GREETING: Duration = Duration::from_secs(2);
/// Clients that have not said hello yet; more are turned away.
const MAX_GREETING: usize = 64;
/// How long to wait for the lock when cleaning up, and between two tries.
const CLEANUP_LOCK: Duration = Duration::from_millis(500);
const CLEANUP_RETRY: Duration = Duration::from_millis(100);
/// The least sleep between two runs of the timers.
const TIMER_PAUSE: Duration = Duration::from_micros(50);

/// Told the member that has gone; false when it could not do what it has to, and is to be told again.
pub type OnMemberGone = Box<dyn FnMut(&Segment, u16) -> bool>;
/// Runs timers, returns the next deadline.
pub type OnTimer = Box<dyn FnMut(&Segment) -> u64>;

/// What a keeper is to do.
pub struct KeeperOptions {
    /// Where it listens. The directory belongs to the user, mode 0700; it is
    /// made if there is none (its parent must exist).
    pub socket_path: PathBuf,
    /// Size of the heap; it costs nothing until it is used.
    pub heap_bytes: u64,
    /// Size of the cards' area.
    pub world_bytes: u64,
    /// Prepares the cards' area, which is zero, before anybody can attach.
    pub init: Box<dyn FnOnce(&Segment)>,
    /// A member has gone. The lock is not held. Afterwards the member's memory
    /// is freed, so the cards must stop using it here.
    pub on_member_gone: OnMemberGone,
    /// Somebody has to look at the timers: a deadline has come, or the keeper
    /// was woken, or has just started. The lock is not held. Returns the next deadline
    /// (CLOCK_MONOTONIC, ns), `u64::MAX` if there is none.
    pub on_timer: OnTimer,
}

/// Why a keeper did not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeeperError {
    /// The net has a keeper.
    #[error("cards are running at {0} already")]
    AlreadyRunning(PathBuf),
    /// Others could interfere.
    #[error("{0} must be a directory of this user's with mode 0700: remove it, or choose another with XDG_RUNTIME_DIR")]
    UnsafeDirectory(PathBuf),
    /// The heap is larger than the segment's tables can describe.
    #[error("a heap of {0} bytes is too large")]
    HeapTooLarge(u64),
    /// The socket cannot be used.
    #[error(transparent)]
    Socket(AttachError),
    /// The system refused something.
    #[error("{what}: {error}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

impl KeeperError {
    pub(in crate::segment) fn system(what: &'static str, error: io::Error) -> KeeperError {
        KeeperError::System { what, error }
    }
}

/// Keeps a segment until its last connection has ended (or none came).
pub fn run(options: KeeperOptions) -> Result<(), KeeperError> {
    let (segment, handles) = create::segment(options.world_bytes, options.heap_bytes)?;
    (options.init)(&segment);
    let listener = Listener::new(&options.socket_path)?;
    let mut keeper = Keeper {
        segment,
        handles,
        listener,
        clients: Vec::new(),
        unclean: Vec::new(),
        stray: 0,
        on_member_gone: options.on_member_gone,
        on_timer: options.on_timer,
        alone_until: now_ns() + GRACE.as_nanos() as u64,
    };
    let result = keeper.serve();
    keeper.listener.remove();
    result
}

struct Keeper {
    segment: Segment,
    handles: create::Handles,
    listener: Listener,
    clients: Vec<Client>,
    /// Members that are gone but not cleaned up: the lock was not to be had. And whether the cards have been told.
    unclean: Vec<(u16, bool)>,
    /// A thread that holds the lock and is none of any member, as seen at the last look.
    stray: u32,
    on_member_gone: OnMemberGone,
    on_timer: OnTimer,
    /// When to end although nobody ever came.
    alone_until: u64,
}

struct Client {
    connection: OwnedFd,
    role: Role,
    /// Its process, once it has said hello; 0 when that is not to be seen.
    pid: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Has to say hello until then.
    Greeting(u64),
    Hold,
    Member(u16),
}

impl Keeper {
    fn serve(&mut self) -> Result<(), KeeperError> {
        let mut next = 0;
        let mut woken = true;
        loop {
            let timers = &self.segment.tables().header.timers;
            timers.keeper_wake_at.store(0, Ordering::SeqCst);
            let asked = timers.next_deadline.load(Ordering::SeqCst);
            let now = now_ns();
            if woken || now >= next.min(asked) {
                if asked <= now {
                    // Before the look, so that what is asked for meanwhile
                    // stays; an earlier wish that came just now does too.
                    let _ = timers.next_deadline.compare_exchange(
                        asked,
                        u64::MAX,
                        Ordering::SeqCst,
                        Ordering::SeqCst,
                    );
                }
                next = (self.on_timer)(&self.segment);
                next = next.max(now_ns() + TIMER_PAUSE.as_nanos() as u64);
            }
            self.drop_late_greetings();
            self.clean_up();
            if self.segment.pending().load(Ordering::SeqCst) != 0 && self.segment.seems_locked() {
                self.look_for_a_stray_holder();
            }
            if self.segment.pending().load(Ordering::SeqCst) != 0 {
                // Whoever found the lock busy because of the cleaning has left its work to us.
                next = next.min((self.on_timer)(&self.segment));
            }
            if self.clients.is_empty() && now_ns() >= self.alone_until && self.finish() {
                return Ok(());
            }
            let ready = self.sleep(next)?;
            woken = ready.woken;
            if ready.listener {
                self.accept_all();
            }
            self.attend(&ready.clients);
        }
    }

    fn sleep(&mut self, next: u64) -> Result<Ready, KeeperError> {
        let timers = &self.segment.tables().header.timers;
        let mut until = next;
        if self.clients.is_empty() {
            until = until.min(self.alone_until);
        }
        for client in &self.clients {
            if let Role::Greeting(limit) = client.role {
                until = until.min(limit);
            }
        }
        if !self.unclean.is_empty() {
            until = until.min(now_ns() + CLEANUP_RETRY.as_nanos() as u64);
        }
        timers.keeper_wake_at.store(until, Ordering::SeqCst);
        // Whoever asked before that store did not see that it had to wake us.
        let asked = timers.next_deadline.load(Ordering::SeqCst);
        let until = until.min(asked);

        let mut entries = vec![
            PollFd::new(&self.listener.socket, PollFlags::IN),
            PollFd::new(&self.handles.wake, PollFlags::IN),
        ];
        let connections = self.clients.iter().map(|client| &client.connection);
        entries.extend(connections.map(|fd| PollFd::new(fd, PollFlags::IN)));
        let wait = Duration::from_nanos(until.saturating_sub(now_ns()));
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
        let wait = (until != u64::MAX).then_some(&wait);
        match rustix::event::poll(&mut entries, wait) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(KeeperError::system("waiting for events", error.into())),
        }
        let fired: Vec<bool> = entries.iter().map(|e| !e.revents().is_empty()).collect();
        drop(entries);
        if fired[1] {
            // Resets the counter. The descriptor does not block.
            let _ = rustix::io::read(&self.handles.wake, &mut [0; 8]);
        }
        Ok(Ready { listener: fired[0], woken: fired[1], clients: fired[2..].to_vec() })
    }

    fn accept_all(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Ok(connection) = accept_with(&self.listener.socket, flags) {
            let waiting = |client: &&Client| matches!(client.role, Role::Greeting(_));
            if self.clients.iter().filter(waiting).count() >= MAX_GREETING {
                log("too many silent clients, one turned away");
                continue;
            }
            let limit = now_ns() + GREETING.as_nanos() as u64;
            self.clients.push(Client { connection, role: Role::Greeting(limit), pid: 0 });
        }
    }

    /// Deals with every client that has something to say, or has ended.
    fn attend(&mut self, ready: &[bool]) {
        // From the back, so that removal moves only clients already seen. (New
        // ones have come behind those that were polled.)
        for index in (0..ready.len()).rev() {
            if ready[index] && !self.hear(index) {
                let client = self.clients.swap_remove(index);
                if let Role::Member(member) = client.role {
                    self.member_gone(member);
                }
            }
        }
    }

    /// False when the client is to be dropped.
    fn hear(&mut self, index: usize) -> bool {
        let mut bytes = [0; 64];
        let client = &self.clients[index];
        let got = match recv(&client.connection, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((got, _)) => got,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return true,
            Err(_) => 0,
        };
        if got == 0 {
            return false;
        }
        if !matches!(client.role, Role::Greeting(_)) {
            log("a client said more than hello");
            return false;
        }
        let Some(hello) = Hello::decode(&bytes[..got]) else {
            log("a client spoke something else");
            return false;
        };
        self.welcome(index, hello)
    }

    fn welcome(&mut self, index: usize, hello: Hello) -> bool {
        let connection = &self.clients[index].connection;
        let me = rustix::process::geteuid().as_raw();
        let (verdict, role, pid) = match peer(connection) {
            Ok((uid, _)) if uid != me && uid != 0 => (Verdict::OtherUser, Role::Hold, 0),
            Ok(_) if hello.version != PROTOCOL_VERSION => (Verdict::OtherVersion, Role::Hold, 0),
            Ok((_, pid)) => match (hello.kind, self.free_index()) {
                (Kind::Hold, _) => (Verdict::Accepted, Role::Hold, 0),
                (Kind::Member, Some(member)) => (Verdict::Accepted, Role::Member(member), pid),
                (Kind::Member, None) => (Verdict::Full, Role::Hold, 0),
            },
            Err(_) => return false,
        };
        let member = match role {
            Role::Member(member) => member,
            _ => KEEPER_MEMBER,
        };
        if member != KEEPER_MEMBER {
            let entry = &self.segment.tables().members[usize::from(member)];
            entry.pid.store(pid, Ordering::Relaxed);
            entry.generation.fetch_add(1, Ordering::Relaxed);
            entry.state.store(MEMBER_ACTIVE, Ordering::Release);
        }
        self.clients[index].role = role;
        self.clients[index].pid = pid;
        let welcome = Welcome {
            version: PROTOCOL_VERSION,
            verdict,
            member,
            total_bytes: self.segment.local().total_bytes,
        };
        self.answer(index, welcome) && verdict == Verdict::Accepted
    }

    fn answer(&self, index: usize, welcome: Welcome) -> bool {
        let client = &self.clients[index];
        let descriptors = [self.handles.memfd.as_fd(), self.handles.wake.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if matches!(client.role, Role::Member(_)) {
            ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        let bytes = welcome.encode();
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let sent = sendmsg(&client.connection, &[IoSlice::new(&bytes)], &mut ancillary, flags);
        sent.is_ok()
    }

    fn free_index(&self) -> Option<u16> {
        let members = &self.segment.tables().members;
        (KEEPER_MEMBER + 1..MAX_MEMBERS as u16)
            .find(|&i| members[usize::from(i)].state.load(Ordering::Relaxed) == MEMBER_FREE)
    }

    fn member_gone(&mut self, member: u16) {
        let entry = &self.segment.tables().members[usize::from(member)];
        entry.state.store(MEMBER_GONE, Ordering::Release);
        self.unclean.push((member, false));
        self.clean_up();
    }

    fn clean_up(&mut self) {
        let (segment, on_member_gone) = (&self.segment, &mut self.on_member_gone);
        // One lock that is not to be had is waited for once.
        let mut held = false;
        self.unclean.retain_mut(|(member, told)| {
            let member = *member;
            *told = *told || !held && on_member_gone(segment, member);
            let free = || free_member(segment, member, CLEANUP_LOCK);
            // What is damaged so that it cannot be freed stays.
            let done = !held && *told && guarded(true, free);
            held |= !done;
            if done {
                let entry = &segment.tables().members[usize::from(member)];
                entry.pid.store(0, Ordering::Relaxed);
                entry.state.store(MEMBER_FREE, Ordering::Release);
            } else {
                log("the lock is held: cleaning up later");
            }
            !done
        });
        if held {
            self.look_for_a_stray_holder();
        }
    }

    /// The kernel takes the lock from a thread that ends. Of a thread that never was it knows nothing: then somebody has
    /// written over the word, and everybody would wait for ever.
    fn look_for_a_stray_holder(&mut self) {
        let lock = &self.segment.control().lock;
        let tid = lock.holder();
        let before = std::mem::replace(&mut self.stray, 0);
        if tid == 0 || lock.is_condemned() {
            return;
        }
        let members = self.clients.iter().filter(|client| matches!(client.role, Role::Member(_)));
        let mut pids = members.map(|client| client.pid).chain([std::process::id()]);
        // A thread id means something in the process namespace of its process only.
        let ours = std::fs::read_link("/proc/self/ns/pid").ok();
        let foreign = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok() != ours;
        let has = |pid: u32| std::path::Path::new(&format!("/proc/{pid}/task/{tid}")).exists();
        if ours.is_none() || pids.any(|pid| has(pid) || foreign(pid)) {
            return;
        }
        // Seen twice: a member may have ended in between.
        if before == tid {
            log("the lock was held by nobody");
            lock.holder_is_gone(tid);
        }
        self.stray = tid;
    }

    fn drop_late_greetings(&mut self) {
        let now = now_ns();
        self.clients.retain(|client| {
            let late = matches!(client.role, Role::Greeting(limit) if limit <= now);
            if late {
                log("a client did not say hello");
            }
            !late
        });
    }

    /// Nobody is left: true when the socket file is removed and it is over.
    fn finish(&mut self) -> bool {
        // A keeper that is just starting must not take our file for a live one
        // and then find it gone.
        let _alone = self.listener.lock();
        self.accept_all();
        if !self.clients.is_empty() {
            return false;
        }
        self.listener.remove();
        // Somebody may have connected in between; it has no file any more, but
        // it is served.
        self.accept_all();
        self.clients.is_empty()
    }
}

struct Ready {
    listener: bool,
    woken: bool,
    clients: Vec<bool>,
}

fn log(what: &str) {
    if std::env::var_os("VERBENA_LOG").is_some() {
        eprintln!("verbena keeper: {what}");
    }
}
