//! Media that carry Ethernet frames: what they have in common.
//!
//! The processes of the net do not write to such a medium themselves. They give their frames to the keeper's thread
//! by a socket, which knows the neighbours, fills in their Ethernet addresses and sends. So a medium needs one place only
//! that knows it, and frames that wait for a neighbour's answer need no place in the segment.
//!
//! The keeper's thread gives frames by that socket, too: what it receives makes cards answer. It is the one that empties the
//! socket, so it makes room itself.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use rustix::event::PollFlags;
use rustix::net::{socketpair, sockopt, AddressFamily, SocketFlags, SocketType};

use super::alarm::Alarm;
use super::area::{Drop, Kind, Role, Setting};
use super::arrivals::Arrivals;
use super::given::{QUESTION, WHOLE};
use super::groups::Groups;
use super::inbox::{Inbox, LARGEST};
use super::neighbours::{vlan_of, RETRY};
use super::opened::{Failed, Opened, Receiver};
use super::station::{Host, SharedStation, Station};
use crate::address::Gid;
use crate::link::frames::LONGEST_FRAME;
use crate::packet::PortId;
use crate::panics::lock;
use crate::segment::now_ns;
use crate::wire::ethernet::MIN_FRAME;
use crate::wire::{frame, Path};

/// Room for the frames that processes have sent and the keeper's thread has not taken.
const ROOM: usize = 4 << 20;
/// How long a process waits for that room, with the cards' lock.
const FULL: std::time::Duration = std::time::Duration::from_millis(20);
/// Most bytes that a queue pair has on their way.
const WINDOW: u32 = 256 << 10;
/// Batches that are sent in a row.
const TURN: u32 = 64;
/// Frames that are looked at before those that were taken are delivered.
const AT_ONCE: usize = 256;
/// Bytes that wait until a peer reads; further frames are lost.
pub(super) const WAITING: usize = 32 << 20;

/// What carries frames of a port.
pub(super) trait Wire: Send {
    /// What tells that frames may have come, or that there is something else to do.
    fn descriptors(&self) -> Vec<(BorrowedFd<'_>, PollFlags)>;
    /// Sends a frame, or keeps it until it can be sent, but never waits. One that is refused is lost.
    fn send(&mut self, frame: &[u8]) -> io::Result<()>;
    /// Sends what it has kept, as far as that can be sent; returns how many frames it has given up.
    fn flush(&mut self) -> u64 {
        0
    }
    /// When `flush` is to be called (ns), if no descriptor tells.
    fn due(&self) -> Option<u64> {
        None
    }
    /// Whether it has kept something.
    fn keeps(&self) -> bool {
        self.due().is_some()
    }
    /// See [`Receiver::link`]. Without one frames are lost.
    fn link(&mut self) -> Option<u64> {
        Some(1)
    }
    /// The port has another Ethernet address from now on.
    fn set_mac(&mut self, _mac: [u8; 6]) -> io::Result<()> {
        Ok(())
    }
    /// Reads the next frame without waiting; none if there is none. What is longer than `into` is lost.
    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<usize>>;
}

/// A medium that is open, and what its port is like.
pub(super) type Found = Result<(Box<dyn Wire>, Host), Failed>;

/// Makes a port of a medium.
pub(super) fn open(port: PortId, host: Host, wire: Box<dyn Wire>) -> Result<Opened, Failed> {
    connect(port, host, wire).map_err(|error| ("connecting the processes to the port".to_owned(), error))
}

fn connect(port: PortId, host: Host, mut wire: Box<dyn Wire>) -> io::Result<Opened> {
    let (here, there) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    // As much as the system allows, which is more for the administrator.
    if sockopt::set_socket_send_buffer_size_force(&there, ROOM).is_err() {
        sockopt::set_socket_send_buffer_size(&there, ROOM)?;
    }
    sockopt::set_socket_timeout(&there, sockopt::Timeout::Send, Some(FULL))?;
    let setting = Setting { kind: Kind::Ethernet, mac: host.mac, sports: Vec::new(), window: WINDOW };
    let here = Arc::new(here);
    let inbox = Arc::new(Mutex::new(Inbox::new(&here)));
    Inbox::note(&inbox, there.as_fd())?;
    let link = wire.link();
    let own = Arc::new(Mutex::new(Station::new(host.mac, host.gids.clone())));
    let mut receiver = EthernetReceiver {
        link,
        announced: None,
        out: Out { wire, unsent: 0 },
        here,
        inbox,
        alarm: Alarm::new()?,
        role: Role::Alone,
        groups: Groups::new(host.mac),
        joined: Vec::new(),
        station: Arc::clone(&own),
        own,
        unannounced: None,
        batch: vec![0; LARGEST],
    };
    receiver.announce();
    receiver.receive_groups(&[]);
    let (gids, mtu) = (host.gids, host.mtu);
    Ok(Opened {
        port,
        setting,
        gids,
        mtu,
        link,
        descriptors: vec![there],
        shared: None,
        receiver: Box::new(receiver),
    })
}

/// The keeper's side.
struct EthernetReceiver {
    /// The medium's link when it was looked at last.
    link: Option<u64>,
    /// The one that was told of the port's addresses, or is to be.
    announced: Option<u64>,
    out: Out,
    /// Where the frames of the processes come.
    here: Arc<OwnedFd>,
    inbox: Arc<Mutex<Inbox>>,
    /// Due when a neighbour is to be asked again, a group to be reported, or the medium to be tried again.
    alarm: Alarm,
    role: Role,
    /// Who it is, alone and in this role.
    own: SharedStation,
    station: SharedStation,
    groups: Groups,
    /// Those in which queue pairs are.
    joined: Vec<Gid>,
    /// It has not been told of them: when that is tried.
    unannounced: Option<u64>,
    batch: Vec<u8>,
}

/// The medium, and how many frames it did not take.
struct Out {
    wire: Box<dyn Wire>,
    unsent: u64,
}

impl Out {
    fn put(&mut self, frame: &[u8]) {
        self.unsent += u64::from(self.wire.send(frame).is_err());
    }

