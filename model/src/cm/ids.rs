//! Identifiers, their events, and the datagrams that they send.

use libc::{EINVAL, ENOENT, ENOMEM};

use super::mad::{header, Mad, GSI_QKEY, GSI_QPN};
use super::tables::*;
use crate::env::Env;
use crate::gids::GidEntry;
use crate::packet::{PortId, PORTS};
use crate::plain::{zeroed, Flag};
use crate::wire::{psn, Operation, Transport};

/// A result with an errno value.
pub type Result<T> = core::result::Result<T, i32>;

/// What [`Manager::event`] reports: `RDMA_CM_EVENT_...`.
pub mod event {
    /// The way to the destination is known.
    pub const ADDR_RESOLVED: u32 = 0;
    /// It cannot be.
    pub const ADDR_ERROR: u32 = 1;
    /// The path is known.
    pub const ROUTE_RESOLVED: u32 = 2;
    /// A peer wants to connect.
    pub const CONNECT_REQUEST: u32 = 4;
    /// The peer has accepted; the program says when it is ready.
    pub const CONNECT_RESPONSE: u32 = 5;
    /// The peer does not answer.
    pub const UNREACHABLE: u32 = 7;
    /// The peer does not want the connection.
    pub const REJECTED: u32 = 8;
    /// Connected.
    pub const ESTABLISHED: u32 = 9;
    /// No longer connected.
    pub const DISCONNECTED: u32 = 10;
    /// A member of the group.
    pub const MULTICAST_JOIN: u32 = 12;
    /// No packets of the connection are left.
    pub const TIMEWAIT_EXIT: u32 = 15;
    /// A program says something to itself.
    pub const USER: u32 = 18;
    /// librdmacm says something to itself.
    pub const INTERNAL: u32 = 19;
}

/// No more bytes of what an event says of its connection.
pub const SILENT: [u8; PARAM] = [0; PARAM];

/// How long a packet lives, of which a program says nothing: 4.096 us * 2^16.
pub const PACKET_LIFETIME: u8 = 16;
/// Hop limit of the manager's packets.
const HOP_LIMIT: u8 = 64;
/// Interrupt vector of events.
const VECTOR: u8 = 0;

/// Milliseconds of an IB time value, as Linux counts them: 4.096 us * 2^value is about 2^(value - 8) ms.
pub fn milliseconds(value: u8) -> u64 {
    1 << (value.clamp(8, 31) - 8)
}

