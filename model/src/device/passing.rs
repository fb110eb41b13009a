//! What passes a port: a packet that comes whole counts as received, whatever becomes of it, and one that leaves as sent.
//!
//! A queue pair counts what comes to it and what it sends; [`Device::counter`] adds that up, so that the data path shares no line
//! between processes. The rest, which is rare, the port counts itself.

use fpga_regs::regs::port;

use super::qp::Qp;
use super::{Counters, Device};
use crate::cm::mad::GSI_QPN;
use crate::packet::{Packet, PORTS};

impl Qp {
    /// A request or datagram has come.
    #[inline(always)]
    pub(super) fn request_came(&mut self, p: &Packet) {
        self.resp.packets += u64::from(p.count);
        self.resp.bytes += p.wire_bytes(p.payload.len() as u32);
    }

    /// An answer has come.
    #[inline(always)]
    pub(super) fn answer_came(&mut self, p: &Packet) {
        self.req.rx_packets += u64::from(p.count);
        self.req.rx_bytes += p.wire_bytes(p.payload.len() as u32);
    }

    /// An acknowledgement has come, as a packet or not.
    #[inline(always)]
    pub(super) fn ack_came(&mut self) {
        self.req.rx_packets += 1;
        self.req.rx_bytes += self.ack_bytes();
    }
}

impl Counters {
    /// So many packets of so many bytes have come, which no queue pair counts.
    pub(crate) fn came(&self, packets: u64, bytes: u64) {
        self.add(port::RX_PACKETS, packets);
        self.add(port::RX_BYTES, bytes);
    }

    /// The same of packets that leave.
    fn left(&self, packets: u64, bytes: u64) {
        self.add(port::TX_PACKETS, packets);
        self.add(port::TX_BYTES, bytes);
    }
}

impl Device {
    /// See [`Counters::came`].
    pub(crate) fn count_came(&self, port: u8, packets: u64, bytes: u64) {
        self.counters[usize::from(port) % PORTS].came(packets, bytes);
    }

    /// Packets leave by a port that no queue pair counts.
    pub(crate) fn count_left(&self, port: u8, packets: u64, bytes: u64) {
        self.counters[usize::from(port) % PORTS].left(packets, bytes);
    }

    /// Packets that were counted as sent do not leave.
    pub(crate) fn never_left(&self, port: u8, packets: u64, bytes: u64) {
        self.count_left(port, packets.wrapping_neg(), bytes.wrapping_neg());
    }

    /// A packet has come that no queue pair counts, to the port that is known to software as `known`. Gives the one by which it
    /// came.
    #[cold]
    pub(super) fn came(&self, known: u8, p: &Packet) -> u8 {
        // Where ports are one, the place of QP 1 notes by which it came: see `World::arrives`.
        let by = if self.lag.is_on() { self.qps[GSI_QPN as usize].arrives } else { known };
        self.count_came(by, p.count.into(), p.wire_bytes(p.payload.len() as u32));
        by
    }

    /// No queue pair takes a packet.
    #[cold]
    pub(super) fn unclaimed(&self, port: u8, p: &Packet) {
        self.came(port, p);
        self.count_packets(port, port::RX_NO_QP, p);
    }

    /// The payload of a packet that a queue pair has counted could not be read: where packets are frames it does not even leave.
    #[cold]
    pub(crate) fn never_came(&mut self, p: &Packet) {
        let Some(q) = self.find_qp(p.dest_qpn) else { return };
        let (packets, bytes) = (u64::from(p.count), p.wire_bytes(p.payload.len() as u32));
        self.count_came(self.qps[q].arrives, packets.wrapping_neg(), bytes.wrapping_neg());
    }
}
