//! A program that polls in vain receives what has come to its card from outside itself: it need not wait for the keeper to have
//! a core, nor share its own with it. Only a program that has the card alone does: queue pairs of others may be left to
//! be run later, and who polls now may not then.
#![allow(unsafe_code)]

use std::sync::{Mutex, TryLockError};

use super::arrivals::Stuck;
use super::runner::Runner;
use crate::attach::function::Function;
use crate::device::Device;
use crate::link::outside::{Arrivals, Reader};
use crate::packet::{PortId, PORTS};
use crate::segment::now_ns;

/// Reads of a port in a row: completions may have come meanwhile.
const TURN: u32 = 16;

/// The ports of a card at which a program can receive.
pub(super) struct Poller {
    ports: Vec<Port>,
    /// What one thread at a time needs.
    inner: Mutex<Inner>,
}

struct Port {
    id: PortId,
    /// The place of its socket among those of the net.
    socket: usize,
}

struct Inner {
    /// By port.
    readers: Vec<Reader>,
    arrivals: Arrivals,
    stuck: Stuck,
}

impl Poller {
    /// `None`: there are none.
    pub fn new(runner: &Runner, card: u16) -> Option<Poller> {
        let port = |port: usize| {
            let id = PortId { card, port: port as u8 };
            let socket = runner.net().link.outside().port(id)?.receiver()?;
            Some((Port { id, socket }, Reader::of(runner.segment().socket(socket)?).ok()?))
        };
        let (ports, readers): (Vec<_>, Vec<_>) = (0..PORTS).filter_map(port).unzip();
        if ports.is_empty() {
            return None;
        }
        let inner = Inner { readers, arrivals: Arrivals::default(), stuck: Stuck::default() };
        Some(Poller { ports, inner: Mutex::new(inner) })
    }

    /// The program is about to sleep: the keeper receives.
    pub fn end(&self, runner: &Runner) {
        let areas = self.ports.iter().filter_map(|port| runner.net().link.outside().port(port.id));
        areas.for_each(|area| area.reading().end_polling());
    }

    /// Receives, unless another thread, program or the keeper does. Whether something has come.
    #[cold]
    pub fn receive(&self, runner: &Runner, function: &Function) -> bool {
        let mut inner = match self.inner.try_lock() {
            Ok(inner) => inner,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        // SAFETY: a card of this net.
        if !unsafe { Device::is_alone(runner.net().card(function.card), function.index) } {
            return false;
        }
        let mut came = false;
        let Inner { readers, arrivals, stuck } = &mut *inner;
        for (&Port { id, socket }, reader) in self.ports.iter().zip(readers) {
            let Some(area) = runner.net().link.outside().port(id) else { continue };
            let Some(socket) = runner.segment().socket(socket) else { continue };
            let Some(_turn) = area.reading().begin_polling(now_ns()) else { continue };
            for _ in 0..TURN {
                arrivals.clear(runner.net().link.sees_outside(id));
                // An error is one of what came before.
                let more = reader.receive(socket, id, arrivals);
                runner.arrive((id, area), arrivals, stuck, &mut || ());
                if !more.unwrap_or(true) {
                    break;
                }
                came = true;
            }
        }
        came
    }
}
