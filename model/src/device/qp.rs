//! The queue pair's context as the card holds it.

use crate::plain::{Flag, Plain};
use fpga_regs::{Access, QpContext, QpState, QpType, WqeCtrl, WqeSge, MAX_SGE};

use super::seen::Seen;
use crate::encapsulation::Encapsulation;
use crate::env::Env;
use crate::packet::{Packet, PortId};
use crate::wire::{Aeth, Operation, Transport};

/// The send side's progress. PSNs are 24-bit; indices count 64-byte blocks and run on (mod 2^32).
/// What each message changes is in the first cache line: with many queue pairs in turn, lines are what takes time.
#[derive(Clone, Copy, Plain)]
#[repr(C, align(64))]
pub struct Requester {
    /// Oldest WQE that is not complete.
    pub ci: u32,
    /// WQE to send from next.
    pub cur: u32,
    /// Next PSN to send.
    pub psn: u32,
    /// Oldest PSN that is not acknowledged.
    pub una: u32,
    /// First PSN of the WQE at `ci`.
    pub ci_psn: u32,
    /// Bytes of the message of the WQE at `cur` that are sent.
    pub cur_offset: u32,
    /// Requests sent.
    pub packets: u64,
    /// Bytes sent, from the Ethernet header to the ICRC.
    pub bytes: u64,
    /// Answers received. Not counted with the responder: the two sides of a QP are run by two processes, and share no line.
    pub rx_packets: u64,
    /// Bytes of the answers.
    pub rx_bytes: u64,
    /// Sending went back: what is before `begun` was begun, what is before `sent` sent, and goes out again.
    pub again: Flag,
    /// READs and atomics sent and not answered.
    pub rd_out: u8,
    /// Retries left after time-outs and sequence errors.
    pub retry: u8,
    /// Retries left after RNR NAKs (7: without limit).
    pub rnr: u8,
    /// Waits for the RNR timer.
    pub rnr_wait: Flag,
    /// The timer is armed for `deadline`.
    pub armed: Flag,
    /// A local error waits for the WQEs before it: 0, or the status to complete `cur` with.
    pub pending_status: u8,
    /// Its syndrome.
    pub pending_syndrome: u8,
    /// Answers are kept that came out of order.
    pub keeps: Flag,
    /// One found no room.
    pub dropped: Flag,
    /// How many came since what is missing was asked for.
    pub since: u8,
    /// Time of the timer (ns).
    pub deadline: u64,
    /// `head` is valid.
    pub head_cached: Flag,
    /// Index of `head`.
    pub head_index: u32,
    /// Control segment of the WQE at `head_index`, kept when it was sent as the oldest.
    pub head: WqeCtrl,
    /// How often sending went back (wraps): what was sent before and has not left is sent again.
    pub rewinds: u16,
    /// With `again`: WQEs before this index were begun. Their local operations are done.
    pub begun: u32,
    /// With `again`: one past the last PSN that was sent.
    pub sent: u32,
    /// Posted messages that wait for others to leave with.
    pub gathered: Gathered,
    /// RAW_PACKET: how far it is ahead of its rate limit.
    pub pace: super::pacing::Pace,
    /// Answers that came behind a missing one.
    pub seen: Seen,
}

/// Posted messages that wait for others to leave with: see [`Device::gathers`](super::Device::gathers).
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Gathered {
    /// Those before this WQE are counted.
    pub end: u32,
    /// Their packets.
    pub packets: u32,
}

/// The receive side's progress; as with [`Requester`], the first line is that of each message.
#[derive(Clone, Copy, Plain)]
#[repr(C, align(64))]
pub struct Responder {
    /// Expected PSN.
    pub epsn: u32,
    /// Message sequence number.
    pub msn: u32,
    /// Next receive WQE (running index).
    pub rq_ci: u32,
    /// Receive WQEs posted (running), as far as the card has looked.
    pub rq_pi: u32,
    /// Message in progress: see `IDLE`, `IN_SEND`, `IN_WRITE`.
    pub op: u8,
    /// A sequence NAK was sent for `epsn`.
    pub nak_sent: Flag,
    /// A receive WQE is loaded into [`Qp::recv`].
    pub has_recv: Flag,
    /// Next entry of [`Qp::resources`] to use.
    pub next_resource: u8,
    /// Communication established was reported.
    pub established: Flag,
    /// Requests are kept that came out of order.
    pub keeps: Flag,
    /// One that followed them found no room.
    pub dropped: Flag,
    /// How many came since the sequence NAK; [`NOT_MISSED`]: none was sent.
    pub since: u8,
    /// Requests received.
    pub packets: u64,
    /// Bytes received, from the Ethernet header to the ICRC.
    pub bytes: u64,
    /// Answers sent.
    pub tx_packets: u64,
    /// Bytes of the answers.
    pub tx_bytes: u64,
    /// What is missing before this PSN has been asked for.
    pub asked: u32,
    /// Bytes of the message received.
    pub offset: u32,
    /// Key of the WRITE in progress.
    pub rkey: u32,
    /// Address of the WRITE in progress.
    pub va: u64,
    /// Length of the WRITE in progress.
    pub length: u32,
}

