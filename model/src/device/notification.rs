//! Congestion notifications (annex A17.9): who is told that packets met congestion, and what becomes of being told.

use super::Device;
use crate::env::Env;
use crate::packet::Packet;
use crate::wire::{Operation, Transport};
use fpga_regs::regs::port;

impl Device {
    /// A packet for a connected QP met congestion on its way: its sender is notified, unless that was just done.
    #[cold]
    pub(super) fn met_congestion(&mut self, q: usize, env: &mut impl Env) {
        let (now, interval) = (env.now(), env.notification_interval());
        let qp = &mut self.qps[q];
        let Some(interval) = interval.filter(|_| qp.notifies_at <= now) else { return };
        qp.notifies_at = now + interval;
        let qp = &self.qps[q];
        self.count(qp.port.port, port::TX_CNP);
        let notification = qp.packet(Operation::CongestionNotification, 0, env);
        notification.transport = Transport::CNP;
        self.count_left(qp.leaves, 1, notification.wire_bytes(0));
    }

    /// A notification for a QP; false if it is not from its peer.
    #[cold]
    pub(super) fn notified(&mut self, q: usize, p: &Packet, env: &mut impl Env) -> bool {
        let qp = &self.qps[q];
        let own = qp.dest == p.src && qp.port == p.dst && qp.receives();
        if own {
            self.count(qp.port.port, port::RX_CNP);
            self.count_came(qp.arrives, 1, p.wire_bytes(0));
            env.congestion_noticed(self.id, q as u16);
        }
        own
    }
}
