//! What follows from a profile without a run: bounds of the message rate, and the latency of a
//! single message. The engine must arrive at the same figures; where it does not, one of the two is wrong.

use super::Profile;
use crate::sim::pcie::{Bus, Read};

/// Transport headers: BTH 12, RETH 16, AETH 4 (InfiniBand Architecture Specification, 9.2 to 9.6).
const BTH: u32 = 12;
const RETH: u32 = 16;
const AETH: u32 = 4;
/// Bytes of a WQE besides inline data: control and remote segment.
const WQE_HEAD: u32 = 32;
const WQE_BLOCK: u32 = 64;

/// Operation of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// SEND.
    Send,
    /// RDMA WRITE.
    Write,
}

/// Expectations of one QP between two idle cards of a profile, with the path MTU of the profile.
#[derive(Clone, Copy, Debug)]
pub struct Expect<'a>(pub &'a Profile);

impl Expect<'_> {
    /// Time between two messages of one QP in the steady state, payload (up to 64 MiB) not inline: the
    /// slowest stage.
    pub fn message_ps(&self, kind: Kind, bytes: u32) -> u64 {
        let p = self.0;
        let link = |bytes: u32| p.pcie.pcie_bps.time(bytes.into());
        let packets = self.packets(bytes);
        let wire: u64 = self.transports(kind, bytes).map(|t| p.wire.packet_ps(t, 0)).sum();
        let data: u64 = self.transports(kind, bytes).map(|t| self.through(t, p.tx.width_bytes)).sum();
        let completions = bytes + bytes.div_ceil(p.pcie.mps) * p.pcie.cpld_overhead;
        let writes =
            bytes + bytes.div_ceil(p.pcie.mps) * p.pcie.mwr_overhead + p.cqe.cqe_bytes + p.pcie.mwr_overhead;
        [
            p.host.clock_read_ps + p.host.post_ps + p.host.doorbell_ps,
            p.sq.message_ps(bytes.into()),
            p.sq.pipe_ps,
            wire + p.tx.gap_ps,
            data,
            link(WQE_BLOCK + completions),
            link(writes),
            p.rx.rx_packet_ps * u64::from(packets),
        ]
        .into_iter()
        .max()
        .unwrap_or_default()
    }

    /// Messages per second that perftest's bandwidth tests print after `iterations` messages, which includes the time
    /// until the first message has arrived.
    pub fn message_rate(&self, kind: Kind, bytes: u32, iterations: u32) -> f64 {
        let all = f64::from(iterations) * self.message_ps(kind, bytes) as f64;
        f64::from(iterations) * 1e12 / (all + self.start_and_end_ps() as f64)
    }

    /// Time of a run besides its messages' own: from the first post to the wire, and from the wire to the last
    /// completion.
    fn start_and_end_ps(&self) -> u64 {
        let (p, mut bus) = (self.0, Bus::default());
        let posted = self.doorbell(&mut bus, 0, None);
        let ready = bus.read(posted + p.sq.start_ps, 1, p).last + p.tx.tx_ps;
        ready + p.wire.cable_ps + p.rx.rx_ps + self.acknowledged_ps() + p.host.poll_ps
    }

    /// From the end of a packet's processing until the completion is visible at the requester.
    fn acknowledged_ps(&self) -> u64 {
        let p = self.0;
        let ack = p.tx.ack_ps + p.wire.packet_ps(BTH + AETH, 0) + p.wire.cable_ps + p.rx.rx_ps;
        ack + p.cqe.cqe_ps + Bus::default().write(0, p.cqe.cqe_bytes, p)
    }

    /// `ib_write_lat`: from one program's clock read before the post until the other program has seen the
    /// last byte. The data is inline if it fits into `inline` bytes and the card's own limit.
    pub fn write_latency_ps(&self, bytes: u32, inline: u32) -> u64 {
        let (p, mut bus, mut peer) = (self.0, Bus::default(), Bus::default());
        let inlined = bytes <= inline.min(p.sq.inline_max);
        let at = self.doorbell(&mut bus, p.host.clock_read_ps, inlined.then_some(bytes)) + p.sq.start_ps;
        let (mut sent, mut wire, mut received, mut visible) = (0, 0, 0, 0);
        for (nth, transport) in self.transports(Kind::Write, bytes).enumerate() {
            let payload = self.payload(bytes, nth as u32);
            let ready = if inlined { at } else { bus.read(at, payload, p).last };
            sent = sent.max(ready) + self.through(transport, p.tx.width_bytes);
            wire = wire.max(sent + p.tx.tx_ps) + p.wire.packet_ps(transport, 0);
            received = received.max(wire + p.wire.cable_ps) + self.through(transport, p.rx.width_bytes);
            visible = peer.write(received + p.rx.rx_ps, payload, p);
        }
        visible + p.host.memory_poll_ps
    }

    /// `ib_read_lat`: from the clock read before the post to the poll that returns the completion, for one
    /// packet.
    pub fn read_latency_ps(&self, bytes: u32) -> u64 {
        let (p, mut bus, mut peer) = (self.0, Bus::default(), Bus::default());
        let at = self.doorbell(&mut bus, p.host.clock_read_ps, None) + p.sq.start_ps;
        let asked = self.hop(at, BTH + RETH) + p.rx.resp_read_ps;
        let Read { last, .. } = peer.read(asked, bytes, p);
        let received = self.hop(last, BTH + AETH + bytes.next_multiple_of(4));
        let written = bus.write(received, bytes, p);
        let completed = bus.write(received + p.cqe.cqe_ps, p.cqe.cqe_bytes, p).max(written);
        completed + p.host.poll_ps + p.host.poll_cqe_ps
    }

    /// From packet ready in one card to packet processed in the other.
    fn hop(&self, at: u64, transport: u32) -> u64 {
        let p = self.0;
        let sent = at + self.through(transport, p.tx.width_bytes) + p.tx.tx_ps;
        let arrived = sent + p.wire.packet_ps(transport, 0) + p.wire.cable_ps;
        arrived + self.through(transport, p.rx.width_bytes) + p.rx.rx_ps
    }

    /// From the post call on: when a WQE is in the card.
    fn doorbell(&self, bus: &mut Bus, now: u64, inline: Option<u32>) -> u64 {
        let p = self.0;
        let wqe = (WQE_HEAD + inline.unwrap_or(16)).next_multiple_of(WQE_BLOCK);
        let pushed = wqe <= p.sq.push_max && (inline.is_some() || p.sq.push_inline_only == 0);
        let mut now = now + p.host.post_ps;
        if !pushed {
            let rung = bus.mmio(now + p.host.doorbell_ps, 8, p) + p.cycles(p.sq.doorbell_cycles);
            return bus.read(rung, wqe, p).last;
        }
        let mut rung = 0;
        for _ in 0..wqe / WQE_BLOCK {
            now += p.host.push_ps;
            rung = bus.mmio(now, WQE_BLOCK, p);
        }
        rung + p.cycles(p.sq.doorbell_cycles)
    }

    /// Time of bytes through a data path.
    fn through(&self, bytes: u32, width: u32) -> u64 {
        self.0.cycles(bytes.div_ceil(width.max(1)))
    }

    fn packets(&self, bytes: u32) -> u32 {
        bytes.div_ceil(self.0.limits.mtu).max(1)
    }

    fn payload(&self, bytes: u32, nth: u32) -> u32 {
        (bytes - nth * self.0.limits.mtu).min(self.0.limits.mtu)
    }

    /// Bytes from the BTH to the padding of each packet of a message.
    fn transports(&self, kind: Kind, bytes: u32) -> impl Iterator<Item = u32> + '_ {
        (0..self.packets(bytes)).map(move |nth| {
            let reth = if kind == Kind::Write && nth == 0 { RETH } else { 0 };
            BTH + reth + self.payload(bytes, nth).next_multiple_of(4)
        })
    }
}

#[cfg(test)]
#[path = "expect_tests.rs"]
mod tests;
