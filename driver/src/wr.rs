//! Work requests as the caller builds them.
#![allow(unsafe_code)]

use fpga_regs::{Access, WqeOpcode};

use crate::ah::Ah;

/// A piece of registered memory; laid out like `struct ibv_sge`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sge {
    /// Address.
    pub addr: u64,
    /// Bytes.
    pub length: u32,
    /// L_Key of the memory region.
    pub lkey: u32,
}

bitflags::bitflags! {
    /// Flags of a send; the bits of the WQE's control segment.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct SendFlags: u8 {
        /// Generate a completion.
        const SIGNALED = 1 << 0;
        /// Raise a solicited event at the receiver.
        const SOLICITED = 1 << 1;
        /// Wait for earlier READs and atomics.
        const FENCE = 1 << 2;
        /// Fill in the checksum of the frame's IPv4 header. RAW_ETH only.
        const IP_CSUM = 1 << 4;
        /// Fill in the frame's checksum of TCP or UDP. RAW_ETH only.
        const L4_CSUM = 1 << 5;
        /// Insert an 802.1Q tag, [`SendWr::vlan_tci`]. RAW_ETH and RAW_TSO only.
        const VLAN_INSERT = 1 << 6;
    }
}

/// What BIND_MW binds; the new R_Key is in [`SendWr::imm`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bind {
    /// First address of the window.
    pub addr: u64,
    /// Bytes.
    pub length: u64,
    /// L_Key of the memory region beneath.
    pub mr_lkey: u32,
    /// The window's R_Key so far.
    pub mw_rkey: u32,
    /// What a peer may do through the window.
    pub access: Access,
}

/// Inline data given as a list of pieces of ordinary memory.
#[derive(Debug, Clone, Copy)]
pub struct InlineSges<'a>(&'a [Sge]);

impl<'a> InlineSges<'a> {
    /// Takes the pieces' addresses as readable memory.
    ///
    /// # Safety
    /// Every piece's `addr` must be readable for `length` bytes until the work request is pushed.
    #[inline]
    pub unsafe fn new(pieces: &'a [Sge]) -> Self {
        InlineSges(pieces)
    }

    /// The pieces.
    #[inline]
    pub fn pieces(&self) -> &'a [Sge] {
        self.0
    }
}

/// Where the bytes of a message are.
#[derive(Debug, Clone, Copy)]
pub enum Data<'a> {
    /// In registered memory.
    Sges(&'a [Sge]),
    /// In ordinary memory, copied into the WQE while posting.
    Inline(InlineSges<'a>),
    /// In ordinary memory, copied into the WQE while posting.
    Bytes(&'a [u8]),
    /// TCP that is cut into frames. RAW_TSO only, and always there.
    Segmented(&'a Segmented<'a>),
}

impl Default for Data<'_> {
    #[inline]
    fn default() -> Self {
        Data::Sges(&[])
    }
}

/// TCP that the card cuts into frames, on a QP with [`Offloads::tso`](crate::Offloads::tso).
#[derive(Debug, Clone, Copy)]
pub struct Segmented<'a> {
    /// What each frame begins with ([`WqeTso`](fpga_regs::WqeTso)), copied into the WQE while posting; at most
    /// [`MAX_TSO_HEADER`](fpga_regs::MAX_TSO_HEADER) bytes.
    pub header: &'a [u8],
    /// Most bytes of data in a frame; not 0.
    pub mss: u16,
    /// The data, in registered memory: at most [`EthernetLimits::max_tso`](fpga_regs::EthernetLimits::max_tso) bytes.
    pub data: &'a [Sge],
}

/// A send work request; its opcode decides which fields count.
#[derive(Debug, Clone, Copy, Default)]
pub struct SendWr<'a> {
    /// Returned in the completion.
    pub wr_id: u64,
    /// What to do.
    pub opcode: WqeOpcode,
    /// How.
    pub flags: SendFlags,
    /// Immediate data in wire order, the R_Key to invalidate, or the window's new R_Key.
    pub imm: u32,
    /// WRITE, READ, atomics: the peer's address.
    pub remote_addr: u64,
    /// WRITE, READ, atomics: the peer's R_Key.
    pub rkey: u32,
    /// CMP_SWAP: the value to compare; FETCH_ADD: the value to add.
    pub compare_add: u64,
    /// CMP_SWAP: the value to store.
    pub swap: u64,
    /// UD: the path to the peer.
    pub ah: Option<&'a Ah>,
    /// UD: the peer's QPN.
    pub remote_qpn: u32,
    /// UD: the peer's Q_Key.
    pub remote_qkey: u32,
    /// XRC: the peer's SRQ.
    pub remote_srqn: u32,
    /// RAW_ETH, RAW_TSO: tag control information of the tag to insert, with [`SendFlags::VLAN_INSERT`].
    pub vlan_tci: u16,
    /// BIND_MW: what to bind.
    pub bind: Option<Bind>,
    /// The message.
    pub data: Data<'a>,
}
