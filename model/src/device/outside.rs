//! Ports whose medium is outside of the segment: where their queue pairs send, and how much.

use fpga_regs::{QpAttrMask, QpContext, QpState, WqeOpcode as Op};

use super::qp::{Gathered, Qp, Requester};
use super::requester::{PSN_WINDOW, TRAIN_BYTES};
use super::wqe::fetch_ctrl;
use super::Device;
use crate::address::{Gid, OUTSIDE_MAC};
use crate::env::Env;
use crate::gids::GidEntry;
use crate::link::outside::{Role, MAX_FRAMES};
use crate::packet::{PortId, PORTS};

impl Device {
    /// The Ethernet address of a port: others know it by that.
    pub fn mac(&self, port: u8) -> [u8; 6] {
        match &self.outside[usize::from(port) % PORTS] {
            outside if outside.on.get() => outside.mac,
            _ => PortId { card: self.id, port }.mac(),
        }
    }

    /// The port by which the card itself speaks for one of which software knows.
    pub(crate) fn speaks_by(&self, port: u8) -> u8 {
        if self.lag.is_on() {
            self.lag.member(0)
        } else {
            port
        }
    }

    /// What a port is on its link outside.
    pub(crate) fn role(&self, port: u8) -> Role {
        match self.lag.is_on() {
            false if self.has_link(port) => Role::Alone,
            false => Role::Down,
            true if self.lag.takes_part(port) => Role::Active,
            true => Role::Standby,
        }
    }

    /// Whether a port, from 1, has no whole frames: its medium carries RoCE alone.
    pub(super) fn lacks_frames(&self, port: u8) -> bool {
        let outside = self.outside[usize::from(port.wrapping_sub(1)) % PORTS];
        outside.on.get() && !outside.frames.get()
    }

    /// The Ethernet address that an own GID (`port`, from 1, and index) reaches a GID by. Outside of the segment any may be there:
    /// it is asked for before the first packet.
    pub(super) fn resolve(
        &self,
        (port, sgid_index): (u32, u64),
        gid: &Gid,
        env: &mut impl Env,
    ) -> Option<[u8; 6]> {
        let inside = self.gids.resolve(gid);
        let port = u8::try_from(port.wrapping_sub(1)).unwrap_or(u8::MAX);
        let has_frames = self.outside.get(usize::from(port)).is_some_and(|port| port.frames.get());
        if inside.is_none() && has_frames {
            let from = PortId { card: self.id, port };
            let own =
                u8::try_from(sgid_index).map_or(GidEntry::default(), |index| self.gids.entry(from, index));
            if !own.is_empty() {
                env.ask(PortId { port: self.speaks_by(port), ..from }, &own, gid);
            }
        }
        let outside = self.outside.iter().any(|port| port.on.get());
        inside.or(outside.then_some(OUTSIDE_MAC))
    }

    /// The port that the address vector of a command names. From one whose medium is outside, only itself is here.
    pub(super) fn destination(&self, q: usize, a: &QpContext, mask: QpAttrMask) -> PortId {
        let dest = PortId::from_mac(a.dmac());
        let own = match mask.contains(QpAttrMask::PORT) {
            true => PortId { card: self.id, port: a.port() - 1 },
            false => self.qps[q].port,
        };
        let outside = self.outside[usize::from(own.port) % PORTS].on.get();
        match outside && !(dest == own && self.gids.has(own, &a.dgid())) {
            true => PortId::NOBODY,
            false => dest,
        }
    }

    /// What a queue pair may have on its way, after a change of its attributes.
    pub(super) fn set_window(&mut self, q: usize) {
        let qp = &mut self.qps[q];
        let outside = self.outside[usize::from(qp.port.port) % PORTS];
        (qp.window, qp.train) = (PSN_WINDOW, TRAIN_BYTES);
        if outside.on.get() && qp.dest == PortId::NOBODY {
            // Half of it with each train, which asks for an acknowledgement.
            let window = (outside.window >> qp.mtu_log).clamp(4, PSN_WINDOW);
            qp.train = (window / 2) << qp.mtu_log;
            // Without acknowledgements nothing opens it again.
            if qp.is_reliable() {
                qp.window = window;
            }
        }
    }
}

/// Packets that leave by one call of the system at most. More need not wait for each other.
const TOGETHER: u32 = MAX_FRAMES as u32;

impl Device {
    /// Whether what was posted to a queue pair waits for more to leave with: its peer is outside, where each call of the
    /// system costs much, an acknowledgement is due, with which it is sent at the latest, and it is little so far.
    pub fn gathers(&mut self, q: usize, env: &mut impl Env) -> bool {
        let qp = &self.qps[q];
        let Requester { cur, una, psn, cur_offset, again, rnr_wait, pending_status, mut gathered, .. } =
            qp.req;
        let goes_on = qp.used.get() && qp.state == QpState::RTS && qp.is_reliable();
        let stopped = cur_offset != 0 || again.get() || rnr_wait.get() || pending_status != 0;
        if qp.window == PSN_WINDOW || !goes_on || stopped || una == psn {
            return false;
        }
        let producer = env.bells(self.id).sq_producer(q);
        let posted = producer.wrapping_sub(cur);
        // What was counted has been sent.
        if !(1..=posted).contains(&gathered.end.wrapping_sub(cur)) {
            gathered = Gathered { end: cur, packets: 0 };
        }
        while gathered.end != producer && gathered.packets < TOGETHER {
            let Ok(ctrl) = fetch_ctrl(qp, gathered.end, env) else { return false };
            let plain =
                matches!(ctrl.opcode(), Op::SEND | Op::SEND_WITH_IMM | Op::WRITE | Op::WRITE_WITH_IMM);
            let blocks = Self::wqe_blocks(&ctrl);
            if !plain || blocks > producer.wrapping_sub(gathered.end) {
                return false;
            }
            gathered.end = gathered.end.wrapping_add(blocks);
            gathered.packets += qp.packets(ctrl.length());
        }
        self.qps[q].req.gathered = gathered;
        gathered.packets < TOGETHER
    }
}

impl Qp {
    /// Bytes that the next request of a READ asks for, from byte `offset` of it. The answer leaves at once, so from outside
    /// no more is asked for than there is room for. The parts have the same ends when they are asked for again: an answer
    /// cannot be repeated for more than it was (IB spec 9.7.5.1.1).
    pub(super) fn read_part(&self, offset: u32, length: u32) -> u32 {
        if self.window == PSN_WINDOW {
            return length - offset;
        }
        (length - offset).min(self.train - offset % self.train)
    }

    /// Whether a request of a READ that goes on ends before a byte of it.
    pub(super) fn ends_part(&self, offset: u32) -> bool {
        self.window != PSN_WINDOW && offset % self.train.max(1) == 0
    }
}
