//! The keeper of a net of cards: makes them, runs their timers, frees what dead processes leave behind.
#![allow(unsafe_code)]

use std::cell::OnceCell;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Once};
use std::time::Duration;

use super::counted::{Counted, Looks};
use super::error::OpenError;
use super::limits::{limits, ports};
use super::ports::Ports;
use super::wall::runner::Runner;
use crate::cm::tables::RESPONSE_TIMEOUT;
use crate::gid_options::GidOptions;
use crate::gids::{GidEntry, GidTables, GID_TABLE_LEN};
use crate::link::{capture, LinkOptions, RuleUse};
use crate::net::{Membership, Net};
use crate::packet::PortId;
use crate::panics::guarded;
use crate::profile::Profile;
use crate::segment::keeper::Watch;
use crate::segment::{self, KeeperError, KeeperOptions, LockError, Segment};
use crate::sim::threads::Threads;
use crate::sim::trace;
use crate::world::{World, MAX_CARDS};

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

/// The addresses of the ports' network interfaces.
pub trait Addresses: std::fmt::Debug + Send {
    /// Readable when they may have changed.
    fn news(&self) -> BorrowedFd<'_>;
    /// The entries of RoCE version 2 that they make now; the first ones are preferred.
    fn read(&mut self) -> Vec<(PortId, GidEntry)>;
    /// A port's GID table has become this.
    fn changed(&mut self, port: PortId, table: &[GidEntry; GID_TABLE_LEN]);
}

/// What a net is to be.
#[derive(Debug)]
pub struct NetOptions {
    /// Number of cards, 1 to 16.
    pub cards: u8,
    /// How packets travel between them.
    pub link: LinkOptions,
    /// The cards' timing, if they run in simulated time.
    pub clock: Option<Profile>,
    /// By the wall clock, what [`Rx::reorder_packets`](crate::profile::Rx::reorder_packets) is in simulated time.
    pub reorder: u32,
    /// A new file for a trace of them (absolute; see [`trace`]); only in simulated time.
    pub trace: Option<PathBuf>,
    /// Namespaces for the programs, at most two, which the keeper passes to their launchers.
    pub namespaces: Vec<OwnedFd>,
    /// What the GIDs of the ports follow, beside what they are at the start.
    pub addresses: Option<Box<dyn Addresses>>,
    /// Who is told what the ports have counted, within [`COUNTED_WITHIN`](super::COUNTED_WITHIN).
    pub counted: Option<Box<dyn Counted>>,
    /// Room for rings and registered memory: less for tools whose programs have fewer addresses than the machine, like valgrind.
    pub heap_bytes: u64,
}

impl From<u8> for NetOptions {
    /// A net of `cards` cards on the fast wire.
    fn from(cards: u8) -> Self {
        let (link, namespaces) = (LinkOptions::default(), Vec::new());
        let (clock, trace, addresses, counted) = (None, None, None, None);
        let (reorder, heap_bytes) = (0, HEAP_BYTES);
        NetOptions { cards, link, clock, reorder, trace, namespaces, addresses, counted, heap_bytes }
    }
}

