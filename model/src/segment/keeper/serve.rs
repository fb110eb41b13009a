//! The keeper's thread, which sleeps in `poll`. (One that receives frames from outside works [beside](super::Beside) it.)
//!
//! A connection that ends, for whatever reason, is a member that has ended; the member need not say anything, so a
//! `kill -9` leaves nothing. While no member runs the cards, the keeper runs their timers.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{recv, RecvFlags};

use super::beside::Started;
use super::client::{Client, Role};
use super::create;
use super::error::KeeperError;
use super::listen::{peer, Listener};
use super::options::{KeeperOptions, OnAlone, OnLook, OnMemberGone, OnTimer, Watch};
use super::protocol::{Hello, Kind, Verdict, Welcome, PROTOCOL_VERSION};
use super::stray::Strays;
use crate::panics::guarded;
use crate::passing::send_with;
use crate::segment::layout::{KEEPER_MEMBER, MEMBER_ACTIVE, MEMBER_FREE, MEMBER_GONE};
use crate::segment::moving::release::free_member;
use crate::segment::page::MAX_MEMBERS;
use crate::segment::{now_ns, Segment};

/// How long the keeper waits for the first process that it stays for: whoever started it may be kept from its core.
const GRACE: Duration = Duration::from_secs(2);
/// How long a client may take to say hello.
pub(in crate::segment) const GREETING: Duration = Duration::from_secs(2);
/// Clients that have not sent their first message; more are refused.
const MAX_GREETING: usize = 64;
/// How long to wait for the lock when cleaning up, and between two tries.
const CLEANUP_LOCK: Duration = Duration::from_millis(500);
const CLEANUP_RETRY: Duration = Duration::from_millis(100);
/// How long it goes on without connections for members to clean up after, and for frames on their way; the pause between two
/// looks.
const LINGER: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(1);
/// The least sleep between two runs of the timers.
const TIMER_PAUSE: Duration = Duration::from_micros(50);

/// Keeps a segment until its last connection has ended (or none came), and what is left to do then, for at most [`LINGER`].
pub fn run(options: KeeperOptions) -> Result<(), KeeperError> {
    let (segment, handles) = create::segment(options.world_bytes, options.heap_bytes, options.sockets)?;
    (options.init)(&segment);
    let segment = Arc::new(segment);
    let listener = Listener::new(&options.socket_path)?;
    let beside = options.beside.map(|work| Started::new(work, &segment)).transpose()?;
    let mut keeper = Keeper {
        segment,
        handles,
        namespaces: options.namespaces,
        watch: options.watch,
        news: false,
        listener,
        clients: Vec::new(),
        unclean: Vec::new(),
        strays: Strays::default(),
        on_member_gone: options.on_member_gone,
        on_timer: options.on_timer,
        on_look: options.on_look,
        on_alone: options.on_alone,
        alone_until: now_ns() + GRACE.as_nanos() as u64,
        ends_at: None,
    };
    let result = keeper.serve();
    keeper.listener.remove();
    if let Some(beside) = beside {
        beside.end();
    }
    // Before the memory, which takes time to be given back: nothing is written any more.
    drop(options.files);
    result
}

