//! The card core: everything that the card holds and does, as one struct laid out as memory.
//!
//! [`Device`] has fixed capacity, indices instead of pointers, no heap, and zero bytes are its
//! initial state, so it can be in a shared segment, on a heap or in a file. It owns no
//! thread, clock or socket: inputs are register accesses ([`Device::bar_write`]), packets
//! ([`Device::receive`]), send queue runs ([`Device::run_send`]) and timers
//! ([`Device::run_timers`]); outputs are calls on [`Env`](crate::env::Env).
//!
//! | file | one idea |
//! |---|---|
//! | `registers`, `functions` | BAR0 of each function; attach, reset, detach |
//! | `admin`, `command_error`, `objects`, `create`, `modify` | the admin queue: commands and why they are refused; objects and QPs that it creates; states of a QP |
//! | `regions`, `memory` | memory regions and windows as it creates and changes them; the card's own memory |
//! | `tables`, `qp`, `slots` | the objects as the card holds them; where a free place is |
//! | `keys`, `windows` | memory keys: rights, bounds, translation; memory windows |
//! | `wqe`, `gather` | fetching send WQEs; their local buffers |
//! | `requester`, `progress` | executing send WQEs; how far a QP has sent, and the way back |
//! | `requester_ack`, `complete`, `timers` | answers, what they complete, time-outs and retries |
//! | `seen` | answers that came behind a missing one |
//! | `reorder`, `kept`, `repeat` | selective repeat: memory for packets out of order, what is kept there, what is sent again |
//! | `responder`, `responder_reads`, `refusal` | requests of the connected peer, and why they are refused |
//! | `outside`, `addressee` | ports that lead out of the segment; which QP takes a packet that comes from there |
//! | `notification` | congestion notifications (CNP) |
//! | `uc`, `ud`, `extended` | unreliable requests; datagrams and multicast; XRC |
//! | `passing` | counts of packets that pass a port |
//! | `cable`, `lag`, `pause` | a port's link; bonded ports; whether frames wait for receivers |
//! | `flow` | commands for flow rules |
//! | `raw`, `segment`, `arrival` | raw packet queue pairs: whole frames; TCP that is cut into frames; frames as they are received |
//! | `pacing` | rate limits of raw packet queue pairs |
//! | `rss` | work queues that frames are spread over |
//! | `recv` | receive WQEs and SRQs |
//! | `cq`, `error` | completions and events; the error state and flushing |
//! | `defect`, `recovery` | cards with a defect; repair after the death of a process |

mod addressee;
mod admin;
pub(crate) mod arrival;
mod cable;
mod command_error;
mod complete;
mod cq;
mod create;
pub mod defect;
mod error;
mod extended;
mod flow;
mod functions;
mod gather;
#[cfg(test)]
mod hostile_tests;
mod kept;
mod keys;
pub(crate) mod lag;
mod memory;
mod modify;
mod notification;
mod objects;
mod outside;
pub(crate) mod pacing;
mod passing;
mod pause;
mod progress;
pub mod qp;
pub(crate) mod raw;
mod recovery;
mod recv;
mod refusal;
mod regions;
mod registers;
pub mod reorder;
mod repeat;
mod requester;
mod requester_ack;
mod responder;
mod responder_reads;
mod rss;
mod seen;
mod segment;
mod slots;
pub mod tables;
pub(crate) mod timers;
mod uc;
mod ud;
mod windows;
mod wqe;

use crate::plain::{Flag, Plain};
use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::address::Guids;
use crate::cm::mad::GSI_QPN;
use crate::gids::GidTables;
use crate::packet::{Packet, PORTS};
use crate::segment::{Label, ISLANDS};
use crate::steering::Rules;
use fpga_regs::regs::port;
use fpga_regs::CardLimits;
use qp::Qp;
use tables::*;

