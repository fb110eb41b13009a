//! The keeper of a net of cards: makes them, runs their timers, frees what the dead leave behind.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Once;
use std::time::Duration;

use super::card::OpenError;
use super::limits::{limits, ports};
use super::wall::runner::Runner;
use crate::link::{capture, LinkOptions};
use crate::net::Net;
use crate::panics::guarded;
use crate::profile::Profile;
use crate::segment::{self, KeeperError, KeeperOptions, LockError};
use crate::sim::trace;
use crate::world::MAX_CARDS;

/// Room for rings and registered memory: 1 TiB, of which only what is used takes memory.
const HEAP_BYTES: u64 = 1 << 40;

/// Where the keeper of net `name` listens: `$XDG_RUNTIME_DIR/verbena/NAME.sock`, or
/// `/tmp/verbena-UID/NAME.sock`.
pub fn default_socket(name: &str) -> PathBuf {
    let directory = match std::env::var_os("XDG_RUNTIME_DIR").filter(|d| !d.is_empty()) {
        Some(runtime) => Path::new(&runtime).join("verbena"),
        None => PathBuf::from(format!("/tmp/verbena-{}", rustix::process::getuid().as_raw())),
    };
    directory.join(format!("{name}.sock"))
}

/// What a net is to be.
#[derive(Clone, Debug, PartialEq)]
pub struct NetOptions {
    /// Number of cards, 1 to 16.
    pub cards: u8,
    /// How packets travel between them.
    pub link: LinkOptions,
    /// The cards' timing, if they run in simulated time.
    pub clock: Option<Profile>,
    /// A new file for a trace of them (absolute; see [`trace`]); only in simulated time.
    pub trace: Option<PathBuf>,
}

impl From<u8> for NetOptions {
    /// A net of so many cards on the fast wire.
    fn from(cards: u8) -> Self {
        NetOptions { cards, link: LinkOptions::default(), clock: None, trace: None }
    }
}

/// Runs the keeper of a net (of so many cards, or as the options say), until its last connection has
/// ended.
pub fn run_keeper(socket: &Path, options: impl Into<NetOptions>) -> Result<(), KeeperError> {
    run_keeper_of(socket, options, HEAP_BYTES)
}

/// As [`run_keeper`], with so many bytes for rings and registered memory: for tools whose programs have less
/// addresses than the machine, as valgrind.
pub fn run_keeper_of(
    socket: &Path,
    options: impl Into<NetOptions>,
    heap_bytes: u64,
) -> Result<(), KeeperError> {
    let NetOptions { cards, link, clock, trace } = options.into();
    assert!((1..=MAX_CARDS as u8).contains(&cards), "a net has 1 to {MAX_CARDS} cards");
    if let Some(capture) = &link.capture {
        // Not the file of a net that is running.
        if segment::Segment::hold(socket).is_ok() {
            return Err(KeeperError::AlreadyRunning(socket.into()));
        }
        let what = "making the capture file";
        capture::create(capture).map_err(|error| KeeperError::System { what, error })?;
    }
    if let (Some(path), Some(profile)) = (&trace, &clock) {
        let what = "making the trace file";
        trace::create(path, profile, cards).map_err(|error| KeeperError::System { what, error })?;
    }
    // Of the end of the cards, whoever finds it first.
    let told = Rc::new(Once::new());
    let told_of = Rc::clone(&told);
    segment::keeper::run(KeeperOptions {
        socket_path: socket.into(),
        heap_bytes,
        world_bytes: size_of::<Net>() as u64,
        init: Box::new(move |segment| {
            let runner = Runner::new(segment);
            runner.net().link.init(&link, capture::HEADER);
            if let Some(profile) = &clock {
                runner.start_simulation(profile, trace.as_deref());
            }
            let made = runner.control(|world, _| {
                world.init(cards, limits(clock.as_ref()), ports(clock.as_ref(), link.mtu))
            });
            made.expect("nobody else has the segment yet");
        }),
        on_member_gone: Box::new(move |segment, member| {
            // What cannot be done to damaged cards is not tried again.
            guarded(true, || {
                let runner = Runner::new(segment);
                let detached = runner.control_within(PATIENCE, |world, env| {
                    let count = world.count();
                    let cards = &mut world.cards[..usize::from(count)];
                    cards.iter_mut().for_each(|card| card.detach_domain(member, env));
                    capture::trim(&runner.net().link);
                });
                let gone = detached.and_then(|()| match runner.simulated() {
                    true => runner.member_gone(member, PATIENCE),
                    false => Ok(()),
                });
                match gone {
                    Ok(()) => {}
                    Err(LockError::Condemned) => told_of.call_once(|| runner.tell_all()),
                    // The lock's holder may be stopped. Others are waited upon meanwhile.
                    Err(_) => return false,
                }
                true
            })
        }),
        on_timer: Box::new(move |segment| {
            let soon = segment::now_ns() + PATIENCE.as_nanos() as u64;
            let next = guarded(Ok(Some(soon)), || {
                let runner = Runner::new(segment);
                let next = match runner.simulated() {
                    true => runner.keep_going(PATIENCE),
                    false => runner.control_within(PATIENCE, |world, env| world.run_timers(env)),
                };
                if let Err(LockError::Condemned) = next {
                    told.call_once(|| runner.tell_all());
                }
                next
            });
            match next {
                Ok(next) => next.unwrap_or(u64::MAX),
                Err(LockError::Condemned) => u64::MAX,
                // Busy for long: look again soon.
                Err(_) => segment::now_ns() + PATIENCE.as_nanos() as u64,
            }
        }),
    })
}

/// How long the keeper waits for the lock before it looks after others.
const PATIENCE: Duration = Duration::from_millis(100);

/// Why the capture of the net is not complete whose keeper listens at `socket`. `None`: it is.
pub fn capture_lost(socket: &Path) -> Result<Option<std::io::Error>, OpenError> {
    Ok(Runner::new(segment::Segment::attach(socket)?).net().link.lost())
}
