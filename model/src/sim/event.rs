//! What can happen at a point of simulated time.
#![allow(unsafe_code)]

use super::trace::{Span, Subject};
use crate::dma::Addr;
use crate::plain::{Checked, Flag};

/// Bytes of a short DMA write that travels within its event.
pub const SHORT: usize = 64;

/// An event of the cards.
#[derive(Clone, Copy, Debug, Default, Checked)]
#[repr(C, u8)]
pub enum Event {
    /// Nothing: what the event concerned is gone.
    #[default]
    None,
    /// A send doorbell reaches the card.
    SendBell {
        /// Card.
        card: u16,
        /// QP index.
        qp: u16,
        /// Producer index (blocks).
        producer: u32,
        /// The WQEs were pushed with it.
        pushed: Flag,
        /// The queue's life in which it was rung ([`QpBells::life`](crate::cells::QpBells::life)).
        life: u32,
    },
    /// A receive doorbell reaches the card.
    RecvBell {
        /// Card.
        card: u16,
        /// QP index.
        qp: u16,
        /// Producer index.
        producer: u32,
        /// As above.
        life: u32,
    },
    /// A doorbell of a shared receive queue reaches the card.
    SharedBell {
        /// Card.
        card: u16,
        /// SRQ.
        srq: u16,
        /// Producer index.
        producer: u32,
        /// As above.
        life: u32,
    },
    /// A CQ-arm doorbell reaches the card.
    Arm {
        /// Card.
        card: u16,
        /// Function.
        function: u16,
        /// As written.
        value: u64,
    },
    /// The next WQE of a send queue is in the card and its QP's engine is free.
    Send {
        /// Card.
        card: u16,
        /// QP index.
        qp: u16,
    },
    /// The first job of a flow may start its DMA reads.
    Due {
        /// Card.
        card: u16,
        /// Port.
        port: u8,
        /// Flow.
        flow: u16,
    },
    /// A packet is complete in the port's transmit buffer.
    Ready {
        /// Packet slot.
        slot: u32,
    },
    /// Fetched payload leaves the transmit buffer.
    Depart {
        /// Card.
        card: u16,
        /// Port.
        port: u8,
        /// Bytes.
        bytes: u32,
    },
    /// A packet is at the receiver's packet processing.
    Arrive {
        /// Packet slot.
        slot: u32,
    },
    /// A frame is recorded: its first bit leaves, or its last one has arrived.
    Record {
        /// Packet slot.
        slot: u32,
        /// As its receiver sees it.
        received: Flag,
    },
    /// Received payload becomes visible in memory.
    Write {
        /// Where.
        to: Addr,
        /// Packet slot with the payload.
        slot: u32,
        /// First byte in the slot.
        offset: u16,
        /// Bytes.
        len: u16,
    },
    /// A queue entry is written.
    Entry {
        /// Card.
        card: u16,
        /// Where.
        to: Addr,
        /// Bytes.
        len: u8,
        /// Content.
        bytes: [u8; SHORT],
    },
    /// A short write becomes visible in memory.
    Short {
        /// Where.
        to: Addr,
        /// Bytes.
        len: u8,
        /// A queue entry: its last eight bytes after the rest.
        entry: Flag,
        /// Content.
        bytes: [u8; SHORT],
    },
    /// The message of an interrupt is written.
    Message {
        /// Card.
        card: u16,
        /// Function.
        function: u16,
        /// Vector.
        vector: u8,
        /// The process.
        member: u16,
        /// When the card raised it.
        raised: u64,
        /// What for.
        subject: Subject,
    },
    /// An interrupt reaches the processor.
    Interrupt {
        /// Card.
        card: u16,
        /// Function.
        function: u16,
        /// Vector.
        vector: u8,
        /// The process.
        member: u16,
    },
    /// The event of a CQ has been held back long enough.
    Held {
        /// Card.
        card: u16,
        /// CQ.
        cqn: u16,
        /// Which arming of it.
        arming: u32,
    },
    /// A QP's timer may be due.
    Timers,
    /// A program was busy with a message: recorded in the trace.
    Span {
        /// As it is recorded.
        span: Span,
    },
    /// An actor's deadline.
    Wake {
        /// Actor.
        actor: u16,
        /// Which of its waits.
        serial: u32,
    },
    /// The MAC may be free, or go on.
    Mac {
        /// Card.
        card: u16,
        /// Port.
        port: u8,
    },
    /// The last bit of a frame has come to a switch.
    ToSwitch {
        /// Packet slot.
        slot: u32,
        /// The port that it came by, plus one; 0: that of the card that sends it.
        by: u16,
    },
    /// The last bit of a frame has left a switch.
    FromSwitch {
        /// Port of the switch.
        port: u16,
    },
    /// A pause frame has come to a port of a switch.
    PauseSwitch {
        /// Port of the switch.
        port: u16,
        /// It is to pause, not to go on.
        on: Flag,
    },
    /// A queue may have been waited for long enough.
    Patience {
        /// Card.
        card: u16,
        /// QP index.
        qp: u16,
    },
    /// A pause frame has come to a card's port.
    Pause {
        /// Card.
        card: u16,
        /// Port.
        port: u8,
        /// It is to pause, not to go on.
        on: Flag,
    },
}

/// The part of an event that a process can see.
#[derive(Clone, Copy, Debug)]
pub struct Touch {
    /// The process: its segment member.
    pub member: u16,
    /// Where its memory is written.
    pub at: u64,
    /// Bytes.
    pub len: u64,
    /// It is a queue entry.
    pub entry: bool,
}

impl Event {
    /// The process whose memory the event, or one that follows from it, writes.
    pub fn writes_to(&self) -> Option<u16> {
        match self {
            Event::Entry { to, .. } => Some(to.domain),
            _ => self.touches().map(|touch| touch.member),
        }
    }

    /// Whether it writes payload to memory, and no entry of a queue.
    #[inline(always)]
    pub fn lands(&self) -> bool {
        match self {
            Event::Write { .. } => true,
            Event::Short { entry, .. } => !entry.get(),
            _ => false,
        }
    }

    /// Whether it is what a program has told a card.
    pub fn is_bell(&self) -> bool {
        matches!(
            self,
            Event::SendBell { .. } | Event::RecvBell { .. } | Event::SharedBell { .. } | Event::Arm { .. }
        )
    }

    /// The process that can see the event.
    #[inline]
    pub fn touches(&self) -> Option<Touch> {
        match *self {
            Event::Write { to, len, .. } => {
                Some(Touch { member: to.process(), at: to.iova, len: len.into(), entry: false })
            }
            Event::Short { to, len, entry, .. } => {
                Some(Touch { member: to.process(), at: to.iova, len: len.into(), entry: entry.get() })
            }
            Event::Interrupt { member, .. } => Some(Touch { member, at: 0, len: 0, entry: false }),
            _ => None,
        }
    }
}