/// Runs the keeper of a net (a number of cards, or options), until its last connection has ended, and
/// what is left to do then.
pub fn run_keeper(socket: &Path, options: impl Into<NetOptions>) -> Result<(), KeeperError> {
    let options = options.into();
    let NetOptions { cards, link, clock, reorder, trace, namespaces, addresses, counted, heap_bytes } =
        options;
    assert!((1..=MAX_CARDS as u8).contains(&cards), "a net has 1 to {MAX_CARDS} cards");
    if !link.ports.is_empty() && clock.is_some() {
        return Err(KeeperError::PortsInSimulatedTime);
    }
    // Not the file and the sockets of a net that is running.
    if (link.capture.is_some() || !link.ports.is_empty()) && Segment::ask(socket).is_ok() {
        return Err(KeeperError::AlreadyRunning(socket.into()));
    }
    let mut outside = Ports::open(&link, socket)?;
    let (notes, mtu) = (outside.notes(), link.mtu.or(outside.mtu()));
    let timed = clock.is_some() || (link.switch.is_none() && link.cc.is_none());
    assert!(timed, "packets have rates, and a switch queues, only in simulated time");
    let mut files = Vec::new();
    let mut keep = |(file, made)| {
        files.push(file);
        made
    };
    let captured = link.capture.as_ref().map(|capture| {
        capture::create(capture).map_err(|error| KeeperError::file("capture", &capture.path, error))
    });
    let captured = captured.transpose()?.map(&mut keep);
    let traced = trace.as_ref().zip(clock.as_ref()).map(|(path, profile)| {
        trace::create(path, profile, cards).map_err(|error| KeeperError::file("trace", path, error))
    });
    let traced = traced.transpose()?.map(&mut keep);
    // That the cards are lost is said once.
    let said = Rc::new(Once::new());
    let said_of = Rc::clone(&said);
    let runner = OnceCell::new();
    segment::keeper::run(KeeperOptions {
        socket_path: socket.into(),
        heap_bytes,
        world_bytes: size_of::<Net>() as u64,
        namespaces,
        sockets: outside.take_sockets(),
        files,
        beside: outside.receiver(),
        watch: addresses.map(|addresses| watch(addresses, link.gids.clone())).transpose()?,
        init: Box::new(move |segment| {
            let membership = Membership::new(segment);
            let net = membership.net();
            notes.write(net);
            net.link.init(&link, captured.as_ref());
            if let Some(profile) = &clock {
                // SAFETY: no other process has joined yet.
                unsafe { net.simulate(profile, trace.as_deref().zip(traced.as_ref()), &link) };
            }
            // SAFETY: as above.
            let world: &mut World = unsafe { &mut *net.world.get() };
            world.init(cards.into(), limits(clock.as_ref()), ports(clock.as_ref(), mtu));
            world.set_reorder(clock.map_or(reorder, |profile| profile.rx.reorder_packets));
            notes.apply(world);
            net.link.follow(world);
            world.add_gids(&link.gids);
            world.cm.hurry = link.cm_timeout.map_or(0, |timeout| RESPONSE_TIMEOUT.saturating_sub(timeout));
        }),
        on_member_gone: Box::new(move |segment, member| {
            // What cannot be done to damaged cards is not tried again.
            guarded(true, || match member_gone(segment, member) {
                Ok(()) => true,
                Err(LockError::Condemned) => {
                    said_of.call_once(|| Membership::new(segment).net().wake_all());
                    true
                }
                // The lock holder may be stopped. Others are waited for meanwhile.
                Err(_) => false,
            })
        }),
        on_timer: Box::new(move |segment| {
            let soon = segment::now_ns() + PATIENCE.as_nanos() as u64;
            let next = guarded(Ok(Some(soon)), || {
                let next = run_timers(segment, &runner);
                if let Err(LockError::Condemned) = next {
                    said.call_once(|| Membership::new(&**segment).net().wake_all());
                }
                next
            });
            match next {
                Ok(next) => next.unwrap_or(u64::MAX),
                Err(LockError::Condemned) => u64::MAX,
                // Taken for long: try again soon.
                Err(_) => segment::now_ns() + PATIENCE.as_nanos() as u64,
            }
        }),
        on_look: counted.map(|told| {
            let mut looks = Looks::new(told);
            let soon = || segment::now_ns() + PATIENCE.as_nanos() as u64;
            Box::new(move |segment: &Segment| guarded(soon(), || looks.look(segment))) as _
        }),
        on_alone: Box::new(|segment, time| guarded(false, || waits_for_late(segment, time))),
    })
}

/// Lets the GIDs of the ports follow `addresses`.
fn watch(mut addresses: Box<dyn Addresses>, options: GidOptions) -> Result<Watch, KeeperError> {
    let what = "watching the addresses of network interfaces";
    let descriptor = addresses.news().try_clone_to_owned();
    let descriptor = descriptor.map_err(|error| KeeperError::System { what, error })?;
    let mut told = None;
    let on_news = Box::new(move |segment: &Segment| {
        guarded(true, || match follow(segment, (&mut *addresses, &options), &mut told) {
            Ok(()) | Err(LockError::Condemned) => true,
            Err(_) => false,
        })
    });
    Ok(Watch { descriptor, on_news })
}

