//! Work completions as polling returns them.

use fpga_regs::{CqeOpcode, CqeStatus, FrameKind};

bitflags::bitflags! {
    /// Flags of a completion.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct WcFlags: u8 {
        /// The first 40 bytes of the receive are a GRH.
        const GRH = 1 << 0;
        /// [`Wc::imm`] is immediate data.
        const WITH_IMM = 1 << 1;
        /// [`Wc::imm`] is the R_Key that was invalidated.
        const WITH_INV = 1 << 2;
        /// Completes a receive.
        const RECV = 1 << 3;
        /// The frame is of IPv4, and the checksum of its header is right.
        const IP_CSUM_OK = 1 << 4;
        /// [`Wc::vlan_tci`] is the tag that was removed from the frame.
        const VLAN = 1 << 5;
        /// The frame is of TCP or UDP, and its checksum is right.
        const L4_CSUM_OK = 1 << 6;
        /// [`Wc::imm`] is the frame's hash.
        const HASHED = 1 << 7;
        const _ = !0;
    }
}

/// A work completion.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wc {
    /// Of the work request.
    pub wr_id: u64,
    /// How it ended.
    pub status: CqeStatus,
    /// What it was.
    pub opcode: CqeOpcode,
    /// Flags.
    pub flags: WcFlags,
    /// UD: the kind of the packet that was received ([`fpga_regs::Cqe`]).
    pub sl: u8,
    /// Why it failed: the card's syndrome ([`fpga_regs::Syndrome`]).
    pub vendor_err: u32,
    /// Bytes received or read.
    pub byte_len: u32,
    /// Immediate data in wire order, or the R_Key invalidated, or the hash of a frame.
    pub imm: u32,
    /// The QP.
    pub qpn: u32,
    /// UD, XRC: the sender's QP.
    pub src_qp: u32,
    /// Index in the P_Key table.
    pub pkey_index: u16,
    /// Tag control information of the frame's 802.1Q tag, where it was removed.
    pub vlan_tci: u16,
    /// Kind of the frame, if the card says it ([`FeatureSet::FRAME_KIND`](fpga_regs::regs::FeatureSet::FRAME_KIND)).
    pub frame_kind: FrameKind,
    /// What the flow rule by which the frame came marks it with.
    pub mark: Option<u32>,
    /// The card's clock, in nanoseconds, if the CQ is a [stamped](crate::CqOptions::stamped) one.
    pub timestamp: u64,
}