struct Keeper {
    segment: Arc<Segment>,
    handles: create::Handles,
    namespaces: Vec<OwnedFd>,
    watch: Option<Watch>,
    /// What is watched has news that the cards do not have yet.
    news: bool,
    listener: Listener,
    clients: Vec<Client>,
    /// Members that have ended but are not cleaned up, since the lock was taken; and whether the cards have been told.
    unclean: Vec<(u16, bool)>,
    strays: Strays,
    on_member_gone: OnMemberGone,
    on_timer: OnTimer,
    on_look: Option<OnLook>,
    on_alone: OnAlone,
    /// When to end at the earliest, without clients.
    alone_until: u64,
    /// And at the latest, whatever is left to do; once that is decided.
    ends_at: Option<u64>,
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
                    // Before the timers run, so that deadlines set meanwhile
                    // stay; so does an earlier one set just now.
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
            if let Some(watch) = self.watch.as_mut().filter(|_| self.news) {
                self.news = !(watch.on_news)(&self.segment);
            }
            if self.look_for_strays() {
                next = next.min(now_ns() + CLEANUP_RETRY.as_nanos() as u64);
            }
            if self.is_alone() && now_ns() >= self.alone_until && self.finish() {
                return Ok(());
            }
            let look = self.on_look.as_mut().map_or(u64::MAX, |look| look(&self.segment));
            let ready = self.sleep(next.min(look))?;
            woken = ready.woken;
            if ready.listener {
                self.accept_all();
            }
            self.attend(&ready.clients);
            self.news |= ready.news;
        }
    }

    fn sleep(&mut self, next: u64) -> Result<Ready, KeeperError> {
        let timers = &self.segment.tables().header.timers;
        let mut until = next;
        if self.is_alone() {
            until = until.min(self.alone_until);
        }
        for client in &self.clients {
            if let Role::Greeting(limit) = client.role {
                until = until.min(limit);
            }
        }
        if !self.unclean.is_empty() || self.news {
            until = until.min(now_ns() + CLEANUP_RETRY.as_nanos() as u64);
        }
        let mut accepts = PollFlags::IN;
        if now_ns() < self.listener.accept_at {
            (accepts, until) = (PollFlags::empty(), until.min(self.listener.accept_at));
        }
        timers.keeper_wake_at.store(until, Ordering::SeqCst);
        // A member that asked before that store did not see that it had to wake us.
        let asked = timers.next_deadline.load(Ordering::SeqCst);
        let until = until.min(asked);
        let mut entries =
            vec![PollFd::new(&self.listener.socket, accepts), PollFd::new(&self.handles.wake, PollFlags::IN)];
        let connections = self.clients.iter().map(|client| &client.connection);
        entries.extend(connections.map(|fd| PollFd::new(fd, PollFlags::IN)));
        entries.extend(self.watch.iter().map(|watch| PollFd::new(&watch.descriptor, PollFlags::IN)));
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
        let (clients, watched) = fired[2..].split_at(self.clients.len());
        let news = watched.contains(&true);
        Ok(Ready { listener: fired[0], woken: fired[1], clients: clients.to_vec(), news })
    }

    fn accept_all(&mut self) {
        while let Some(connection) = self.listener.accept() {
            let waiting = |client: &&Client| matches!(client.role, Role::Greeting(_));
            if self.clients.iter().filter(waiting).count() >= MAX_GREETING {
                continue;
            }
            let limit = now_ns() + GREETING.as_nanos() as u64;
            self.clients.push(Client { connection, role: Role::Greeting(limit), pid: 0, watches: false });
        }
    }

    /// Reads from every client that has sent something, or has ended.
    fn attend(&mut self, ready: &[bool]) {
        // From the back, so that removal moves only clients already seen. (New ones come after those that were polled.)
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
            // It has said more than hello.
            return false;
        }
        let Some(hello) = Hello::decode(&bytes[..got]) else { return false };
        self.welcome(index, hello)
    }

    fn welcome(&mut self, index: usize, hello: Hello) -> bool {
        // Who holds the net comes before programs that look for the file.
        if hello.kind == Kind::Hold && self.listener.removed {
            return false;
        }
        let connection = &self.clients[index].connection;
        let me = rustix::process::geteuid().as_raw();
        let (verdict, role, pid) = match peer(connection) {
            Ok((uid, _)) if uid != me && uid != 0 => (Verdict::OTHER_USER, Role::Hold, 0),
            Ok(_) if hello.version != PROTOCOL_VERSION => (Verdict::OTHER_VERSION, Role::Hold, 0),
            Ok((_, pid)) => match (hello.kind, self.free_index()) {
                (Kind::Hold | Kind::Ask, _) => (Verdict::ACCEPTED, Role::Hold, 0),
                (Kind::Member | Kind::Watch, Some(member)) => (Verdict::ACCEPTED, Role::Member(member), pid),
                (Kind::Member | Kind::Watch, None) => (Verdict::FULL, Role::Hold, 0),
            },
            Err(_) => return false,
        };
        let member = match role {
            Role::Member(member) => member,
            _ => KEEPER_MEMBER,
        };
        if member != KEEPER_MEMBER {
            self.ends_at = None;
            let entry = &self.segment.tables().members[usize::from(member)];
            entry.pid.store(pid, Ordering::Relaxed);
            entry.generation.fetch_add(1, Ordering::Relaxed);
            entry.state.store(MEMBER_ACTIVE, Ordering::Release);
        }
        let client = &mut self.clients[index];
        (client.role, client.pid) = (role, pid);
        client.watches = matches!(hello.kind, Kind::Watch | Kind::Ask);
        if verdict == Verdict::ACCEPTED && !client.watches {
            self.alone_until = 0;
        }
        let mut others = self.clients.iter().enumerate().filter(|&(other, _)| other != index);
        let welcome = Welcome {
            version: PROTOCOL_VERSION,
            verdict,
            member,
            // Who has not said hello yet does not hold it.
            alone: others.all(|(_, client)| client.watches || matches!(client.role, Role::Greeting(_))),
            total_bytes: self.segment.local.total_bytes,
        };
        self.answer(index, welcome) && verdict == Verdict::ACCEPTED
    }

    fn answer(&self, index: usize, welcome: Welcome) -> bool {
        let client = &self.clients[index];
        let descriptors: Vec<BorrowedFd<'_>> = match client.role {
            _ if welcome.verdict != Verdict::ACCEPTED => Vec::new(),
            Role::Member(_) => {
                let own = [self.handles.memfd.as_fd(), self.handles.wake.as_fd()];
                own.into_iter().chain(self.handles.sockets.iter().map(AsFd::as_fd)).collect()
            }
            _ => self.namespaces.iter().map(AsFd::as_fd).collect(),
        };
        send_with(&client.connection, &welcome.encode(), &descriptors).is_ok()
    }

    fn free_index(&self) -> Option<u16> {
        let members = &self.segment.tables().members;
        (KEEPER_MEMBER + 1..MAX_MEMBERS as u16)
            .find(|&i| members[usize::from(i)].state.load(Ordering::Relaxed) == MEMBER_FREE)
    }

    /// It is cleaned up after in the next turn, with all others that have ended: each clean-up may wait for the lock.
    fn member_gone(&mut self, member: u16) {
        let entry = &self.segment.tables().members[usize::from(member)];
        entry.state.store(MEMBER_GONE, Ordering::Release);
        self.unclean.push((member, false));
    }

    fn clean_up(&mut self) {
        let (segment, on_member_gone) = (&self.segment, &mut self.on_member_gone);
        // If the lock is taken, only the first member waits for it.
        let mut held = false;
        self.unclean.retain_mut(|(member, told)| {
            let member = *member;
            *told = *told || !held && on_member_gone(segment, member);
            let free = || free_member(segment, member, CLEANUP_LOCK);
            // A member whose tables are damaged stays unfreed.
            let done = !held && *told && guarded(true, free);
            held |= !done;
            if done {
                let entry = &segment.tables().members[usize::from(member)];
                entry.pid.store(0, Ordering::Relaxed);
                entry.state.store(MEMBER_FREE, Ordering::Release);
            }
            !done
        });
    }

    /// Whether to look again soon for a lock that nobody holds.
    fn look_for_strays(&mut self) -> bool {
        let members = self.clients.iter().filter(|client| matches!(client.role, Role::Member(_)));
        let pids = members.map(|client| client.pid).chain([std::process::id()]);
        self.strays.look(&self.segment, pids)
    }

    fn drop_late_greetings(&mut self) {
        let now = now_ns();
        self.clients.retain(|client| !matches!(client.role, Role::Greeting(limit) if limit <= now));
    }

    /// Nobody needs the segment: the socket file is removed; true when the keeper ends.
    fn finish(&mut self) -> bool {
        let now = now_ns();
        let ends_at = *self.ends_at.get_or_insert(now + LINGER.as_nanos() as u64);
        let may_wait = now < ends_at;
        // Looks again then.
        self.alone_until = now + PAUSE.as_nanos() as u64;
        // What members leave is written, too, while others know the net.
        if may_wait && !self.unclean.is_empty() {
            return false;
        }
        if !self.listener.removed {
            // A keeper that starts now must not see our file as a live one and then find it removed.
            let _alone = self.listener.lock();
            self.accept_all();
            if !self.is_alone() {
                return false;
            }
            self.listener.remove();
        }
        // A process may have connected in between; it is served although the file is gone.
        self.accept_all();
        if !self.is_alone() {
            return false;
        }
        // The files of the net may be those of another keeper now.
        self.on_look = None;
        !(may_wait && (self.on_alone)(&self.segment, ends_at))
    }

    /// Whether the segment is needed by nobody.
    fn is_alone(&self) -> bool {
        self.clients.iter().all(|client| client.watches)
    }
}

struct Ready {
    listener: bool,
    woken: bool,
    clients: Vec<bool>,
    news: bool,
}
