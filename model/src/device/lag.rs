//! Link aggregation: the two ports of a card are one, whose addresses are those of the first.
//!
//! A queue pair keeps its port, the first; what it sends *leaves by* a member, and what it is sent *arrives by* one. A queue
//! pair has one of two turns, and a map from turns to members that are active follows the links, as `v2p` does in mlx5.

use fpga_regs::{AdminStatus, CardLimits, LagContext, LagMode, LagSelect, QpState, QpType, Syndrome};

use super::command_error::{refuse_if, Refused, IN_USE};
use super::Device;
use crate::env::Env;
use crate::lacp::pdu::{self, Slow};
use crate::lacp::Lacp;
use crate::link::outside::Role;
use crate::link::route::source_port;
use crate::packet::{Packet, Payload, PortId, PORTS};
use crate::plain::{Flag, Plain};
use crate::wire::{Operation, Transport};

/// How the ports of a card are one. Zero: they are two.
#[derive(Clone, Copy, Debug, Default, Plain)]
#[repr(C)]
pub struct Lag {
    pub(super) mode: u8,
    select: u8,
    rate: u8,
    /// The turn of the next queue pair.
    next: u8,
    /// By port: it may have a part of the traffic.
    active: [Flag; PORTS],
    lacp: Lacp,
}

impl Lag {
    /// The ports are one.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.mode != LagMode::OFF.0
    }

    /// They are one as far as LACP says so.
    pub fn speaks_lacp(&self) -> bool {
        self.mode == LagMode::LACP.0
    }

    /// Whether a member may have a part of the traffic.
    fn is_active(&self, port: u8) -> bool {
        self.active[usize::from(port) % PORTS].get()
    }

    /// Whether a port has traffic: of a backup only the member whose turn it is. A port that is not one with another has its own.
    pub(crate) fn takes_part(&self, port: u8) -> bool {
        !self.is_on() || self.is_active(port) && self.member(port) == port
    }

    /// Whether one of them has.
    pub fn is_up(&self) -> bool {
        self.active.iter().any(|active| active.get())
    }

    /// The member that has the traffic of a turn.
    pub fn member(&self, turn: u8) -> u8 {
        let wanted = if self.mode == LagMode::ACTIVE_BACKUP.0 { 0 } else { turn % PORTS as u8 };
        let other = 1 - wanted;
        match !self.is_active(wanted) && self.is_active(other) {
            true => other,
            false => wanted,
        }
    }

    fn hashes(&self) -> bool {
        self.is_on() && self.select == LagSelect::HASH.0
    }
}

/// The flow of datagrams from queue pair to queue pair.
pub(super) fn datagram(src_qpn: u32, dest_qpn: u32) -> u64 {
    source_port(src_qpn, dest_qpn).into()
}

/// One of two turns, by a number that says which flow it is.
fn turn_of(flow: u64) -> u8 {
    (flow.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63) as u8
}

impl Device {
    /// SET_LAG. Programs that have queue pairs would find their ports to be others.
    pub(super) fn set_lag<E: Env>(&mut self, to: &LagContext, env: &mut E) -> Result<(), Refused> {
        let known = matches!(to.mode(), LagMode::OFF | LagMode::ACTIVE_BACKUP | LagMode::XOR | LagMode::LACP);
        if !known || to.select().0 > LagSelect::HASH.0 || to.rate().0 > fpga_regs::LacpRate::SLOW.0 {
            return Err((AdminStatus::BAD_PARAM, Syndrome::ATTR_RANGE));
        }
        if to.mode() == LagMode::LACP && !E::NEGOTIATES {
            return Err((AdminStatus::NOT_SUPPORTED, Syndrome::ATTR_RANGE));
        }
        let [first, second] = self.outside.map(|port| port.on.get());
        refuse_if(first != second, (AdminStatus::NOT_SUPPORTED, Syndrome::NO_ROUTE))?;
        if (1..=PORTS as u8).any(|port| self.lacks_frames(port)) {
            return Err((AdminStatus::NOT_SUPPORTED, Syndrome::BAD_PORT));
        }
        refuse_if(self.qps[self.tables.qp.range()].iter().any(|qp| qp.used.get()), IN_USE)?;
        self.with_links(env, |card, env| {
            let (system, now) = (card.mac(0), env.now());
            card.lag = Lag { mode: to.mode().0, select: to.select().0, rate: to.rate().0, ..Lag::default() };
            let links = [0, 1].map(|port| card.has_link(port));
            card.lag.lacp.begin(system, to.rate(), links, now);
        });
        Ok(())
    }