impl<E: Env> Manager<'_, E> {
    /// An identifier.
    pub fn id(&mut self, slot: u16) -> &mut Id {
        &mut self.cm.ids[usize::from(slot) % IDS]
    }

    /// The identifier that a program calls by this number, if it is of the channel.
    pub fn owned(&mut self, channel: u16, handle: u32) -> Result<u16> {
        let slot =
            u16::try_from(handle).ok().filter(|&slot| (1..IDS as u16).contains(&slot)).ok_or(ENOENT)?;
        let id = self.id(slot);
        match id.used.get() && !id.unseen.get() {
            false => Err(ENOENT),
            true if id.channel != channel => Err(EINVAL),
            true => Ok(slot),
        }
    }

    /// A new identifier.
    pub fn create(&mut self, channel: u16, space: u16, qp_type: u8, uid: u64) -> Result<u16> {
        let ids = &self.cm.ids;
        let slot = self.cm.slots.ids.take(1..IDS, |i| ids[i].used.get()).ok_or(ENOMEM)?;
        let id = &mut self.cm.ids[slot];
        let generation = id.generation.wrapping_add(1);
        let (used, lifetime) = (true.into(), PACKET_LIFETIME);
        *id = Id { used, generation, channel, space, qp_type, uid, lifetime, way: NOWHERE, ..zeroed() };
        // Never the same twice in a row, and in simulated time the same in every run.
        let name = self.name(slot as u16);
        self.cm.ids[slot].rq_psn = (name.wrapping_mul(0x9e37_79b1) >> 8) & psn::MASK;
        self.cm.bound[slot] = 0;
        self.cm.remote[slot] = 0;
        self.cm.deadline[slot] = 0;
        Ok(slot as u16)
    }

    /// The name of an identifier's connection in messages.
    pub fn name(&mut self, slot: u16) -> u32 {
        (self.id(slot).generation << 16 | u32::from(slot)) ^ self.cm.salt
    }

    /// The identifier of such a name.
    pub fn named(&mut self, name: u32) -> Option<u16> {
        let slot = (name ^ self.cm.salt) as u16;
        let known = (1..IDS as u16).contains(&slot) && self.id(slot).used.get();
        (known && self.name(slot) == name).then_some(slot)
    }

    /// The identifier of a connection that its peer names so, of the peers for which `wanted` says so.
    pub fn of_remote(&self, name: u32, wanted: impl Fn(&Id) -> bool) -> Option<u16> {
        let (remote, ids) = (&self.cm.remote, &self.cm.ids);
        let fits = |&slot: &usize| remote[slot] == name && ids[slot].used.get() && wanted(&ids[slot]);
        self.cm.slots.ids.range().find(fits).map(|slot| slot as u16)
    }

    /// Frees an identifier, with the events that its program has not taken. Connections among them are destroyed, too.
    pub fn free(&mut self, slot: u16) -> u32 {
        for at in self.cm.slots.events.range() {
            let Queued { turn, id, new, .. } = self.cm.queue[at];
            if turn != 0 && id == slot {
                self.cm.queue[at].turn = 0;
                if new != 0 && new != slot && self.id(new).unseen.get() {
                    self.close(new);
                    self.free(new);
                }
            }
        }
        for group in self.cm.slots.groups.range() {
            let group = &mut self.cm.groups[group];
            if group.used.get() && group.id == slot {
                group.used = false.into();
            }
        }
        let at = usize::from(slot) % IDS;
        let id = &mut self.cm.ids[at];
        id.used = false.into();
        self.cm.bound[at] = 0;
        self.cm.remote[at] = 0;
        self.cm.deadline[at] = 0;
        self.cm.ids[at].reported
    }

    /// Tells the program of something that happened to an identifier.
    pub fn event(&mut self, slot: u16, kind: u32, status: i32, param: &[u8; PARAM]) {
        let id = self.id(slot);
        // A program that has not accepted the connection does not know it by its own name yet.
        if !id.unseen.get() && id.uid != 0 {
            let _ = self.queue((slot, 0, 0), kind, status, param);
        }
    }

    /// Puts an event in its channel's queue: about an identifier, with a new connection and a membership (0: none).
    pub fn queue(
        &mut self,
        (id, new, group): (u16, u16, u16),
        kind: u32,
        status: i32,
        param: &[u8; PARAM],
    ) -> Result<()> {
        let queue = &self.cm.queue;
        let at = self.cm.slots.events.take(0..EVENTS, |i| queue[i].turn != 0).ok_or(ENOMEM)?;
        let channel = self.id(id).channel;
        self.cm.turn = self.cm.turn.wrapping_add(1).max(1);
        self.cm.params[at] = *param;
        self.cm.queue[at] = Queued { turn: self.cm.turn, channel, id, new, group, kind, status };
        self.wake(channel);
        Ok(())
    }

    /// The place of a channel's first event.
    pub fn first_event(&self, channel: u16) -> Option<usize> {
        let queue = &self.cm.queue;
        let waits = |at: &usize| queue[*at].turn != 0 && queue[*at].channel == channel;
        self.cm.slots.events.range().filter(waits).min_by_key(|&at| queue[at].turn)
    }

    /// Makes the process of a channel look for events.
    pub fn wake(&mut self, channel: u16) {
        let channel = &self.cm.channels[usize::from(channel) % CHANNELS];
        if channel.used.get() {
            let function = channel.function % crate::device::tables::MAX_FUNCTIONS as u16;
            self.env.interrupt(0, function, VECTOR);
        }
    }

    /// Sends a datagram once.
    pub fn transmit(&mut self, way: &Way, mad: &Mad) {
        let (from, to) = (way.from, way.to);
        if from.card >= self.cards || from.port as usize >= PORTS {
            return;
        }
        let next = &mut self.cm.psn[from.card as usize][from.port as usize];
        let number = *next;
        *next = psn::add(number, 1);
        let payload = self.env.stash(mad.bytes());
        let gids = self.gids;
        let p = self.env.send();
        p.transport = Transport::UD;
        p.operation = Operation::Send;
        (p.src, p.dst) = (from, to);
        (p.src_qpn, p.dest_qpn, p.qkey) = (GSI_QPN, GSI_QPN, GSI_QKEY);
        p.psn = number;
        let source = gids.source(from, way.sgid_index);
        p.sgid = source.gid;
        p.traffic_class = way.traffic_class;
        p.hop_limit = HOP_LIMIT;
        p.dgid = way.dgid;
        p.encapsulation = source.encapsulation(&way.dgid, 0);
        p.inline = true;
        p.payload = payload;
        if let Some(card) = self.devices.get(usize::from(from.card)) {
            card.count_left(card.leaves_by(p), 1, p.wire_bytes(payload.len() as u32));
        }
    }

    /// A message of an identifier, whose transaction has the identifier's name in Linux' order of bytes.
    pub fn message(&mut self, slot: u16, attribute: u16) -> Mad {
        let transaction = u64::from(self.name(slot).swap_bytes()) | 1 << 32;
        Mad::new(attribute, transaction)
    }

    /// Sends a message, and notes it to be sent again.
    pub fn send(&mut self, slot: u16, mad: Mad) {
        let id = self.id(slot);
        (id.message, id.tries) = (mad, 0);
        let way = id.way;
        self.transmit(&way, &mad);
    }

    /// Waits for an answer to what was sent; without one it is sent again, at most `max_tries` times.
    pub fn expect(&mut self, slot: u16, milliseconds: u64, max_tries: u8) {
        let hurry = self.cm.hurry.min(20);
        let id = self.id(slot);
        (id.patience, id.max_tries) = ((milliseconds * 1_000_000) >> hurry, max_tries);
        self.rest(slot);
    }

    /// Waits once more.
    pub fn rest(&mut self, slot: u16) {
        let at = self.env.now().saturating_add(self.id(slot).patience);
        self.cm.soonest = if self.cm.soonest == 0 { at } else { self.cm.soonest.min(at) };
        self.cm.deadline[usize::from(slot) % IDS] = at;
        self.env.timer(at);
    }

    /// Waits no longer.
    pub fn answered(&mut self, slot: u16) {
        self.cm.deadline[usize::from(slot) % IDS] = 0;
    }

    /// The GUID of the card that an identifier uses.
    pub fn guid(&mut self, slot: u16) -> u64 {
        let card = self.id(slot).way.from.card;
        u64::from_be_bytes(self.guids.node(card))
    }

    /// The own GID of an identifier.
    pub fn sgid(&mut self, slot: u16) -> [u8; 16] {
        self.source(slot).gid
    }

    /// Its entry in the GID table.
    pub fn source(&mut self, slot: u16) -> GidEntry {
        let way = self.id(slot).way;
        self.gids.entry(way.from, way.sgid_index)
    }
}

/// The transaction of a message.
pub fn transaction(mad: &Mad) -> u64 {
    mad.get(header::TRANSACTION)
}

/// No way.
pub const NOWHERE: Way = Way {
    known: Flag::NO,
    sgid_index: 0,
    traffic_class: 0,
    flow_label: 0,
    from: PortId { card: 0, port: 0 },
    to: PortId::NOBODY,
    dgid: [0; 16],
};
