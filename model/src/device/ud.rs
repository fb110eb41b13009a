//! Unreliable datagrams: send with an address vector, receive with a GRH, multicast.

use fpga_regs::regs::port;
use fpga_regs::{CqeStatus, QpType, Syndrome};

use super::gather::LocalError;
use super::lag;
use super::recv::RecvError;
use super::requester::Step;
use super::wqe::Wqe;
use super::{Device, Outcome};
use crate::cm::mad::{GSI_QKEY, GSI_QPN};
use crate::env::Env;
use crate::packet::{Packet, Payload, PortId, PORTS};
use crate::wire::{ipv4::PROTOCOL_UDP, ipv6::NEXT_BTH, psn, Extra, Ipv6, Network, Operation};

/// The QPN of all members of a group.
pub const MULTICAST_QPN: u32 = 0xff_ffff;

/// Bytes of the GRH that precedes a datagram in the receive buffer.
pub const GRH_BYTES: u64 = 40;

impl Device {
    /// SEND of a UD QP: one packet.
    pub(super) fn send_datagram(
        &mut self,
        q: usize,
        wqe: &Wqe,
        env: &mut impl Env,
    ) -> Result<Step, LocalError> {
        let total = wqe.ctrl.length();
        if total > self.qps[q].mtu() {
            return Err(LocalError { status: CqeStatus::LOC_LEN_ERR, syndrome: Syndrome::MESSAGE_TOO_LONG });
        }
        let av = wqe.address();
        let own = self.qps[q].port;
        if av.port() as usize > PORTS || (av.port() != 0 && av.port() - 1 != own.port) {
            return Err(LocalError { status: CqeStatus::LOC_QP_OP_ERR, syndrome: Syndrome::BAD_ADDRESS });
        }
        let (dst, dest_qpn) = (PortId::from_mac(av.dmac()), av.dest_qpn());
        // A group has members in any island, and the connection manager serves all of them.
        let one = dst != PortId::ALL && !matches!(dest_qpn, MULTICAST_QPN | GSI_QPN);
        if !env.reaches((self.id, q as u16), one.then_some((dst.card, dest_qpn as u16))) {
            return Ok(Step::Wait);
        }
        let src_qpn = self.qps[q].qpn;
        self.turn_by(q, || lag::datagram(src_qpn, dest_qpn));
        let payload = match self.gather_direct(q, wqe, 0, total, env)? {
            Some(at) => Payload::Memory(at, total),
            None => self.gather_pieces(q, wqe, 0, total, env)?.0,
        };
        let qp = &self.qps[q];
        let p = qp.packet(Operation::Send, qp.req.psn, env);
        (p.dst, p.dest_qpn) = (dst, dest_qpn);
        // A Q_Key with the high bit set in the WQE means the QP's own (IB spec 10.2.5).
        p.qkey = if av.qkey() & 0x8000_0000 != 0 { qp.qkey } else { av.qkey() };
        let source = self.gids.source(own, av.sgid_index());
        p.sgid = source.gid;
        p.traffic_class = av.traffic_class();
        p.hop_limit = av.hop_limit();
        p.dgid = av.dgid();
        p.solicited = wqe.ctrl.solicited();
        p.payload = payload;
        p.inline = wqe.ctrl.inline();
        if wqe.ctrl.opcode() == fpga_regs::WqeOpcode::SEND_WITH_IMM {
            p.extra = Extra::Immediate;
            p.imm = wqe.ctrl.imm();
        }
        p.encapsulation = source.encapsulation(&p.dgid, av.sl());
        if av.vlan_present() {
            p.encapsulation = p.encapsulation.with_tag(av.vlan());
        }
        let bytes = p.wire_bytes(total);
        if p.dst == PortId::ALL {
            let by = if self.lag.is_on() { self.leaves(p) } else { own.port };
            self.count(by, port::TX_MULTICAST);
        }
        let req = &mut self.qps[q].req;
        req.psn = psn::add(req.psn, 1);
        req.packets += 1;
        req.bytes += bytes;
        req.cur = req.cur.wrapping_add(wqe.blocks());
        Ok(Step::Sent)
    }

