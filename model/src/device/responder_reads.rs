//! The responder's READs and atomics: their answers, and what is kept to answer them again.

use fpga_regs::Access;

use super::keys::Range;
use super::qp::{Qp, Resource, IDLE, RESOURCES};
use super::refusal::Refusal;
use super::requester::{MAX_MESSAGE, TRAIN_BYTES};
use super::Device;
use crate::dma::{Atomic, Pieces};
use crate::env::Env;
use crate::packet::{Packet, Payload};
use crate::wire::{self, psn, Operation};

/// Resource kinds.
const READ: u8 = 1;
const ATOMIC: u8 = 2;

impl Qp {
    /// Places for what is kept of READs and atomics.
    fn places(&self) -> usize {
        (self.attributes.max_dest_rd_atomic() as usize).clamp(1, RESOURCES)
    }

    /// What is kept of them, the newest first: an older one may have its sequence number from the round before.
    fn remembered(&self) -> impl Iterator<Item = &Resource> {
        let (next, places) = (usize::from(self.resp.next_resource), self.places());
        (1..=places).map(move |back| &self.resources[(next + places - back) % places])
    }
}

impl Device {
    /// READ request.
    pub(super) fn take_read(&mut self, q: usize, p: &Packet, env: &mut impl Env) {
        let refusal = if self.qps[q].resp.op != IDLE
            || p.dma_len > MAX_MESSAGE
            || !self.qps[q].grants(Access::REMOTE_READ)
            || self.qps[q].attributes.max_dest_rd_atomic() == 0
        {
            Some(Refusal::Invalid)
        } else if p.dma_len != 0
            && self.check_remote(q, p.rkey, p.va, p.dma_len as u64, Access::REMOTE_READ).is_err()
        {
            Some(Refusal::Access)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            return self.refuse(q, refusal, p, env);
        }
        let count = self.qps[q].packets(p.dma_len);
        let qp = &mut self.qps[q];
        qp.resp.epsn = psn::add(p.psn, count);
        qp.resp.msn = psn::add(qp.resp.msn, 1);
        self.remember(q, Resource { original: 0, psn: p.psn, count, kind: READ });
        if !self.qps[q].resp.established.get() {
            self.established(q, env);
        }
        self.send_read_response(q, p, env);
    }

    fn remember(&mut self, q: usize, resource: Resource) {
        let qp = &mut self.qps[q];
        let places = qp.places();
        let slot = qp.resp.next_resource as usize % places;
        qp.resources[slot] = resource;
        qp.resp.next_resource = ((slot + 1) % places) as u8;
    }

    /// The data of a READ, in trains.
    fn send_read_response<E: Env>(&mut self, q: usize, p: &Packet, env: &mut E) {
        let mut offset = 0u32;
        loop {
            let qp = &self.qps[q];
            let mut want = (p.dma_len - offset).min(TRAIN_BYTES);
            let first_psn = psn::add(p.psn, offset >> qp.mtu_log);
            let mut data = Payload::None;
            if want != 0 {
                let range = self.check_remote(q, p.rkey, p.va, p.dma_len as u64, Access::REMOTE_READ).ok();
                let piece = range.and_then(|range| self.read_piece(range, offset as u64, want, env));
                let Some(payload) = piece else {
                    // What was sent before it is answered: a NAK of the first PSN would be an old one.
                    return self.refuse(q, Refusal::Operation, &Packet { psn: first_psn, ..*p }, env);
                };
                want = payload.len() as u32;
                data = payload;
            }
            let qp = &mut self.qps[q];
            let r = qp.reply(Operation::ReadResponse, first_psn, env);
            r.payload = data;
            r.count = qp.packets(want);
            r.first = offset == 0;
            offset += want;
            r.last = offset == p.dma_len;
            r.syndrome = wire::Syndrome::ACK;
            qp.resp.tx_packets += r.count as u64;
            qp.resp.tx_bytes += r.wire_bytes(want);
            if r.last {
                return;
            }
        }
    }

