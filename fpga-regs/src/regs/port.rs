//! The registers of a port.

use super::gid::{GID_ENTRIES, GID_ENTRY_BYTES};
use super::register::Register;
use super::values::*;

constants! {
    /// Offset of port 1 in BAR0.
    PORT_BASE: u32 = 0x1000;
    /// Bytes of a port's block, its GID table included.
    PORT_BYTES: u32 = 0x1000;
    /// Offset of the GID table in a port's block.
    GID_TABLE: u32 = 0x800;
}

/// Offset in BAR0 of port `port`, counted from 0: port 1 is 0.
pub const fn base(port: u32) -> u32 {
    PORT_BASE + port * PORT_BYTES
}

/// Offset in BAR0 of entry `index` of the GID table of port `port`, counted
/// from 0.
pub const fn gid_entry(port: u32, index: u32) -> u32 {
    assert!(index < GID_ENTRIES);
    base(port) + GID_TABLE + index * GID_ENTRY_BYTES
}

/// The counters, in the order of their offsets.
pub fn counters() -> impl Iterator<Item = &'static Register> {
    REGISTERS.iter().filter(|register| register.offset >= TX_PACKETS)
}

registers! {
    /// The registers of a port, before its GID table. Counters count from the
    /// last reset of the card and wrap.
    REGISTERS: 0x800 {
        /// The link.
        LINK (RO u32 as Link @ 0x000);
        /// Speed in Mb/s.
        SPEED (RO u32 @ 0x004);
        /// Ethernet address; the first byte of the wire is the lowest byte.
        MAC (RO u64 @ 0x008);
        /// Largest path MTU now, in bytes.
        MTU (RO u32 @ 0x010);
        /// Largest path MTU that the port can do, in bytes.
        MTU_MAX (RO u32 @ 0x014);
        /// Entries of the GID table.
        GID_COUNT (RO u32 @ 0x018) = GID_ENTRIES;
        /// The one P_Key.
        PKEY (RO u32 @ 0x01c) = 0xffff;
        /// Packets sent, those that TX_DISCARDS counts included.
        TX_PACKETS (RO u64 @ 0x100) = 0;
        /// Bytes sent, from the Ethernet header to the ICRC.
        TX_BYTES (RO u64 @ 0x108) = 0;
        /// Packets received.
        RX_PACKETS (RO u64 @ 0x110) = 0;
        /// Bytes received, from the Ethernet header to the ICRC.
        RX_BYTES (RO u64 @ 0x118) = 0;
        /// Packets dropped because of a wrong ICRC.
        RX_ICRC_ERRORS (RO u64 @ 0x120) = 0;
        /// Packets dropped because a header made no sense.
        RX_MALFORMED (RO u64 @ 0x128) = 0;
        /// Packets dropped because no QP of this card takes them.
        RX_NO_QP (RO u64 @ 0x130) = 0;
        /// UD packets dropped because of a wrong Q_Key.
        RX_QKEY_ERRORS (RO u64 @ 0x138) = 0;
        /// UD and UC messages, and copies of whole frames, dropped because no
        /// receive WQE was there.
        RX_NO_RECV (RO u64 @ 0x140) = 0;
        /// Packets dropped because the card had no room for them.
        RX_OVERFLOW (RO u64 @ 0x148) = 0;
        /// Multicast packets sent.
        TX_MULTICAST (RO u64 @ 0x150) = 0;
        /// Multicast packets received.
        RX_MULTICAST (RO u64 @ 0x158) = 0;
        /// PSNs of requests that are sent again; a READ counts those of its response.
        RETRANSMITS (RO u64 @ 0x160) = 0;
        /// Time-outs of a QP that waited for an acknowledgement.
        ACK_TIMEOUTS (RO u64 @ 0x168) = 0;
        /// Request packets received with a PSN ahead of the expected one.
        OUT_OF_SEQUENCE (RO u64 @ 0x170) = 0;
        /// Request packets received a second time.
        DUPLICATE (RO u64 @ 0x178) = 0;
        /// Sequence error NAKs received.
        SEQUENCE_NAK (RO u64 @ 0x180) = 0;
        /// Receiver-not-ready NAKs sent.
        RNR_NAK (RO u64 @ 0x188) = 0;
        /// Receiver-not-ready NAKs received.
        RNR_NAK_RECEIVED (RO u64 @ 0x190) = 0;
        /// Remote access NAKs sent.
        ACCESS_NAK (RO u64 @ 0x198) = 0;
        /// Invalid request NAKs sent.
        INVALID_NAK (RO u64 @ 0x1a0) = 0;
        /// Remote operational error NAKs sent.
        OPERATION_NAK (RO u64 @ 0x1a8) = 0;
        /// Packets received with an ECN mark.
        RX_ECN_MARKED (RO u64 @ 0x1b0) = 0;
        /// Congestion notification packets sent.
        TX_CNP (RO u64 @ 0x1b8) = 0;
        /// Congestion notification packets received.
        RX_CNP (RO u64 @ 0x1c0) = 0;
        /// Pause frames sent.
        TX_PAUSE (RO u64 @ 0x1c8) = 0;
        /// Pause frames received.
        RX_PAUSE (RO u64 @ 0x1d0) = 0;
        /// Whole frames dropped because no flow rule of the port takes them.
        RX_NO_RULE (RO u64 @ 0x1d8) = 0;
        /// Packets and whole frames lost because the link of this port was down.
        LINK_LOST (RO u64 @ 0x1e0) = 0;
        /// Whole frames dropped because a flow rule of the port says so.
        RX_RULE_DROP (RO u64 @ 0x1e8) = 0;
        /// Whole frames sent that are a part of a RAW_TSO.
        TX_SEGMENTED (RO u64 @ 0x1f0) = 0;
        /// Packets dropped because of a wrong P_Key.
        RX_PKEY_ERRORS (RO u64 @ 0x1f8) = 0;
        /// Packets and whole frames that were sent, but lost before they left: what
        /// the port leads to did not take them in time, or nobody there has the
        /// address that they are for.
        TX_DISCARDS (RO u64 @ 0x200) = 0;
    }
}