    /// A datagram for this card, unicast or multicast.
    pub(super) fn receive_datagram(&mut self, p: &Packet, env: &mut impl Env) -> Outcome {
        let mut outcome = Outcome::Done;
        if p.dest_qpn == MULTICAST_QPN {
            let Some(group) = self.mcast.iter().position(|g| g.count != 0 && g.gid == p.dgid) else {
                return outcome;
            };
            let mut came = [false; PORTS];
            for i in 0..self.mcast[group].count as usize {
                let q = self.mcast[group].qps[i] as usize;
                // A sender that is a member gets a copy, too.
                let qp = &self.qps[q];
                let here = match p.dst {
                    PortId::ALL => p.src == qp.port || self.shows_link(qp.port.port),
                    to => to.port == qp.port.port,
                };
                if !here || qp.qp_type != QpType::UD {
                    continue;
                }
                // However many members get a copy.
                let own = qp.port.port;
                if !std::mem::replace(&mut came[usize::from(own) % PORTS], true) {
                    let by = self.came(own, p);
                    self.count(by, port::RX_MULTICAST);
                }
                if self.take_datagram(q, p, env) == Outcome::Unread {
                    outcome = Outcome::Unread;
                }
            }
            return outcome;
        }
        match self.find_qp(p.dest_qpn) {
            Some(q) if self.qps[q].port == p.dst => {
                self.qps[q].request_came(p);
                outcome = self.take_datagram(q, p, env);
            }
            _ if p.dest_qpn == GSI_QPN => outcome = self.receive_management(p),
            _ => self.unclaimed(p.dst.port, p),
        }
        outcome
    }

    #[cold]
    fn receive_management(&mut self, p: &Packet) -> Outcome {
        self.came(p.dst.port, p);
        match p.qkey == GSI_QKEY {
            true => Outcome::Management,
            false => {
                self.count(p.dst.port, port::RX_QKEY_ERRORS);
                Outcome::Done
            }
        }
    }

    fn take_datagram(&mut self, q: usize, p: &Packet, env: &mut impl Env) -> Outcome {
        let drop = |card: &mut Self, counter| {
            card.count(card.qps[q].port.port, counter);
            Outcome::Done
        };
        let qp = &self.qps[q];
        if qp.qp_type != QpType::UD || !qp.receives() {
            return drop(self, port::RX_NO_QP);
        }
        if qp.qkey != p.qkey {
            return drop(self, port::RX_QKEY_ERRORS);
        }
        if !self.gids.takes(qp.port, &p.dgid, p.encapsulation) {
            return drop(self, port::RX_NO_QP);
        }
        // One that is left waited for a datagram that could not be read.
        if !self.qps[q].resp.has_recv.get() && self.take_recv(q, env).is_err() {
            // Nothing is answered to a datagram; without a receive WQE it is lost.
            self.qps[q].resp.has_recv = false.into();
            return drop(self, port::RX_NO_RECV);
        }
        let len = p.payload.len();
        let total = GRH_BYTES + len as u64;
        let grh = grh(p, len);
        let held = env.hold(&grh);
        let result = if total > self.qps[q].recv.room {
            Err(RecvError::Length)
        } else {
            self.scatter(q, 0, &held, 0, GRH_BYTES as usize, env)
                .and_then(|()| self.scatter(q, GRH_BYTES, &p.payload, 0, len, env))
        };
        match result {
            Err(RecvError::Unread) => return Outcome::Unread,
            Ok(()) => self.complete_recv(q, CqeStatus::SUCCESS, Syndrome::NONE, false, total as u32, p, env),
            Err(RecvError::Protection(syndrome)) => {
                self.complete_recv(q, CqeStatus::LOC_PROT_ERR, syndrome, false, 0, p, env);
                self.to_error(q, env);
            }
            Err(_) => {
                self.complete_recv(q, CqeStatus::LOC_LEN_ERR, Syndrome::RECV_TOO_SHORT, false, 0, p, env);
                self.to_error(q, env);
            }
        }
        Outcome::Done
    }
}

/// The 40 bytes before a datagram: the IPv6 header, or 20 zero bytes and the IPv4 header (RoCEv2 annex A17.4.5.2), or the
/// global route header of RoCE version 1.
fn grh(p: &Packet, payload: usize) -> [u8; 40] {
    let mut grh = [0u8; 40];
    // BTH 12, DETH 8, immediate 4, ICRC 4; UDP 8.
    let imm = if p.extra == Extra::Immediate { 4 } else { 0 };
    let transport = 12 + 8 + imm + payload.next_multiple_of(4) + 4;
    let udp = 8 + transport;
    let (traffic_class, hop_limit) = (p.traffic_class, p.hop_limit);
    let ipv6 = Ipv6 { src: p.sgid, dst: p.dgid, traffic_class, flow_label: 0, hop_limit };
    if p.encapsulation.is_v1() {
        ipv6.encode(NEXT_BTH, transport as u16, &mut grh);
        return grh;
    }
    match Network::from_gids(&p.sgid, &p.dgid, traffic_class, 0, hop_limit) {
        Network::V4(ip) => ip.encode(udp as u16, grh.last_chunk_mut().expect("shorter than a GRH")),
        _ => ipv6.encode(PROTOCOL_UDP, udp as u16, &mut grh),
    }
    grh
}
