//! What the simulation knows of each packet, message, flow, QP, port and card.

use super::{cache, pcie};
use crate::congestion::dcqcn::RateControl;
use crate::device::tables::{MAX_CQS, MAX_FUNCTIONS, MAX_QPS, MAX_SRQS};
use crate::packet::{Packet, PORTS};
use crate::plain::{Flag, Kept, Plain};

/// A packet in flight.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Slot {
    /// The packet, `count == 1`.
    pub packet: Kept<Packet>,
    /// References to it.
    pub refs: u16,
    /// QP index and side (`flow_id`) that sent it.
    pub flow: u16,
    /// Bytes of its payload in the transmit buffer.
    pub fetched: u16,
    /// Its payload could not be read.
    pub unread: Flag,
    /// It has arrived, and waits for the receive pipeline.
    pub waits: Flag,
    /// The receiver's context was looked up.
    pub warm: Flag,
    /// The next that waits for the MAC, plus one.
    pub next: u32,
    /// Its message (see `trace`).
    pub message: u32,
    /// Since when it has been in its phase of the trace.
    pub since: u64,
}

/// A train of packets whose payload is not fetched yet.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Job {
    /// The train.
    pub packet: Kept<Packet>,
    /// The next of the same flow.
    pub next: u32,
    /// Packets whose payload has been requested.
    pub issued: u32,
    /// Not before this time.
    pub start: u64,
    /// The translation of its next packet has arrived.
    pub known: Flag,
    /// Reads that it took to gather the stash.
    pub gathers: u16,
    /// The QP's count of rewinds when the job was made.
    pub back: u16,
    /// The message (see `trace`).
    pub message: u32,
    /// When it was made.
    pub born: u64,
}

/// The jobs of one side of a QP that wait to be fetched.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Flow {
    /// First job plus one, 0: none.
    pub head: u32,
    /// Last job plus one.
    pub tail: u32,
    /// Jobs.
    pub count: u16,
    /// Next flow in the port's round, plus one.
    pub next: u16,
    /// When its last packet was ready: packets of a flow keep their order.
    pub last_ready: u64,
}

/// Timing state of a QP.
#[derive(Clone, Copy, Plain)]
#[repr(C, align(64))]
pub struct QpTime {
    /// Sending side, answering side.
    pub flows: [Flow; 2],
    /// Packets of the sending side that have left their flow, but not the card.
    pub unsent: u16,
    /// A `Send` event is in the queue.
    pub pending: Flag,
    /// The context for its next WQE has arrived.
    pub known: Flag,
    /// When its last send doorbell, and its last receive doorbell, are decoded.
    pub rung: [u64; 2],
    /// Waits for its jobs to be fetched.
    pub stalled: Flag,
    /// When its engine is free for the next message.
    pub free_at: u64,
    /// First block of the WQEs in the card.
    pub base: u32,
    /// One past the last block of the first batch that was fetched, and of the second.
    pub upto: [u32; 2],
    /// When they are in the card.
    pub done: [u64; 2],
    /// When they were requested.
    pub asked: [u64; 2],
    /// First block of the WQE started last: names the message in the trace.
    pub message: u32,
    /// Frames that have come and wait for a receive, first and last plus one.
    pub parked: (u32, u32),
    /// A `Patience` event is in the queue.
    pub waited_for: Flag,
}

/// Timing state of a port.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct PortTime {
    /// When the MAC is free to send.
    pub free_at: u64,
    /// The flow that sent last, plus one.
    pub last_flow: u16,
    /// The round of flows that wait for a fetch: first and last, plus one.
    pub round: (u16, u16),
    /// Bytes of payload requested or in the transmit buffer.
    pub fetched: u32,
    /// Those of them that have not arrived yet; the rest has a time slot on the wire.
    pub coming: u32,
    /// When the last packet in flight to it arrives.
    pub last_arrival: u64,
    /// When the receive pipeline is free.
    pub rx_free_at: u64,
    /// Packets that wait for it.
    pub rx_waits: u16,
    /// With a switch, packets that wait for the MAC, first and last plus one: notifications, and all others.
    pub mac: [(u32, u32); 2],
    /// When the MAC is looked at again.
    pub mac_at: u64,
    /// The switch has told it to pause.
    pub paused: Flag,
}

/// Timing state of a card. What each packet changes is in its first two pages, but for the QPs after the first eight: with many
/// cards in turn, each page takes a walk through the page tables.
#[derive(Plain)]
#[repr(C, align(4096))]
pub struct CardTime {
    /// Its ports.
    pub ports: [PortTime; PORTS],
    /// When the requester's pipeline is free.
    pub pipe_free_at: u64,
    /// What was used last of `qpc`.
    pub recent_qpc: cache::Recent,
    /// The same of `mtt`.
    pub recent_mtt: cache::Recent,
    /// The same of `keys`.
    pub recent_keys: cache::Recent,
    /// Its PCIe slot.
    pub bus: pcie::Bus,
    /// Its QPs.
    pub qps: [QpTime; MAX_QPS],
    /// QP contexts in the card.
    pub qpc: cache::Cache<{ cache::MAX_QPC }>,
    /// Translations in the card.
    pub mtt: cache::Cache<{ cache::MAX_MTT }>,
    /// Memory keys in the card.
    pub keys: cache::Cache<{ cache::MAX_KEYS }>,
    /// When the last doorbell of an SRQ is decoded.
    pub srqs_rung: [u64; MAX_SRQS],
    /// When the last arming of a CQ is.
    pub cqs_rung: [u64; MAX_CQS],
    /// What congestion control makes of each QP.
    pub rates: [QpRate; MAX_QPS],
    /// The process that owns a function.
    pub members: [u16; MAX_FUNCTIONS],
    /// When its last interrupt can have woken a thread.
    pub interrupt_at: [u64; MAX_FUNCTIONS],
}

/// Congestion as a queue pair knows it.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct QpRate {
    /// The life of its queues ([`QpBells::life`](crate::cells::QpBells::life)) that this is about.
    pub(super) life: u32,
    /// Its rate.
    pub(super) control: RateControl,
    /// When it may send its next packet.
    pub(super) next_at: u64,
}

impl QpRate {
    /// It sends a packet that takes so long at its rate. Requests and answers take turns: each of them counts.
    pub(super) fn sent(&mut self, now: u64, takes: u64) {
        self.next_at = self.next_at.max(now).saturating_add(takes);
    }
}
