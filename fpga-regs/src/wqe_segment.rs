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
    /// [`WqeTso`].
    Tso,
}

impl Segment {
    /// Its description.
    pub const fn format(self) -> &'static Format {
        match self {
            Segment::Address => &WqeAddress::FORMAT,
            Segment::Remote => &WqeRemote::FORMAT,
            Segment::Atomic => &WqeAtomic::FORMAT,
            Segment::Bind => &WqeBind::FORMAT,
            Segment::Tso => &WqeTso::FORMAT,
        }
    }

    /// Size in bytes.
    pub const fn bytes(self) -> usize {
        self.format().bytes
    }
}

/// The types of QP that give a send WQE different segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// RC, UC and raw packets.
    Connected,
    /// UD.
    Datagram,
    /// XRC.
    Extended,
}

impl Service {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Connected, Self::Datagram, Self::Extended];
}

impl WqeOpcode {
    /// The segments after the control segment, on a QP of this service. Empty for
    /// an opcode that is not known.
    pub const fn segments(self, service: Service) -> &'static [Segment] {
        match self {
            WqeOpcode::SEND | WqeOpcode::SEND_WITH_IMM if matches!(service, Service::Datagram) => {
                &[Segment::Address]
            }
            WqeOpcode::SEND | WqeOpcode::SEND_WITH_IMM | WqeOpcode::SEND_WITH_INV
                if matches!(service, Service::Extended) =>
            {
                &[Segment::Remote]
            }
            WqeOpcode::WRITE | WqeOpcode::WRITE_WITH_IMM | WqeOpcode::READ => &[Segment::Remote],
            WqeOpcode::CMP_SWAP | WqeOpcode::FETCH_ADD => &[Segment::Remote, Segment::Atomic],
            WqeOpcode::BIND_MW => &[Segment::Bind],
            WqeOpcode::RAW_TSO => &[Segment::Tso],
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
pub const fn head_bytes(opcode: WqeOpcode, service: Service) -> usize {
    let segments = opcode.segments(service);
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
pub const fn wqe_bytes(opcode: WqeOpcode, service: Service, data: usize) -> usize {
    head_bytes(opcode, service) + data.next_multiple_of(WQE_UNIT)
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

    /// The service whose segments `ds` has room for: connected where they are
    /// the same, or for none. The card knows this from the QP.
    pub const fn service(&self) -> Service {
        let mut i = 0;
        while i < Service::ALL.len() {
            let bytes = wqe_bytes(self.opcode(), Service::ALL[i], self.data_bytes());
            if self.ds() as usize * WQE_UNIT == bytes {
                return Service::ALL[i];
            }
            i += 1;
        }
        Service::Connected
    }
}
