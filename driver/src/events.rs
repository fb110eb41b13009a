//! The event queue: completions of armed CQs, and asynchronous events.

use std::sync::{Arc, Mutex};

use fpga_regs::{regs, AdminOpcode, EqContext, Eqe, EventKind};

use crate::admin::Admin;
use crate::card::{Card, CardError};
use crate::dma::Dma;
use crate::error::Result;
use crate::lock;
use crate::ring::Phased;

/// Log2 of the entries: room for an event of each of some thousand queues before the first is taken.
const LOG_ENTRIES: u32 = 13;
/// Events between two updates of the consumer register: a register write for each would cost more than the event.
/// The card always has the other 31 of 32 entries.
const TOLD_EVERY: u32 = 1 << (LOG_ENTRIES - 5);

/// Something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// An armed CQ has a completion.
    Completion {
        /// The CQ's number.
        cqn: u32,
    },
    /// Anything else.
    Async {
        /// What.
        kind: EventKind,
        /// CQN, QPN or SRQN; the port's number for the port events and GID_CHANGE; the cause for DEVICE_FATAL.
        object: u32,
    },
}

/// The event queue of a function.
pub(crate) struct Events<C: Card> {
    card: Arc<C>,
    /// Its number, for CQs that report to it.
    pub eqn: u32,
    pub vector: u32,
    ring: Mutex<Phased<C>>,
}

impl<C: Card> Events<C> {
    /// Creates the event queue on the card, with this interrupt vector.
    pub fn new(card: &Arc<C>, admin: &Admin<C>, vector: u32) -> Result<Self> {
        // Every card has the first one.
        if vector != 0 {
            let count = card.read32(regs::VECTORS).min(regs::MAX_VECTORS);
            if vector >= count {
                return Err(CardError::NoVector { vector, count }.into());
            }
        }
        let memory = Dma::alloc(card, Eqe::BYTES << LOG_ENTRIES)?;
        let context = EqContext::new()
            .with_ring_iova(memory.iova())
            .with_log_size(LOG_ENTRIES as u8)
            .with_vector(vector as u8);
        let (memory, eqn) = memory.after(admin.create(AdminOpcode::CREATE_EQ, context.as_bytes()))?;
        let ring = Mutex::new(Phased::new(memory, LOG_ENTRIES, Eqe::BYTES));
        Ok(Events { card: card.clone(), eqn, vector, ring })
    }

    /// The next event in the queue, without waiting.
    pub fn pop(&self) -> Option<Event> {
        let mut ring = lock(&self.ring);
        let mut bytes = [0; Eqe::BYTES];
        if !ring.pop(&mut bytes) {
            return None;
        }
        let taken = ring.consumer;
        if taken % TOLD_EVERY == 0 {
            self.card.write32(regs::eq_consumer(self.eqn), taken);
        }
        drop(ring);
        Some(Event::of(&Eqe::from_bytes(&bytes)))
    }
}

impl Event {
    fn of(eqe: &Eqe) -> Event {
        match eqe.kind() {
            EventKind::COMPLETION => Event::Completion { cqn: eqe.object() },
            kind @ (EventKind::PORT_ACTIVE | EventKind::PORT_ERR | EventKind::GID_CHANGE) => {
                Event::Async { kind, object: eqe.port().into() }
            }
            kind @ EventKind::DEVICE_FATAL => Event::Async { kind, object: eqe.data() },
            kind => Event::Async { kind, object: eqe.object() },
        }
    }
}
