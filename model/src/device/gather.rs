//! The local buffers of a send WQE: its payload, and where an answer goes.

use fpga_regs::{Access, CqeStatus, Syndrome};

use super::keys::KeyError;
use super::qp::Qp;
use super::wqe::Wqe;
use super::Device;
use crate::dma::{Addr, DmaFault, Pieces};
use crate::env::Env;
use crate::packet::Payload;

/// A send WQE cannot be executed.
pub(super) struct LocalError {
    pub status: CqeStatus,
    pub syndrome: Syndrome,
}

impl From<DmaFault> for LocalError {
    fn from(_: DmaFault) -> Self {
        LocalError { status: CqeStatus::LOC_PROT_ERR, syndrome: Syndrome::LOCAL_DMA }
    }
}

impl From<KeyError> for LocalError {
    fn from(e: KeyError) -> Self {
        LocalError { status: CqeStatus::LOC_PROT_ERR, syndrome: e.syndrome() }
    }
}

pub(super) fn malformed() -> LocalError {
    LocalError { status: CqeStatus::LOC_QP_OP_ERR, syndrome: Syndrome::BAD_WQE }
}

impl Device {
    /// Where `[offset, offset + want)` of a message is, if it is contiguous.
    #[inline(always)]
    pub(super) fn gather_direct(
        &self,
        q: usize,
        wqe: &Wqe,
        offset: u32,
        want: u32,
        env: &mut impl Env,
    ) -> Result<Option<Addr>, LocalError> {
        let qp = &self.qps[q];
        if want == 0 || wqe.ctrl.inline() || wqe.ctrl.num_sge() != 1 {
            return Ok(None);
        }
        let sge = wqe.sge(qp.qp_type, 0, env)?;
        if sge.length() != wqe.ctrl.length() {
            return Err(malformed());
        }
        let range = self.check_key(qp.pd, 0, sge.lkey(), sge.addr(), sge.length() as u64, Access(0))?;
        let (at, contiguous) = self.translate(range, offset as u64, env).ok_or(DmaFault)?;
        Ok((contiguous >= want as u64).then_some(at))
    }

    /// The payload of `[offset, offset + want)` of a message that is inline, scattered or empty; may be
    /// shorter than asked, then by whole packets.
    #[inline(never)]
    pub(super) fn gather_pieces<E: Env>(
        &self,
        q: usize,
        wqe: &Wqe,
        offset: u32,
        want: u32,
        env: &mut E,
    ) -> Result<(Payload, u32), LocalError> {
        if want == 0 {
            self.check_sge_total(q, wqe, env)?;
            return Ok((Payload::None, 0));
        }
        if wqe.ctrl.inline() {
            let (at, contiguous) = wqe.inline_at(self.qps[q].qp_type, offset as u64);
            if contiguous >= want as u64 {
                return Ok((Payload::Memory(at, want), want));
            }
        }
        // A frame is one packet.
        let most = if self.qps[q].takes_frames() { want } else { E::GATHER_BYTES };
        let want = want.min(most);
        let mut pieces = Pieces::default();
        if wqe.ctrl.inline() {
            let kind = self.qps[q].qp_type;
            let mut at = offset as u64;
            let end = at + want as u64;
            while at < end {
                let (addr, contiguous) = wqe.inline_at(kind, at);
                let n = contiguous.min(end - at);
                pieces.push(addr, n as u32)?;
                at += n;
            }
        } else {
            self.check_sge_total(q, wqe, env)?;
            let mut each = |at: Addr, len: u64, _: &mut E| pieces.push(at, len as u32);
            self.walk_sges(q, wqe, Access(0), offset as u64, want as u64, env, &mut each)?;
        }
        Ok((env.gather(&pieces)?, want))
    }

    /// The SGEs must add up to the message length that the control segment says.
    pub(super) fn check_sge_total(&self, q: usize, wqe: &Wqe, env: &mut impl Env) -> Result<(), LocalError> {
        let kind = self.qps[q].qp_type;
        if wqe.ctrl.inline() {
            return Ok(());
        }
        let mut total = 0u64;
        for i in 0..wqe.ctrl.num_sge() as usize {
            total += wqe.sge(kind, i, env)?.length() as u64;
        }
        if total != wqe.ctrl.length() as u64 {
            return Err(malformed());
        }
        Ok(())
    }

    /// READ and atomics: the local buffers must take the answer.
    pub(super) fn check_scatter(&self, q: usize, wqe: &Wqe, env: &mut impl Env) -> Result<(), LocalError> {
        self.check_sge_total(q, wqe, env)?;
        let length = wqe.ctrl.length() as u64;
        self.walk_sges(q, wqe, Access::LOCAL_WRITE, 0, length, env, &mut |_, _, _: &mut _| Ok(()))
    }

    /// Calls `each` with the contiguous DMA ranges of `[offset, offset + len)` of the WQE's SGEs.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn walk_sges<E: Env>(
        &self,
        q: usize,
        wqe: &Wqe,
        rights: Access,
        offset: u64,
        len: u64,
        env: &mut E,
        each: &mut impl FnMut(Addr, u64, &mut E) -> Result<(), DmaFault>,
    ) -> Result<(), LocalError> {
        let qp: &Qp = &self.qps[q];
        let kind = qp.qp_type;
        let (mut skip, mut left) = (offset, len);
        for i in 0..wqe.ctrl.num_sge() as usize {
            if left == 0 {
                break;
            }
            let sge = wqe.sge(kind, i, env)?;
            let length = sge.length() as u64;
            if skip >= length {
                skip -= length;
                continue;
            }
            let range = self.check_key(qp.pd, 0, sge.lkey(), sge.addr(), length, rights)?;
            let (mut at, end) = (skip, (skip + left).min(length));
            skip = 0;
            while at < end {
                let (addr, contiguous) = self.translate(range, at, env).ok_or(DmaFault)?;
                let n = contiguous.min(end - at);
                each(addr, n, env)?;
                at += n;
                left -= n;
            }
        }
        if left != 0 {
            return Err(malformed());
        }
        Ok(())
    }
}