/// `told`: the tables that programs were told of last. They differ from the cards' if the lock was not to be had.
fn follow(
    segment: &Segment,
    (addresses, options): (&mut dyn Addresses, &GidOptions),
    told: &mut Option<GidTables>,
) -> Result<(), LockError> {
    let wanted = options.complete(addresses.read());
    let change = |world: &mut World| {
        let (before, ports) = (world.cards[0].gids, Vec::from_iter(world.ports()));
        world.follow(&wanted);
        (before, world.cards[0].gids, ports)
    };
    let membership = Membership::new(segment);
    let simulated = membership.net().simulated();
    let (before, after, ports) = match simulated {
        true => Threads::new(membership).outside_time(PATIENCE, |world, _| change(world))?,
        false => Runner::new(membership).control_within(PATIENCE, |world, _| change(world))?,
    };
    let told = told.get_or_insert(before);
    let mut changes = Vec::new();
    for port in ports {
        let table = |tables: &GidTables| std::array::from_fn(|index| tables.entry(port, index as u8));
        let now = table(&after);
        if table(&before) != now {
            addresses.changed(port, &now);
        }
        let entries = added_and_removed(&table(told), &now);
        if entries > 0 {
            changes.push((port, entries));
        }
    }
    // An address has no place in simulated time, and so no event. Who gets one finds the new table in the files.
    if !simulated && !changes.is_empty() {
        Runner::new(Membership::new(segment)).control_within(PATIENCE, |world, env| {
            for &(port, entries) in &changes {
                world.cards[usize::from(port.card)].gids_changed(port.port, entries, env);
            }
        })?;
    }
    *told = after;
    Ok(())
}

/// How many entries of a table have gone or come. One that another has taken the place of has gone.
fn added_and_removed(before: &[GidEntry; GID_TABLE_LEN], after: &[GidEntry; GID_TABLE_LEN]) -> usize {
    let differ = before.iter().zip(after).filter(|(before, after)| before != after);
    differ.map(|(before, after)| [before, after].into_iter().filter(|entry| !entry.is_empty()).count()).sum()
}

/// Frees what a dead process leaves.
fn member_gone(segment: &Segment, member: u16) -> Result<(), LockError> {
    let membership = Membership::new(segment);
    if membership.net().simulated() {
        return Threads::new(membership).member_gone(member, PATIENCE);
    }
    let runner = Runner::new(membership);
    runner.control_within(PATIENCE, |world, env| {
        capture::trim(&runner.net().link);
        runner.net().link.end_live(member, segment);
        world.detach(member, env);
    })
}

/// Runs what is due; returns the machine's time (ns) at which to call again.
fn run_timers(
    segment: &Arc<Segment>,
    runner: &OnceCell<Runner<Arc<Segment>>>,
) -> Result<Option<u64>, LockError> {
    let membership = Membership::new(&**segment);
    if membership.net().simulated() {
        return Threads::new(membership).run_idle(PATIENCE);
    }
    runner.get_or_init(|| Runner::new(Membership::new(Arc::clone(segment)))).run_timers(PATIENCE)
}

/// Whether a frame that a fault delays is due before a time (ns): it may leave the net, though its sender has ended.
fn waits_for_late(segment: &Segment, time: u64) -> bool {
    let membership = Membership::new(segment);
    let link = &membership.net().link;
    link.outside().any() && link.late_at().is_some_and(|at| at < time)
}

/// How long the keeper waits for the lock before it turns to other work.
const PATIENCE: Duration = Duration::from_millis(100);

/// Why the capture of the net is not complete whose keeper listens at `socket`. `None`: it is.
pub fn capture_lost(socket: &Path) -> Result<Option<std::io::Error>, OpenError> {
    Ok(Membership::new(Segment::attach(socket)?).net().link.lost())
}

