//! What a card needs from its surroundings, and nothing else.
//!
//! The card core owns no thread, clock, socket or memory of others: each effect is a call on [`Env`]. By the wall clock
//! ([`crate::attach`]) effects are immediate; in simulated time ([`crate::sim`]) they become events.

use crate::address::Gid;
use crate::cells::Bells;
use crate::dma::{Addr, Atomic, DmaFault, Pieces, Undelivered};
use crate::gids::GidEntry;
use crate::packet::{Packet, Payload, PortId};

/// The surroundings of the cards. Methods that access memory fail with [`DmaFault`].
pub trait Env {
    /// Most bytes gathered at a time, but for whole frames.
    const GATHER_BYTES: u32;
    /// A whole frame is read when it leaves, not when its WQE is executed.
    const FETCHES_FRAMES: bool = false;
    /// A payload may be [`Payload::Pages`], which needs no room however much of it is under way.
    const TAKES_PAGES: bool = false;
    /// A queue pair that waits for its rate waits no shorter than that (ns), so that few timers do for many frames.
    const PACING_WAIT: u64 = 0;
    /// What it may catch up of the time in which it sent nothing (ns), as timers run late.
    const PACING_LATE: u64 = 1000;
    /// Time passes whether or not programs use the cards: ports can become one by LACP.
    const NEGOTIATES: bool = false;

    /// Writes a word of the [`journal`](crate::journal) before what it names is changed, where the process may die at any
    /// instruction. (In simulated time whoever executes an event does that.)
    fn note(&mut self, word: u64);
    /// Time in nanoseconds, monotonic.
    fn now(&mut self) -> u64;
    /// DMA read.
    fn read(&mut self, from: Addr, to: &mut [u8]) -> Result<(), DmaFault>;
    /// DMA read of 64-bit words (little endian).
    fn words<const N: usize>(&mut self, from: Addr) -> Result<[u64; N], DmaFault>;
    /// A hint that a later DMA read will need this memory.
    fn prefetch(&mut self, _at: Addr) {}
    /// DMA write.
    fn write(&mut self, to: Addr, from: &[u8]) -> Result<(), DmaFault>;
    /// DMA write of a queue entry (little endian, at most 64 bytes): its last word (with the phase bit) becomes
    /// visible after the rest and after all earlier DMA writes.
    fn publish<const N: usize>(&mut self, to: Addr, entry: [u64; N]) -> Result<(), DmaFault>;
    /// Completes all writes to a ring of `len` bytes that are still in flight, and those before them. Nothing will be
    /// written to the ring after this. Only control operations in simulated time have such writes, and settle; elsewhere nothing is in flight, or nobody
    /// asks.
    fn settle(&mut self, _ring: Addr, _len: u64) {}
    /// Completes all writes of payload to a process ([`Addr::process`]), or to a card's memory, that are still in flight.
    fn settle_payload(&mut self, _process: u16) {}
    /// Atomic read-modify-write of eight bytes (host order); returns the original value.
    fn atomic(&mut self, at: Addr, op: Atomic) -> Result<u64, DmaFault>;
    /// DMA read of pieces of memory into a payload that stays until the packet that carries it is delivered.
    fn gather(&mut self, pieces: &Pieces) -> Result<Payload, DmaFault>;
    /// A payload of these bytes (at most a header's), which stays until the next call.
    fn hold(&mut self, bytes: &[u8]) -> Payload;
    /// A payload of these bytes (at most an MTU's), which stays until the packet that carries it is delivered.
    fn stash(&mut self, bytes: &[u8]) -> Payload;
    /// The bytes of a packet's payload, as many as `to` has.
    fn payload(&mut self, payload: &Payload, to: &mut [u8]) -> Result<(), DmaFault>;
    /// DMA write of `len` bytes of a packet's payload, from byte `offset` of it.
    fn deliver(&mut self, to: Addr, payload: &Payload, offset: usize, len: usize) -> Result<(), Undelivered>;

