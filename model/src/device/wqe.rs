//! Fetching send WQEs: a WQE is in 64-byte blocks of a ring and may wrap around its end.

use fpga_regs::{
    QpType, WqeAddress, WqeAtomic, WqeBind, WqeCtrl, WqeOpcode, WqeRemote, WqeSge, WqeTso, MAX_WQE_BLOCKS,
    WQE_BLOCK, WQE_UNIT,
};

use super::qp::Qp;
use crate::dma::{Addr, DmaFault};
use crate::env::Env;

/// Most blocks of a send queue, as a power of two.
pub(super) const MAX_RING_LOG: u8 = 20;

/// Units of [`WqeTso`].
const TSO_UNITS: usize = WqeTso::BYTES / WQE_UNIT;

/// A fetched WQE: its first block, and where the others are.
pub(super) struct Wqe {
    /// Control segment.
    pub ctrl: WqeCtrl,
    /// Block index.
    pub index: u32,
    first: [u64; WQE_BLOCK / 8],
    ring: Addr,
    ring_mask: u64,
}

/// The control segment at block `index` of a QP's send ring.
#[inline(always)]
pub(super) fn fetch_ctrl(qp: &Qp, index: u32, env: &mut impl Env) -> Result<WqeCtrl, DmaFault> {
    let ring = Addr { iova: qp.sq_iova, domain: qp.domain };
    let at = ring.add(u64::from(index & qp.sq_mask) << 6);
    Ok(WqeCtrl::from_bytes(&bytes(env.words(at)?)))
}

/// Two words of DMA memory as bytes.
#[inline(always)]
pub(crate) fn bytes([low, high]: [u64; 2]) -> [u8; 16] {
    (low as u128 | (high as u128) << 64).to_le_bytes()
}

impl Wqe {
    /// Fetches the WQE at block `index` of the send ring.
    #[inline(always)]
    pub fn fetch(qp: &Qp, index: u32, env: &mut impl Env) -> Result<Wqe, DmaFault> {
        let ring = Addr { iova: qp.sq_iova, domain: qp.domain };
        let first: [u64; WQE_BLOCK / 8] = env.words(ring.add(((index & qp.sq_mask) as u64) << 6))?;
        let ctrl = WqeCtrl::from_bytes(&bytes([first[0], first[1]]));
        Ok(Wqe { ctrl, index, first, ring, ring_mask: ((qp.sq_mask as u64 + 1) << 6) - 1 })
    }

    /// Blocks that the WQE takes; 0 when its size is impossible.
    #[inline]
    pub fn blocks(&self) -> u32 {
        blocks(&self.ctrl)
    }

    fn address_of(&self, unit: usize) -> Addr {
        let offset = ((self.index as u64) << 6) + (unit as u64) * 16;
        self.ring.add(offset & self.ring_mask)
    }

    /// The 16 bytes at unit `unit`.
    #[inline(always)]
    fn unit(&self, unit: usize, env: &mut impl Env) -> Result<[u8; 16], DmaFault> {
        if unit < 4 {
            return Ok(bytes([self.first[unit * 2], self.first[unit * 2 + 1]]));
        }
        Ok(bytes(env.words(self.address_of(unit))?))
    }

    /// Bytes 16 to 64.
    fn tail(&self) -> [u8; 48] {
        let mut tail = [0; 48];
        for (to, word) in tail.chunks_exact_mut(8).zip(&self.first[2..]) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        tail
    }

    /// Remote address segment (WRITE, READ, atomics; everything on XRC).
    #[inline(always)]
    pub fn remote(&self) -> WqeRemote {
        WqeRemote::from_bytes(&bytes([self.first[2], self.first[3]]))
    }

    /// Atomic operands.
    #[inline]
    pub fn atomic(&self) -> WqeAtomic {
        WqeAtomic::from_bytes(&bytes([self.first[4], self.first[5]]))
    }

    /// UD address vector.
    #[inline]
    pub fn address(&self) -> WqeAddress {
        WqeAddress::from_bytes(&self.tail())
    }

    /// Memory window bind.
    pub fn bind(&self) -> WqeBind {
        WqeBind::from_bytes(self.tail()[..32].try_into().expect("32 bytes"))
    }

    /// How a message is cut into frames.
    pub fn tso(&self, env: &mut impl Env) -> Result<WqeTso, DmaFault> {
        let mut segment = [0; WqeTso::BYTES];
        for (n, to) in segment.chunks_exact_mut(WQE_UNIT).enumerate() {
            to.copy_from_slice(&self.unit(1 + n, env)?);
        }
        Ok(WqeTso::from_bytes(&segment))
    }

    /// Unit of the first SGE or inline byte, on a QP of this type.
    #[inline(always)]
    fn data_unit(&self, kind: QpType) -> usize {
        match self.ctrl.opcode() {
            _ if kind == QpType::UD => 4,
            WqeOpcode::WRITE | WqeOpcode::WRITE_WITH_IMM | WqeOpcode::READ => 2,
            WqeOpcode::CMP_SWAP | WqeOpcode::FETCH_ADD => 3,
            WqeOpcode::RAW_TSO => 1 + TSO_UNITS,
            _ if kind == QpType::XRC_SEND => 2,
            _ => 1,
        }
    }

    /// SGE `i`.
    #[inline(always)]
    pub fn sge(&self, kind: QpType, i: usize, env: &mut impl Env) -> Result<WqeSge, DmaFault> {
        Ok(WqeSge::from_bytes(&self.unit(self.data_unit(kind) + i, env)?))
    }

    /// Where byte `offset` of the inline data is in the ring, and how many follow contiguously.
    pub fn inline_at(&self, kind: QpType, offset: u64) -> (Addr, u64) {
        let at = ((self.index as u64) << 6) + (self.data_unit(kind) as u64) * 16 + offset;
        let within = at & self.ring_mask;
        (self.ring.add(within), self.ring_mask + 1 - within)
    }

    /// Whether the entries that the control segment promises fit the WQE's size.
    #[inline]
    pub fn well_formed(&self, kind: QpType) -> bool {
        let data = if self.ctrl.inline() {
            (self.ctrl.length() as usize).div_ceil(16)
        } else {
            self.ctrl.num_sge() as usize
        };
        self.data_unit(kind) + data <= self.ctrl.ds() as usize
    }
}

impl super::Device {
    /// Blocks of the send queue of QP `q`.
    pub(crate) fn ring_blocks(&self, q: u16) -> u32 {
        self.qps[q as usize].sq_mask.min((1 << MAX_RING_LOG) - 1) + 1
    }

    /// The control segment of the send WQE at block `index` of QP `q`, and the WQE's blocks; `None` if it
    /// cannot be read or is impossible.
    pub(crate) fn posted(&self, q: u16, index: u32, env: &mut impl Env) -> Option<(WqeCtrl, u32)> {
        let ctrl = fetch_ctrl(&self.qps[q as usize], index, env).ok()?;
        Some((ctrl, blocks(&ctrl))).filter(|&(_, n)| n > 0)
    }
}

/// Blocks of a WQE by its control segment; 0 when impossible.
#[inline]
pub(super) fn blocks(ctrl: &WqeCtrl) -> u32 {
    let n = (ctrl.ds() as u32).div_ceil(4);
    if n as usize > MAX_WQE_BLOCKS {
        0
    } else {
        n
    }
}
