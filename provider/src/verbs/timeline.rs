//! The program's clock is the card's: what the preloaded clock library asks is answered by the
//! simulation that the card runs in.
//!
//! A panic in one of the functions that the clock library calls ends the program, with a word: none of them has a result
//! that could say so.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

use model::attach::{give_up, on_alarm, Starting, Timeline, Wait, Watched};

use super::card::{Card, Device};

use contract::clock::{
    kind, Attach, ConnKey, DeliverAlarm, Exempt, LocalNow, Places, WaitFd, EPOCH_S, MAX_PLACES, VERSION,
};

/// The simulation that this process takes part in. It stays as long as the process.
static CLOCK: AtomicPtr<Timeline> = AtomicPtr::new(std::ptr::null_mut());

/// What the program's REALTIME shows, in nanoseconds, when the card's clock shows 0; `None` where programs see the
/// machine's clock.
pub fn epoch(device: &Device) -> Option<u64> {
    device.card().timeline().map(|_| EPOCH_S * 1_000_000_000)
}

/// A function of the clock library.
///
/// # Safety
/// `F` is the type of the function of that name.
unsafe fn symbol<F: Copy>(name: &std::ffi::CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: a C string; a symbol that is not there gives null.
    let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: as the caller promises; a function pointer is an address.
    (!at.is_null()).then(|| unsafe { std::mem::transmute_copy(&at) })
}

/// From now on this library has the machine's clock, also where the program's is a virtual one: before there is a card
/// it waits for the keeper and for the cards' lock, and time-outs of those are the machine's.
pub fn exempt() {
    // SAFETY: the type is that of the library's interface; an address in this library is given.
    unsafe {
        if let Some(exempt) = symbol::<Exempt>(c"verbena_clock_exempt") {
            exempt(now_ as *const c_void);
        }
    }
}

/// Lets the program's clock be the card's, if the card runs in simulated time.
pub fn attach(card: &Card) -> Result<(), String> {
    let Some(clock) = card.timeline() else { return Ok(()) };
    if self::clock().is_some_and(|known| known.same(&clock)) {
        return Ok(());
    }
    let missing = || {
        "this net runs in simulated time, and the program's clock is the machine's: start it with \
         `verbena run --net NAME -- PROGRAM`"
            .to_owned()
    };
    // SAFETY: the types are those of the library's interface, whose version `attach` checks.
    let (attach, deliver, local) = unsafe {
        let attach: Attach = symbol(c"verbena_clock_attach").ok_or_else(missing)?;
        let deliver: DeliverAlarm = symbol(c"verbena_clock_deliver_alarm").ok_or_else(missing)?;
        let local: LocalNow = symbol(c"verbena_clock_local_now").ok_or_else(missing)?;
        (attach, deliver, local)
    };
    DELIVER.get_or_init(|| deliver);
    on_alarm(|| {
        if let Some(deliver) = DELIVER.get() {
            // SAFETY: may be called where a handler may run: the program is in a call of this library.
            unsafe { deliver() };
        }
    });
    driver::on_long_wait(|| {
        if let Some(clock) = self::clock() {
            clock.set_aside();
        }
    });
    // What the program has read from its clock so far stays true.
    // SAFETY: only loads.
    let local = unsafe { local() };
    if local > clock.clock() {
        clock.sleep_until(local);
    }
    let table = contract::clock::Timeline { clock_read_ps: clock.profile().host.clock_read_ps, ..TABLE };
    // Never freed: a thread may be inside.
    let clock = Box::into_raw(Box::new(clock));
    let free = CLOCK.compare_exchange(std::ptr::null_mut(), clock, Ordering::AcqRel, Ordering::Relaxed);
    if free.is_err() {
        // SAFETY: made above, and not shared.
        let clock = unsafe { Box::from_raw(clock) };
        // Another thread may have been opening a card of this net, too.
        return match self::clock().is_some_and(|known| known.same(&clock)) {
            true => Ok(()),
            false => Err("a process can take part in one net of simulated time only".to_owned()),
        };
    }
    // SAFETY: the functions of the table match their types and need no data.
    match unsafe { attach(&table, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err("libverbena_clock.so is of another version than libverbena.so".to_owned()),
    }
}

static DELIVER: OnceLock<DeliverAlarm> = OnceLock::new();

const TABLE: contract::clock::Timeline = contract::clock::Timeline {
    version: VERSION,
    reserved: 0,
    clock_read_ps: 0,
    now: now_,
    spend,
    sleep_until,
    block,
    unblock,
    sent,
    received,
    closed,
    memory_wait,
    calls,
    alarm,
    thread_starts: Some(thread_starts),
    thread_runs: Some(thread_runs),
};

fn clock() -> Option<&'static Timeline> {
    // SAFETY: null or what is never freed.
    unsafe { CLOCK.load(Ordering::Acquire).as_ref() }
}