    /// As [`put`](Self::put), of what neighbours are told and asked too, which is no packet of the card's and not counted.
    fn say(&mut self, frame: &[u8]) {
        self.unsent += u64::from(self.wire.send(frame).is_err() && frame::path(frame).is_some());
    }
}

impl Receiver for EthernetReceiver {
    fn descriptors(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        let mut all = self.out.wire.descriptors();
        all.extend([self.here.as_fd(), self.alarm.as_fd()].map(|own| (own, PollFlags::IN)));
        all
    }

    fn receive(&mut self, port: PortId, into: &mut Arrivals) -> io::Result<bool> {
        self.ask_again();
        self.out.unsent += self.out.wire.flush();
        let sent = self.send_given();
        // Before a new link makes the neighbours of the old one forgotten.
        lock(&self.station).tell(into);
        self.announce();
        let came = self.take(port, into);
        lock(&self.station).tell(into);
        self.set_alarm();
        let lost = std::mem::take(&mut lock(&self.station).neighbours.lost);
        into.drop(Drop::Unsent, std::mem::take(&mut self.out.unsent) + lost);
        Ok(came? | sent)
    }

    fn link(&mut self) -> Option<u64> {
        self.link = self.out.wire.link();
        self.set_alarm();
        self.link
    }

    fn receive_groups(&mut self, groups: &[Gid]) {
        self.joined = groups.to_vec();
        let wanted = lock(&self.station).places(groups);
        let speaks = self.role.speaks();
        self.groups.set(now_ns(), &wanted, &mut |frame: &[u8]| {
            if speaks {
                self.out.say(frame);
            }
        });
        self.set_alarm();
    }

    fn forward(&mut self) -> bool {
        let empty = (0..TURN).any(|_| !self.send_given());
        // Frames may wait in the medium now, or for a neighbour.
        self.set_alarm();
        !empty || self.out.wire.keeps() || lock(&self.station).neighbours.has_waiting()
    }

    fn station(&self) -> Option<SharedStation> {
        Some(Arc::clone(&self.own))
    }

    fn set_role(&mut self, role: Role, first: Option<&SharedStation>) -> io::Result<()> {
        if role.is_member() == self.role.is_member() {
            self.role = role;
            return Ok(());
        }
        let station = Arc::clone(first.filter(|_| role.is_member()).unwrap_or(&self.own));
        let mac = lock(&station).mac;
        self.out.wire.set_mac(mac)?;
        if self.role.speaks() {
            self.groups.set(now_ns(), &[], &mut |frame: &[u8]| self.out.say(frame));
        }
        (self.role, self.station, self.groups) = (role, station, Groups::new(mac));
        // The link does not know it.
        (self.announced, self.unannounced) = (None, None);
        self.receive_groups(&self.joined.clone());
        Ok(())
    }
}

impl EthernetReceiver {
    /// Sends what a process has given; false if there is nothing.
    fn send_given(&mut self) -> bool {
        let taken = lock(&self.inbox).take(&mut self.batch);
        let Some(len) = taken else { return false };
        let Some((length, frames)) = self.batch[..len].split_first_chunk_mut() else { return false };
        let now = now_ns();
        let mut station = lock(&self.station);
        if *length == QUESTION {
            let Some((vlan, addresses)) = frames.split_first_chunk() else { return true };
            let Some((own, ip)) = addresses.split_first_chunk() else { return true };
            let Some(ip) = ip.first_chunk() else { return true };
            let to = (u16::from_ne_bytes(*vlan), *ip);
            let speaks = self.role.speaks();
            station.ask(now, own, to, &mut |frame: &[u8]| {
                if speaks {
                    self.out.say(frame);
                }
            });
            return true;
        }
        let length = u16::from_ne_bytes(*length);
        if length == WHOLE {
            self.out.put(frames);
            return true;
        }
        let length = usize::from(length).max(1);
        for frame in frames.chunks_mut(length) {
            if let Some(Path { network, vlan, .. }) = frame::path(frame) {
                let to = (vlan.map_or(0, vlan_of), network.dst_gid());
                let way = (&network.src_gid(), &to);
                station.neighbours.send(now, way, frame, &mut |frame: &[u8]| self.out.say(frame));
            }
        }
        true
    }

