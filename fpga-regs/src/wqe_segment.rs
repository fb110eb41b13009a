//! Which segments a send WQE has, and where its data starts.

use crate::field::Format;
use crate::wqe::*;

/// A segment between the control segment and the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// [`WqeAddress`].
    Address,
    /// [`WqeRemote`].
    Remote,
    /// [`WqeAtomic`].
    Atomic,
    /// [`WqeBind`].
    Bind,
}

impl Segment {
    /// Its description.
    pub const fn format(self) -> &'static Format {
        match self {
            Segment::Address => &WqeAddress::FORMAT,
            Segment::Remote => &WqeRemote::FORMAT,
            Segment::Atomic => &WqeAtomic::FORMAT,
            Segment::Bind => &WqeBind::FORMAT,
        }
    }

    /// Size in bytes.
    pub const fn bytes(self) -> usize {
        self.format().bytes
    }
}

impl WqeOpcode {
    /// The segments after the control segment, on a UD QP (`datagram`) or on
    /// any other. Empty for an opcode that is not known.
    pub const fn segments(self, datagram: bool) -> &'static [Segment] {
        match self {
            WqeOpcode::SEND | WqeOpcode::SEND_WITH_IMM if datagram => &[Segment::Address],
            WqeOpcode::WRITE | WqeOpcode::WRITE_WITH_IMM | WqeOpcode::READ => &[Segment::Remote],
            WqeOpcode::CMP_SWAP | WqeOpcode::FETCH_ADD => &[Segment::Remote, Segment::Atomic],
            WqeOpcode::BIND_MW => &[Segment::Bind],
            _ => &[],
        }
    }

    /// Inline data is allowed.
    pub const fn allows_inline(self) -> bool {
        matches!(
            self,
            WqeOpcode::SEND
                | WqeOpcode::SEND_WITH_IMM
                | WqeOpcode::SEND_WITH_INV
                | WqeOpcode::WRITE
                | WqeOpcode::WRITE_WITH_IMM
                | WqeOpcode::RAW_ETH
        )
    }

    /// The WQE carries data, inline or by SGEs.
    pub const fn has_data(self) -> bool {
        !matches!(self, WqeOpcode::NOP | WqeOpcode::LOCAL_INV | WqeOpcode::BIND_MW)
    }
}

/// Bytes of the control segment and the segments before the data.
#[inline]
pub const fn head_bytes(opcode: WqeOpcode, datagram: bool) -> usize {
    let segments = opcode.segments(datagram);
    let mut bytes = WqeCtrl::BYTES;
    let mut i = 0;
    while i < segments.len() {
        bytes += segments[i].bytes();
        i += 1;
    }
    bytes
}

/// Bytes of a whole WQE, a multiple of 16; `data` is 16 for each SGE, or the
/// bytes of inline data.
#[inline]
pub const fn wqe_bytes(opcode: WqeOpcode, datagram: bool, data: usize) -> usize {
    head_bytes(opcode, datagram) + data.next_multiple_of(WQE_UNIT)
}

impl WqeCtrl {
    /// Bytes of the data as this segment states it, padded to 16.
    pub const fn data_bytes(&self) -> usize {
        if self.inline() {
            (self.length() as usize).next_multiple_of(WQE_UNIT)
        } else {
            self.num_sge() as usize * WqeSge::BYTES
        }
    }

    /// The WQE has a [`WqeAddress`]: its `ds` has room for one more segment
    /// than the data needs. The card knows this from the QP.
    pub const fn is_datagram(&self) -> bool {
        let datagram = wqe_bytes(self.opcode(), true, self.data_bytes());
        let other = wqe_bytes(self.opcode(), false, self.data_bytes());
        datagram != other && self.ds() as usize * WQE_UNIT == datagram
    }
}