/// What the simulation answers; `otherwise`: there is none.
fn ask<R>(otherwise: R, question: impl FnOnce(&Timeline) -> R) -> R {
    let Some(clock) = clock() else { return otherwise };
    catch_unwind(AssertUnwindSafe(|| question(clock))).unwrap_or_else(|_| give_up(&"a step of it has failed"))
}

/// In the child of a fork, which takes part in nothing yet.
pub fn forked() {
    CLOCK.store(std::ptr::null_mut(), Ordering::Release);
    model::attach::forked();
}

fn key(key: *const ConnKey) -> (u32, u64, u64) {
    // SAFETY: the clock library gives a valid key.
    let key = unsafe { &*key };
    (key.kind, key.from, key.to)
}

extern "C" fn now_(_: *mut c_void) -> u64 {
    ask(0, Timeline::clock)
}

extern "C" fn spend(_: *mut c_void, ps: u64) -> u64 {
    // More than a reading costs: the program does nothing but wait.
    ask(0, |c| if ps > c.profile().host.clock_read_ps { c.idle(ps) } else { c.spend(ps) })
}

extern "C" fn sleep_until(_: *mut c_void, at: u64) -> u64 {
    ask(at, |c| c.sleep_until(at))
}

unsafe extern "C" fn block(_: *mut c_void, fds: *const WaitFd, n: usize, deadline: u64) -> u64 {
    let fds = if n == 0 {
        &[]
    } else {
        // SAFETY: the clock library gives `n` entries.
        unsafe { std::slice::from_raw_parts(fds, n) }
    };
    let waits: Vec<Wait> = fds
        .iter()
        .map(|fd| Wait { key: (fd.key.kind, fd.key.from, fd.key.to), position: fd.position })
        .collect();
    ask((), |c| c.block(&waits, deadline));
    // A thread has one wait at a time, which needs no name.
    0
}

extern "C" fn unblock(_: *mut c_void, _token: u64) -> u64 {
    ask(0, Timeline::unblock)
}

extern "C" fn sent(_: *mut c_void, stream: *const ConnKey, end: u64) {
    ask((), |c| c.sent(key(stream), end));
}

extern "C" fn received(_: *mut c_void, stream: *const ConnKey, end: u64) {
    ask((), |c| c.received(key(stream), end));
}

extern "C" fn closed(_: *mut c_void, stream: *const ConnKey) {
    ask((), |c| c.closed(key(stream)));
}

unsafe extern "C" fn memory_wait(_: *mut c_void, places: *const Places) -> u64 {
    // SAFETY: the clock library gives valid places.
    let places = unsafe { &*places };
    let mut watched = Watched::default();
    for range in &places.ranges[..(places.count as usize).min(MAX_PLACES)] {
        watched.add(range.first..range.end);
    }
    ask(0, |c| c.memory_wait(watched))
}

extern "C" fn calls(_: *mut c_void) -> u64 {
    ask(0, Timeline::calls)
}

extern "C" fn alarm(_: *mut c_void, at: u64) {
    ask((), |c| c.alarm(at));
}

extern "C" fn thread_starts(_: *mut c_void) -> u64 {
    ask(None, Timeline::thread_starts).map_or(0, |place| u64::from(place.0) + 1)
}

extern "C" fn thread_runs(_: *mut c_void, token: u64, failed: bool) {
    let place = Starting((token - 1) as u16);
    ask((), |c| if failed { c.thread_fails(place) } else { c.thread_runs(place) });
}

/// The program waits for a command that takes the card long.
pub fn commands() {
    if let Some(clock) = clock() {
        clock.spend(clock.profile().host.resize_ps);
    }
}

/// The inode of a descriptor, by which a stream is known.
pub fn inode(fd: std::ffi::c_int) -> Option<u64> {
    // SAFETY: zero is a valid stat, and it is valid for writing.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &mut stat) == 0).then_some(stat.st_ino)
    }
}

/// This provider is about to write to a pipe that the program reads, up to byte `end`.
pub fn writes_pipe(fd: std::ffi::c_int, end: u64) {
    let Some(clock) = clock() else { return };
    if let Some(inode) = inode(fd) {
        clock.sent((kind::PIPE, inode, 0), end);
    }
}

/// In simulated time: waits until there is something to read from a pipe of which nothing has been read. False: the
/// program's clock is the machine's.
pub fn waits_for_pipe(fd: std::ffi::c_int) -> bool {
    let (Some(clock), Some(inode)) = (clock(), inode(fd)) else { return false };
    clock.block(&[Wait { key: (kind::PIPE, inode, 0), position: 0 }], u64::MAX);
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid entry.
    unsafe { libc::poll(&mut poll, 1, -1) };
    clock.unblock();
    true
}

/// How often a thread that waits for events calls [`look_for_standstill`]; `None`: the clock is the machine's.
pub fn look_after() -> Option<Duration> {
    clock().map(|_| Duration::from_millis(500))
}

/// Says once if the program waits for one of `pipes` and nothing can come any more.
pub fn look_for_standstill(pipes: impl FnOnce() -> Vec<u64>) {
    if let Some(clock) = clock() {
        clock.look_for_standstill(pipes);
    }
}
