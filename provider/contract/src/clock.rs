//! What `libverbena_clock.so` and a timeline (the verbs provider's) agree on.
//!
//! The clock library is preloaded into the program and knows nothing of cards. It keeps a clock of
//! its own until a library that does know attaches a [`Timeline`]; from then on that one is asked.
//! All times are virtual picoseconds since the start of the net, the same for all its processes.
//!
//! The library exports, to be found with `dlsym(RTLD_DEFAULT, ...)`:
//!
//! | symbol | type | what it does |
//! |---|---|---|
//! | `verbena_clock_attach` | [`Attach`] | the process's time now comes from this timeline |
//! | `verbena_clock_exempt` | [`Exempt`] | a library that must see the machine's time and plain system calls |
//! | `verbena_clock_local_now` | [`LocalNow`] | the clock of this process, attached or not |
//! | `verbena_clock_deliver_alarm` | [`DeliverAlarm`] | raises SIGALRM when the program's alarm is due |
//!
//! # How a stream carries time
//!
//! Every byte stream between two processes has a [`ConnKey`] per direction, which both ends derive
//! alike. Positions in it are counted in bytes since it was opened. A writer calls
//! [`Timeline::sent`] with the position after its bytes *before* it hands them to the kernel; a
//! reader that has to wait calls [`Timeline::block`], really waits, calls [`Timeline::unblock`], and
//! after the bytes have come [`Timeline::received`] with the position it has reached: its clock
//! becomes at least the time at which the byte before that position was sent, plus the latency of
//! a message. In the timeline it is `sent` that makes the reader runnable, not the kernel.

use std::ffi::{c_int, c_void};

/// REALTIME at the start of virtual time: 2026-01-01 00:00:00 UTC, in seconds of UNIX time.
pub const EPOCH_S: u64 = 1_767_225_600;

/// Version of this interface: both sides must have been built for the same.
pub const VERSION: u32 = 3;

/// "No deadline" and "the alarm is off".
pub const NEVER: u64 = u64::MAX;

/// The position in a stream whose bytes are not counted: connections and datagrams.
pub const UNCOUNTED: u64 = NEVER - 1;

/// Real-time signal that ends the real wait of a thread between [`Timeline::block`] and
/// [`Timeline::unblock`]. The timeline sends it with `tgkill(pid, tid, WAKE_SIGNAL)` when the virtual
/// deadline of the wait has passed; early or needless ones do no harm. Outside such a wait it is
/// blocked or ignored, and one that comes just before the wait ends it at once (`ppoll` unblocks it).
pub const WAKE_SIGNAL: c_int = 63;

/// Real-time signal of the per-thread timer that looks for programs that spin on memory.
pub const TICK_SIGNAL: c_int = 62;

/// What kind of stream or object a [`ConnKey`] names.
pub mod kind {
    /// Not known to be between processes of the net: a file, a terminal, a device, an event pipe.
    /// `from` is the inode number, `to` the device number of the file.
    pub const OTHER: u32 = 0;
    /// TCP, one direction: hashes of address and port of the sender and of the receiver.
    pub const TCP: u32 = 1;
    /// A UNIX stream or seqpacket socket, one direction: hashes of the names (a client without a
    /// name is given an abstract one before it connects), or for a socketpair the inode numbers.
    pub const UNIX: u32 = 2;
    /// A pipe or FIFO: inode number, 0.
    pub const PIPE: u32 = 3;
    /// Connections to a listening socket: `from` is 0, `to` hashes the listening port (TCP) or name
    /// (UNIX). A client's `connect` is `sent` with the position [`super::UNCOUNTED`], `accept`
    /// waits for it. Connections are not counted.
    pub const LISTEN: u32 = 4;
    /// Datagrams (UDP, UNIX): as TCP, where `from` is 0 if the sender is not known. Not counted:
    /// the position is always [`super::UNCOUNTED`].
    pub const DATAGRAM: u32 = 5;
}

/// The name of one direction of a stream, the same at both ends.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConnKey {
    /// One of [`kind`].
    pub kind: u32,
    /// 0.
    pub reserved: u32,
    /// The writer (see [`kind`]).
    pub from: u64,
    /// The reader (see [`kind`]).
    pub to: u64,
}

/// One descriptor that a thread is about to wait for.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitFd {
    /// The descriptor in this process.
    pub fd: i32,
    /// What it waits for: `POLLIN` and `POLLOUT` of `poll(2)`.
    pub events: u32,
    /// The stream that it would read.
    pub key: ConnKey,
    /// The position in `key` up to which this process has read: bytes beyond it end the wait.
    pub position: u64,
}

/// Most ranges of [`Places`].
pub const MAX_PLACES: usize = 8;

/// A range of memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    /// Its first address.
    pub first: u64,
    /// One past its last address.
    pub end: u64,
}

/// Ranges of memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// How many of `ranges` count.
    pub count: u64,
    /// The ranges.
    pub ranges: [Range; MAX_PLACES],
}

