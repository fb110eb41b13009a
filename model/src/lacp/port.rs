//! The machines of a port: receive (figure 6-18), periodic transmission (6-19), mux (6-22), and what limits the LACPDUs that
//! it sends (6.4.16).

use fpga_regs::{LacpRate, LacpState};

use super::pdu::Info;
use super::says;
use crate::plain::{Flag, Plain};

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// Between two LACPDUs, if the partner asks for many, and if it does not (Fast_Periodic_Time, Slow_Periodic_Time).
const FAST: u64 = SECOND;
const SLOW: u64 = 30 * SECOND;
/// Silences after which a partner is gone (Short_Timeout_Time, Long_Timeout_Time).
const SHORT: u64 = 3 * SECOND;
const LONG: u64 = 90 * SECOND;
/// How long a port waits for others to be attached with (Aggregate_Wait_Time).
const WAIT: u64 = 2 * SECOND;
/// LACPDUs that may be sent within [`FAST`].
const MOST: u8 = 3;

/// Priorities of system and port, and the key of both ports, as other systems have them.
const PRIORITY: u16 = 0xffff;
const PORT_PRIORITY: u16 = 0xff;
const KEY: u16 = 1;

/// Of the partner's state, what it has to know rightly of this port (update_NTT).
const KNOWN: u8 =
    LacpState::ACTIVITY.0 | LacpState::TIMEOUT.0 | LacpState::SYNCHRONIZATION.0 | LacpState::AGGREGATION.0;

/// States of the receive machine.
mod receive {
    pub const PORT_DISABLED: u8 = 0;
    pub const EXPIRED: u8 = 1;
    pub const DEFAULTED: u8 = 2;
    pub const CURRENT: u8 = 3;
}

/// States of the mux machine.
mod mux {
    pub const DETACHED: u8 = 0;
    pub const WAITING: u8 = 1;
    pub const ATTACHED: u8 = 2;
    pub const COLLECTING_DISTRIBUTING: u8 = 3;
}

/// A port. Times are in nanoseconds; 0 is a timer that does not run.
#[derive(Clone, Copy, Debug, Default, Plain)]
#[repr(C)]
pub struct Port {
    /// LACPDUs received.
    pub received: u64,
    /// LACPDUs sent.
    pub sent: u64,
    current_while: u64,
    wait_while: u64,
    periodic: u64,
    /// Since when LACPDUs are counted for [`MOST`], and how many there were.
    counted_since: u64,
    counted: u8,
    receive: u8,
    mux: u8,
    /// Its aggregation, from 0, if it is `selected`.
    pub(super) aggregator: u8,
    selected: Flag,
    /// There is something to say (NTT).
    need: Flag,
    /// What it says of itself.
    pub actor: Info,
    /// What it knows of the other end.
    pub partner: Info,
}

impl Port {
    pub(super) fn begin(&mut self, system: [u8; 6], n: u8, rate: LacpRate) {
        let fast = if rate == LacpRate::FAST { LacpState::TIMEOUT.0 } else { 0 };
        let actor = Info {
            priority: PRIORITY,
            system,
            key: KEY,
            port_priority: PORT_PRIORITY,
            port: u16::from(n) + 1,
            state: LacpState::ACTIVITY.0 | LacpState::AGGREGATION.0 | fast,
        };
        *self = Port { actor, aggregator: n, ..Port::default() };
        self.record_default();
    }

    /// A partner that does not speak: the port is not one of several (recordDefault).
    fn record_default(&mut self) {
        self.partner = Info { state: LacpState::SYNCHRONIZATION.0, ..Info::default() };
        self.set(LacpState::DEFAULTED, true);
    }

    fn set(&mut self, state: LacpState, to: bool) {
        match to {
            true => self.actor.state |= state.0,
            false => self.actor.state &= !state.0,
        }
    }

    pub(super) fn link(&mut self, up: bool, now: u64) {
        match (up, self.is_enabled()) {
            (true, false) => {
                self.expire(now);
                self.periodic = now + FAST;
                // So that a cable that is plugged in again has its traffic soon.
                self.need = true.into();
            }
            (false, true) => {
                self.receive = receive::PORT_DISABLED;
                self.partner.state &= !LacpState::SYNCHRONIZATION.0;
                (self.current_while, self.periodic) = (0, 0);
            }
            _ => {}
        }
    }

    /// EXPIRED: the partner is asked to speak soon.
    fn expire(&mut self, now: u64) {
        self.receive = receive::EXPIRED;
        self.partner.state &= !LacpState::SYNCHRONIZATION.0;
        self.partner.state |= LacpState::TIMEOUT.0;
        self.current_while = now + SHORT;
        self.set(LacpState::EXPIRED, true);
    }

    /// CURRENT.
    pub(super) fn receive(&mut self, actor: &Info, partner: &Info, now: u64) -> bool {
        if !self.is_enabled() || (actor.priority, actor.system) == (PRIORITY, self.actor.system) {
            return false;
        }
        self.received += 1;
        let aggregates = |info: &Info| says(info, LacpState::AGGREGATION);
        // update_Selected
        if actor.who() != self.partner.who() || aggregates(actor) != aggregates(&self.partner) {
            self.selected = false.into();
        }
        // update_NTT
        let knows_me = partner.who() == self.actor.who();
        if !knows_me || (partner.state ^ self.actor.state) & KNOWN != 0 {
            self.need = true.into();
        }
        // recordPDU
        let matches = !aggregates(actor) || knows_me && aggregates(partner) == aggregates(&self.actor);
        let speaks = says(actor, LacpState::ACTIVITY) || says(partner, LacpState::ACTIVITY);
        self.partner = *actor;
        if !(matches && speaks) {
            self.partner.state &= !LacpState::SYNCHRONIZATION.0;
        }
        self.receive = receive::CURRENT;
        self.set(LacpState::DEFAULTED, false);
        self.set(LacpState::EXPIRED, false);
        let short = says(&self.actor, LacpState::TIMEOUT);
        self.current_while = now + if short { SHORT } else { LONG };
        true
    }