pub(crate) use keys::{KeyError, Range as KeyRange};
pub use registers::FEATURES;
pub use responder::Outcome;
pub use slots::Slots;
pub use timers::timeout_nanoseconds;
pub(crate) use ud::MULTICAST_QPN;
pub(crate) use wqe::bytes;

/// Counters of a port, in the order of their registers. Live QPs count their packets themselves, which reads of a register
/// add. Atomic, as queue pairs of several islands count.
#[derive(Plain)]
#[repr(C)]
pub struct Counters([AtomicU64; COUNTERS]);

const COUNTERS: usize = ((port::TX_DISCARDS - port::TX_PACKETS) / 8 + 1) as usize;

impl Counters {
    /// The counter whose register has this offset in the port's block.
    fn at(&self, register: u32) -> &AtomicU64 {
        &self.0[((register - port::TX_PACKETS) / 8) as usize]
    }

    /// Its value.
    pub fn get(&self, register: u32) -> u64 {
        self.at(register).load(Relaxed)
    }

    /// Adds to it.
    pub fn add(&self, register: u32, count: u64) {
        self.at(register).fetch_add(count, Relaxed);
    }
}

/// Whether the medium of a port is outside of the segment.
#[derive(Clone, Copy, Debug, Plain)]
#[repr(C)]
pub struct Outside {
    /// It is: packets for [`PortId::NOBODY`](crate::packet::PortId::NOBODY) leave by it.
    pub on: Flag,
    /// Whole frames travel by it, too.
    pub frames: Flag,
    /// It has no link.
    pub no_link: Flag,
    /// The port's Ethernet address there.
    pub mac: [u8; 6],
    /// Bytes that a queue pair may have in flight there.
    pub window: u32,
}

/// Settings of a card's ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Plain)]
#[repr(C)]
pub struct PortSetting {
    /// Largest path MTU in bytes: 256, 512, 1024, 2048 or 4096.
    pub mtu: u32,
    /// Line rate in Mb/s.
    pub mbps: u32,
}

impl Default for PortSetting {
    /// 10GbE with jumbo frames.
    fn default() -> Self {
        PortSetting { mtu: 4096, mbps: 10_000 }
    }
}

/// A card: all its state. See the [module](self).
#[derive(Plain)]
#[repr(C)]
pub struct Device {
    /// Number of the card in its segment.
    pub id: u16,
    /// The card exists.
    pub present: Flag,
    /// Number of cards in the segment.
    pub cards: u16,
    /// By island: the QPs of overrun CQs are being moved to the error state.
    ends_cqs: [Flag; ISLANDS],
    /// A queue pair was created, changed or destroyed: a new epoch must begin, which voids all labels of islands.
    pub islands_void: Flag,
    /// 1: an event of a CQ may be held back, because software has set moderation.
    pub(crate) moderates: AtomicU32,
    /// The defect that it was started with, if any.
    pub defect: defect::Defect,
    /// Its limits, from its profile.
    pub limits: CardLimits,
    /// Settings of its ports.
    pub port: PortSetting,
    /// By port: whether its medium is outside of the segment.
    pub outside: [Outside; PORTS],
    /// The cable of each port.
    cables: [cable::Cable; PORTS],
    /// Whether and how its ports are bonded.
    pub lag: lag::Lag,
    /// When LACP has to run next (ns); 0: never.
    pub(crate) lacp_due: u64,
    /// A link or the bonding has changed: the ports that packets take must be chosen again.
    pub(crate) links_changed: Flag,
    /// Flow control (pause) of each port.
    pauses: [pause::Pause; PORTS],
    /// What the node GUIDs of the segment's cards begin with.
    pub guids: Guids,
    /// Mixed into the numbers of its queue pairs, so that they differ from those of earlier nets.
    pub salt: u8,
    /// GID tables of the segment's ports, this card's among them.
    pub gids: GidTables,
    /// Counters by port.
    pub counters: [Counters; PORTS],
    /// QP timers.
    pub timers: timers::Timers,
    /// Which entries of the following tables are in use.
    tables: Tables,
    /// Functions, one for each time that the card is open.
    pub functions: [Function; MAX_FUNCTIONS],
    /// How many XRC domains were created so far.
    xrc_domains: u32,
    /// XRC domains.
    pub xrcds: [Xrcd; MAX_XRCDS],
    /// Which functions hold which XRC_RECV queue pairs open.
    pub holds: [Hold; MAX_HOLDS],
    /// Protection domains.
    pub pds: [Pd; MAX_PDS],
    /// Multicast groups.
    pub mcast: [Mcast; MAX_MCAST],
    /// Flow rules: which frames go to which raw packet queue pair.
    pub(crate) rules: Rules,
    /// Indirection tables of RSS.
    indirections: [Indirection; MAX_INDIRECTIONS],
    /// Allocated parts of the card's own memory.
    parts: [Part; MAX_PARTS],
    /// Packets kept out of order, for selective repeat.
    pub(crate) reorder: reorder::Reorder,
    /// Completion queues.
    pub cqs: [Cq; MAX_CQS],
    /// Shared receive queues.
    pub srqs: [Srq; MAX_SRQS],
    /// Memory regions and windows.
    pub keys: [Key; MAX_KEYS],
    /// Queue pairs.
    pub qps: [Qp; MAX_QPS],
}

