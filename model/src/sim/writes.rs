//! What a card writes to memory: when each write is visible, and how it takes effect then.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use super::env::SimEnv;
use super::event::{Event, SHORT};
use super::trace::{Phase, Span, Subject, Unread};
use crate::dma::{Addr, DmaFault};
use crate::plain::Flag;
use fpga_regs::Cqe;

impl SimEnv<'_> {
    /// A queue entry is written.
    pub fn write_entry(&mut self, to: Addr, from: &[u8]) {
        // The memory was there when the card decided; if its process has gone since, nothing reads it.
        let Ok(at) = self.short(to, from, self.sim.profile.cqe.cqe_bytes, true) else { return };
        if self.sim.trace.on() {
            self.sim.trace.visible(to, at);
        }
    }

    /// The message of an interrupt is written.
    pub fn write_message(
        &mut self,
        card: u16,
        (function, vector, member): (u16, u8, u16),
        raised: u64,
        subject: &Subject,
    ) {
        let sim = &mut *self.sim;
        let written = sim.cards[card as usize].bus.write(sim.now, 4, &sim.profile);
        let at = written + sim.profile.pcie.msix_ps;
        let time = (raised, at + sim.profile.host.wake_ps);
        sim.trace.step(Phase::INTERRUPT, time, subject, vector.into(), 0);
        sim.at(at, Event::Interrupt { card, function, vector, member });
    }

    /// When an entry or an interrupt that the card decides on now is due.
    pub(super) fn due(&self) -> u64 {
        self.step.not_before.max(self.sim.now) + self.sim.profile.cqe.cqe_ps
    }

    pub(super) fn short(&mut self, to: Addr, from: &[u8], on_bus: u32, entry: bool) -> Result<u64, DmaFault> {
        self.check(to, from.len())?;
        let card = self.step.card;
        let sim = &mut *self.sim;
        let at = sim.cards[card as usize].bus.write(sim.now, on_bus, &sim.profile);
        let mut bytes = [0; SHORT];
        bytes[..from.len()].copy_from_slice(from);
        let event = Event::Short { to, len: from.len() as u8, entry: entry.into(), bytes };
        match entry {
            true => sim.at(at, event),
            false => sim.lands(at, event, to, from.len()),
        }
        Ok(at)
    }

    /// A completion that is to be written.
    #[cold]
    pub(super) fn trace_cqe(&mut self, to: Addr, cqe: &Cqe) {
        let received = self.step.subject;
        let card = self.step.card;
        let subject = match cqe.recv() {
            true => received,
            false => Subject {
                card,
                place: card,
                responder: Flag::NO,
                qpn: cqe.qpn(),
                message: cqe.wqe_index(),
                ..received
            },
        };
        let span = Span {
            start: self.sim.now,
            end: 0,
            phase: Phase::CQE,
            subject,
            index: cqe.wqe_index(),
            bytes: cqe.byte_len(),
        };
        let qp = (cqe.qpn() & 0xffff) as u16;
        self.sim.trace.unread(Unread { entry: to, qp, recv: cqe.recv().into(), span });
    }

    /// A short write becomes visible.
    pub fn apply_short(&mut self, to: Addr, bytes: &[u8], entry: bool) {
        let body = if entry { bytes.len() - 8 } else { bytes.len() };
        // The memory was there when the card wrote; if its process has died since, nothing reads it.
        let _ = self.guard.write(to.domain, to.iova, &bytes[..body]);
        if !entry {
            return;
        }
        let last: [u8; 8] = bytes[body..].try_into().expect("eight bytes");
        let at = to.add(body as u64);
        match self.direct(at, 8) {
            Some(p) if p as usize % 8 == 0 => {
                // SAFETY: eight aligned bytes of the segment's heap; others access them concurrently
                // only as a queue entry's last word.
                unsafe { AtomicU64::from_ptr(p.cast()) }.store(u64::from_le_bytes(last), Ordering::Release);
            }
            _ => {
                let _ = self.guard.write(at.domain, at.iova, &last);
            }
        }
    }

    /// What the cards have written becomes visible at once.
    pub fn apply_all(&mut self) {
        for event in self.sim.take_writes() {
            match event {
                Event::Write { to, slot, offset, len } => self.apply_write(to, slot, offset, len),
                Event::Short { to, len, entry, bytes } => {
                    self.apply_short(to, &bytes[..len.into()], entry.get());
                }
                Event::Entry { to, len, bytes, .. } => self.apply_short(to, &bytes[..len.into()], true),
                _ => {}
            }
        }
    }

    /// Payload becomes visible.
    pub fn apply_write(&mut self, to: Addr, slot: u32, offset: u16, len: u16) {
        let bytes = &self.sim.payload[slot as usize][offset as usize..][..len as usize];
        let _ = self.guard.write(to.domain, to.iova, bytes);
    }
}
