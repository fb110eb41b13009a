//! The keeper's thread that receives what comes from outside, and brings it to the cards.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{eventfd, EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::cables;
use super::wall::arrivals::Stuck;
use super::wall::runner::Runner;
use crate::address::{Gid, Guids};
use crate::device::Outside;
use crate::gids::GidEntry;
use crate::link::outside::{self, Arrivals, MediumSpec, Opened, PortSpec, Receiver, Role, SharedStation};
use crate::link::LinkOptions;
use crate::net::{Membership, Net};
use crate::packet::PortId;
use crate::panics::guarded;
use crate::port_name;
use crate::segment::keeper::{Beside, MAX_SOCKETS};
use crate::segment::{now_ns, KeeperError, LockError, Segment};
use crate::world::World;

/// Reads of a port in a row, so that others have their turn.
const TURN: u32 = 64;
/// After so many turns in a row that failed a descriptor is left out.
const FAILURES: u32 = 3;
/// How long (ns) the thread looks for more before it sleeps: to wake it costs the sender more than what it sends.
const SPIN: u64 = 50_000;
/// How long what could not be finished waits.
const AGAIN: Duration = Duration::from_millis(1);
/// How long a net that ends waits for a medium that takes no more.
const LEAVING: Duration = Duration::from_secs(1);

/// The ports of a net with a medium outside of the segment.
pub(super) struct Ports {
    opened: Vec<Opened>,
    /// An eventfd by which processes tell of multicast groups, if there are ports.
    news: Option<OwnedFd>,
    /// What the net's cards are called.
    guids: Guids,
}

impl Ports {
    /// Opens their media, for the net with this socket.
    pub fn open(options: &LinkOptions, net: &Path) -> Result<Ports, KeeperError> {
        let leads = |spec: &PortSpec| spec.medium != MediumSpec::Net;
        let guids = if options.ports.iter().any(leads) { outside::guids(net) } else { Guids::INSIDE };
        let opened = outside::open(&options.ports, guids, &options.gids)?;
        let sockets =
            opened.iter().map(|port| port.descriptors.len() + port.shared.iter().len()).sum::<usize>() + 1;
        if sockets > MAX_SOCKETS {
            return Err(KeeperError::TooManySockets(sockets));
        }
        let news = (!opened.is_empty()).then(|| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK));
        let failed = |error: Errno| KeeperError::System { what: "making an eventfd", error: error.into() };
        let news = news.transpose().map_err(failed)?;
        Ok(Ports { opened, news, guids })
    }

    /// The largest path MTU that all of them have room for.
    pub fn mtu(&self) -> Option<u32> {
        self.opened.iter().map(|port| port.mtu).min()
    }

    /// What each process sends by, and receives by while it polls; and by which it tells of groups.
    pub fn take_sockets(&mut self) -> Vec<OwnedFd> {
        let of =
            |port: &mut Opened| std::mem::take(&mut port.descriptors).into_iter().chain(port.shared.take());
        self.opened.iter_mut().flat_map(of).chain(self.news.take()).collect()
    }

    /// What is to be noted of them in a new net.
    pub fn notes(&self) -> Notes {
        let note = |port: &Opened| Note {
            port: port.port,
            setting: port.setting.clone(),
            gids: port.gids.clone(),
            link: port.link.is_some(),
            senders: port.descriptors.len(),
            is_shared: port.shared.is_some(),
        };
        Notes(self.opened.iter().map(note).collect(), self.guids)
    }

    /// The work of the thread that receives, if there is something to receive.
    pub fn receiver(self) -> Option<Beside> {
        let mut ports: Vec<_> =
            self.opened.into_iter().map(|port| Port::new(port.port, port.receiver, port.link)).collect();
        let firsts: Vec<_> = ports.iter().map(|port| (port.id, port.receiver.station())).collect();
        for port in &mut ports {
            let is_first = |id: PortId| id == PortId { port: 0, ..port.id };
            port.first = firsts.iter().find(|(id, _)| is_first(*id)).and_then(|(_, first)| first.clone());
        }
        (!ports.is_empty()).then(|| Box::new(move |segment, stop| receive(segment, ports, &stop)) as _)
    }
}

/// What the segment is to hold of a port.
struct Note {
    port: PortId,
    setting: outside::Setting,
    gids: Vec<GidEntry>,
    /// Its medium has a link.
    link: bool,
    /// Sockets by which programs send.
    senders: usize,
    /// Behind them is one by which they receive.
    is_shared: bool,
}

/// What the segment is to hold of the ports, and what the cards are called.
pub(super) struct Notes(Vec<Note>, Guids);

impl Notes {
    /// Writes them, before other processes join.
    pub fn write(&self, net: &Net) {
        let mut first = 0;
        for note in &self.0 {
            let end = first + note.senders;
            let receiver = note.is_shared.then_some(end);
            net.link.outside().set(note.port, &note.setting, first..end, receiver);
            first = end + usize::from(note.is_shared);
        }
        if !self.0.is_empty() {
            net.link.outside().set_news(first);
        }
    }

