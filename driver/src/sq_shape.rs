//! What each send opcode is made of, and on which kinds of QP it may be posted.

use fpga_regs::{QpType, WqeAddress, WqeAtomic, WqeBind, WqeCtrl, WqeOpcode, WqeRemote, WqeTso, WQE_UNIT};

/// Low bits of the flags of a send ring: the kind of QP.
pub(crate) const KIND: u8 = 0b11;
/// Every send completes.
pub(crate) const SIGNAL_ALL: u8 = 1 << 2;
/// The state takes sends.
pub(crate) const OPEN: u8 = 1 << 3;
/// The QP sends whole frames. Its kind is that of XRC, whose posts leave the usual path too.
pub(crate) const FRAMES: u8 = 1 << 4;
/// Its WQEs have room for the headers of RAW_TSO.
pub(crate) const CUTS: u8 = 1 << 5;

/// Has a remote segment after the control segment.
pub(crate) const REMOTE: u8 = 1 << 0;
/// Has an atomic segment after the remote segment.
pub(crate) const ATOMIC: u8 = 1 << 1;
/// Has a bind segment.
pub(crate) const BIND: u8 = 1 << 2;
/// Has a message, as elements.
pub(crate) const DATA: u8 = 1 << 3;
/// The message may also be inline.
pub(crate) const INLINE: u8 = 1 << 4;
/// Has a segmentation segment.
pub(crate) const TSO: u8 = 1 << 5;

/// Bits of the kinds of QP.
const RC: u8 = 1 << 0;
const UC: u8 = 1 << 1;
const UD: u8 = 1 << 2;
/// Raw packet QPs, which no kind of [`KIND`] stands for.
const RAW: u8 = 1 << 4;

/// The kind of a QP as a number for [`Shape::kinds`], with [`FRAMES`]; `None` for unknown types.
pub(crate) const fn kind(qp_type: QpType) -> Option<u8> {
    match qp_type {
        QpType::RC => Some(0),
        QpType::UC => Some(1),
        QpType::UD => Some(2),
        QpType::XRC_SEND => Some(3),
        QpType::RAW_PACKET => Some(KIND_XRC | FRAMES),
        _ => None,
    }
}

/// The kind of a UD QP.
pub(crate) const KIND_UD: u8 = 2;
/// The kind of an XRC_SEND QP.
pub(crate) const KIND_XRC: u8 = 3;
/// Units of the address segment.
pub(crate) const ADDRESS_UNITS: u32 = (WqeAddress::BYTES / WQE_UNIT) as u32;

/// What an opcode is made of.
#[repr(align(4))]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Units of 16 bytes before the data, without an address segment.
    pub units: u8,
    /// Its segments.
    pub parts: u8,
    /// The kinds of QP that take it, one bit each.
    pub kinds: u8,
}

/// Number of opcodes.
const OPCODES: usize = 13;

const SHAPES: [Shape; OPCODES] = {
    let mut shapes = [Shape { units: 0, parts: 0, kinds: 0 }; OPCODES];
    let mut opcode = 0;
    while opcode < OPCODES {
        shapes[opcode] = shape_of(WqeOpcode(opcode as u8));
        opcode += 1;
    }
    shapes
};

const fn shape_of(opcode: WqeOpcode) -> Shape {
    let (parts, kinds) = match opcode {
        WqeOpcode::NOP => (0, RC | UC | UD | RAW),
        WqeOpcode::SEND | WqeOpcode::SEND_WITH_IMM => (DATA | INLINE, RC | UC | UD),
        WqeOpcode::SEND_WITH_INV => (DATA | INLINE, RC | UC),
        WqeOpcode::WRITE | WqeOpcode::WRITE_WITH_IMM => (REMOTE | DATA | INLINE, RC | UC),
        WqeOpcode::READ => (REMOTE | DATA, RC),
        WqeOpcode::CMP_SWAP | WqeOpcode::FETCH_ADD => (REMOTE | ATOMIC | DATA, RC),
        WqeOpcode::LOCAL_INV => (0, RC | UC),
        WqeOpcode::BIND_MW => (BIND, RC | UC),
        WqeOpcode::RAW_ETH => (DATA | INLINE, RAW),
        WqeOpcode::RAW_TSO => (TSO | DATA, RAW),
        _ => (0, 0),
    };
    let mut bytes = WqeCtrl::BYTES;
    if parts & REMOTE != 0 {
        bytes += WqeRemote::BYTES;
    }
    if parts & ATOMIC != 0 {
        bytes += WqeAtomic::BYTES;
    }
    if parts & BIND != 0 {
        bytes += WqeBind::BYTES;
    }
    if parts & TSO != 0 {
        bytes += WqeTso::BYTES;
    }
    Shape { units: (bytes / WQE_UNIT) as u8, parts, kinds }
}

/// The shape of an opcode; no kind of QP takes an unknown one.
#[inline]
pub(crate) fn shape(opcode: WqeOpcode) -> Shape {
    match SHAPES.get(opcode.0 as usize) {
        Some(shape) => *shape,
        None => Shape { units: 0, parts: 0, kinds: 0 },
    }
}

impl Shape {
    /// The same on a raw packet QP, if that takes it.
    pub fn of_frames(self) -> Option<Self> {
        (self.kinds & RAW != 0).then_some(self)
    }

    /// The same on an XRC QP, which does what an RC QP does: each message names the peer's SRQ, in the remote segment.
    pub fn extended(mut self) -> Option<Self> {
        if self.parts & (DATA | REMOTE) == DATA {
            self.parts |= REMOTE;
            self.units += (WqeRemote::BYTES / WQE_UNIT) as u8;
        }
        (self.kinds & RC != 0).then_some(self)
    }
}

/// Units of 16 bytes before the data in the largest WQE of a kind of QP, which may do RAW_TSO.
pub(crate) const fn head_units(qp_type: QpType, tso: bool) -> u32 {
    let ctrl = (WqeCtrl::BYTES / WQE_UNIT) as u32;
    match qp_type {
        QpType::RC | QpType::XRC_SEND => {
            ctrl + (WqeRemote::BYTES / WQE_UNIT + WqeAtomic::BYTES / WQE_UNIT) as u32
        }
        QpType::UC => ctrl + (WqeBind::BYTES / WQE_UNIT) as u32,
        QpType::UD => ctrl + ADDRESS_UNITS,
        QpType::RAW_PACKET if tso => ctrl + (WqeTso::BYTES / WQE_UNIT) as u32,
        _ => ctrl,
    }
}

/// Units of 16 bytes before the data in the largest WQE with inline data of a kind of QP.
pub(crate) const fn inline_head_units(qp_type: QpType) -> u32 {
    let ctrl = (WqeCtrl::BYTES / WQE_UNIT) as u32;
    match qp_type {
        QpType::RC | QpType::UC | QpType::XRC_SEND => ctrl + (WqeRemote::BYTES / WQE_UNIT) as u32,
        QpType::UD => ctrl + ADDRESS_UNITS,
        _ => ctrl,
    }
}
