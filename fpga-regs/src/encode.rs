//! Builds the bytes of a send WQE from its parts, and takes them apart again.
//!
//! For tests, tools and slow paths: the driver's data path writes the segments
//! straight into the ring.

use crate::wqe::*;
use crate::wqe_segment::{head_bytes, Segment, Service};
use std::fmt;

/// Why a WQE cannot be built or taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// More than [`MAX_SGE`] entries.
    TooManySge(usize),
    /// More than [`MAX_INLINE`] bytes of inline data.
    InlineTooLong(usize),
    /// This opcode takes no inline data.
    InlineNotAllowed(WqeOpcode),
    /// This opcode takes no data.
    DataNotAllowed(WqeOpcode),
    /// An atomic has exactly one SGE of 8 bytes.
    AtomicData,
    /// The message's length does not fit in 32 bits.
    MessageTooLong(u64),
    /// This opcode takes no address segment.
    AddressNotAllowed(WqeOpcode),
    /// The bytes end before the WQE does.
    CutShort {
        /// Bytes that the WQE has.
        needed: usize,
        /// Bytes that are there.
        given: usize,
    },
    /// `ds` does not agree with the opcode, the flags and the lengths.
    Size {
        /// Bytes by `ds`.
        stated: usize,
        /// Bytes by the other fields.
        computed: usize,
    },
    /// The opcode is not known.
    Opcode(WqeOpcode),
}

impl fmt::Display for EncodeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManySge(count) => write!(out, "{count} SGEs, at most {MAX_SGE} fit"),
            Self::InlineTooLong(bytes) => {
                write!(out, "{bytes} bytes inline, at most {MAX_INLINE} fit")
            }
            Self::InlineNotAllowed(opcode) => write!(out, "{opcode} takes no inline data"),
            Self::DataNotAllowed(opcode) => write!(out, "{opcode} takes no data"),
            Self::AtomicData => write!(out, "an atomic has one SGE of 8 bytes"),
            Self::MessageTooLong(bytes) => write!(out, "a message of {bytes} bytes is too long"),
            Self::AddressNotAllowed(opcode) => write!(out, "{opcode} takes no address segment"),
            Self::CutShort { needed, given } => {
                write!(out, "the WQE has {needed} bytes, only {given} are there")
            }
            Self::Size { stated, computed } => {
                write!(out, "ds says {stated} bytes, the rest of the WQE says {computed}")
            }
            Self::Opcode(opcode) => write!(out, "opcode {opcode} is not known"),
        }
    }
}

impl std::error::Error for EncodeError {}

/// The parts of a send WQE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WqeBuilder {
    /// Opcode, flags, index, immediate; `build` fills in sizes and lengths.
    pub ctrl: WqeCtrl,
    /// Present on a UD QP.
    pub address: Option<WqeAddress>,
    /// On an XRC QP.
    pub extended: bool,
    /// Used by READ, WRITE and atomics, and on XRC by all.
    pub remote: WqeRemote,
    /// Used by atomics.
    pub atomic: WqeAtomic,
    /// Used by BIND_MW.
    pub bind: WqeBind,
    /// Used by RAW_TSO.
    pub tso: WqeTso,
    /// The data by reference; not with inline data.
    pub sges: Vec<WqeSge>,
    /// The data itself.
    pub inline: Option<Vec<u8>>,
}

impl WqeBuilder {
    /// A WQE of this opcode with everything else zero.
    pub fn new(opcode: WqeOpcode) -> Self {
        Self { ctrl: WqeCtrl::new().with_opcode(opcode), ..Self::default() }
    }

    /// Changes the control segment.
    #[must_use]
    pub fn ctrl(mut self, change: impl FnOnce(WqeCtrl) -> WqeCtrl) -> Self {
        self.ctrl = change(self.ctrl);
        self
    }

    /// Sets the address segment of a UD message.
    #[must_use]
    pub fn address(mut self, address: WqeAddress) -> Self {
        self.address = Some(address);
        self
    }

    /// Sets the remote segment.
    #[must_use]
    pub fn remote(mut self, addr: u64, rkey: u32) -> Self {
        self.remote = self.remote.with_remote_addr(addr).with_rkey(rkey);
        self
    }

    /// Goes to an SRQ of the peer, on an XRC QP.
    #[must_use]
    pub fn srqn(mut self, srqn: u32) -> Self {
        self.extended = true;
        self.remote.set_srqn(srqn);
        self
    }

    /// What kind of QP it is for.
    pub const fn service(&self) -> Service {
        match (&self.address, self.extended) {
            (Some(_), _) => Service::Datagram,
            (None, true) => Service::Extended,
            (None, false) => Service::Connected,
        }
    }

    /// Sets the atomic segment.
    #[must_use]
    pub fn atomic(mut self, compare_add: u64, swap: u64) -> Self {
        self.atomic = WqeAtomic::new().with_compare_add(compare_add).with_swap(swap);
        self
    }

    /// Sets the bind segment.
    #[must_use]
    pub fn bind(mut self, bind: WqeBind) -> Self {
        self.bind = bind;
        self
    }

    /// Sets the segmentation segment.
    #[must_use]
    pub fn tso(mut self, tso: WqeTso) -> Self {
        self.tso = tso;
        self
    }