    /// Makes the ports of the cards such ones.
    pub fn apply(&self, world: &mut World) {
        world.name_cards(self.1, if self.0.is_empty() { 0 } else { salt() });
        for Note { port, setting, gids, link, .. } in &self.0 {
            let frames = setting.kind == outside::Kind::Ethernet;
            let outside = Outside {
                on: true.into(),
                frames: frames.into(),
                no_link: (!link).into(),
                mac: setting.mac,
                window: setting.window,
            };
            world.connect_outside(*port, outside, gids);
        }
    }
}

/// Another number than that of any earlier net.
fn salt() -> u32 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    ((since.as_nanos() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// A port, as the thread that receives has it.
struct Port {
    id: PortId,
    receiver: Box<dyn Receiver>,
    /// Turns in a row that failed.
    failed: u32,
    /// Descriptors of which nothing else comes any more.
    gone: Vec<RawFd>,
    /// Its link, and that of which the cards know.
    link: Option<u64>,
    told: Option<u64>,
    /// Neighbours that have answered, of which the cards do not know yet.
    found: Vec<Gid>,
    /// What comes is read by programs that poll.
    left: bool,
    /// Who the first port of its card is on its link, if that leads outside.
    first: Option<SharedStation>,
    /// Its medium has refused the role that the cards give it.
    refused: bool,
}

impl Port {
    /// One of which the cards know the link that it had when it was opened.
    fn new(id: PortId, receiver: Box<dyn Receiver>, link: Option<u64>) -> Port {
        Port {
            id,
            receiver,
            failed: 0,
            gone: Vec::new(),
            link,
            told: link,
            found: Vec::new(),
            left: false,
            first: None,
            refused: false,
        }
    }

    /// Gives it the role that the cards say; gives the port of which they know that something came to this one.
    fn known(&mut self, role: Role) -> PortId {
        let set = self.receiver.set_role(role, self.first.as_ref());
        let refused = std::mem::replace(&mut self.refused, set.is_err());
        if let Some(error) = set.err().filter(|_| !refused) {
            tell!("verbena: {}: {error}; frames for another address do not come", port_name::text(self.id));
        }
        match role.is_member() {
            true => PortId { port: 0, ..self.id },
            false => self.id,
        }
    }

    /// Whether there is something to tell the cards.
    fn has_news(&self) -> bool {
        !self.found.is_empty() || self.link != self.told
    }

    /// What is waited for.
    fn descriptors(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let all = self.receiver.descriptors().into_iter();
        all.filter(|(descriptor, _)| !self.gone.contains(&descriptor.as_raw_fd()))
    }

    /// What comes is left to programs that poll, while they do, but for news of the link.
    fn leave_to_programs(&mut self, net: &Net, now: u64) {
        let area = net.link.outside().port(self.id);
        self.left = area.is_some_and(|area| area.reading().is_left_to_programs(now));
        if self.left {
            self.link = self.receiver.link();
        }
    }

    /// Tells the cards of neighbours that were found, and of the link, if they can be had.
    fn tell(&mut self, runner: &Runner<Arc<Segment>>) {
        if !self.has_news() {
            return;
        }
        let (id, found, link) = (self.id, &self.found, self.link);
        let told = runner.control_within(AGAIN, |world, env| {
            if link != self.told {
                cables::change(world, &runner.net().link, |world| {
                    let card = &mut world.cards[usize::from(id.card)];
                    // Also one that is back was lost.
                    card.set_no_link(id.port, true, env);
                    card.set_no_link(id.port, link.is_none(), env);
                });
            }
            world.found(world.known_port(id), found, env);
        });
        // Cards that are lost are told nothing any more.
        if matches!(told, Ok(()) | Err(LockError::Condemned)) {
            (self.told, self.found) = (link, Vec::new());
        }
    }

    /// After a turn, what became of it and what the descriptor said that led to it. One that only says that it has
    /// failed is left out: an interface that was deleted, for example.
    fn judge(&mut self, (descriptor, events): (RawFd, PollFlags), turn: &io::Result<()>) {
        match turn {
            Ok(()) => self.failed = 0,
            Err(error) if events.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) => {
                self.failed += 1;
                if self.failed == FAILURES {
                    self.failed = 0;
                    self.gone.push(descriptor);
                    tell!("verbena: {}: {error}; nothing comes in by it any more", port_name::text(self.id));
                }
            }
            Err(_) => {}
        }
    }
}

/// Receives until `stop` is readable.
fn receive(segment: Arc<Segment>, mut ports: Vec<Port>, stop: &OwnedFd) {
    let runner = Runner::new(Membership::new(segment));
    let news = runner.net().link.outside().news().and_then(|index| runner.segment().socket(index));
    let (mut arrivals, mut stuck) = (Arrivals::default(), Stuck::default());
    // Queue pairs have joined multicast groups, or left some, which the ports do not know.
    let mut regrouped = false;
    // When something came last.
    let mut last = 0;
    loop {
        let mut entries = vec![PollFd::new(stop, PollFlags::IN)];
        let mut owners = Vec::new();
        let now = now_ns();
        ports.iter_mut().for_each(|port| port.leave_to_programs(runner.net(), now));
        for (index, port) in ports.iter().enumerate().filter(|(_, port)| !port.left) {
            for (descriptor, flags) in port.descriptors() {
                owners.push((index, descriptor.as_raw_fd()));
                entries.push(PollFd::from_borrowed_fd(descriptor, flags));
            }
        }
        entries.extend(news.map(|news| PollFd::from_borrowed_fd(news, PollFlags::IN)));
        let waits = regrouped || runner.has_pending() || ports.iter().any(Port::has_news);
        let wait = match ports.iter().any(|port| port.left) {
            true => Some(outside::FRESH as i64),
            false if now.wrapping_sub(last) < SPIN => Some(0),
            false => waits.then_some(AGAIN.subsec_nanos().into()),
        };
        let wait = wait.map(|tv_nsec| Timespec { tv_sec: 0, tv_nsec });
        // Interrupted at most.
        if let Ok(0) = rustix::event::poll(&mut entries, wait.as_ref()) {
            // Programs of this core go on meanwhile.
            std::thread::yield_now();
        }
        let events: Vec<PollFlags> = entries.iter().map(PollFd::revents).collect();
        drop(entries);
        if !events[0].is_empty() {
            return leave(&mut ports);
        }
        let told = news.zip(events.last()).is_some_and(|(_, events)| !events.is_empty());
        regrouped |= told && news.is_some_and(|news| rustix::io::read(news, &mut [0; 8]).is_ok());
        regrouped = regrouped && guarded(false, || !follow_groups(&runner, &mut ports));
        for ((index, descriptor), events) in owners.into_iter().zip(events.into_iter().skip(1)) {
            if !events.is_empty() {
                last = now;
                let port = &mut ports[index];
                let turn = guarded(Ok(()), || take_turn(&runner, port, &mut arrivals, &mut stuck));
                port.judge((descriptor, events), &turn);
                // A peer may have gone, or come.
                port.link = port.receiver.link();
            }
        }
        guarded((), || ports.iter_mut().for_each(|port| port.tell(&runner)));
        guarded((), || runner.run_pending());
    }
}

/// Lets the ports receive the multicast groups in which their queue pairs are. False: the cards could not be had.
fn follow_groups(runner: &Runner<Arc<Segment>>, ports: &mut [Port]) -> bool {
    let groups = runner.control_within(AGAIN, |world, _| {
        let of = |port: &Port| world.cards[usize::from(port.id.card)].groups_of(world.known_port(port.id));
        ports.iter().map(of).collect::<Vec<_>>()
    });
    let groups = match groups {
        Ok(groups) => groups,
        Err(error) => return matches!(error, LockError::Condemned),
    };
    for (port, groups) in ports.iter_mut().zip(groups) {
        if let Some(area) = runner.net().link.outside().port(port.id) {
            // Programs that poll know nothing of what comes for groups.
            area.reading().keep(!groups.is_empty());
        }
        port.receiver.receive_groups(&groups);
    }
    true
}

/// Sends what the last programs of a net have given: an acknowledgement, perhaps, that somebody waits for.
fn leave(ports: &mut [Port]) {
    let until = Instant::now() + LEAVING;
    let mut arrivals = Arrivals::default();
    let mut turn = || {
        let mut waits = false;
        for Port { id, receiver, .. } in &mut *ports {
            if receiver.forward() {
                waits = true;
                arrivals.clear(false);
                // The medium is tried again, and neighbours answer. The rest comes too late.
                let _ = receiver.receive(*id, &mut arrivals);
            }
        }
        waits
    };
    while guarded(false, &mut turn) && Instant::now() < until {
        std::thread::sleep(AGAIN);
    }
}

/// Brings what has come to a port to the cards. An error is one of what came before, or of what is gone.
fn take_turn(
    runner: &Runner<Arc<Segment>>,
    port: &mut Port,
    arrivals: &mut Arrivals,
    stuck: &mut Stuck,
) -> io::Result<()> {
    let id = port.id;
    let Some(area) = runner.net().link.outside().port(id) else { return Ok(()) };
    let Some(_turn) = area.reading().begin(now_ns()) else { return Ok(()) };
    port.link = port.receiver.link();
    // What comes by a link that is new is not for cards that know of none.
    port.tell(runner);
    let known = port.known(area.role());
    for _ in 0..TURN {
        arrivals.clear(runner.net().link.sees_outside(id));
        let more = port.receiver.receive(known, arrivals);
        runner.arrive((id, area), arrivals, stuck, &mut || _ = port.receiver.forward());
        runner.arrive_whole((id, area), arrivals, &mut || _ = port.receiver.forward());
        port.found.append(&mut arrivals.found);
        if !more? {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "ports_tests.rs"]
mod tests;
