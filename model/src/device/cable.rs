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
    /// How often software saw its link change.
    changes: u16,
}

impl Device {
    /// Whether the cable of a port is pulled.
    pub(crate) fn is_pulled(&self, port: u8) -> bool {
        self.cables[usize::from(port) % PORTS].pulled.get()
    }

    /// Whether the link of a port is up at time `now` (ns), which only a link that flaps asks for.
    #[inline]
    pub fn link_at(&self, port: u8, now: impl FnOnce() -> u64) -> bool {
        !self.is_pulled(port) && (!self.flaps() || self.flaps_at(now()).0)
    }

    /// How the link of a port is to software, by its cable; where ports are one, the first is that one.
    pub(crate) fn shows_link(&self, port: u8) -> bool {
        match self.lag.is_on() && port == 0 {
            true => self.lag.is_up(),
            false => !self.is_pulled(port),
        }
    }

    /// The same at time `now` (ns), and how often it changed.
    pub(crate) fn shown_link(&self, port: u8, now: u64) -> (bool, u16) {
        let (up, flaps) = self.flaps_at(now);
        let changes = self.cables[usize::from(port) % PORTS].changes;
        (up && self.shows_link(port), changes.wrapping_add(flaps))
    }

    /// The link of a port is another one to software: every function is told.
    pub(super) fn link_changed(&mut self, port: u8, up: bool, env: &mut impl Env) {
        let changes = &mut self.cables[usize::from(port) % PORTS].changes;
        *changes = changes.wrapping_add(1);
        self.port_event(port, if up { EventKind::PORT_ACTIVE } else { EventKind::PORT_ERR }, env);
    }

    /// Pulls the cable of a port or plugs it in, if that is a change.
    #[cold]
    pub fn plug(&mut self, port: u8, pulled: bool, env: &mut impl Env) {
        if self.is_pulled(port) == pulled {
            return;
        }
        self.with_links(env, |card, env| {
            card.cables[usize::from(port) % PORTS].pulled = pulled.into();
            card.lacp_link(port, !pulled, env.now());
        });
    }
}

plain! {
    Cable { pulled, changes }
}
