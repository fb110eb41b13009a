//! Completion and asynchronous events of one context.
//!
//! The card's events come to a thread, which writes them where libibverbs reads them: completions to
//! the pipes of completion channels, the rest to the pipe behind `async_fd`. The thread starts with
//! the first object that can have an event, sleeps in the driver until there is one, and takes no
//! signal of the program's.
#![allow(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::ffi::c_int;
use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use driver::Event;
use fpga_regs::EventKind;
use model::attach::Follower;
use rdma_sys::ibv_event_type;

use super::card::{wait_for_events, wake_events, Device};
use super::errno::{Errno, Result};
use super::event_pipe::EventPipe;

/// What kind of object an asynchronous event is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Completion queue.
    Cq,
    /// Queue pair.
    Qp,
    /// Shared receive queue.
    Srq,
    /// Port: the object is its number.
    Port,
    /// The device itself.
    Device,
}

/// How verbs call an event of the card, and whom it concerns.
pub fn verbs_event(kind: EventKind) -> Option<(u32, Kind)> {
    use ibv_event_type::*;
    let (event, about) = match kind {
        EventKind::CQ_ERR => (IBV_EVENT_CQ_ERR, Kind::Cq),
        EventKind::QP_FATAL => (IBV_EVENT_QP_FATAL, Kind::Qp),
        EventKind::QP_REQ_ERR => (IBV_EVENT_QP_REQ_ERR, Kind::Qp),
        EventKind::QP_ACCESS_ERR => (IBV_EVENT_QP_ACCESS_ERR, Kind::Qp),
        EventKind::COMM_EST => (IBV_EVENT_COMM_EST, Kind::Qp),
        EventKind::SQ_DRAINED => (IBV_EVENT_SQ_DRAINED, Kind::Qp),
        EventKind::QP_LAST_WQE => (IBV_EVENT_QP_LAST_WQE_REACHED, Kind::Qp),
        EventKind::SRQ_ERR => (IBV_EVENT_SRQ_ERR, Kind::Srq),
        EventKind::SRQ_LIMIT => (IBV_EVENT_SRQ_LIMIT_REACHED, Kind::Srq),
        EventKind::PORT_ACTIVE => (IBV_EVENT_PORT_ACTIVE, Kind::Port),
        EventKind::PORT_ERR => (IBV_EVENT_PORT_ERR, Kind::Port),
        EventKind::DEVICE_FATAL => (IBV_EVENT_DEVICE_FATAL, Kind::Device),
        _ => return None,
    };
    Some((event as u32, about))
}

/// An object that may have events.
struct Object {
    /// Address of the verbs object.
    handle: u64,
    /// Its completion channel.
    channel: Option<RawFd>,
    /// Events written so far.
    sent: Sent,
}

/// Events that were sent for an object, and not forgotten since.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Sent {
    /// To the completion channel.
    pub completions: u32,
    /// To `async_fd`.
    pub asyncs: u32,
}

struct State {
    channels: HashMap<RawFd, EventPipe<8>>,
    /// So many channels are a reason to look which of them the program has closed.
    many_channels: usize,
    asyncs: EventPipe<16>,
    cqs: HashMap<u32, Object>,
    qps: HashMap<u32, Object>,
    srqs: HashMap<u32, Object>,
}

/// Channels that are not worth a look.
const FEW_CHANNELS: usize = 16;

impl State {
    /// Channels are closed behind the provider's back. Each look is a system call for each of them, so the next one is
    /// when there are twice as many.
    fn forget_closed_channels(&mut self) {
        let used: HashSet<RawFd> = self.cqs.values().filter_map(|cq| cq.channel).collect();
        self.channels.retain(|fd, pipe| used.contains(fd) || !pipe.closed());
        self.many_channels = FEW_CHANNELS.max(2 * self.channels.len());
    }
}

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
        let state = State {
            channels: HashMap::new(),
            many_channels: FEW_CHANNELS,
            asyncs,
            cqs: HashMap::new(),
            qps: HashMap::new(),
            srqs: HashMap::new(),
        };
        let shared = Arc::new(Shared { device, state: Mutex::new(state), stop: AtomicBool::new(false) });
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
        let mut state = self.shared.lock();
        if state.channels.len() >= state.many_channels {
            state.forget_closed_channels();
        }
        state.channels.insert(pipe.rx(), pipe);
        Ok(rx.into_raw_fd())
    }

    /// From now on events of this object go to the verbs object at `handle`.
    pub fn add(&self, kind: Kind, number: u32, handle: u64, channel: Option<RawFd>) -> Result<()> {
        self.start()?;
        let mut state = self.shared.lock();
        if channel.is_some_and(|fd| !state.channels.contains_key(&fd)) {
            return Err(Errno::EINVAL);
        }
        let object = Object { handle, channel, sent: Sent::default() };
        if let Some(objects) = state.objects(kind) {
            objects.insert(number, object);
        }
        Ok(())
    }

    /// Runs `destroy` for an object without sending events of it (its number may serve another
    /// object at once). Says how many events the program has read and must have acknowledged before
    /// the object's memory may go; after a failure everything is as before.
    pub fn while_destroying(
        &self,
        kind: Kind,
        number: u32,
        destroy: impl FnOnce() -> driver::Result<()>,
    ) -> Result<Sent> {
        let detached = self.shared.lock().objects(kind).and_then(|objects| objects.remove(&number));
        let destroyed = destroy();
        let mut state = self.shared.lock();
        let Some(object) = detached else {
            return Ok(destroyed.map(|()| Sent::default())?);
        };
        match destroyed {
            Ok(()) => Ok(state.forget(kind, &object)),
            Err(error) => {
                if let Some(objects) = state.objects(kind) {
                    objects.insert(number, object);
                }
                Err(error.into())
            }
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
            if let Some(place) = place {
                place.dismiss();
            }
            wake_events(&self.shared.device);
            // A panic of the thread has been printed; there is nothing left to do about it.
            let _ = thread.join();
        }
    }
}

