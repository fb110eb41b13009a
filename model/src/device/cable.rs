//! The links of a card's ports: whether their cables are plugged in, both ends are enabled, and what they lead to outside has a
//! link.

use fpga_regs::EventKind;

use super::Device;
use crate::env::Env;
use crate::packet::PORTS;
use crate::plain::{Flag, Plain};

/// The cable of a port and what is at its ends. Zero is one that was never pulled, between ports that are enabled.
#[derive(Clone, Copy, Debug, Default, Plain)]
#[repr(C)]
pub(super) struct Cable {
    /// Nothing goes through it.
    pulled: Flag,
    /// Software has disabled the port.
    disabled: Flag,
    /// Software has disabled the port at the other end.
    no_signal: Flag,
    /// How often software saw its link change.
    changes: u16,
}

impl Device {
    /// Whether a port has a link: its cable is plugged in, both ends are enabled, and what it leads to outside has one.
    pub(crate) fn has_link(&self, port: u8) -> bool {
        let port = usize::from(port) % PORTS;
        let Cable { pulled, disabled, no_signal, .. } = self.cables[port];
        ![pulled, disabled, no_signal, self.outside[port].no_link].into_iter().any(Flag::get)
    }

    /// Whether software has disabled a port.
    pub(crate) fn is_disabled(&self, port: u8) -> bool {
        self.cables[usize::from(port) % PORTS].disabled.get()
    }

    /// Whether the link of a port is up at time `now` (ns), which only a link that flaps asks for.
    #[inline]
    pub fn link_at(&self, port: u8, now: impl FnOnce() -> u64) -> bool {
        self.has_link(port) && (!self.flaps() || self.flaps_at(now()).0)
    }

    /// How the link of a port is to software, by its cable; where ports are one, the first is that one.
    pub(crate) fn shows_link(&self, port: u8) -> bool {
        match self.lag.is_on() && port == 0 {
            true => self.lag.is_up(),
            false => self.has_link(port),
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

    /// Pulls the cable of a port or plugs it in.
    pub fn plug(&mut self, port: u8, pulled: bool, env: &mut impl Env) {
        self.change_link(port, env, |card, port| card.cables[port].pulled = pulled.into());
    }

    /// Disables a port or enables it again; where ports are one, all of them.
    pub(crate) fn enable(&mut self, port: u8, enabled: bool, env: &mut impl Env) {
        for member in 0..PORTS as u8 {
            if member == port || self.lag.is_on() {
                self.change_link(member, env, |card, port| card.cables[port].disabled = (!enabled).into());
            }
        }
    }

    /// The port at the other end of a cable is disabled, or is not any more.
    pub(crate) fn set_no_signal(&mut self, port: u8, no_signal: bool, env: &mut impl Env) {
        if self.cables[usize::from(port) % PORTS].no_signal.get() != no_signal {
            self.change_link(port, env, |card, port| card.cables[port].no_signal = no_signal.into());
        }
    }

    /// The medium outside to which a port leads has a link, or has none any more.
    pub fn set_no_link(&mut self, port: u8, no_link: bool, env: &mut impl Env) {
        self.change_link(port, env, |card, port| card.outside[port].no_link = no_link.into());
    }

    #[cold]
    fn change_link(&mut self, port: u8, env: &mut impl Env, change: impl FnOnce(&mut Self, usize)) {
        let before = self.has_link(port);
        self.with_links(env, |card, env| {
            change(card, usize::from(port) % PORTS);
            let link = card.has_link(port);
            if link != before {
                card.lacp_link(port, link, env.now());
            }
        });
    }
}