    /// One step of each machine. Whether something has changed.
    pub(super) fn step(&mut self, ready: bool, now: u64) -> bool {
        let before = (self.receive, self.mux, self.selected.get(), self.wait_while, self.periodic);
        self.step_receive(now);
        self.step_periodic(now);
        self.step_mux(ready, now);
        before != (self.receive, self.mux, self.selected.get(), self.wait_while, self.periodic)
    }

    fn step_receive(&mut self, now: u64) {
        if self.current_while == 0 || now < self.current_while {
            return;
        }
        match self.receive {
            receive::CURRENT => self.expire(now),
            receive::EXPIRED => {
                self.receive = receive::DEFAULTED;
                self.current_while = 0;
                // update_Default_Selected
                if self.partner.who() != Info::default() || says(&self.partner, LacpState::AGGREGATION) {
                    self.selected = false.into();
                }
                self.record_default();
                self.set(LacpState::EXPIRED, false);
            }
            _ => self.current_while = 0,
        }
    }

    /// The port is active: it speaks in any case, as often as its partner asks for.
    fn step_periodic(&mut self, now: u64) {
        if self.periodic == 0 {
            return;
        }
        let fast = says(&self.partner, LacpState::TIMEOUT);
        let sooner = fast && self.periodic > now + FAST;
        if now >= self.periodic || sooner {
            self.need = true.into();
            self.periodic = now + if fast { FAST } else { SLOW };
        }
    }

    fn step_mux(&mut self, ready: bool, now: u64) {
        let partner_is_in = says(&self.partner, LacpState::SYNCHRONIZATION);
        let to = match self.mux {
            mux::DETACHED if self.selected.get() => mux::WAITING,
            mux::DETACHED => return,
            mux::WAITING if self.selected.get() && ready => mux::ATTACHED,
            mux::WAITING if self.selected.get() => return,
            mux::ATTACHED if self.selected.get() && partner_is_in => mux::COLLECTING_DISTRIBUTING,
            mux::ATTACHED if self.selected.get() => return,
            mux::COLLECTING_DISTRIBUTING if self.selected.get() && partner_is_in => return,
            mux::COLLECTING_DISTRIBUTING => mux::ATTACHED,
            _ => mux::DETACHED,
        };
        self.wait_while = if to == mux::WAITING { now + WAIT } else { 0 };
        self.mux = to;
        self.set(LacpState::SYNCHRONIZATION, to >= mux::ATTACHED);
        self.set(LacpState::COLLECTING, to == mux::COLLECTING_DISTRIBUTING);
        self.set(LacpState::DISTRIBUTING, to == mux::COLLECTING_DISTRIBUTING);
        if to != mux::WAITING {
            self.need = true.into();
        }
    }

    /// When it goes on by itself (ns).
    pub(super) fn next(&self, now: u64) -> Option<u64> {
        let timers = [self.current_while, self.wait_while, self.periodic].into_iter();
        // A time that is over waits for something else.
        let due = timers.filter(|&at| at > now);
        due.chain((self.is_enabled() && self.need.get()).then(|| self.may_send_at(now))).min()
    }

    fn may_send_at(&self, now: u64) -> u64 {
        let over = self.counted_since + FAST;
        match self.counted < MOST || now >= over {
            true => now,
            false => over,
        }
    }

    pub(super) fn take(&mut self, now: u64) -> Option<(Info, Info)> {
        if !self.is_enabled() || !self.need.get() || self.may_send_at(now) > now {
            return None;
        }
        if now >= self.counted_since + FAST {
            (self.counted_since, self.counted) = (now, 0);
        }
        self.counted += 1;
        self.need = false.into();
        self.sent += 1;
        Some((self.actor, self.partner))
    }

    fn is_enabled(&self) -> bool {
        self.receive != receive::PORT_DISABLED
    }

    pub(super) fn is_selected(&self) -> bool {
        self.selected.get()
    }

    /// Whether it may go to an aggregation: it has left the one before.
    pub(super) fn may_select(&self) -> bool {
        self.is_enabled() && !self.selected.get() && self.mux == mux::DETACHED
    }

    /// Its aggregation, from 0.
    pub fn aggregator(&self) -> u8 {
        self.aggregator
    }

    pub(super) fn selects(&mut self, aggregator: u8) {
        (self.aggregator, self.selected) = (aggregator, true.into());
    }

    /// It cannot be one of several.
    pub(super) fn is_individual(&self) -> bool {
        !says(&self.partner, LacpState::AGGREGATION)
    }

    /// It waits for others to be attached with.
    pub(super) fn waits(&self, now: u64) -> bool {
        self.mux == mux::WAITING && now < self.wait_while
    }

    /// It has traffic, if its aggregation has.
    pub(super) fn distributes(&self) -> bool {
        self.is_enabled() && self.mux == mux::COLLECTING_DISTRIBUTING
    }
}
