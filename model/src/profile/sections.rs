//! The numbers of a card profile.
//!
//! Each field's text says what it is physically and how the engine uses it.

use super::numbers::{sections, Number, Stored, Unit};
use super::Rate;
use crate::sim::{cache, pcie};

/// Longest time that a profile may give, in nanoseconds: a second.
const SECOND: f64 = 1e9;

sections! {
    /// The computer around the card: what a call costs its program. Everything else that the program does is free.
    host: Host {
        /// Building one WQE: added to the program's clock for each work request of `ibv_post_send`.
        post_ps: u64 = "post_ns" Nanoseconds 0..SECOND;
        /// Building one receive WQE: the same for each work request of `ibv_post_recv` and `ibv_post_srq_recv`.
        post_recv_ps: u64 = "post_recv_ns" Nanoseconds 0..SECOND;
        /// The processor's cost of the doorbell store, or of the stores to the push window, including the barrier: once
        /// per post call.
        doorbell_ps: u64 = "doorbell_ns" Nanoseconds 0..SECOND;
        /// Delay until the card has them, for each 64 bytes written through the push window (write combining). The
        /// writes are posted: the processor continues meanwhile.
        push_ps: u64 = "push_ns" Nanoseconds 0..SECOND;
        /// `ibv_poll_cq` that finds nothing.
        poll_empty_ps: u64 = "poll_empty_ns" Nanoseconds 0..SECOND;
        /// `ibv_poll_cq` that finds something: once per call.
        poll_ps: u64 = "poll_ns" Nanoseconds 0..SECOND;
        /// Each completion that `ibv_poll_cq` returns, on top of `poll_ns`.
        poll_cqe_ps: u64 = "poll_cqe_ns" Nanoseconds 0..SECOND;
        /// From the moment that a DMA write is visible until a program spinning on that memory
        /// has seen it: the fetch of the cache line. Added when a spin on memory ends.
        memory_poll_ps: u64 = "memory_poll_ns" Nanoseconds 0..SECOND;
        /// Reading a clock: rdtsc or clock_gettime.
        clock_read_ps: u64 = "clock_read_ns" Nanoseconds 0..SECOND;
        /// From the interrupt's arrival at the processor to the blocked thread running again.
        wake_ps: u64 = "wake_ns" Nanoseconds 0..SECOND;
        /// One-way time of a TCP message between two programs: from the send to the end of the receive.
        tcp_ps: u64 = "tcp_ns" Nanoseconds 0..SECOND;
        /// `ibv_resize_cq`: a command that goes through kernel and firmware. Requests posted before it have completed
        /// by then.
        resize_ps: u64 = "resize_ns" Nanoseconds 0..SECOND;
    }

    /// The slot. Used by `sim::pcie::Bus`; the engine itself adds only `msix_ns`.
    pcie: Pcie {
        /// Generation: transfer rate and line code of a lane.
        gen: u32 = "gen" Count 1..5;
        /// Lanes.
        lanes: u32 = "lanes" Count 1..16;
        /// Rate left for TLPs in each direction after line code, ordered sets, and the link layer's acknowledgements
        /// and flow control.
        pcie_bps: Rate = "tlp_gbps" Gigabits 0.1..1000.0;
        /// Largest payload of a TLP (MPS), a power of two.
        mps: u32 = "mps" Bytes 128..4096;
        /// Largest read request (MRRS), a power of two.
        mrrs: u32 = "mrrs" Bytes 128..4096;
        /// Read completion boundary: the largest first piece in which the host answers a read.
        rcb: u32 = "rcb" Bytes 64..128;
        /// Bytes of a memory write besides its payload: framing, sequence number, header, LCRC.
        mwr_overhead: u32 = "mwr_overhead" Bytes 12..64;
        /// Bytes of a read request.
        mrd_overhead: u32 = "mrd_overhead" Bytes 12..64;
        /// Bytes of a completion besides its data.
        cpld_overhead: u32 = "cpld_overhead" Bytes 12..64;
        /// From the processor's store until the card sees it (root complex and slot), without serialisation.
        mmio_ps: u64 = "mmio_ns" Nanoseconds 0..SECOND;
        /// From the end of a read request on the link to the first byte of its completion: root complex,
        /// memory and the way back, without serialisation.
        read_ps: u64 = "read_ns" Nanoseconds 0..SECOND;
        /// From the end of a write on the link until its data is visible to the processor.
        write_ps: u64 = "write_ns" Nanoseconds 0..SECOND;
        /// Read requests outstanding at a time (tags).
        reads_outstanding: u32 = "reads_outstanding" Count 1..pcie::MAX_READS;
        /// Writes in flight at a time: header credits that the root complex gives.
        posted_header_credits: u32 = "posted_header_credits" Count 1..pcie::MAX_POSTED;
        /// The same for data, in units of 16 bytes.
        posted_data_credits: u32 = "posted_data_credits" Count 8..65536;
        /// From the end of a write on the link until its credits are back at the card.
        credit_return_ps: u64 = "credit_return_ns" Nanoseconds 0..SECOND;
        /// From the end of an interrupt message (a 4 byte write) on the link until the processor takes it.
        msix_ps: u64 = "msix_ns" Nanoseconds 0..SECOND;
    }

    /// Send queues and requester, up to the packet.
    sq: Sq {
        /// The card's core clock: its period is the unit of every number in cycles.
        clock_ps: u64 = "clock_mhz" Megahertz 1.0..10000.0;
        /// From the doorbell's arrival to the fetch of the WQE or, if the WQE was pushed, to its use.
        doorbell_cycles: u32 = "doorbell_cycles" Cycles 0..1e6;
        /// 64 byte blocks of WQEs that one DMA read fetches at most. The card has room for two such reads.
        wqe_prefetch: u32 = "wqe_prefetch" Count 1..64;
        /// The next such read is issued when at most this number of blocks of the last one have not been started.
        wqe_low: u32 = "wqe_low" Count 0..64;
        /// Most messages of a QP that are started but whose payload has not been requested: the depth of its engine.
        ahead: u32 = "ahead" Count 1..1024;
        /// Serial work of a QP on each message: its next message starts no earlier than this after the one
        /// before (plus `gather_ns`). Occupancy, not latency.
        qp_ps: u64 = "qp_ns" Nanoseconds 0..SECOND;
        /// Unit in which payload is gathered; the first unit of a message is part of `qp_ns`.
        gather_bytes: u32 = "gather_bytes" Bytes 16..65536;
        /// Each further unit of a message's payload: added to the QP's serial work. Not for READ requests.
        gather_ps: u64 = "gather_ns" Nanoseconds 0..SECOND;
        /// Work of the whole requester on each message: messages of any QP start no closer than this.
        pipe_ps: u64 = "pipe_ns" Nanoseconds 0..SECOND;
        /// Latency from the WQE in the card to the first payload read (or to the packet, without payload).
        start_ps: u64 = "start_ns" Nanoseconds 0..SECOND;
        /// Largest payload that a WQE may carry inline. Reported to the program.
        inline_max: u32 = "inline_max" Bytes 0..fpga_regs::MAX_INLINE;
        /// Largest WQE that is pushed with the doorbell, so that the card need not fetch it; 0: none is.
        /// A multiple of 64.
        push_max: u32 = "push_max" Bytes 0..1024;
        /// 1: only WQEs with inline data are pushed (and only if the post call has one WQE), the others are
        /// fetched. 0: every WQE that is not larger than `push_max`, if the post call has one.
        push_inline_only: u32 = "push_inline_only" Count 0..1;
    }

    /// From payload to MAC.
    tx: Tx {
        /// Latency of building a packet and of the MAC up to the wire, without serialisation.
        tx_ps: u64 = "tx_ns" Nanoseconds 0..SECOND;
        /// Width of the data path, which stores and forwards whole packets: a packet needs
        /// `ceil(bytes / width)` cycles more, and packets follow each other no closer than that.
        width_bytes: u32 = "width_bytes" Bytes 1..1024;
        /// Idle time of the MAC between the last packet of a message and the first of the next of the
        /// same QP: the scheduler's turn. Other QPs' packets fit in.
        gap_ps: u64 = "gap_ns" Nanoseconds 0..SECOND;
        /// Making an acknowledgement: from the end of the packet's processing to the ACK at the MAC.
        ack_ps: u64 = "ack_ns" Nanoseconds 0..SECOND;
        /// Buffer of each port for payload fetched ahead of the MAC: a payload read waits until it fits.
        buffer_bytes: u32 = "buffer_bytes" Bytes 4096..1e9;
    }

    /// Port and cable. `Wire::packet_ps` gives the time of a packet.
    wire: Wire {
        /// Data rate of a port after line code.
        rate_bps: Rate = "rate_gbps" Gigabits 0.1..1000.0;
        /// Bytes before the BTH: Ethernet 14, IPv4 20, UDP 8; InfiniBand LRH 8. (IPv6 and VLAN come on top.)
        header_bytes: u32 = "header_bytes" Bytes 0..256;
        /// Bytes after the ICRC: Ethernet FCS, InfiniBand VCRC.
        fcs_bytes: u32 = "fcs_bytes" Bytes 0..64;
        /// Bytes between packets: preamble, start of frame and gap; InfiniBand's start and end symbols; anything else
        /// that separates two packets.
        preamble_gap_bytes: u32 = "preamble_gap_bytes" Bytes 0..256;
        /// Smallest frame with its FCS; shorter ones are padded.
        min_frame_bytes: u32 = "min_frame_bytes" Bytes 0..256;
        /// Delay of the cable and of any switch in it.
        cable_ps: u64 = "cable_ns" Nanoseconds 0.001..SECOND;
    }

    /// From MAC to memory.
    rx: Rx {
        /// Latency from the packet's last bit to its payload being written.
        rx_ps: u64 = "rx_ns" Nanoseconds 0..SECOND;
        /// Width of the data path, as `tx.width_bytes`.
        width_bytes: u32 = "width_bytes" Bytes 1..1024;
        /// Work on each packet: packets of a port are processed no closer than this.
        rx_packet_ps: u64 = "rx_packet_ns" Nanoseconds 0..SECOND;
        /// Latency of a READ or atomic request between `rx_ns` and the DMA read for its response.
        resp_read_ps: u64 = "resp_read_ns" Nanoseconds 0..SECOND;
        /// Packets of each side of a queue pair that the card keeps when they come out of order: selective repeat. 0: it
        /// keeps none, and goes back to what is missing (go-back-N). By the wall clock, too.
        reorder_packets: u32 = "reorder_packets" Count 0..crate::device::reorder::MAX_KEPT;
    }

    /// Completions.
    cqe: Cqe {
        /// From the event that completes a request (ACK received; data written) to the CQE's DMA write.
        cqe_ps: u64 = "cqe_ns" Nanoseconds 0..SECOND;
        /// Bytes of a CQE on the bus.
        cqe_bytes: u32 = "cqe_bytes" Bytes 16..128;
        /// Default CQ moderation: an event is held back until the CQ has this number of completions; 0: off.
        moderation_count: u32 = "moderation_count" Count 0..65535;
        /// ... or until this time has passed since the first completion after the CQ was armed; 0: off.
        moderation_ps: u64 = "moderation_ns" Nanoseconds 0..SECOND;
    }

    /// The card's caches of tables in host memory. On a miss the work waits for a DMA read.
    caches: Caches {
        /// Associativity of these caches: the number of entries in a set, of which the least recently used is
        /// replaced.
        ways: u32 = "ways" Count 1..64;
        /// QP contexts cached.
        qpc_entries: u32 = "qpc_entries" Count 1..cache::MAX_QPC;
        /// Bytes read when a QP context is missing.
        qpc_bytes: u32 = "qpc_bytes" Bytes 16..4096;
        /// Translations cached: one for each page of registered memory.
        mtt_entries: u32 = "mtt_entries" Count 1..cache::MAX_MTT;
        /// Bytes that one translation covers: the page of a memory region. A power of two.
        mtt_page_bytes: u32 = "mtt_page_bytes" Bytes 4096..1073741824;
        /// Bytes read when a translation is missing.
        mtt_bytes: u32 = "mtt_bytes" Bytes 8..4096;
        /// Memory keys cached.
        key_entries: u32 = "key_entries" Count 1..cache::MAX_KEYS;
        /// Bytes read when a key is missing.
        key_bytes: u32 = "key_bytes" Bytes 16..4096;
    }

    /// The limits that the card reports.
    limits: Limits {
        /// Path MTU of its ports: 256, 512, 1024, 2048 or 4096.
        mtu: u32 = "mtu" Bytes 256..4096;
        /// Ports.
        ports: u32 = "ports" Count 1..crate::packet::PORTS;
        /// Work requests of a queue.
        max_qp_wr: u32 = "max_qp_wr" Count 1..32768;
        /// Scatter/gather entries of a work request.
        max_sge: u32 = "max_sge" Count 1..fpga_regs::MAX_SGE;
        /// Entries of a completion queue.
        max_cqe: u32 = "max_cqe" Count 1..(1 << 22);
        /// Outstanding READs and atomics of a QP.
        max_rd_atom: u32 = "max_rd_atom" Count 1..crate::device::qp::RESOURCES;
    }
}

