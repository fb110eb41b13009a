//! The cards' environment in simulated time: every effect becomes an event.
#![allow(unsafe_code)]

use super::event::{Event, SHORT};
use super::state::{Sim, Slot, MTU, ROW, SLOTS};
use super::trace::{Phase, Subject};
use crate::cells::Bells;
use crate::dma::{Addr, Atomic, DmaFault, Pieces, Undelivered};
use crate::env::Env;
use crate::packet::{Packet, Payload};
use crate::plain::{Flag, Kept};
use crate::segment::Guard;
use fpga_regs::Cqe;

/// What one step of a card leaves to be done. Kept by the process for its capacity only.
#[derive(Default)]
pub(crate) struct Step {
    /// Packets to send.
    pub sent: Vec<Packet>,
    /// Send queues that may continue.
    pub wanted: Vec<(u16, u16)>,
    /// QPs that sent something.
    pub watched: Vec<(u16, u16)>,
    /// Slots taken for gathered payload.
    pub stashes: Vec<u32>,
    /// Pieces gathered.
    pub gathers: u16,
    /// The card whose bus is used.
    pub card: u16,
    /// The message that a packet being received is of.
    pub subject: Subject,
    /// Earliest time of a completion: when what it reports has left the card.
    pub not_before: u64,
    /// Packets may go by other ways than before.
    pub links_changed: bool,
    /// For frames.
    pub buffers: super::wire::Buffers,
}

/// See the module.
pub(crate) struct SimEnv<'a> {
    pub sim: &'a mut Sim,
    pub bells: &'a [Bells],
    pub guard: &'a Guard<'a>,
    pub step: &'a mut Step,
}

fn fault<E>(_: E) -> DmaFault {
    DmaFault
}

impl SimEnv<'_> {
    pub(super) fn direct(&self, at: Addr, len: usize) -> Option<*mut u8> {
        self.guard.direct(at.domain, at.iova, len as u64)
    }

    /// Whether memory can be reached, because a write that happens later must be refused now.
    pub fn check(&self, at: Addr, len: usize) -> Result<(), DmaFault> {
        if len == 0 || self.direct(at, len).is_some() {
            return Ok(());
        }
        let mut byte = [0];
        self.guard.read(at.domain, at.iova, &mut byte).map_err(fault)?;
        self.guard.read(at.domain, at.iova + len as u64 - 1, &mut byte).map_err(fault)
    }

    /// Looks up the translation of an address; returns when the card has it (ps).
    pub fn translation(&mut self, card: u16, at: Addr) -> u64 {
        let now = self.sim.now;
        let profile = &self.sim.profile;
        let card = &mut self.sim.cards[card as usize];
        let page = at.iova / u64::from(profile.caches.mtt_page_bytes.max(1));
        let key = (page as u32).wrapping_mul(0x9e37_79b1) ^ u32::from(at.domain);
        if card.mtt.touch(&mut card.recent_mtt, key, profile.caches.mtt()) {
            return now;
        }
        card.bus.read(now, profile.caches.mtt_bytes, profile).last
    }

    /// Reads memory into a part of a slot's own room.
    fn fetch(&mut self, from: Addr, slot: u32, part: std::ops::Range<usize>) -> Result<(), DmaFault> {
        if self.sim.landing.concerns(from, part.len()) {
            let mut bytes = [0; MTU];
            for at in part.clone().step_by(MTU) {
                let bytes = &mut bytes[..(part.end - at).min(MTU)];
                self.read(from.add((at - part.start) as u64), bytes)?;
                self.sim.payload[slot as usize][at..at + bytes.len()].copy_from_slice(bytes);
            }
            return Ok(());
        }
        let to = &mut self.sim.payload[slot as usize][part];
        self.guard.read(from.domain, from.iova, to).map_err(fault)
    }

    /// Copies payload of a packet into a slot's own room.
    pub fn snapshot(
        &mut self,
        payload: &Payload,
        offset: usize,
        slot: u32,
        len: usize,
    ) -> Result<(), DmaFault> {
        match *payload {
            Payload::Memory(from, _) => {
                let from = from.add(offset as u64);
                self.fetch(from, slot, 0..len)
            }
            Payload::Stash(other, _) => {
                if other == slot {
                    return Ok(());
                }
                let from = other as usize * ROW + offset;
                let rows = self.sim.payload.as_flattened_mut();
                rows.copy_within(from..from + len, slot as usize * ROW);
                Ok(())
            }
            // Not of this environment.
            Payload::Pages(..) => Err(DmaFault),
            Payload::None => Ok(()),
        }
    }

    /// A slot of payload until the end of the step.
    pub fn slot(&mut self, len: usize) -> u32 {
        debug_assert!(len <= ROW);
        let slot = Slot {
            packet: Kept::new(Packet::BLANK),
            refs: 1,
            flow: 0,
            fetched: 0,
            unread: Flag::NO,
            waits: Flag::NO,
            warm: Flag::NO,
            next: 0,
            message: 0,
            since: 0,
        };
        match self.sim.slots.put(slot) {
            Some(at) => {
                self.step.stashes.push(at);
                at
            }
            // A packet with this payload is not sent.
            None => SLOTS as u32,
        }
    }
}

