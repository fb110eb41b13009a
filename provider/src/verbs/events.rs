//! Completion and asynchronous events of one context.
//!
//! A thread takes the card's events and writes them where libibverbs reads them: completions to the
//! pipes of completion channels, the rest to the pipe of `async_fd` ([`super::event_state`] says which).
//! The thread starts with the context, in simulated time with the first object that can have an event; it sleeps in the
//! driver until there is one, and takes no signal of the program.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use driver::Event;
use model::attach::Follower;

use super::acknowledged::Acknowledged;
use super::card::{wake_events, Device};
use super::errno::{Errno, Result};
use super::event_pipe::{Aside, EventPipe};
use super::event_state::{Kind, Object, Sent, State};
use super::timeline;

struct Shared {
    device: Arc<Device>,
    state: Mutex<State>,
    stop: AtomicBool,
}

/// The events of a context.
pub struct Events {
    shared: Arc<Shared>,
    thread: Mutex<Option<Thread>>,
}

/// The thread, and its place in simulated time.
type Thread = (JoinHandle<()>, Option<Arc<Follower>>);

impl Events {
    /// No thread yet; also returns what becomes `async_fd`.
    pub fn new(device: Arc<Device>) -> Result<(Self, OwnedFd)> {
        let (asyncs, async_fd) = EventPipe::new()?;
        let state = Mutex::new(State::new(asyncs, Aside::new()?));
        let shared = Arc::new(Shared { device, state, stop: AtomicBool::new(false) });
        Ok((Self { shared, thread: Mutex::new(None) }, async_fd))
    }

    /// A new completion channel; returns the program's descriptor.
    pub fn make_channel(&self) -> Result<RawFd> {
        self.start()?;
        let (pipe, rx) = match EventPipe::new() {
            Err(Errno(libc::EMFILE)) => {
                self.shared.lock().forget_closed_channels();
                EventPipe::new()?
            }
            made => made?,
        };
        self.shared.lock().add_channel(pipe)?;
        Ok(rx.into_raw_fd())
    }

    /// Has a new verbs object made, by `make`, which returns the address that the program knows it by. From now on it
    /// gets its events.
    pub fn add<H>(
        &self,
        kind: Kind,
        number: u32,
        channel: Option<RawFd>,
        make: impl FnOnce() -> *mut H,
    ) -> Result<*mut H> {
        self.start()?;
        let mut state = self.shared.lock();
        Errno::EINVAL.when(channel.is_some_and(|fd| !state.channels.contains_key(&fd)))?;
        let handle = make();
        let object = Object { handle: handle as u64, channel, sent: Sent::default(), held: None };
        state.attach(kind, number, object);
        Ok(handle)
    }

    /// Runs `destroy` for an object without sending events of it (its number may belong to another object at once),
    /// then waits, as `ibv_destroy_*` must, until the program has acknowledged the events that it has read. After a
    /// failure everything is as before.
    ///
    /// # Safety
    /// `acknowledged` must be the fields of the object, which is alive.
    pub unsafe fn destroy(
        &self,
        kind: Kind,
        number: u32,
        acknowledged: &Acknowledged,
        destroy: impl FnOnce() -> driver::Result<()>,
    ) -> Result<()> {
        self.shared.lock().hold(kind, number, acknowledged.handle);
        let destroyed = destroy();
        let mut state = self.shared.lock();
        let Some(object) = state.detach(kind, number, acknowledged.handle) else {
            return Ok(destroyed?);
        };
        if let Err(error) = destroyed {
            state.attach(kind, number, object);
            return Err(error.into());
        }
        let read = state.forget(kind, &object);
        drop(state);
        // SAFETY: as the caller promises.
        unsafe { acknowledged.wait(read) };
        Ok(())
    }

    /// From now on come the events that need no object: changes of the GID tables. Simulated time has none.
    pub fn watch(&self) -> Result<()> {
        match self.shared.device.card().timeline() {
            None => self.start(),
            Some(_) => Ok(()),
        }
    }

    fn start(&self) -> Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let shared = self.shared.clone();
            let place = self.shared.device.card().follower().map(Arc::new);
            let begins = place.clone();
            let run = move || {
                if let Some(place) = begins {
                    place.begin();
                }
                shared.run();
            };
            let spawn = || std::thread::Builder::new().name("verbena-events".into()).spawn(run);
            *thread = Some((with_signals_blocked(spawn).map_err(|_| Errno::ENOMEM)?, place));
        }
        Ok(())
    }

    /// Ends the thread; no event comes after this.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((thread, place)) = thread {
            let ends = || {
                wake_events(&self.shared.device);
                // A panic of the thread has been printed; there is nothing left to do about it.
                let _ = thread.join();
            };
            match place {
                Some(place) => place.dismiss(ends),
                None => ends(),
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        while !self.stop.load(Ordering::Acquire) {
            // A panic has been printed.
            let stepped = catch_unwind(AssertUnwindSafe(|| self.step().map_err(|error| error.to_string())));
            if let Err(error) = stepped.unwrap_or(Err("the card's memory is damaged".into())) {
                model::tell!("verbena: events end here: {error}");
                self.lock().lose();
                return;
            }
        }
    }

    /// Delivers the next event, or sleeps until there may be one.
    fn step(&self) -> driver::Result<()> {
        const FOREVER: Duration = Duration::from_secs(3600);
        const RETRY: Duration = Duration::from_millis(50);
        match self.device.next_event(Duration::ZERO)? {
            Some(Event::Completion { cqn }) => self.lock().completion(cqn),
            Some(Event::Async { kind, object }) => self.lock().asynchronous(kind, object),
            None => {
                // A program that reads no events fills a pipe; look again now and then.
                let timeout = if self.lock().flush() { FOREVER } else { RETRY };
                match timeline::look_after() {
                    None => self.device.wait_for_event(timeout)?,
                    Some(look) => {
                        self.device.wait_for_event(timeout.min(look))?;
                        timeline::look_for_standstill(|| self.lock().pipes());
                    }
                }
            }
        }
        Ok(())
    }
}

/// Runs `call` with all signals blocked, which a thread that it starts inherits.
pub fn with_signals_blocked<T>(call: impl FnOnce() -> T) -> T {
    // SAFETY: zero is a valid signal set, and both calls only exchange this thread's mask.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&mut all);
        // What the thread itself causes cannot be blocked: the process would end.
        for own in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP] {
            libc::sigdelset(&mut all, own);
        }
        let changed: c_int = libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let result = call();
        if changed == 0 {
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_started_here_take_no_signals() {
        let blocked = with_signals_blocked(|| {
            std::thread::spawn(|| {
                // SAFETY: reads this thread's mask.
                unsafe {
                    let mut mask: libc::sigset_t = std::mem::zeroed();
                    libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &mut mask);
                    libc::sigismember(&mask, libc::SIGALRM) == 1
                }
            })
        })
        .join()
        .unwrap();
        assert!(blocked);
    }
}
