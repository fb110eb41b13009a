//! What a card needs from its surroundings, and all that it may ask of them.
//!
//! The card core owns no thread, clock, socket or memory of others: each effect is a call on
//! [`Env`]. The wall-clock environment answers at once ([`crate::attach`]); one with simulated time
//! may answer later, since every continuation is a [`Work`] item that the environment hands back.

use crate::dma::{Addr, Atomic, DmaFault, Undelivered};
use crate::packet::{Packet, Payload};

/// Work that the environment hands back to the cards, in order.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// A packet or train arrives.
    Packet(Packet),
    /// A send queue may have something to do.
    Send {
        /// Card.
        card: u8,
        /// QP index.
        qp: u16,
    },
}

/// The surroundings of the cards. Methods that access memory fail with [`DmaFault`].
pub trait Env {
    /// WQEs that a QP sends before others have a turn.
    const TURN: u32;
    /// Most bytes of a train: bounds the time that one QP holds the card.
    const TRAIN_BYTES: u32;
    /// Most bytes gathered at a time.
    const STASH_BYTES: u32;
    /// The payload of a packet is taken when it is sent. Where it is not, it is read when the packet is delivered, and
    /// the environment calls [`World::left`](crate::world::World::left) after that.
    const TAKES_PAYLOAD: bool;

    /// Time in nanoseconds, monotonic.
    fn now(&mut self) -> u64;
    /// DMA read.
    fn read(&mut self, from: Addr, to: &mut [u8]) -> Result<(), DmaFault>;
    /// DMA read of 64-bit words (little endian).
    fn words<const N: usize>(&mut self, from: Addr) -> Result<[u64; N], DmaFault>;
    /// A QP goes back: what it has said to send and has not begun to is not sent, for it is said again.
    fn goes_back(&mut self, _card: u8, _qp: u16) {}
    /// Entries that are under way to a ring of so many bytes are there, and what was written before them: nothing will be
    /// written to it any more.
    fn settle(&mut self, _ring: Addr, _len: u64) {}
    /// Memory that a later DMA read will want: only a hint.
    fn prefetch(&mut self, at: Addr);
    /// DMA write.
    fn write(&mut self, to: Addr, from: &[u8]) -> Result<(), DmaFault>;
    /// DMA write of a queue entry (little endian, at most 64 bytes): its last word (with the phase bit) becomes
    /// visible after the rest and after all earlier DMA writes.
    fn publish<const N: usize>(&mut self, to: Addr, entry: [u64; N]) -> Result<(), DmaFault>;
    /// Atomic read-modify-write of eight bytes (host order); returns the original value.
    fn atomic(&mut self, at: Addr, op: Atomic) -> Result<u64, DmaFault>;
    /// Makes a gather buffer of `len` bytes that lives until the packet that carries it is delivered.
    fn stash(&mut self, len: usize) -> u32;
    /// Whether enough is gathered and not delivered yet: send queues give their turn to what is under way.
    fn gathered_enough(&self) -> bool {
        false
    }
    /// A gather buffer is no longer needed. (That of a packet need not be given back.)
    fn unstash(&mut self, stash: u32) {
        let _ = stash;
    }
    /// DMA read into a gather buffer.
    fn stash_read(&mut self, stash: u32, offset: usize, from: Addr, len: usize) -> Result<(), DmaFault>;
    /// Fills a gather buffer.
    fn stash_fill(&mut self, stash: u32, bytes: &[u8]);
    /// Hands work to the cards after whatever was handed over before.
    fn push(&mut self, work: Work);
    /// Sends a packet: hands [`Packet::BLANK`] to the cards as [`push`](Env::push) does, and returns it
    /// to be filled in its place before the next call.
    fn send(&mut self) -> &mut Packet;
    /// Whether the event of an armed CQ is held back when it tells of `held` completions; if so, the
    /// environment calls [`held_event`](crate::device::Device::held_event) when its time has come.
    fn holds_event(&mut self, card: u8, cqn: u16, arming: u32, held: u32) -> bool {
        let _ = (card, cqn, arming, held);
        false
    }
    /// Raises an interrupt of a function.
    fn interrupt(&mut self, card: u8, function: u16, vector: u8);
    /// A QP sent something: when the run ends, it may need a timer
    /// ([`arm_if_waiting`](crate::device::Device::arm_if_waiting)).
    fn watch(&mut self, card: u8, qp: u16);
    /// Takes a QP from those noted by [`watch`](Env::watch).
    fn watched(&mut self) -> Option<(u8, u16)>;
    /// A QP timer was armed for this time (ns).
    fn timer(&mut self, at: u64);
    /// The producer index of a send queue, as its doorbell left it.
    fn sq_producer(&mut self, card: u8, qp: u16) -> u32;
    /// The producer index of a receive queue. `watch`: the environment runs the QP at its next doorbell.
    fn rq_producer(&mut self, card: u8, qp: u16, watch: bool) -> u32;
    /// The producer index of a shared receive queue.
    fn srq_producer(&mut self, card: u8, srq: u16) -> u32;
    /// Resets the doorbells of a QP to zero (creation, reset); only this function rings them from now on.
    fn reset_doorbells(&mut self, card: u8, qp: u16, function: Option<u16>);
    /// Resets the doorbell of an SRQ to zero; only this function rings it from now on.
    fn reset_srq_doorbell(&mut self, card: u8, srq: u16, function: Option<u16>);

    /// Writes `len` bytes of a packet's payload from `offset` on to memory.
    fn deliver(&mut self, to: Addr, payload: &Payload, offset: usize, len: usize) -> Result<(), Undelivered>;
    /// Whether the process whose memory a DMA domain is still exists.
    fn exists(&mut self, domain: u16) -> bool {
        let _ = domain;
        true
    }
}