    /// Payload of up to `want` bytes from byte `offset` of a range; whole packets unless it is all.
    fn read_piece<E: Env>(&self, range: Range, offset: u64, want: u32, env: &mut E) -> Option<Payload> {
        let (addr, contiguous) = self.translate(range, offset, env)?;
        if contiguous >= want as u64 {
            return Some(Payload::Memory(addr, want));
        }
        if E::TAKES_PAGES {
            return Some(Payload::Pages(want, self.pages(range, offset)));
        }
        let want = want.min(E::GATHER_BYTES);
        let mut pieces = Pieces::default();
        while pieces.len() < want {
            let (addr, contiguous) = self.translate(range, offset + u64::from(pieces.len()), env)?;
            pieces.push(addr, contiguous.min(u64::from(want - pieces.len())) as u32).ok()?;
        }
        env.gather(&pieces).ok()
    }

    /// CmpSwap and FetchAdd requests.
    pub(super) fn take_atomic(&mut self, q: usize, p: &Packet, env: &mut impl Env) {
        let checked = if self.qps[q].resp.op != IDLE
            || p.va % 8 != 0
            || !self.qps[q].grants(Access::REMOTE_ATOMIC)
            || self.qps[q].attributes.max_dest_rd_atomic() == 0
        {
            Err(Refusal::Invalid)
        } else {
            self.check_remote(q, p.rkey, p.va, 8, Access::REMOTE_ATOMIC).map_err(|_| Refusal::Access)
        };
        let op = if p.operation == Operation::CompareSwap {
            Atomic::CompareSwap { compare: p.compare, swap: p.swap_add }
        } else {
            Atomic::FetchAdd(p.swap_add)
        };
        let original = checked.and_then(|range| {
            let (addr, contiguous) = self.translate(range, 0, env).ok_or(Refusal::Operation)?;
            // On a list of pages an aligned operand may lie on two.
            if contiguous < 8 {
                return Err(Refusal::Operation);
            }
            env.atomic(addr, op).map_err(|_| Refusal::Operation)
        });
        match original {
            Err(refusal) => self.refuse(q, refusal, p, env),
            Ok(original) => {
                let resp = &mut self.qps[q].resp;
                resp.epsn = psn::add(p.psn, 1);
                resp.msn = psn::add(resp.msn, 1);
                self.remember(q, Resource { original, psn: p.psn, count: 1, kind: ATOMIC });
                if !self.qps[q].resp.established.get() {
                    self.established(q, env);
                }
                self.send_atomic_ack(q, p.psn, original, env);
            }
        }
    }

    fn send_atomic_ack(&mut self, q: usize, psn: u32, original: u64, env: &mut impl Env) {
        let qp = &mut self.qps[q];
        let r = qp.reply(Operation::AtomicAcknowledge, psn, env);
        r.syndrome = wire::Syndrome::ACK;
        r.compare = original;
        qp.resp.tx_packets += 1;
        qp.resp.tx_bytes += r.wire_bytes(0);
    }

    /// A request that was received before (IB spec 9.7.5.1.5 and 9.7.6.1.1).
    pub(super) fn duplicate(&mut self, q: usize, p: &Packet, env: &mut impl Env) {
        match p.operation {
            Operation::Send | Operation::Write => {
                if p.ack_req {
                    let last = psn::sub(self.qps[q].resp.epsn, 1);
                    self.send_ack(q, wire::Syndrome::ACK, last, env);
                }
            }
            Operation::ReadRequest => {
                let count = self.qps[q].packets(p.dma_len);
                let known = self.qps[q].remembered().any(|r| {
                    let from = psn::diff(p.psn, r.psn);
                    r.kind == READ && from >= 0 && from as u32 + count <= r.count
                });
                if known
                    && self.qps[q].grants(Access::REMOTE_READ)
                    && (p.dma_len == 0
                        || self.check_remote(q, p.rkey, p.va, p.dma_len as u64, Access::REMOTE_READ).is_ok())
                {
                    self.send_read_response(q, p, env);
                }
            }
            _ => {
                let is = |r: &&Resource| r.kind == ATOMIC && r.psn == p.psn;
                let found = self.qps[q].remembered().find(is).copied();
                if let Some(r) = found {
                    self.send_atomic_ack(q, p.psn, r.original, env);
                }
            }
        }
    }
}