impl Responder {
    /// Receive WQEs in the QP's own ring, as far as it has to be known; `producer` is what its doorbell said.
    #[inline(always)]
    pub fn posted(&mut self, producer: impl FnOnce() -> u32) -> u32 {
        if self.rq_pi == self.rq_ci {
            // The line of the doorbell belongs to the posting process: it is read only when all known WQEs are used up.
            self.rq_pi = producer();
        }
        self.rq_pi.wrapping_sub(self.rq_ci)
    }
}

/// What follows a request that is sent again later is not missed.
pub const NOT_MISSED: u8 = u8::MAX;

/// Between messages.
pub const IDLE: u8 = 0;
/// Within a SEND.
pub const IN_SEND: u8 = 1;
/// Within a WRITE.
pub const IN_WRITE: u8 = 2;

/// A responder resource: what is needed to answer a duplicate READ or atomic.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Resource {
    /// Original value of an atomic.
    pub original: u64,
    /// First PSN.
    pub psn: u32,
    /// PSNs that the answer takes.
    pub count: u32,
    /// 0 unused, 1 READ, 2 atomic.
    pub kind: u8,
}

/// A receive WQE in use: a copy, as another QP may use the SRQ's slot while its message is in progress.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct RecvWqe {
    /// Index that the CQE returns.
    pub index: u32,
    /// Scatter entries used.
    pub num_sge: u32,
    /// Bytes that they can take.
    pub room: u64,
    /// Scatter entries.
    pub sges: [WqeSge; MAX_SGE],
}

/// Responder resources per QP: the largest `max_dest_rd_atomic`.
pub const RESOURCES: usize = 16;

/// A queue pair. Zero is a free slot.
#[derive(Clone, Copy, Plain)]
#[repr(C, align(64))]
pub struct Qp {
    /// Slot in use.
    pub used: Flag,
    /// State.
    pub state: QpState,
    /// Service type.
    pub qp_type: QpType,
    /// log2 of the path MTU in bytes.
    pub mtu_log: u8,
    /// QP number.
    pub qpn: u32,
    /// Protection domain.
    pub pd: u32,
    /// DMA domain.
    pub domain: u16,
    /// Function.
    pub function: u16,
    /// CQ of the send queue.
    pub send_cq: u16,
    /// CQ of the receive queue.
    pub recv_cq: u16,
    /// Shared receive queue, when `has_srq`.
    pub srq: u16,
    /// Receives from an SRQ.
    pub has_srq: Flag,
    /// Every send WQE is signaled.
    pub sq_sig_all: Flag,
    /// The VLAN tags of received frames go into their CQEs.
    pub strip_vlan: Flag,
    /// Received frames have their check sequence behind them.
    pub scatter_fcs: Flag,
    /// The RQ's doorbell runs the QP (it is in error).
    pub flushing: Flag,
    /// The encapsulation of its packets.
    pub encapsulation: Encapsulation,
    /// Remote access that the QP grants (`Access` bits).
    pub access: u8,
    /// log2 of the receive stride in bytes.
    pub rq_stride_log: u8,
    /// Own port.
    pub port: PortId,
    /// Peer's port (connected).
    pub dest: PortId,
    /// Peer's QP number (connected).
    pub dest_qpn: u32,
    /// Q_Key.
    pub qkey: u32,
    /// Send ring size in blocks, less one.
    pub sq_mask: u32,
    /// Receive ring size in entries, less one.
    pub rq_mask: u32,
    /// Send ring.
    pub sq_iova: u64,
    /// Receive ring.
    pub rq_iova: u64,
    /// Generation of the slot (bits 16..24 of the QPN).
    pub generation: u8,
    /// XRC_RECV: its domain.
    pub xrcd: u32,
    /// PSNs that may be outstanding.
    pub window: u32,
    /// Most bytes of a train.
    pub train: u32,
    /// Which of two turns it has, where ports are one.
    pub turn: u8,
    /// The port by which its packets leave: its own, but where ports are one.
    pub leaves: u8,
    /// The port by which packets for it arrive.
    pub arrives: u8,
    /// Send side.
    pub req: Requester,
    /// Receive side.
    pub resp: Responder,
    /// All attributes as last set (QUERY_QP).
    pub attributes: QpContext,
    /// Answers kept for duplicates.
    pub resources: [Resource; RESOURCES],
    /// Receive WQE in use.
    pub recv: RecvWqe,
    /// Indices of the last send and receive WQE whose CQE was written to a CQ that islands share; [`NO_WQE`] if none was.
    pub written: [u32; 2],
    /// RAW_PACKET, WQ: until when frames wait for its receives (ns), none after that until it posts one; 0: it has some.
    pub waits_until: u64,
    /// RAW_PACKET, WQ: frames wait until it posts a receive.
    pub awaited: Flag,
    /// Entries of the receive CQ when the QP took its receive WQE from an SRQ.
    pub taken_at: u32,
    /// When its peer may be notified again that packets met congestion (ns).
    pub notifies_at: u64,
}

