//! This process's part in the connection manager: its event channels.
//!
//! A channel is a pipe whose reading end the program has. One byte in it says that there are events; the events
//! themselves are in the segment. So the descriptor can be polled, duplicated, inherited and made non-blocking like any
//! other, and what a program closes is noticed.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::c_int;
use std::os::fd::IntoRawFd;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use driver::Interrupts;
use model::attach::{CloseChannel, Execute, OpenChannel, Task, Waiting};
use model::cm::command::Command;

use crate::verbs::card::Card;
use crate::verbs::errno::{Errno, Result};
use crate::verbs::event_pipe::{Aside, EventPipe};
use crate::verbs::events::with_signals_blocked;
use crate::verbs::timeline;

/// The interrupt vector of events.
const VECTOR: u32 = 0;

/// A directory of a device of the net, in sysfs.
static NET: Mutex<Option<PathBuf>> = Mutex::new(None);
/// The process's part, since it first opened the device.
static SESSION: Mutex<Option<Arc<Session>>> = Mutex::new(None);

/// An open channel.
struct Channel {
    number: u16,
    pipe: EventPipe<1>,
    /// The byte is in the pipe, unless a reader has taken it.
    signalled: bool,
    /// How often events were removed, or may have been: an answer from before that is of no use.
    removed: u64,
}

impl Channel {
    /// Makes it readable, for events that there were when so much was `removed`. False: some may be gone.
    fn tell(&mut self, removed: Option<u64>) -> bool {
        let current = removed == Some(self.removed);
        if current && !self.signalled {
            self.signalled = true;
            // Who has closed it meanwhile is not to be ended for that.
            without_sigpipe(|| self.pipe.send([1]));
        }
        current
    }
}

