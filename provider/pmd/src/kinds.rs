//! Kinds of packets (`rte_mbuf_ptype.h`): what the card says of a frame, as DPDK says it.

use fpga_regs::FrameKind;

/// `RTE_PTYPE_L2_ETHER`.
pub const ETHER: u32 = 0x001;
/// `RTE_PTYPE_L3_IPV4_EXT_UNKNOWN`: with options or without.
pub const IPV4: u32 = 0x090;
/// `RTE_PTYPE_L3_IPV6_EXT_UNKNOWN`.
pub const IPV6: u32 = 0x0e0;
/// `RTE_PTYPE_L4_TCP`.
pub const TCP: u32 = 0x100;
/// `RTE_PTYPE_L4_UDP`.
pub const UDP: u32 = 0x200;
/// `RTE_PTYPE_L4_FRAG`.
pub const FRAGMENT: u32 = 0x300;
/// `RTE_PTYPE_L4_NONFRAG`.
pub const WHOLE: u32 = 0x600;

/// All that there are, and their end.
pub static PACKET_TYPES: [u32; 8] = [ETHER, IPV4, IPV6, TCP, UDP, FRAGMENT, WHOLE, 0];

/// The bits of `RTE_PTYPE_*` of a frame.
#[inline]
pub fn packet_type(kind: FrameKind) -> u32 {
    match kind {
        FrameKind::IPV4 => ETHER | IPV4 | WHOLE,
        FrameKind::IPV4_FRAGMENT => ETHER | IPV4 | FRAGMENT,
        FrameKind::IPV4_TCP => ETHER | IPV4 | TCP,
        FrameKind::IPV4_UDP => ETHER | IPV4 | UDP,
        FrameKind::IPV6 => ETHER | IPV6 | WHOLE,
        FrameKind::IPV6_FRAGMENT => ETHER | IPV6 | FRAGMENT,
        FrameKind::IPV6_TCP => ETHER | IPV6 | TCP,
        FrameKind::IPV6_UDP => ETHER | IPV6 | UDP,
        _ => ETHER,
    }
}