impl Env for SimEnv<'_> {
    const GATHER_BYTES: u32 = MTU as u32;
    const FETCHES_FRAMES: bool = true;

    /// Who executes an event notes it.
    fn note(&mut self, _word: u64) {}

    fn now(&mut self) -> u64 {
        self.sim.now / 1000
    }

    fn read(&mut self, from: Addr, to: &mut [u8]) -> Result<(), DmaFault> {
        self.guard.read(from.domain, from.iova, to).map_err(fault)?;
        self.sim.landing.cover(from, to, &self.sim.events, &self.sim.payload);
        Ok(())
    }

    fn words<const N: usize>(&mut self, from: Addr) -> Result<[u64; N], DmaFault> {
        if let Some(p) = self.direct(from, N * 8) {
            // SAFETY: `N` words of the segment's heap; no alignment is assumed.
            return Ok(std::array::from_fn(|i| unsafe { p.cast::<u64>().add(i).read_unaligned() }));
        }
        let mut bytes = [[0; 8]; N];
        self.read(from, bytes.as_flattened_mut())?;
        Ok(bytes.map(u64::from_le_bytes))
    }

    fn write(&mut self, to: Addr, from: &[u8]) -> Result<(), DmaFault> {
        let now = self.sim.now;
        for (i, piece) in from.chunks(SHORT).enumerate() {
            let at = self.short(to.add((i * SHORT) as u64), piece, piece.len() as u32, false)?;
            self.sim.trace.step(
                Phase::DMA_WRITE,
                (now, at),
                &self.step.subject,
                i as u32,
                piece.len() as u32,
            );
        }
        Ok(())
    }

    fn publish<const N: usize>(&mut self, to: Addr, entry: [u64; N]) -> Result<(), DmaFault> {
        let bytes = entry.map(u64::to_le_bytes);
        let from = bytes.as_flattened();
        self.check(to, from.len())?;
        let mut bytes = [0; SHORT];
        bytes[..from.len()].copy_from_slice(from);
        let (at, card) = (self.due(), self.step.card);
        self.sim.at(at, Event::Entry { card, to, len: from.len() as u8, bytes });
        if self.sim.trace.on() {
            if let Ok(cqe) = from.try_into() {
                self.trace_cqe(to, &Cqe::from_bytes(cqe));
            }
        }
        Ok(())
    }

    fn atomic(&mut self, at: Addr, op: Atomic) -> Result<u64, DmaFault> {
        // Atomic among the cards of the segment (the lock is held), as IBV_ATOMIC_HCA promises.
        let mut bytes = [0u8; 8];
        self.read(at, &mut bytes)?;
        let original = u64::from_ne_bytes(bytes);
        if let Some(new) = op.applied(original) {
            self.short(at, &new.to_ne_bytes(), bytes.len() as u32, false)?;
        }
        Ok(original)
    }

    fn gather(&mut self, pieces: &Pieces) -> Result<Payload, DmaFault> {
        let slot = self.slot(pieces.len() as usize);
        for (offset, at, len) in pieces.iter() {
            self.step.gathers += 1;
            self.fetch(at, slot, offset..offset + len)?;
        }
        Ok(Payload::Stash(slot, pieces.len()))
    }

    fn hold(&mut self, bytes: &[u8]) -> Payload {
        let slot = self.slot(bytes.len());
        self.sim.payload[slot as usize][..bytes.len()].copy_from_slice(bytes);
        Payload::Stash(slot, bytes.len() as u32)
    }

    fn stash(&mut self, bytes: &[u8]) -> Payload {
        self.hold(bytes)
    }

    fn payload(&mut self, payload: &Payload, to: &mut [u8]) -> Result<(), DmaFault> {
        match *payload {
            Payload::Memory(from, _) => self.read(from, to),
            Payload::Stash(slot, _) => {
                to.copy_from_slice(&self.sim.payload[slot as usize][..to.len()]);
                Ok(())
            }
            // Not of this environment.
            Payload::Pages(..) => Err(DmaFault),
            Payload::None => Ok(()),
        }
    }

    fn send_later(&mut self, card: u16, qp: u16) {
        // One step may ask several times for the same queue: for each WQE that it retires.
        if self.step.wanted.last() != Some(&(card, qp)) {
            self.step.wanted.push((card, qp));
        }
    }

    fn ends_turn(&self, executed: u32) -> bool {
        executed != 0
    }

    fn bells(&self, card: u16) -> &Bells {
        &self.bells[card as usize]
    }

    fn send(&mut self) -> &mut Packet {
        self.step.sent.push(Packet::BLANK);
        self.step.sent.last_mut().expect("just pushed")
    }

    fn holds_event(&mut self, card: u16, cqn: u16, arming: u32, held: u32) -> bool {
        let cqe = &self.sim.profile.cqe;
        if cqe.moderation_ps == 0 || held >= cqe.moderation_count {
            return false;
        }
        if held == 1 {
            let at = self.sim.now + cqe.moderation_ps;
            self.sim.at(at, Event::Held { card, cqn, arming });
        }
        true
    }

    fn interrupt(&mut self, card: u16, function: u16, vector: u8) {
        let (at, subject, raised) = (self.due(), self.step.subject, self.sim.now);
        let member = self.sim.cards[card as usize].members[function as usize];
        self.sim.at(at, Event::Message { card, function, vector, member, raised, subject });
    }

    fn watch(&mut self, card: u16, qp: u16) {
        if self.step.watched.last() != Some(&(card, qp)) {
            self.step.watched.push((card, qp));
        }
    }

    fn congestion_noticed(&mut self, card: u16, qp: u16) {
        self.rate_falls(card, qp);
    }

    fn notification_interval(&self) -> Option<u64> {
        self.sim.cc.on().then_some(self.sim.cc.cnp_ps / 1000)
    }

    fn exists(&mut self, domain: u16) -> bool {
        self.guard.exists(domain)
    }

    fn timer(&mut self, at: u64) {
        self.sim.timer(at.saturating_mul(1000));
    }

    fn links_changed(&mut self) {
        self.step.links_changed = true;
    }

    fn deliver(&mut self, to: Addr, payload: &Payload, offset: usize, len: usize) -> Result<(), Undelivered> {
        let Payload::Stash(slot, _) = *payload else { return Ok(()) };
        if slot as usize >= SLOTS {
            // A header for which there was no place, which is gone after this step.
            let bytes = self.sim.payload[slot as usize];
            return self.write(to, &bytes[offset..offset + len]).map_err(|_| Undelivered::Unwritten);
        }
        self.check(to, len).map_err(|_| Undelivered::Unwritten)?;
        let card = self.step.card;
        let known = self.translation(card, to);
        let sim = &mut *self.sim;
        let at = sim.cards[card as usize].bus.write_known(sim.now, known, len as u32, &sim.profile);
        sim.trace.step(Phase::DMA_WRITE, (sim.now, at), &self.step.subject, 0, len as u32);
        sim.slots.get_mut(slot).refs += 1;
        let event = Event::Write { to, slot, offset: offset as u16, len: len as u16 };
        sim.lands(at, event, to, len);
        Ok(())
    }
}
