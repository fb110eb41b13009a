//! Whole frames as their queues get them: what the card finds out about one, without its tag, with its check sequence.

use fpga_regs::regs::port;
use fpga_regs::{Cqe, CqeStatus, EventKind, FrameKind, QpState, QpType, Syndrome};

use super::qp::Qp;
use super::raw::with_room;
use super::recv::RecvError;
use super::Device;
use crate::env::Env;
use crate::packet::Payload;
use crate::steering::{Copy, Fields};
use crate::wire::checksum::Checksums;
use crate::wire::{ethernet, Ethernet};

/// Bytes of a check sequence.
const FCS: usize = 4;

/// What the card finds out about a frame that arrives.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    /// Its checksums that are right.
    right: Checksums,
    /// Its 802.1Q tag.
    tag: Option<u16>,
    /// What it is.
    kind: FrameKind,
}

impl Found {
    /// About these bytes of it, which are all, with these fields.
    pub fn of(frame: &[u8], fields: &Fields) -> Found {
        Found { right: Checksums::right(frame), tag: fields.tag(), kind: fields.kind() }
    }

    /// The tag that a queue gets beside the frame, if it has its tags [stripped](Qp::strip_vlan).
    #[inline(always)]
    pub fn stripped_by(&self, qp: &Qp) -> Option<u16> {
        self.tag.filter(|_| qp.strip_vlan.get())
    }

    /// What a CQE says of a copy of it.
    #[inline(always)]
    pub fn tell(&self, cqe: &mut Cqe, copy: &Copy, stripped: Option<u16>) {
        cqe.set_ip_csum_ok(self.right.ip);
        cqe.set_l4_csum_ok(self.right.l4);
        cqe.set_vlan(stripped.is_some());
        cqe.set_vlan_tci(stripped.unwrap_or_default());
        cqe.set_hashed(copy.hash != 0);
        cqe.set_imm(copy.hash);
        cqe.set_frame_kind(self.kind);
        cqe.set_marked(copy.marked.get());
        cqe.set_mark(copy.mark);
    }
}

impl Device {
    /// Puts the check sequence of a frame behind what its queue gets of it: the one of the wire, where a tag is in the frame
    /// (IEEE 802.3 3.2.9).
    #[cold]
    fn scatter_fcs(
        &self,
        q: usize,
        at: usize,
        payload: &Payload,
        env: &mut impl Env,
    ) -> Result<(), RecvError> {
        let sum =
            with_room(payload.len(), |frame| env.payload(payload, frame).map(|()| crc32fast::hash(frame)));
        let sum = sum.map_err(|_| RecvError::Unread)?;
        let held = env.hold(&sum.to_le_bytes());
        self.scatter(q, at as u64, &held, 0, FCS, env)
    }

    /// A copy of a frame comes to its queue; false if that has no receive for it.
    pub(crate) fn receive_frame(
        &mut self,
        copy: &Copy,
        found: Found,
        payload: &Payload,
        env: &mut impl Env,
    ) -> bool {
        let (q, own) = (usize::from(copy.queue), copy.at.port);
        if !self.qps[q].receives() {
            self.count(own, port::RX_NO_QP);
            return false;
        }
        if !self.qps[q].resp.has_recv.get() && self.take_recv(q, env).is_err() {
            self.qps[q].resp.has_recv = false.into();
            // The receives are those of the port that software knows.
            self.count(self.known_port(own), port::RX_NO_RECV);
            return false;
        }
        let tag = found.stripped_by(&self.qps[q]);
        let stripped = if tag.is_some() { Ethernet::TAG_BYTES } else { 0 };
        let len = payload.len() - stripped;
        let fcs = if self.qps[q].scatter_fcs.get() { FCS } else { 0 };
        let result = match (len + fcs) as u64 > self.qps[q].recv.room {
            true => Err(RecvError::Length),
            false if tag.is_none() => self.scatter(q, 0, payload, 0, len, env),
            false => {
                let head = ethernet::ADDRESSES;
                self.scatter(q, 0, payload, 0, head, env)
                    .and_then(|()| self.scatter(q, head as u64, payload, head + stripped, len - head, env))
            }
        };
        let result = match fcs {
            0 => result,
            _ => result.and_then(|()| self.scatter_fcs(q, len, payload, env)),
        };
        let (status, syndrome) = match result {
            Ok(()) => (CqeStatus::SUCCESS, Syndrome::NONE),
            Err(RecvError::Unread) => {
                self.count(own, port::RX_MALFORMED);
                return true;
            }
            Err(RecvError::Protection(syndrome)) => (CqeStatus::LOC_PROT_ERR, syndrome),
            Err(_) => (CqeStatus::LOC_LEN_ERR, Syndrome::RECV_TOO_SHORT),
        };
        let failed = status != CqeStatus::SUCCESS;
        let length = if failed { 0 } else { (len + fcs) as u32 };
        let mut cqe = self.recv_cqe(q, status, syndrome, length);
        if !failed {
            found.tell(&mut cqe, copy, tag);
        }
        self.push_recv(q, cqe, failed, env);
        if failed {
            let Qp { qp_type, state, .. } = self.qps[q];
            self.to_error(q, env);
            // The overrun of a CQ has told it already.
            if qp_type == QpType::WQ && state != QpState::ERR {
                self.qp_event(q, EventKind::QP_FATAL, env);
            }
        }
        true
    }
}