    /// QUERY_LAG, of a port.
    pub(super) fn query_lag(&self, port: u32) -> Result<LagContext, Refused> {
        let number = match port {
            1 | 2 => port as u8 - 1,
            _ => return Err((AdminStatus::BAD_PARAM, Syndrome::BAD_PORT)),
        };
        let context = LagContext::new()
            .with_mode(LagMode(self.lag.mode))
            .with_select(LagSelect(self.lag.select))
            .with_rate(fpga_regs::LacpRate(self.lag.rate))
            .with_link_up(self.has_link(number))
            .with_active(self.role(number) == Role::Active)
            .with_qps(self.leaving_by(number));
        if !self.lag.speaks_lacp() {
            return Ok(context);
        }
        let lacp = self.lag.lacp.port(number.into());
        Ok(context
            .with_lacp_received(lacp.received)
            .with_lacp_sent(lacp.sent)
            .with_actor_state(fpga_regs::LacpState(lacp.actor.state))
            .with_partner_state(fpga_regs::LacpState(lacp.partner.state))
            .with_partner_port(lacp.partner.port)
            .with_partner_key(lacp.partner.key)
            .with_partner_priority(lacp.partner.priority)
            .with_partner(lacp.partner.system)
            .with_aggregator(lacp.aggregator() + 1))
    }

    /// Queue pairs that send by a port.
    fn leaving_by(&self, port: u8) -> u32 {
        let qps = self.qps[self.tables.qp.range()].iter();
        let sending = qps.filter(|qp| qp.used.get() && qp.qp_type != QpType::WQ && qp.receives());
        sending.filter(|qp| qp.leaves == port).count() as u32
    }

    /// Does something that may change links, tells programs of what they see of that, and lets queue pairs follow.
    #[cold]
    pub(crate) fn with_links<E: Env>(&mut self, env: &mut E, change: impl FnOnce(&mut Self, &mut E)) {
        let shown = |card: &Self| [0, 1].map(|port| card.shows_link(port));
        let before = shown(self);
        // First: whoever is killed in between leaves links that others follow.
        self.links_changed = true.into();
        env.links_changed();
        change(self, env);
        self.run_lacp(env);
        let active = [0, 1].map(|port| {
            let speaks = !self.lag.speaks_lacp() || self.lag.lacp.uses(port.into());
            self.lag.is_on() && self.has_link(port) && speaks
        });
        self.lag.active = active.map(Flag::from);
        for q in self.tables.qp.range() {
            self.leave_by_turn(q);
            if self.lag.is_on() {
                self.arrive_by(q, self.lag.member(self.qps[q].arrives));
            }
        }
        for (port, (before, after)) in before.into_iter().zip(shown(self)).enumerate() {
            if before != after {
                self.link_changed(port as u8, after, env);
            }
        }
    }

    /// Time goes on.
    #[cold]
    pub fn lacp_goes_on(&mut self, env: &mut impl Env) {
        if self.lag.speaks_lacp() {
            self.follow_lacp(env, |_, _| {});
        }
    }

    /// Tells LACP of something, now, and lets queue pairs follow what it makes of that.
    fn follow_lacp(&mut self, env: &mut impl Env, tell: impl FnOnce(&mut Lacp, u64)) {
        let used = |card: &Self| [0, 1].map(|port| card.lag.lacp.uses(port));
        let before = used(self);
        tell(&mut self.lag.lacp, env.now());
        self.run_lacp(env);
        if used(self) != before {
            self.with_links(env, |_, _| {});
        }
    }

    /// Runs LACP, and sends what it has to say.
    fn run_lacp(&mut self, env: &mut impl Env) {
        if !self.lag.speaks_lacp() {
            self.lacp_due = 0;
            return;
        }
        let now = env.now();
        self.lag.lacp.run(now);
        for port in 0..PORTS as u8 {
            if let Some((actor, partner)) = self.lag.lacp.take(port.into(), now) {
                let from = PortId { card: self.id, port };
                self.send_slow(from, &pdu::frame(self.mac(port), &actor, &partner), env);
            }
        }
        self.lacp_due = self.lag.lacp.run(now).unwrap_or(0);
        if self.lacp_due != 0 {
            env.timer(self.lacp_due);
        }
    }

    /// A frame of slow protocols leaves; [`World::far_end`](crate::world::World::far_end) takes it.
    fn send_slow(&mut self, from: PortId, frame: &[u8], env: &mut impl Env) {
        let payload = env.stash(frame);
        let packet = Packet {
            transport: Transport::RD,
            operation: Operation::Send,
            src: from,
            src_qpn: NO_QP,
            payload,
            ..Packet::BLANK
        };
        *env.send() = packet;
        self.count_left(from.port, 1, frame.len() as u64);
    }

    /// A frame of slow protocols has come to a member of a card that speaks LACP.
    #[cold]
    pub(crate) fn take_slow(&mut self, port: u8, frame: &[u8], env: &mut impl Env) {
        self.count_came(port, 1, frame.len() as u64);
        match Slow::read(frame) {
            Some(Slow::Lacp { actor, partner }) => {
                self.follow_lacp(env, |lacp, now| {
                    lacp.receive(port.into(), &actor, &partner, now);
                });
            }
            Some(Slow::Marker) => {
                let from = PortId { card: self.id, port };
                if let Some(answer) = pdu::marker_answer(self.mac(port), frame) {
                    self.send_slow(from, &answer, env);
                }
            }
            None => self.count(port, fpga_regs::regs::port::RX_MALFORMED),
        }
    }