impl Wire {
    /// Time that a packet takes on the wire, including the gap to the next.
    /// `transport`: BTH, extension headers, payload and its padding; `extra`: bytes of IPv6 or VLAN tag.
    #[inline]
    pub fn packet_ps(&self, transport: u32, extra: u32) -> u64 {
        self.rate_bps.time((self.frame_bytes(transport, extra) + self.preamble_gap_bytes).into())
    }

    /// Time that a whole frame takes on the wire, including the gap to the next: `frame` bytes, without FCS.
    #[inline]
    pub fn whole_ps(&self, frame: u32) -> u64 {
        self.rate_bps.time((self.whole_bytes(frame) + self.preamble_gap_bytes).into())
    }

    /// Bytes of it, with FCS.
    #[inline]
    pub fn whole_bytes(&self, frame: u32) -> u32 {
        (frame + self.fcs_bytes).max(self.min_frame_bytes)
    }

    /// Bytes of its frame, with FCS.
    #[inline]
    pub fn frame_bytes(&self, transport: u32, extra: u32) -> u32 {
        const ICRC: u32 = 4;
        let frame = self.header_bytes + extra + transport + ICRC + self.fcs_bytes;
        frame.max(self.min_frame_bytes)
    }
}

impl Caches {
    /// QP contexts.
    #[inline]
    pub fn qpc(&self) -> cache::Size {
        cache::Size { entries: self.qpc_entries, ways: self.ways }
    }

    /// Translations.
    #[inline]
    pub fn mtt(&self) -> cache::Size {
        cache::Size { entries: self.mtt_entries, ways: self.ways }
    }

    /// Memory keys.
    #[inline]
    pub fn keys(&self) -> cache::Size {
        cache::Size { entries: self.key_entries, ways: self.ways }
    }
}

impl Sq {
    /// Serial work of a QP on a message with `payload` bytes to send.
    #[inline]
    pub fn message_ps(&self, payload: u64) -> u64 {
        self.qp_ps + payload.saturating_sub(1) / u64::from(self.gather_bytes.max(1)) * self.gather_ps
    }
}