/// Runs `call`, in which a write to a pipe that nobody reads is only an error.
fn without_sigpipe(call: impl FnOnce()) {
    // SAFETY: zero is a valid signal set; the others read and exchange this thread's signals.
    unsafe {
        let (mut pipe, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        let pends = || {
            let mut pending = std::mem::zeroed();
            libc::sigpending(&mut pending);
            libc::sigismember(&pending, libc::SIGPIPE) == 1
        };
        libc::sigaddset(&mut pipe, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &pipe, &mut before);
        // Another one is the program's.
        let another = pends();
        call();
        if !another && pends() {
            let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            libc::sigtimedwait(&pipe, std::ptr::null_mut(), &now);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
    }
}

/// See the module.
pub struct Session {
    card: Card,
    /// A forked child has no part in its parent's.
    process: u32,
    /// By the inode of their pipes.
    channels: Mutex<HashMap<u64, Channel>>,
    aside: Mutex<Aside>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The net is that of the device which this directory describes.
pub fn is_net_of(directory: PathBuf) {
    lock(&NET).get_or_insert(directory);
}

/// The session of this process, if it has opened the device.
pub fn current() -> Option<Arc<Session>> {
    lock(&SESSION).clone().filter(|session| session.process == std::process::id())
}

/// The number of the channel that a descriptor is, of whichever process.
pub fn channel(fd: c_int) -> Option<u16> {
    let session = lock(&SESSION).clone()?;
    let inode = timeline::inode(fd)?;
    let channels = lock(&session.channels);
    channels.get(&inode).map(|channel| channel.number)
}

/// Whether a descriptor is a channel.
pub fn is_channel(fd: c_int) -> bool {
    channel(fd).is_some()
}

/// Opens the device: a new channel.
pub fn open(flags: c_int) -> Result<c_int> {
    let session = match current() {
        Some(session) => session,
        None => Session::start()?,
    };
    session.look_for_closed();
    session.open(flags)
}

/// Destroys the channels that no descriptor is left of.
pub fn look_for_closed() {
    if let Some(session) = current() {
        if !session.look_for_closed() {
            session.card.wake(VECTOR);
        }
    }
}

/// What became of a look for an event.
pub enum Look {
    /// There was one.
    Found(Vec<u8>),
    /// There is none: look again when the descriptor can be read, and after a byte was taken from it.
    Nothing,
    /// Another thread has closed the channel. The kernel's file exists as long as the wait, and gets no event any more:
    /// only a signal ends it, or the end of the program, for which rping closes it.
    Closed,
}

/// Whether the process may bind ports below 1024.
fn is_privileged() -> bool {
    const NET_BIND_SERVICE: u64 = 1 << 10;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    effective.is_some_and(|effective| effective & NET_BIND_SERVICE != 0)
}

impl Session {
    fn start() -> Result<Arc<Session>> {
        let mut current = lock(&SESSION);
        let process = std::process::id();
        if let Some(session) = current.clone().filter(|session| session.process == process) {
            return Ok(session);
        }
        timeline::exempt();
        let directory = lock(&NET).clone().ok_or(Errno(libc::ENODEV))?;
        let no_device = |why: String| {
            model::tell!("verbena: no connection manager: {why}");
            Errno(libc::ENODEV)
        };
        let card = Card::of_net(&directory).map_err(no_device)?;
        timeline::attach(&card).map_err(no_device)?;
        let aside = Mutex::new(Aside::new()?);
        let session = Arc::new(Session { card, process, channels: Mutex::default(), aside });
        let (place, run) = (session.card.follower(), Arc::clone(&session));
        let work = move || {
            if let Some(place) = place {
                place.begin();
            }
            run.tell();
        };
        let spawn = || std::thread::Builder::new().name("verbena-cm".into()).spawn(work);
        with_signals_blocked(spawn).map_err(|_| Errno::ENOMEM)?;
        *current = Some(Arc::clone(&session));
        Ok(session)
    }

    fn ask<T: Task>(&self, task: T) -> Result<T::Answer> {
        self.card.manager(task).ok_or(Errno::EIO)
    }

    fn open(&self, flags: c_int) -> Result<c_int> {
        let (pipe, rx) = EventPipe::new()?;
        let inode = pipe.inode().ok_or(Errno::EIO)?;
        let number = self.ask(OpenChannel { privileged: is_privileged() })?.map_err(Errno)?;
        lock(&self.channels).insert(inode, Channel { number, pipe, signalled: false, removed: 0 });
        let fd = rx.into_raw_fd();
        if flags & libc::O_NONBLOCK != 0 {
            // SAFETY: only sets a flag of our own descriptor.
            unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) };
        }
        if flags & libc::O_CLOEXEC == 0 {
            // SAFETY: as above.
            unsafe { libc::fcntl(fd, libc::F_SETFD, 0) };
        }
        Ok(fd)
    }

    /// A command that may remove events of these channels, which these descriptors are.
    pub fn removing(&self, of: &[(c_int, u16)], channel: u16, command: &Command<'_>) -> Result<Vec<u8>> {
        let answer = self.command(channel, command);
        of.iter().for_each(|&(fd, channel)| self.unsignal(fd, channel));
        let numbers: Vec<u16> = of.iter().map(|&(_, channel)| channel).collect();
        self.signal_or_leave(&numbers);
        answer
    }

    /// Makes a channel not readable: after the last of its events was removed, and before a look for the first.
    fn unsignal(&self, fd: c_int, channel: u16) {
        self.with(channel, |it| {
            it.pipe.forget_at(fd, &mut lock(&self.aside), |_| true);
            it.signalled = false;
            it.removed += 1;
        });
    }

    /// A command that does not wait.
    pub fn command(&self, channel: u16, command: &Command<'_>) -> Result<Vec<u8>> {
        self.ask(Execute(channel, *command))?.map_err(Errno)
    }

    /// GET_EVENT, as far as it does not wait; EAGAIN: the descriptor is non-blocking.
    pub fn look(&self, fd: c_int, number: u16, command: &Command<'_>) -> Result<Look> {
        // Once it is closed, the descriptor may be another file.
        while channel(fd) == Some(number) {
            // Before the look: what comes after it puts the byte back.
            self.unsignal(fd, number);
            match self.command(number, command) {
                Err(Errno(libc::EAGAIN)) => {}
                Err(_) if self.with(number, |_| ()).is_none() => return Ok(Look::Closed),
                other => {
                    // Another thread may have told of this event meanwhile.
                    self.unsignal(fd, number);
                    self.signal_or_leave(&[number]);
                    return other.map(Look::Found);
                }
            }
            // SAFETY: only reads flags.
            let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
            if channel(fd) != Some(number) {
                break;
            }
            Errno(libc::EAGAIN).when(flags & libc::O_NONBLOCK != 0)?;
            if !timeline::waits_for_pipe(fd) {
                return Ok(Look::Nothing);
            }
        }
        Ok(Look::Closed)
    }

    fn with<R>(&self, number: u16, change: impl FnOnce(&mut Channel) -> R) -> Option<R> {
        let mut channels = lock(&self.channels);
        channels.values_mut().find(|channel| channel.number == number).map(change)
    }

    /// Makes those of these channels readable that have events. Not with the lock: in simulated time the question waits
    /// for other threads. False: the manager could not be asked.
    fn signal(&self, numbers: &[u16]) -> bool {
        let mut numbers = numbers.to_vec();
        while !numbers.is_empty() {
            let removed = |&number: &u16| (number, self.with(number, |channel| channel.removed));
            let before: HashMap<u16, _> = numbers.iter().map(removed).collect();
            let Ok(mut waiting) = self.ask(Waiting(&numbers)) else { return false };
            // What has changed since is asked again.
            waiting.retain(|&number| {
                let before = before.get(&number).copied().flatten();
                let told = self.with(number, |channel| channel.tell(before));
                told == Some(false)
            });
            numbers = waiting;
        }
        true
    }

    /// The same for a thread of the program; what fails is tried again by the one that tells.
    fn signal_or_leave(&self, numbers: &[u16]) {
        if !self.signal(numbers) {
            self.card.wake(VECTOR);
        }
    }

    /// False: some are left.
    fn look_for_closed(&self) -> bool {
        let mut channels = lock(&self.channels);
        let closed = channels.iter().filter(|(_, channel)| channel.pipe.closed());
        let inodes: Vec<u64> = closed.map(|(&inode, _)| inode).collect();
        // Out of the table, so that no other thread closes their numbers, too: these may be others' by then.
        let closed: Vec<_> = inodes.iter().filter_map(|inode| channels.remove_entry(inode)).collect();
        drop(channels);
        let mut left = closed;
        left.retain(|(_, channel)| self.ask(CloseChannel(channel.number)).is_err());
        let done = left.is_empty();
        lock(&self.channels).extend(left);
        done
    }

    /// What the thread does: looks for events after each interrupt.
    fn tell(&self) {
        const FOREVER: Duration = Duration::from_secs(3600);
        const SOON: Duration = Duration::from_millis(10);
        let mut timeout = FOREVER;
        loop {
            // A panic has been printed.
            let waited = catch_unwind(AssertUnwindSafe(|| self.card.wait_interrupt(VECTOR, timeout).is_ok()));
            let numbers: Vec<u16> = lock(&self.channels).values().map(|channel| channel.number).collect();
            if !waited.unwrap_or(false) {
                // Whoever waits finds that nothing works.
                for number in numbers {
                    self.with(number, |channel| channel.pipe.send([1]));
                }
                return;
            }
            let done = catch_unwind(AssertUnwindSafe(|| {
                let told = self.signal(&numbers);
                self.look_for_closed() && told
            }));
            timeout = if done.unwrap_or(false) { FOREVER } else { SOON };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn what_was_removed_meanwhile_is_not_told() {
        let (pipe, rx) = EventPipe::new().unwrap();
        let mut channel = Channel { number: 1, pipe, signalled: false, removed: 1 };
        assert!(!channel.tell(Some(0)) && !channel.signalled);
        assert!(channel.tell(Some(1)) && channel.tell(Some(1)));
        drop(channel);
        let mut bytes = Vec::new();
        std::fs::File::from(rx).read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, [1], "told once");
    }

    #[test]
    fn a_channel_that_was_closed_ends_nobody() {
        let (pipe, rx) = EventPipe::new().unwrap();
        let mut channel = Channel { number: 1, pipe, signalled: false, removed: 1 };
        drop(rx);
        // SAFETY: the child makes system calls only, and ends.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                // As in a program of C.
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                channel.tell(Some(1));
                libc::_exit(0);
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            status
        };
        assert_eq!(status, 0);
    }
}