    /// The link of a cable has changed, for LACP.
    pub(super) fn lacp_link(&mut self, port: u8, up: bool, now: u64) {
        if self.lag.speaks_lacp() {
            self.lag.lacp.link(port.into(), up, now);
        }
    }

    /// A queue pair reaches RTR: it gets its turn, if it sends.
    pub(super) fn take_turn(&mut self, q: usize) {
        let qp = &self.qps[q];
        if !self.lag.is_on() || qp.qp_type == QpType::WQ {
            return;
        }
        let sport = match qp.attributes.udp_sport() {
            0 => source_port(qp.qpn, qp.dest_qpn),
            given => given,
        };
        self.qps[q].turn = match self.lag.hashes() {
            true => turn_of(sport.into()),
            false => {
                self.lag.next = self.lag.next.wrapping_add(1);
                self.lag.next.wrapping_sub(1) % PORTS as u8
            }
        };
        self.leave_by_turn(q);
    }

    /// With a hash, the member of what a queue pair sends next, which is of this flow.
    pub(crate) fn turn_by(&mut self, q: usize, flow: impl FnOnce() -> u64) {
        if self.lag.hashes() {
            self.qps[q].turn = turn_of(flow());
            self.leave_by_turn(q);
        }
    }

    fn leave_by_turn(&mut self, q: usize) {
        let qp = &self.qps[q];
        let by = match self.lag.is_on() && qp.state != QpState::RESET {
            true => self.lag.member(qp.turn),
            false => qp.port.port,
        };
        if qp.leaves != by {
            self.keep_counters(q);
            self.qps[q].leaves = by;
        }
    }

    /// What is sent to a queue pair arrives by this port from now on.
    pub(crate) fn arrive_by(&mut self, q: usize, port: u8) {
        if self.qps[q].arrives != port {
            self.keep_counters(q);
            self.qps[q].arrives = port;
        }
    }

    /// The port by which a packet leaves. A datagram may be of another flow than those before it.
    pub(crate) fn leaves(&self, p: &Packet) -> u8 {
        match self.find_qp(p.src_qpn) {
            Some(_) if p.transport == Transport::UD && self.lag.hashes() => {
                self.lag.member(turn_of(datagram(p.src_qpn, p.dest_qpn)))
            }
            Some(q) => self.qps[q].leaves,
            None => self.lag.member(0),
        }
    }

    /// The same, whether its ports are one or not.
    pub(crate) fn leaves_by(&self, p: &Packet) -> u8 {
        if self.lag.is_on() {
            self.leaves(p)
        } else {
            p.src.port
        }
    }

    /// What the card offers: where its ports are one, it has one.
    pub(super) fn limits(&self) -> CardLimits {
        match self.lag.is_on() {
            true => self.limits.with_ports(1),
            false => self.limits,
        }
    }

    /// The port of which software knows that a frame came to a port.
    pub(crate) fn known_port(&self, port: u8) -> u8 {
        if self.lag.is_on() {
            0
        } else {
            port
        }
    }
}

/// The number of no queue pair: what sends it is the card.
const NO_QP: u32 = 0;

/// The bytes of a packet that is a frame of the card itself.
pub(crate) fn frame_bytes(payload: &Payload, env: &mut impl Env) -> Option<[u8; pdu::BYTES]> {
    let mut bytes = [0; pdu::BYTES];
    (payload.len() == bytes.len() && env.payload(payload, &mut bytes).is_ok()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The map of mlx5: one to one, and all to the one that is left.
    #[test]
    fn turns_go_to_members_that_are_active() {
        let lag = |mode: LagMode, active: [bool; 2]| Lag {
            mode: mode.0,
            active: active.map(Flag::from),
            ..Lag::default()
        };
        let members = |mode, active| {
            let lag = lag(mode, active);
            (lag.is_up(), [lag.member(0), lag.member(1)])
        };
        let take_part = |mode, active| [0, 1].map(|port| lag(mode, active).takes_part(port));
        for mode in [LagMode::XOR, LagMode::LACP] {
            assert_eq!(members(mode, [true, true]), (true, [0, 1]));
            assert_eq!(members(mode, [true, false]), (true, [0, 0]));
            assert_eq!(members(mode, [false, true]), (true, [1, 1]));
            assert_eq!(members(mode, [false, false]), (false, [0, 1]));
            assert_eq!(take_part(mode, [true, true]), [true, true]);
            assert_eq!(take_part(mode, [true, false]), [true, false]);
        }
        let backup = LagMode::ACTIVE_BACKUP;
        assert_eq!(members(backup, [true, true]), (true, [0, 0]));
        assert_eq!(members(backup, [false, true]), (true, [1, 1]));
        assert_eq!(take_part(backup, [true, true]), [true, false]);
        assert_eq!(take_part(backup, [false, true]), [false, true]);
        assert_eq!(take_part(backup, [false, false]), [false, false]);
    }

    #[test]
    fn flows_are_spread() {
        let turns = (0..1000).filter(|n| turn_of(source_port(0x11_0000 + n, 0x22_0000 + n).into()) == 1);
        assert!((400..600).contains(&turns.count()));
    }
}