    /// Sends a packet: a [`Packet::BLANK`], to be filled in before the next call. Once the payload of an unreliable
    /// packet has been read, the environment calls [`World::left`](crate::world::World::left).
    fn send(&mut self) -> &mut Packet;
    /// Runs a send queue again, after the packets sent and the queues named so far.
    fn send_later(&mut self, card: u16, qp: u16);
    /// Whether a QP that has executed this many WQEs in a row leaves the turn to others.
    fn ends_turn(&self, executed: u32) -> bool;
    /// A QP sent something: when the run ends, the environment calls
    /// [`arm_if_waiting`](crate::device::Device::arm_if_waiting).
    fn watch(&mut self, card: u16, qp: u16);
    /// A QP timer was armed for this time (ns).
    fn timer(&mut self, at: u64);
    /// Links of a card have changed, or whether its ports are one; by the wall clock the card is asked for that.
    fn links_changed(&mut self) {}

    /// Queue pairs of a card have joined multicast groups, or left some.
    fn groups_changed(&mut self) {}

    /// Asks who has an IP address on the link of a port, from an address of that port. True:
    /// [`World::found`](crate::world::World::found) is called if somebody answers. False: there is no need to ask.
    fn ask(&mut self, _from: PortId, _own: &GidEntry, _ip: &Gid) -> bool {
        false
    }

    /// A QP was notified that its packets meet congestion; only in simulated time that changes its rate.
    fn congestion_noticed(&mut self, _card: u16, _qp: u16) {}
    /// How long (ns) a QP that has notified the sender of packets that met congestion does not do so again; `None`: none does.
    fn notification_interval(&self) -> Option<u64> {
        None
    }

    /// A payload that was gathered or stashed is not sent.
    fn drop_payload(&mut self, _payload: &Payload) {}

    /// Whether this run has all the cards, and not only some of their queue pairs; if not, the environment runs the send
    /// queue again with all of them.
    fn has_all(&mut self, _card: u16, _qp: u16) -> bool {
        true
    }
    /// Whether this run has this queue pair too, which is about to change beside the one that it works on.
    fn has(&mut self, _card: u16, _qp: u16) -> bool {
        true
    }
    /// Whether this run has the queue pair that a datagram of queue pair `from` is for, or there is none; `None` is any number
    /// of them. If not, as [`has_all`](Env::has_all).
    fn reaches(&mut self, _from: (u16, u16), _to: Option<(u16, u16)>) -> bool {
        true
    }
    /// Does something with the event queues of a function, which belong to all of its queue pairs. `work` is told whether
    /// the last process to do so has died in it.
    fn with_events<R>(&mut self, _card: u16, _function: u16, work: impl FnOnce(&mut Self, bool) -> R) -> R {
        work(self, false)
    }

    /// Does something with a CQ that several islands share. `work` is told whether the last process to do so has died in it.
    fn with_cq<R>(&mut self, _card: u16, _cqn: u16, work: impl FnOnce(&mut Self, bool) -> R) -> R {
        work(self, false)
    }
    /// The island of this run; 0: all the cards.
    fn island(&self) -> u16 {
        0
    }

    /// The doorbells of a card.
    fn bells(&self, card: u16) -> &Bells;
    /// Whether the event of an armed CQ is held back when it reports `held` completions; if so, the environment calls
    /// [`held_event`](crate::device::Device::held_event) when it is due. Only the simulation that runs the cards holds events,
    /// control operations do not.
    fn holds_event(&mut self, _card: u16, _cqn: u16, _arming: u32, _held: u32) -> bool {
        false
    }
    /// Raises an interrupt of a function.
    fn interrupt(&mut self, card: u16, function: u16, vector: u8);
    /// Whether the process whose memory a DMA domain is still exists.
    fn exists(&mut self, domain: u16) -> bool;
}