/// The functions of a timeline. Each gets the `data` given to [`Attach`] first and may be called
/// from any thread, but from signal handlers only where that is said. A handler of the program may
/// interrupt a call into the attached library and read a clock: `now` must then answer without
/// waiting, and `spend` must answer like `now` if the calling thread is inside the library already.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Timeline {
    /// [`VERSION`].
    pub version: u32,
    /// 0.
    pub reserved: u32,
    /// What one reading of a clock costs (the profile's `clock_read_ps`), passed to `spend` by each.
    pub clock_read_ps: u64,
    /// The process's clock, without a cost.
    pub now: unsafe extern "C" fn(data: *mut c_void) -> u64,
    /// The program has used `ps` of time; runs the simulation up to there. Returns the new time. May
    /// be called from the SIGSEGV handler of a trapped rdtsc in program code (never inside an
    /// exempt library).
    pub spend: unsafe extern "C" fn(data: *mut c_void, ps: u64) -> u64,
    /// The program sleeps until `at`; others may run meanwhile. Returns the time at its return, which
    /// is `at` or, if `at` has passed, now. An alarm that is due earlier is no concern of it: the
    /// clock library asks only for a sleep up to the alarm.
    pub sleep_until: unsafe extern "C" fn(data: *mut c_void, at: u64) -> u64,
    /// The calling thread is about to wait in the kernel until one of `n` descriptors is ready, `at`
    /// most until `deadline` ([`NEVER`]: none; the timeline then sends [`WAKE_SIGNAL`] to the
    /// thread). With `n` = 0 it waits for something that is not a descriptor (a child, a signal, a
    /// lock). Returns a token for `unblock`.
    pub block: unsafe extern "C" fn(data: *mut c_void, fds: *const WaitFd, n: usize, deadline: u64) -> u64,
    /// The wait that `token` names has ended in reality. Waits until the timeline, too, lets the
    /// thread run; returns the time. If that is at or after the deadline and no descriptor is ready,
    /// the call times out; if not, the clock library waits again.
    pub unblock: unsafe extern "C" fn(data: *mut c_void, token: u64) -> u64,
    /// The program is about to write the bytes of stream `key` before position `end`. Called again with
    /// the same `end` if the kernel took fewer.
    pub sent: unsafe extern "C" fn(data: *mut c_void, key: *const ConnKey, end: u64),
    /// The program has read the bytes of stream `key` before position `end`; [`NEVER`]: it has seen the
    /// end of the stream.
    pub received: unsafe extern "C" fn(data: *mut c_void, key: *const ConnKey, end: u64),
    /// The program has closed or shut down its end that writes `key`: a reader sees the end of the
    /// stream. The same key may later be opened again, positions starting at 0.
    pub closed: unsafe extern "C" fn(data: *mut c_void, key: *const ConnKey),
    /// The calling thread, the process's only one, spins on memory: nothing but a write by a card to one of
    /// these places can change what it does next. Advances to the next such write and returns the time. Called from a signal handler, on the program's stack, but only while the
    /// thread is proven to be in a loop of program code that makes no calls and stores nothing new,
    /// so that anything may be called as from the loop's own thread. Signals are blocked meanwhile: it
    /// has to return by itself when the alarm is due. May return early; the loop is then found again.
    pub memory_wait: unsafe extern "C" fn(data: *mut c_void, places: *const Places) -> u64,
    /// A counter that changes with every call of the program into the attached library. Called from
    /// signal handlers: only loads.
    pub calls: unsafe extern "C" fn(data: *mut c_void) -> u64,
    /// The program wants SIGALRM at `at` ([`NEVER`]: not any more). While a thread of the process is
    /// between `block` and `unblock` or in `sleep_until` the timeline sends [`WAKE_SIGNAL`] to that thread
    /// at that time; when its own calls (`post`, `poll`) pass the time, it calls
    /// `verbena_clock_deliver_alarm` before it returns to the program. All other places are the clock
    /// library's. The program's handler may run between `block` and `unblock`, and read clocks there.
    pub alarm: unsafe extern "C" fn(data: *mut c_void, at: u64),
    /// The calling thread is about to start another one, which takes part from now on. Returns a token for it, or 0.
    pub thread_starts: Option<unsafe extern "C" fn(data: *mut c_void) -> u64>,
    /// The calling thread is the one for which `token` was given; or, if `failed`, there is none.
    pub thread_runs: Option<unsafe extern "C" fn(data: *mut c_void, token: u64, failed: bool)>,
}

/// `verbena_clock_attach(table, data)`: copies the table. Returns 0, or -1 if the version differs.
/// Exempts the library that holds the function `now` (see [`Exempt`]). An earlier timeline is replaced.
/// The caller should start the process's clock in the timeline at `verbena_clock_local_now()` or
/// later. Not inherited by a forked child: it starts unattached at the parent's time.
pub type Attach = unsafe extern "C" fn(table: *const Timeline, data: *mut c_void) -> c_int;

/// `verbena_clock_exempt(inside)`: the loaded library that contains this address gets the C
/// library's own functions in place of this library's (its imports are patched), so that its
/// time-outs, locks and pipes are the machine's; threads that it starts are not checked for spinning. Returns
/// the number of imports that were patched, or -1. `rdtsc` instructions of such a library give the
/// machine's counter. Call it when the library is loaded; `attach` does it, too.
pub type Exempt = unsafe extern "C" fn(inside: *const c_void) -> c_int;

/// `verbena_clock_local_now()`: the clock of this process in picoseconds, without a cost.
pub type LocalNow = unsafe extern "C" fn() -> u64;

/// `verbena_clock_deliver_alarm()`: if the program's alarm is due by `now`, raises SIGALRM in the
/// calling thread and winds an interval timer up again. To be called where a handler may run.
pub type DeliverAlarm = unsafe extern "C" fn();
