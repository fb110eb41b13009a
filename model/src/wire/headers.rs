//! The transport headers of one packet, decoded.

use super::opcode::CNP_RESERVED;
use super::{Aeth, AtomicAckEth, AtomicEth, Bth, Deth, DropReason, Ieth, ImmDt, Reth, Xrceth};

/// BTH and extended headers. Which of them the packet has follows from `bth.opcode`; the others
/// are zero after decoding and ignored in encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Headers {
    /// Base header.
    pub bth: Bth,
    /// Datagram header (UD).
    pub deth: Deth,
    /// XRC header (requests of XRC).
    pub xrceth: Xrceth,
    /// RDMA header (first packet of a WRITE, READ request).
    pub reth: Reth,
    /// Atomic operands.
    pub atomic: AtomicEth,
    /// Acknowledgement.
    pub aeth: Aeth,
    /// Old value of an atomic operation.
    pub atomic_ack: AtomicAckEth,
    /// Immediate data.
    pub imm: ImmDt,
    /// Key to invalidate.
    pub ieth: Ieth,
}

/// Cuts a header off `$bytes` and decodes it into `$field` if `$present`.
macro_rules! take {
    ($bytes:ident, $present:expr, $field:expr, $header:ty) => {
        if $present {
            let short = DropReason::TooShort(stringify!($header));
            let (head, rest) = $bytes.split_first_chunk().ok_or(short)?;
            $field = <$header>::decode(head);
            $bytes = rest;
        }
    };
}

/// Encodes `$field` at the start of `$out` and steps over it if `$present`.
macro_rules! put {
    ($out:ident, $present:expr, $field:expr) => {
        if $present {
            let (head, rest) = $out.split_first_chunk_mut()?;
            $field.encode(head);
            $out = rest;
        }
    };
}

impl Headers {
    /// Reads the headers and returns them with what follows: payload and pad.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), DropReason> {
        let mut rest = bytes;
        let mut h = Self::default();
        take!(rest, true, h.bth, Bth);
        let op = h.bth.opcode;
        if h.bth.tver != 0 {
            return Err(DropReason::TransportVersion(h.bth.tver));
        }
        if !op.is_known() {
            return Err(DropReason::Opcode(op));
        }
        take!(rest, op.has_deth(), h.deth, Deth);
        take!(rest, op.has_xrceth(), h.xrceth, Xrceth);
        take!(rest, op.has_reth(), h.reth, Reth);
        take!(rest, op.has_atomic_eth(), h.atomic, AtomicEth);
        take!(rest, op.has_aeth(), h.aeth, Aeth);
        take!(rest, op.has_atomic_ack_eth(), h.atomic_ack, AtomicAckEth);
        take!(rest, op.has_imm(), h.imm, ImmDt);
        take!(rest, op.has_ieth(), h.ieth, Ieth);
        if op.is_notification() {
            rest = rest.get(CNP_RESERVED..).ok_or(DropReason::TooShort("CNP"))?;
        }
        Ok((h, rest))
    }

    /// Writes the headers at the start of `out` and returns what follows; `None` if `out` is
    /// too short.
    #[inline]
    pub fn encode<'a>(&self, out: &'a mut [u8]) -> Option<&'a mut [u8]> {
        let op = self.bth.opcode;
        let mut out = out;
        put!(out, true, self.bth);
        put!(out, op.has_deth(), self.deth);
        put!(out, op.has_xrceth(), self.xrceth);
        put!(out, op.has_reth(), self.reth);
        put!(out, op.has_atomic_eth(), self.atomic);
        put!(out, op.has_aeth(), self.aeth);
        put!(out, op.has_atomic_ack_eth(), self.atomic_ack);
        put!(out, op.has_imm(), self.imm);
        put!(out, op.has_ieth(), self.ieth);
        if op.is_notification() {
            let (reserved, rest) = out.split_at_mut_checked(CNP_RESERVED)?;
            reserved.fill(0);
            out = rest;
        }
        Some(out)
    }
}