    /// Adds an SGE.
    #[must_use]
    pub fn sge(mut self, addr: u64, length: u32, lkey: u32) -> Self {
        let sge = WqeSge::new().with_addr(addr).with_length(length).with_lkey(lkey);
        self.sges.push(sge);
        self
    }

    /// Sets the data itself.
    #[must_use]
    pub fn inline(mut self, data: &[u8]) -> Self {
        self.inline = Some(data.to_vec());
        self
    }

    /// The bytes: whole blocks, zero after the WQE's end.
    pub fn build(&self) -> Result<Vec<u8>, EncodeError> {
        let length = self.check()?;
        let opcode = self.ctrl.opcode();
        let mut bytes = vec![0; WqeCtrl::BYTES];
        for segment in opcode.segments(self.service()) {
            match segment {
                Segment::Address => bytes.extend_from_slice(self.address.unwrap_or_default().as_bytes()),
                Segment::Remote => bytes.extend_from_slice(self.remote.as_bytes()),
                Segment::Atomic => bytes.extend_from_slice(self.atomic.as_bytes()),
                Segment::Bind => bytes.extend_from_slice(self.bind.as_bytes()),
                Segment::Tso => bytes.extend_from_slice(self.tso.as_bytes()),
            }
        }
        match &self.inline {
            Some(data) => bytes.extend_from_slice(data),
            None => self.sges.iter().for_each(|sge| bytes.extend_from_slice(sge.as_bytes())),
        }
        bytes.resize(bytes.len().next_multiple_of(WQE_UNIT), 0);
        let ctrl = self
            .ctrl
            .with_ds((bytes.len() / WQE_UNIT) as u8)
            .with_inline(self.inline.is_some())
            .with_num_sge(self.sges.len() as u8)
            .with_length(length);
        bytes[..WqeCtrl::BYTES].copy_from_slice(ctrl.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(WQE_BLOCK), 0);
        Ok(bytes)
    }

    /// Checks that the parts go together; the length of the message.
    fn check(&self) -> Result<u32, EncodeError> {
        let opcode = self.ctrl.opcode();
        if opcode.name().is_none() {
            return Err(EncodeError::Opcode(opcode));
        }
        if self.address.is_some() && opcode.segments(Service::Datagram) != [Segment::Address] {
            return Err(EncodeError::AddressNotAllowed(opcode));
        }
        if !opcode.has_data() && (self.inline.is_some() || !self.sges.is_empty()) {
            return Err(EncodeError::DataNotAllowed(opcode));
        }
        if let Some(data) = &self.inline {
            if !opcode.allows_inline() || !self.sges.is_empty() {
                return Err(EncodeError::InlineNotAllowed(opcode));
            }
            if data.len() > MAX_INLINE {
                return Err(EncodeError::InlineTooLong(data.len()));
            }
            return Ok(data.len() as u32);
        }
        if self.sges.len() > MAX_SGE {
            return Err(EncodeError::TooManySge(self.sges.len()));
        }
        let atomic = matches!(opcode, WqeOpcode::CMP_SWAP | WqeOpcode::FETCH_ADD);
        if atomic && (self.sges.len() != 1 || self.sges[0].length() != 8) {
            return Err(EncodeError::AtomicData);
        }
        let length: u64 = self.sges.iter().map(|sge| u64::from(sge.length())).sum();
        u32::try_from(length).map_err(|_| EncodeError::MessageTooLong(length))
    }

    /// Takes the bytes of a WQE apart; the reverse of [`Self::build`].
    pub fn parse(bytes: &[u8]) -> Result<Self, EncodeError> {
        let short = |needed| EncodeError::CutShort { needed, given: bytes.len() };
        let ctrl = WqeCtrl::from_slice(bytes).ok_or(short(WqeCtrl::BYTES))?;
        let opcode = ctrl.opcode();
        if opcode.name().is_none() {
            return Err(EncodeError::Opcode(opcode));
        }
        let service = ctrl.service();
        let head = head_bytes(opcode, service);
        let stated = usize::from(ctrl.ds()) * WQE_UNIT;
        let computed = head + ctrl.data_bytes();
        if stated != computed {
            return Err(EncodeError::Size { stated, computed });
        }
        let bytes = bytes.get(..computed).ok_or(short(computed))?;
        let mut parts = Self { ctrl, extended: service == Service::Extended, ..Self::default() };
        let mut at = WqeCtrl::BYTES;
        for segment in opcode.segments(service) {
            let rest = &bytes[at..];
            match segment {
                Segment::Address => parts.address = WqeAddress::from_slice(rest),
                Segment::Remote => parts.remote = WqeRemote::from_slice(rest).unwrap_or_default(),
                Segment::Atomic => parts.atomic = WqeAtomic::from_slice(rest).unwrap_or_default(),
                Segment::Bind => parts.bind = WqeBind::from_slice(rest).unwrap_or_default(),
                Segment::Tso => parts.tso = WqeTso::from_slice(rest).unwrap_or_default(),
            }
            at += segment.bytes();
        }
        if ctrl.inline() {
            parts.inline = Some(bytes[head..head + ctrl.length() as usize].to_vec());
        } else {
            parts.sges = bytes[head..].chunks_exact(WqeSge::BYTES).filter_map(WqeSge::from_slice).collect();
        }
        Ok(parts)
    }
}