/// No index of a WQE that is next to complete, but once in 2^32.
pub const NO_WQE: u32 = u32::MAX;

impl Qp {
    /// Transport service of its packets.
    #[inline]
    pub fn transport(&self) -> Transport {
        transport_of(self.qp_type)
    }

    /// Whether its requests are answered.
    #[inline(always)]
    pub fn is_reliable(&self) -> bool {
        matches!(self.qp_type, QpType::RC | QpType::XRC_SEND | QpType::XRC_RECV)
    }

    /// A message, or what has a receive WQE, is on its way into it.
    pub fn receiving(&self) -> bool {
        self.resp.op != IDLE || self.resp.has_recv.get()
    }

    /// Path MTU in bytes.
    #[inline]
    pub fn mtu(&self) -> u32 {
        1 << self.mtu_log
    }

    /// Packets that a message of `length` bytes takes (at least one).
    #[inline]
    pub fn packets(&self, length: u32) -> u32 {
        ((length as u64 + self.mtu() as u64 - 1) >> self.mtu_log).max(1) as u32
    }

    /// Whether the QP lets its peer do that.
    #[inline(always)]
    pub(crate) fn grants(&self, right: Access) -> bool {
        self.access & right.0 == right.0
    }

    /// A packet of this QP to its peer.
    #[inline(always)]
    pub(super) fn packet<'e>(&self, operation: Operation, psn: u32, env: &'e mut impl Env) -> &'e mut Packet {
        let p = env.send();
        p.transport = self.transport();
        p.operation = operation;
        (p.src, p.dst) = (self.port, self.dest);
        p.dest_qpn = self.dest_qpn;
        p.src_qpn = self.qpn;
        p.psn = psn;
        p.encapsulation = self.encapsulation;
        p
    }

    /// An acknowledgement is sent, as a packet or not.
    #[inline(always)]
    pub(super) fn count_ack(&mut self) {
        self.resp.tx_packets += 1;
        self.resp.tx_bytes += self.ack_bytes();
    }

    /// Bytes of an acknowledgement's frame, from the Ethernet header to the ICRC.
    #[inline(always)]
    pub(crate) fn ack_bytes(&self) -> u64 {
        self.encapsulation.overhead() + Aeth::BYTES as u64
    }

    /// An answer of this QP's responder.
    #[inline(always)]
    pub(super) fn reply<'e>(&self, operation: Operation, psn: u32, env: &'e mut impl Env) -> &'e mut Packet {
        let p = self.packet(operation, psn, env);
        p.msn = self.resp.msn;
        p
    }

    /// Whether whole frames are put into its receive queue.
    pub fn takes_frames(&self) -> bool {
        matches!(self.qp_type, QpType::RAW_PACKET | QpType::WQ)
    }

    /// Whether packets are received in this state.
    #[inline]
    pub fn receives(&self) -> bool {
        receives_in(self.state)
    }
}

/// Transport service of a type's packets.
#[inline]
pub(super) fn transport_of(qp_type: QpType) -> Transport {
    match qp_type {
        QpType::RC => Transport::RC,
        QpType::UC => Transport::UC,
        QpType::UD => Transport::UD,
        // No packet is of this one, so no packet comes to whom whole frames are for.
        QpType::RAW_PACKET | QpType::WQ | QpType::RX_HASH => Transport::RD,
        _ => Transport::XRC,
    }
}

/// Whether packets are received in a state.
#[inline]
pub(super) fn receives_in(state: QpState) -> bool {
    matches!(state, QpState::RTR | QpState::RTS | QpState::SQD | QpState::SQE)
}
