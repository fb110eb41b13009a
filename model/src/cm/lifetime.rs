//! What happens without a message: time-outs, the end of a channel or a process, and repair.

use libc::ETIMEDOUT;

use super::ids::{event, PACKET_LIFETIME, SILENT};
use super::tables::*;
use crate::env::Env;

impl Cm {
    /// The earliest deadline (ns).
    pub fn next_deadline(&self) -> Option<u64> {
        self.deadline[self.slots.ids.range()].iter().copied().filter(|&at| at != 0).min()
    }
}

impl<E: Env> Manager<'_, E> {
    /// Does what is due; returns when to look again (ns).
    pub fn run_timers(&mut self) -> Option<u64> {
        let now = self.env.now();
        if self.cm.next_deadline().is_some_and(|at| at <= now) {
            for slot in self.cm.slots.ids.range() {
                if self.cm.deadline[slot] != 0 && self.cm.deadline[slot] <= now {
                    self.cm.deadline[slot] = 0;
                    self.due(slot as u16);
                }
            }
        }
        let next = self.cm.next_deadline();
        self.cm.soonest = next.unwrap_or(0);
        next
    }

    fn due(&mut self, slot: u16) {
        let id = self.id(slot);
        if !id.used.get() {
            return;
        }
        if id.state == state::QUERY {
            return self.resolved(slot, -ETIMEDOUT);
        }
        if id.comm == comm::TIMEWAIT {
            id.comm = comm::IDLE;
            if id.state == state::DISCONNECT {
                self.event(slot, event::TIMEWAIT_EXIT, 0, &SILENT);
            }
            return;
        }
        if id.tries < id.max_tries {
            id.tries = id.tries.saturating_add(1);
            let (way, message) = (id.way, id.message);
            self.transmit(&way, &message);
            return self.rest(slot);
        }
        match id.comm {
            comm::REQ_SENT
            | comm::MRA_REQ_RCVD
            | comm::REP_SENT
            | comm::MRA_REP_RCVD
            | comm::SIDR_REQ_SENT => {
                id.comm = comm::IDLE;
                self.event(slot, event::UNREACHABLE, -ETIMEDOUT, &SILENT);
            }
            comm::DREQ_SENT => {
                id.qp_timeout = id.qp_timeout.max(PACKET_LIFETIME + 1);
                self.wait_for_strays(slot);
                self.disconnected(slot, -ETIMEDOUT);
            }
            _ => {}
        }
    }

    /// A process is gone: its channels are closed.
    pub fn member_gone(&mut self, member: u16) {
        for channel in self.cm.slots.channels.range() {
            let it = &self.cm.channels[channel];
            if it.used.get() && it.member == member {
                self.close_channel(channel as u16);
            }
        }
    }

    /// Destroys all that a channel has.
    pub fn close_channel(&mut self, channel: u16) {
        let at = usize::from(channel) % CHANNELS;
        self.cm.channels[at].used = false.into();
        for slot in self.cm.slots.ids.range() {
            let id = &self.cm.ids[slot];
            if id.used.get() && id.channel == channel {
                self.close(slot as u16);
                self.free(slot as u16);
            }
        }
        for queued in &mut self.cm.queue[self.cm.slots.events.range()] {
            if queued.channel == channel {
                queued.turn = 0;
            }
        }
    }

    /// Repairs what the death of a lock holder may have left half done.
    pub fn recover(&mut self) {
        for queued in &mut self.cm.queue[self.cm.slots.events.range()] {
            let ids = &self.cm.ids;
            let known = |id: u16| ids.get(usize::from(id)).is_some_and(|id| id.used.get());
            if !known(queued.id) || queued.new != 0 && !known(queued.new) {
                queued.turn = 0;
            }
        }
        if let Some(at) = self.run_timers() {
            self.env.timer(at);
        }
    }
}