    /// Takes the frames that have come, as many as there is room for; false if nothing is left.
    fn take(&mut self, port: PortId, into: &mut Arrivals) -> io::Result<bool> {
        let mut start = 0;
        let mut station = lock(&self.station);
        // Of frames that are not for the port come as many as others send.
        for _ in 0..AT_ONCE {
            // What is longer is known by that, even if it is cut.
            if into.bytes.len() - start <= LONGEST_FRAME {
                break;
            }
            let Some(len) = self.out.wire.receive(&mut into.bytes[start..])? else { return Ok(false) };
            let range = start..start + len;
            let frame = &into.bytes[range.clone()];
            // For this port, or for a group.
            let here = frame.first_chunk().is_some_and(|to: &[u8; 6]| *to == station.mac || to[0] & 1 == 1);
            // One that stands by answers nothing: the link would learn that the address is there.
            let answers = here && self.role.speaks();
            let of_neighbours =
                answers && station.answers(now_ns(), frame, &mut |frame: &[u8]| self.out.say(frame));
            match here && !of_neighbours && frame::path(frame).is_some() {
                true => into.take(port, range, frame::decode),
                false => {
                    if answers {
                        self.groups.receive(now_ns(), frame);
                    }
                    into.take_whole(range);
                }
            }
            start += len.max(MIN_FRAME);
        }
        Ok(true)
    }

    /// The link by which the port is to be found.
    fn found_by(&self) -> Option<u64> {
        self.link.filter(|_| self.role.speaks())
    }

    /// Tells a new link of the port's addresses, and asks for those that are looked for. A medium that refuses that is tried again.
    fn announce(&mut self) {
        let link = self.found_by();
        let mut station = lock(&self.station);
        if std::mem::replace(&mut self.announced, link) != link {
            // Ports that are one lead to the same neighbours.
            if !self.role.is_member() {
                station.neighbours.forget();
            }
            self.unannounced = link.map(|_| 0);
        }
        let Some(due) = self.unannounced else { return };
        let now = now_ns();
        if due > now {
            return;
        }
        let mut taken = true;
        station.announce(&mut |frame: &[u8]| taken &= self.out.wire.send(frame).is_ok());
        self.unannounced = (!taken).then_some(now + RETRY);
        if taken {
            station.neighbours.ask_anew(now, &mut |frame: &[u8]| self.out.say(frame));
            self.groups.announce(now, &mut |frame: &[u8]| self.out.say(frame));
        }
    }

    fn ask_again(&mut self) {
        if self.alarm.rings() && self.role.speaks() {
            let now = now_ns();
            lock(&self.station).neighbours.run(now, &mut |frame: &[u8]| self.out.say(frame));
            self.groups.run(now, &mut |frame: &[u8]| self.out.say(frame));
        }
    }

    /// Sets the alarm to when something is due.
    fn set_alarm(&mut self) {
        // Whoever was found while frames were forwarded is told of at once.
        let station = lock(&self.station);
        let found = station.has_found().then(now_ns);
        let changed = (self.announced != self.found_by()).then(now_ns);
        let asks = [station.neighbours.due(), self.groups.due()];
        let asks = asks.into_iter().flatten().filter(|_| self.role.speaks()).min();
        let all = [asks, self.out.wire.due(), self.unannounced, changed, found];
        let due = all.into_iter().flatten().min();
        due.into_iter().for_each(|due| self.alarm.set(due));
    }
}

#[cfg(test)]
#[path = "role_tests.rs"]
mod role_tests;
#[cfg(test)]
#[path = "ethernet_tests.rs"]
pub(super) mod tests;