fn concerns(event: u32) -> Option<Kind> {
    EventKind::VALUES
        .iter()
        .filter_map(|named| verbs_event(EventKind(named.value as u8)))
        .find(|(number, _)| *number == event)
        .map(|(_, kind)| kind)
}

impl State {
    fn objects(&mut self, kind: Kind) -> Option<&mut HashMap<u32, Object>> {
        match kind {
            Kind::Cq => Some(&mut self.cqs),
            Kind::Qp => Some(&mut self.qps),
            Kind::Srq => Some(&mut self.srqs),
            Kind::Port | Kind::Device => None,
        }
    }

    /// Forgets the unread events of an object; returns the others.
    fn forget(&mut self, kind: Kind, object: &Object) -> Sent {
        let mut sent = object.sent;
        if sent.completions != 0 {
            if let Some(pipe) = object.channel.and_then(|fd| self.channels.get_mut(&fd)) {
                let unread = pipe.forget(|record| *record == object.handle.to_ne_bytes());
                sent.completions = sent.completions.wrapping_sub(unread as u32);
            }
        }
        if sent.asyncs != 0 {
            let unread = self.asyncs.forget(|record| {
                let event = u32::from_ne_bytes([record[8], record[9], record[10], record[11]]);
                record[..8] == object.handle.to_ne_bytes() && concerns(event) == Some(kind)
            });
            sent.asyncs = sent.asyncs.wrapping_sub(unread as u32);
        }
        sent
    }

    fn completion(&mut self, cqn: u32) {
        // An event of a CQ that was destroyed meanwhile is no longer of interest.
        let Some(cq) = self.cqs.get_mut(&cqn) else {
            return;
        };
        let Some(pipe) = cq.channel.and_then(|fd| self.channels.get_mut(&fd)) else {
            return;
        };
        cq.sent.completions = cq.sent.completions.wrapping_add(1);
        pipe.send(cq.handle.to_ne_bytes());
    }

    fn asynchronous(&mut self, kind: EventKind, number: u32) {
        let Some((event, about)) = verbs_event(kind) else {
            eprintln!("verbena: the card sent an unknown event {kind} about {number:#x}");
            return;
        };
        let element = match self.objects(about) {
            None => u64::from(number),
            Some(objects) => {
                let Some(object) = objects.get_mut(&number) else {
                    return;
                };
                object.sent.asyncs = object.sent.asyncs.wrapping_add(1);
                object.handle
            }
        };
        let mut record = [0; 16];
        record[..8].copy_from_slice(&element.to_ne_bytes());
        record[8..12].copy_from_slice(&event.to_ne_bytes());
        self.asyncs.send(record);
    }

    /// Sends what found no room before; true when nothing waits.
    fn flush(&mut self) -> bool {
        let mut done = self.asyncs.flush();
        for pipe in self.channels.values_mut() {
            done &= pipe.flush();
        }
        done
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
                eprintln!("verbena: events end here: {error}");
                self.lock().asynchronous(EventKind::DEVICE_FATAL, 0);
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
                wait_for_events(&self.device, timeout)?;
            }
        }
        Ok(())
    }
}

/// Runs `call` with all signals blocked, which a thread that it starts inherits.
fn with_signals_blocked<T>(call: impl FnOnce() -> T) -> T {
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

/// Waits, as `ibv_destroy_*` must, until the program has acknowledged `sent` events.
///
/// # Safety
/// All pointers must be those of one live verbs object, its mutex and condition initialised.
pub unsafe fn wait_acknowledged(
    mutex: *mut libc::pthread_mutex_t,
    cond: *mut libc::pthread_cond_t,
    counters: &[(*const u32, u32)],
) {
    // SAFETY: as the caller promises; the counters change only under the mutex.
    unsafe {
        libc::pthread_mutex_lock(mutex);
        while counters.iter().any(|&(acknowledged, sent)| acknowledged.read_volatile() != sent) {
            libc::pthread_cond_wait(cond, mutex);
        }
        libc::pthread_mutex_unlock(mutex);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_of_the_card_has_a_verbs_name() {
        for named in EventKind::VALUES {
            let kind = EventKind(named.value as u8);
            assert_eq!(verbs_event(kind).is_none(), kind == EventKind::COMPLETION, "{kind}");
        }
        assert_eq!(verbs_event(EventKind::SRQ_LIMIT), Some((15, Kind::Srq)));
        assert_eq!(verbs_event(EventKind::QP_LAST_WQE), Some((16, Kind::Qp)));
        assert_eq!(verbs_event(EventKind(200)), None);
    }

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
