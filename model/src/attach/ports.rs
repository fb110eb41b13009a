//! The keeper's thread that receives what comes from outside, and brings it to the cards.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

use super::wall::runner::Runner;
use crate::address::Gid;
use crate::device::Outside;
use crate::link::outside::{self, Arrivals, Opened, Receiver};
use crate::link::LinkOptions;
use crate::net::{Membership, Net};
use crate::packet::PortId;
use crate::panics::guarded;
use crate::segment::keeper::{Beside, MAX_SOCKETS};
use crate::segment::{KeeperError, Segment};
use crate::world::World;

/// Reads of a port in a row, so that others have their turn.
const TURN: u32 = 64;
/// How long what could not be finished waits.
const AGAIN: Duration = Duration::from_millis(1);

/// The ports of a net with a medium outside of the segment.
pub(super) struct Ports {
    opened: Vec<Opened>,
}

impl Ports {
    /// Opens their media.
    pub fn open(options: &LinkOptions) -> Result<Ports, KeeperError> {
        let ports = Ports { opened: outside::open(&options.ports)? };
        let sockets = ports.opened.iter().map(|port| port.descriptors.len()).sum();
        match sockets > MAX_SOCKETS {
            true => Err(KeeperError::TooManySockets(sockets)),
            false => Ok(ports),
        }
    }

    /// The largest path MTU that all of them have room for.
    pub fn mtu(&self) -> Option<u32> {
        self.opened.iter().map(|port| port.mtu).min()
    }

    /// What each process sends by.
    pub fn take_sockets(&mut self) -> Vec<OwnedFd> {
        self.opened.iter_mut().flat_map(|port| std::mem::take(&mut port.descriptors)).collect()
    }

    /// What is to be noted of them in a new net.
    pub fn notes(&self) -> Notes {
        let note =
            |port: &Opened| (port.port, port.setting.clone(), port.gids.clone(), port.descriptors.len());
        Notes(self.opened.iter().map(note).collect())
    }

    /// The work of the thread that receives, if there is something to receive.
    pub fn receiver(self) -> Option<Beside> {
        let receivers: Vec<_> = self.opened.into_iter().map(|port| (port.port, port.receiver)).collect();
        (!receivers.is_empty())
            .then(|| Box::new(move |segment, stop| receive(segment, receivers, &stop)) as _)
    }
}

/// What the segment is to hold of the ports: the port, its medium's settings, its GIDs, the number of its sockets.
pub(super) struct Notes(Vec<(PortId, outside::Setting, Vec<Gid>, usize)>);

impl Notes {
    /// Writes them, before other processes join.
    pub fn write(&self, net: &Net) {
        let mut first = 0;
        for (port, setting, _, sockets) in &self.0 {
            net.link.outside().set(*port, setting, first..first + sockets);
            first += sockets;
        }
    }

    /// Makes the ports of the cards such ones.
    pub fn apply(&self, world: &mut World) {
        for (port, setting, gids, _) in &self.0 {
            world.connect_outside(*port, Outside { on: true.into(), window: setting.window }, gids);
        }
    }
}

/// Receives until `stop` is readable.
fn receive(segment: Arc<Segment>, mut ports: Vec<(PortId, Box<dyn Receiver>)>, stop: &OwnedFd) {
    let runner = Runner::new(Membership::new(segment));
    let mut arrivals = Arrivals::default();
    loop {
        let owners: Vec<usize> = (ports.iter().enumerate())
            .flat_map(|(index, (_, receiver))| receiver.descriptors().into_iter().map(move |_| index))
            .collect();
        let mut entries = vec![PollFd::new(stop, PollFlags::IN)];
        let entry = |(descriptor, flags)| PollFd::from_borrowed_fd(descriptor, flags);
        entries.extend(ports.iter().flat_map(|(_, receiver)| receiver.descriptors()).map(entry));
        let again = Timespec { tv_sec: 0, tv_nsec: AGAIN.subsec_nanos().into() };
        let wait = runner.has_pending().then_some(&again);
        // Interrupted at most.
        let _ = rustix::event::poll(&mut entries, wait);
        let fired: Vec<bool> = entries.iter().map(|entry| !entry.revents().is_empty()).collect();
        drop(entries);
        if fired[0] {
            return;
        }
        for index in owners.iter().zip(&fired[1..]).filter(|(_, &fired)| fired).map(|(&index, _)| index) {
            let (port, receiver) = &mut ports[index];
            guarded((), || take_turn(&runner, *port, &mut **receiver, &mut arrivals));
        }
        guarded((), || runner.run_pending());
    }
}

/// Brings what has come to a port to the cards.
fn take_turn(
    runner: &Runner<Arc<Segment>>,
    id: PortId,
    receiver: &mut dyn Receiver,
    arrivals: &mut Arrivals,
) {
    let Some(port) = runner.net().link.outside().port(id) else { return };
    for _ in 0..TURN {
        arrivals.clear();
        // An error is one of what came before, or of what is gone; the next poll tells.
        let more = receiver.receive(id, arrivals).unwrap_or(false);
        runner.arrive((id, port), arrivals);
        if !more {
            break;
        }
    }
}