/// Which entries of each table are in use.
#[derive(Clone, Copy, Default, Plain)]
#[repr(C)]
pub struct Tables {
    pd: Slots<MAX_PDS>,
    key: Slots<MAX_KEYS>,
    cq: Slots<MAX_CQS>,
    srq: Slots<MAX_SRQS>,
    qp: Slots<MAX_QPS>,
    function: Slots<MAX_FUNCTIONS>,
    xrcd: Slots<MAX_XRCDS>,
    hold: Slots<MAX_HOLDS>,
    indirection: Slots<MAX_INDIRECTIONS>,
}

impl Device {
    /// Turns zeroed memory into a card.
    pub fn init(&mut self, id: u16, cards: u16, limits: CardLimits, port: PortSetting) {
        self.id = id;
        self.cards = cards;
        self.limits = limits;
        self.port = port;
        self.guids = Guids::INSIDE;
        self.gids.init(cards);
        // QP 1 has no queues here: software sends its datagrams, of 256 bytes.
        self.qps[GSI_QPN as usize].mtu_log = 8;
        self.present = true.into();
    }

    /// The QP index of a QP number, if that QP exists.
    #[inline]
    pub fn find_qp(&self, qpn: u32) -> Option<usize> {
        let index = (qpn & 0xffff) as usize;
        let qp = self.qps.get(index)?;
        (qp.used.get() && qp.qpn == qpn).then_some(index)
    }

    /// The QPs that may be in use, from `first` on.
    #[inline]
    pub fn qps_from(&self, first: usize) -> Range<usize> {
        first..self.tables.qp.range().end
    }

    /// Takes the place of a queue pair that a test makes.
    #[cfg(test)]
    pub(crate) fn take_qp(&mut self, q: usize) {
        self.tables.qp.take(q..q + 1, |_| false).expect("a place");
    }

    /// The CQs and SRQs of one island become another's.
    pub(crate) fn rename_island(&mut self, from: Label, to: Label) {
        let cqs = self.cqs[self.tables.cq.range()].iter_mut().map(|cq| &mut cq.island);
        let srqs = self.srqs[self.tables.srq.range()].iter_mut().map(|srq| &mut srq.island);
        cqs.chain(srqs).filter(|label| **label == from).for_each(|label| *label = to);
    }

    /// Counts an event at a port.
    #[inline]
    fn count(&self, port: u8, register: u32) {
        self.counters[port as usize % PORTS].add(register, 1);
    }

    /// Counts the packets of a train at a port, as if each had come by itself.
    #[cold]
    fn count_packets(&self, port: u8, register: u32, p: &Packet) {
        self.counters[port as usize % PORTS].add(register, p.count.into());
    }
}
