//! The cables of a card's ports: plugged in, or pulled while programs run.

use fpga_regs::EventKind;

use super::Device;
use crate::env::Env;
use crate::packet::PORTS;
use crate::plain::{plain, Flag};

/// The cable of a port. Zero is one that was never pulled.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Cable {
    /// Nothing goes through it.
    pulled: Flag,
    /// How often it was pulled or plugged in.
    changes: u16,
}

impl Device {
    /// Whether the cable of a port is pulled.
    pub(crate) fn is_pulled(&self, port: u8) -> bool {
        self.cables[usize::from(port) % PORTS].pulled.get()
    }

    /// Whether the link of a port is up at time `now` (ns), and how often it changed.
    pub fn link_at(&self, port: u8, now: u64) -> (bool, u16) {
        let Cable { pulled, changes } = self.cables[usize::from(port) % PORTS];
        let (up, flaps) = self.flaps_at(now);
        (up && !pulled.get(), changes.wrapping_add(flaps))
    }

    /// Pulls the cable of a port or plugs it in, and tells every function of it if that is a change.
    #[cold]
    pub fn plug(&mut self, port: u8, pulled: bool, env: &mut impl Env) {
        let cable = &mut self.cables[usize::from(port) % PORTS];
        if cable.pulled.get() == pulled {
            return;
        }
        *cable = Cable { pulled: pulled.into(), changes: cable.changes.wrapping_add(1) };
        self.port_event(port, if pulled { EventKind::PORT_ERR } else { EventKind::PORT_ACTIVE }, env);
    }
}

plain! {
    Cable { pulled, changes }
}