/// What the rules of the faults have done so far of the net whose keeper listens at `socket`.
pub fn rule_uses(socket: &Path) -> Result<Vec<RuleUse>, OpenError> {
    Ok(Membership::new(Segment::watch(socket)?).net().link.rule_uses())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address;
    use crate::attach::PrivateNet;
    use crate::link::{Capture, Wire};

    /// Notes what it is told.
    #[derive(Debug)]
    struct Scripted {
        wanted: Vec<(PortId, GidEntry)>,
        changed: Vec<(PortId, [GidEntry; GID_TABLE_LEN])>,
    }

    impl Addresses for Scripted {
        fn news(&self) -> BorrowedFd<'_> {
            unreachable!("its owner asks")
        }

        fn read(&mut self) -> Vec<(PortId, GidEntry)> {
            self.wanted.clone()
        }

        fn changed(&mut self, port: PortId, table: &[GidEntry; GID_TABLE_LEN]) {
            self.changed.push((port, *table));
        }
    }

    /// Whatever programs have been told: what changes back before they were has changed in the files, too.
    #[test]
    fn each_change_of_a_table_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("net/sock");
        let (_net, segment) = PrivateNet::start(&socket, 1, Segment::attach).unwrap();
        let port = PortId { card: 0, port: 1 };
        let first = GidEntry::new(address::gid(port, 0));
        let mut addresses = Scripted { wanted: vec![(port, first)], changed: Vec::new() };
        let mut told = None;
        follow(&segment, (&mut addresses, &GidOptions::default()), &mut told).unwrap();
        let at_first = told;
        addresses.wanted.push((port, GidEntry::new([7; 16])));
        addresses.changed.clear();
        follow(&segment, (&mut addresses, &GidOptions::default()), &mut told).unwrap();
        // As if the lock had not been to be had.
        told = at_first;
        addresses.wanted.pop();
        follow(&segment, (&mut addresses, &GidOptions::default()), &mut told).unwrap();
        let table = |second| {
            let mut table = [GidEntry::default(); GID_TABLE_LEN];
            (table[0], table[1]) = (first, GidEntry::new(second));
            table
        };
        assert_eq!(addresses.changed, [(port, table([7; 16])), (port, table([0; 16]))]);
    }

    #[test]
    fn an_entry_that_is_replaced_goes_and_comes() {
        let table = |first: u8, second: u8| {
            let mut table = [GidEntry::default(); GID_TABLE_LEN];
            (table[0], table[1]) = (GidEntry::new([first; 16]), GidEntry::new([second; 16]));
            table
        };
        for (before, after, expected) in [
            (table(1, 2), table(1, 2), 0),
            (table(1, 0), table(1, 2), 1),
            (table(1, 2), table(1, 0), 1),
            (table(1, 2), table(1, 3), 2),
            (table(1, 2), table(0, 3), 3),
        ] {
            assert_eq!(added_and_removed(&before, &after), expected);
        }
    }

    /// What is after the whole records may be a write of the lock holder.
    #[test]
    fn a_capture_is_cut_with_the_lock_only() {
        for clock in [None, Some(Profile::load("f10a").unwrap().profile)] {
            let directory = tempfile::tempdir().unwrap();
            let (socket, path) = (directory.path().join("net/sock"), directory.path().join("frames.pcap"));
            let capture = Some(Capture { path: path.clone(), snaplen: 64, card: None });
            let link = LinkOptions { wire: Wire::Exact, capture, ..LinkOptions::default() };
            let options = NetOptions { link, clock, ..NetOptions::from(1) };
            let (_net, writer) = PrivateNet::start(&socket, options, Segment::attach).unwrap();
            let other = Segment::attach(&socket).unwrap();
            let length = || std::fs::metadata(&path).unwrap().len();
            let lock = writer.lock(Duration::from_secs(5)).unwrap();
            std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1000).unwrap();
            member_gone(&other, 60).unwrap_err();
            assert_eq!(length(), 1000);
            drop(lock);
            member_gone(&other, 60).unwrap();
            assert_eq!(length(), capture::HEADER);
        }
    }
}
