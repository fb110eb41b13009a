//! The send work request: a control segment, what the opcode needs, the data.
//!
//! The send queue is a ring of 64-byte blocks. A WQE starts at a block, takes 1
//! to [`MAX_WQE_BLOCKS`] blocks and may wrap around the ring's end.
//!
//! | opcode | segments after the control segment |
//! |---|---|
//! | SEND* on RC and UC, RAW_ETH | data |
//! | SEND, SEND_WITH_IMM on UD | [`WqeAddress`], data |
//! | SEND* on XRC; WRITE, WRITE_WITH_IMM, READ | [`WqeRemote`], data |
//! | CMP_SWAP, FETCH_ADD | [`WqeRemote`], [`WqeAtomic`], one [`WqeSge`] |
//! | BIND_MW | [`WqeBind`] |
//! | RAW_TSO | [`WqeTso`], data |
//! | NOP, LOCAL_INV | - |
//!
//! *data* is `num_sge` times [`WqeSge`], or, with the flag `inline`, the bytes
//! themselves, padded to 16.

use crate::layout::load;

constants! {
    /// Bytes of a send queue block.
    WQE_BLOCK: usize = 64;
    /// Bytes of the unit that [`WqeCtrl::ds`] counts.
    WQE_UNIT: usize = 16;
    /// Most scatter/gather entries of a send or receive WQE.
    MAX_SGE: usize = 30;
    /// Most bytes of inline data.
    MAX_INLINE: usize = 512;
    /// Most blocks of a WQE.
    MAX_WQE_BLOCKS: usize = 10;
    /// Most bytes of the headers of a RAW_TSO.
    MAX_TSO_HEADER: usize = 128;
}

/// Bytes of the longest Ethernet frame, without its check sequence: a jumbo frame.
pub const MAX_FRAME: u32 = 9600;

// The largest WQEs fit: UD with every SGE, UD with full inline data, RAW_TSO with every SGE.
const _: () = {
    let head = WqeCtrl::BYTES + WqeAddress::BYTES;
    assert!(head + MAX_SGE * WqeSge::BYTES <= MAX_WQE_BLOCKS * WQE_BLOCK);
    assert!(head + MAX_INLINE <= MAX_WQE_BLOCKS * WQE_BLOCK);
    let head = WqeCtrl::BYTES + WqeTso::BYTES;
    assert!(head + MAX_SGE * WqeSge::BYTES <= MAX_WQE_BLOCKS * WQE_BLOCK);
};

open_enum! {
    /// What a send WQE asks for.
    WqeOpcode: u8 {
        /// Nothing; completes in order.
        NOP = 0,
        /// Send to the peer's next receive WQE.
        SEND = 1,
        /// Send with 32 bits of immediate data.
        SEND_WITH_IMM = 2,
        /// Send, and invalidate the peer's R_Key in `imm`.
        SEND_WITH_INV = 3,
        /// RDMA write.
        WRITE = 4,
        /// RDMA write that also consumes a receive WQE of the peer.
        WRITE_WITH_IMM = 5,
        /// RDMA read.
        READ = 6,
        /// Atomic compare and swap of 8 bytes.
        CMP_SWAP = 7,
        /// Atomic fetch and add of 8 bytes.
        FETCH_ADD = 8,
        /// Invalidate the local key in `imm`.
        LOCAL_INV = 9,
        /// Bind a memory window.
        BIND_MW = 10,
        /// A whole Ethernet frame of a raw packet QP.
        RAW_ETH = 11,
        /// Bytes of TCP that a raw packet QP sends as frames: behind the headers in
        /// WqeTso, each with the next bytes of the data (TSO).
        RAW_TSO = 12,
    }
}

layout! {
    /// Control segment: the first 16 bytes of every send WQE.
    WqeCtrl: 16 {
        /// What to do.
        opcode set_opcode with_opcode (u8 @ 0 as WqeOpcode);
        /// Size of the WQE in units of 16 bytes, this segment included.
        ds set_ds with_ds (u8 @ 1);
        /// Make a CQE also when the request succeeds.
        signaled set_signaled with_signaled (bool @ 2 bit 0);
        /// Set the solicited event bit of the last packet.
        solicited set_solicited with_solicited (bool @ 2 bit 1);
        /// Wait for all earlier READs and atomics of the queue.
        fence set_fence with_fence (bool @ 2 bit 2);
        /// The data is in the WQE itself.
        inline set_inline with_inline (bool @ 2 bit 3);
        /// Fill in the IPv4 header checksum (RAW_ETH).
        ip_csum set_ip_csum with_ip_csum (bool @ 2 bit 4);
        /// Fill in the TCP or UDP checksum (RAW_ETH).
        l4_csum set_l4_csum with_l4_csum (bool @ 2 bit 5);
        /// Insert an 802.1Q tag with `vlan_tci` (RAW_ETH, RAW_TSO).
        vlan_insert set_vlan_insert with_vlan_insert (bool @ 2 bit 6);
        /// Number of SGEs; 0 with inline data.
        num_sge set_num_sge with_num_sge (u8 @ 3);
        /// Block index of this WQE, modulo 65536.
        index set_index with_index (u16 @ 4);
        /// Tag control information of the VLAN tag to insert.
        vlan_tci set_vlan_tci with_vlan_tci (u16 @ 6);
        /// Bytes of the message; of a RAW_TSO without the headers.
        length set_length with_length (u32 @ 8);
        /// Immediate data (sent in the order of
        /// these bytes), or the key to invalidate, or the window's new R_Key.
        imm set_imm with_imm (u32 @ 12);
    }
}

impl WqeCtrl {
    /// Bit of `signaled` in [`Self::flags`].
    pub const SIGNALED: u8 = 1 << 0;
    /// Bit of `solicited` in [`Self::flags`].
    pub const SOLICITED: u8 = 1 << 1;
    /// Bit of `fence` in [`Self::flags`].
    pub const FENCE: u8 = 1 << 2;
    /// Bit of `inline` in [`Self::flags`].
    pub const INLINE: u8 = 1 << 3;
    /// Bit of `ip_csum` in [`Self::flags`].
    pub const IP_CSUM: u8 = 1 << 4;
    /// Bit of `l4_csum` in [`Self::flags`].
    pub const L4_CSUM: u8 = 1 << 5;
    /// Bit of `vlan_insert` in [`Self::flags`].
    pub const VLAN_INSERT: u8 = 1 << 6;

    /// All flags as one byte.
    #[inline]
    pub const fn flags(&self) -> u8 {
        self.as_bytes()[2]
    }

    /// Sets all flags at once.
    #[inline]
    pub const fn set_flags(&mut self, flags: u8) {
        self.as_mut_bytes()[2] = flags;
    }

    /// A copy with all flags set at once.
    #[inline]
    #[must_use]
    pub const fn with_flags(mut self, flags: u8) -> Self {
        self.set_flags(flags);
        self
    }

    /// Blocks that the WQE takes by its `ds`, at least one.
    #[inline]
    pub const fn blocks(&self) -> u32 {
        let blocks = (self.ds() as u32).div_ceil((WQE_BLOCK / WQE_UNIT) as u32);
        if blocks == 0 {
            1
        } else {
            blocks
        }
    }
}

layout! {
    /// Remote segment: where READ, WRITE and atomics go, and on XRC everything.
    WqeRemote: 16 {
        /// Address at the peer.
        remote_addr set_remote_addr with_remote_addr (u64 @ 0);
        /// The peer's key.
        rkey set_rkey with_rkey (u32 @ 8);
        /// The peer's SRQ (XRC).
        srqn set_srqn with_srqn (u32 @ 12 bits 0..24);
    }
}

layout! {
    /// Atomic segment: the operands.
    WqeAtomic: 16 {
        /// What to compare with (CMP_SWAP) or to add (FETCH_ADD).
        compare_add set_compare_add with_compare_add (u64 @ 0);
        /// What to store where the comparison holds.
        swap set_swap with_swap (u64 @ 8);
    }
}

layout! {
    /// Address segment: the address vector of a UD message.
    WqeAddress: 48 {
        /// Destination GID.
        dgid set_dgid with_dgid ([u8; 16] @ 0);
        /// Destination Ethernet address.
        dmac set_dmac with_dmac ([u8; 6] @ 16);
        /// Index of the source GID.
        sgid_index set_sgid_index with_sgid_index (u8 @ 22);
        /// Port, counted from 1.
        port set_port with_port (u8 @ 23);
        /// Destination QP.
        dest_qpn set_dest_qpn with_dest_qpn (u32 @ 24);
        /// Q_Key to send; with the top bit set the QP's own is sent.
        qkey set_qkey with_qkey (u32 @ 28);
        /// Flow label.
        flow_label set_flow_label with_flow_label (u32 @ 32);
        /// Traffic class.
        traffic_class set_traffic_class with_traffic_class (u8 @ 36);
        /// Hop limit.
        hop_limit set_hop_limit with_hop_limit (u8 @ 37);
        /// UDP source port; 0 lets the card choose.
        udp_sport set_udp_sport with_udp_sport (u16 @ 38);
        /// VLAN tag control information.
        vlan set_vlan with_vlan (u16 @ 40);
        /// `vlan` is to be used, instead of the VLAN of the source GID with `sl`.
        vlan_present set_vlan_present with_vlan_present (bool @ 42 bit 0);
        /// Static rate; 0 is the port's speed.
        static_rate set_static_rate with_static_rate (u8 @ 43);
        /// Service level, 0 to 7: the priority in the VLAN of the source GID.
        sl set_sl with_sl (u8 @ 44);
    }
}

layout! {
    /// Scatter/gather entry: one piece of local memory (send and receive).
    WqeSge: 16 {
        /// Address, in the addresses of the MR.
        addr set_addr with_addr (u64 @ 0);
        /// Bytes.
        length set_length with_length (u32 @ 8);
        /// Key of the MR.
        lkey set_lkey with_lkey (u32 @ 12);
    }
}

flag_set! {
    /// Access rights; the numbers are those of `ibv_access_flags`.
    Access: u8 {
        /// The card may write for local requests.
        LOCAL_WRITE = 0,
        /// A peer may write.
        REMOTE_WRITE = 1,
        /// A peer may read.
        REMOTE_READ = 2,
        /// A peer may do atomics.
        REMOTE_ATOMIC = 3,
        /// Windows may be bound to it.
        MW_BIND = 4,
        /// Remote addresses count from 0 instead of from the virtual address.
        ZERO_BASED = 5,
    }
}

layout! {
    /// Bind segment of BIND_MW; the new R_Key is in the control segment.
    WqeBind: 32 {
        /// First address of the window, in the addresses of the MR.
        addr set_addr with_addr (u64 @ 0);
        /// Bytes of the window; 0 unbinds.
        length set_length with_length (u64 @ 8);
        /// Key of the MR.
        mr_lkey set_mr_lkey with_mr_lkey (u32 @ 16);
        /// The window's R_Key so far.
        mw_rkey set_mw_rkey with_mw_rkey (u32 @ 20);
        /// Access rights of the window.
        access set_access with_access (u8 @ 24 as Access);
    }
}

layout! {
    /// Segmentation segment of RAW_TSO: what the frames begin with. The headers are
    /// those of Ethernet with at most two VLAN tags, of IPv4 that is no fragment or
    /// of IPv6 with no extension headers but options, and of TCP. In each frame the card sets the
    /// lengths and checksums of IP and TCP, adds the data before it to the sequence
    /// number, and its place among the frames to the identification of IPv4. Only
    /// the first frame has the flag CWR, and only the last FIN and PSH.
    WqeTso: 144 {
        /// Most bytes of data in a frame, at least 1.
        mss set_mss with_mss (u16 @ 0);
        /// Bytes of the headers.
        header_length set_header_length with_header_length (u16 @ 2);
        /// Bytes 0 to 7 of the headers, the first in the lowest byte.
        header0 set_header0 with_header0 (u64 @ 16);
        /// Bytes 8 to 15.
        header1 set_header1 with_header1 (u64 @ 24);
        /// Bytes 16 to 23.
        header2 set_header2 with_header2 (u64 @ 32);
        /// Bytes 24 to 31.
        header3 set_header3 with_header3 (u64 @ 40);
        /// Bytes 32 to 39.
        header4 set_header4 with_header4 (u64 @ 48);
        /// Bytes 40 to 47.
        header5 set_header5 with_header5 (u64 @ 56);
        /// Bytes 48 to 55.
        header6 set_header6 with_header6 (u64 @ 64);
        /// Bytes 56 to 63.
        header7 set_header7 with_header7 (u64 @ 72);
        /// Bytes 64 to 71.
        header8 set_header8 with_header8 (u64 @ 80);
        /// Bytes 72 to 79.
        header9 set_header9 with_header9 (u64 @ 88);
        /// Bytes 80 to 87.
        header10 set_header10 with_header10 (u64 @ 96);
        /// Bytes 88 to 95.
        header11 set_header11 with_header11 (u64 @ 104);
        /// Bytes 96 to 103.
        header12 set_header12 with_header12 (u64 @ 112);
        /// Bytes 104 to 111.
        header13 set_header13 with_header13 (u64 @ 120);
        /// Bytes 112 to 119.
        header14 set_header14 with_header14 (u64 @ 128);
        /// Bytes 120 to 127.
        header15 set_header15 with_header15 (u64 @ 136);
    }
}

impl WqeTso {
    const HEADER_AT: usize = 16;

    /// The headers, with what follows them.
    #[inline]
    pub const fn header(&self) -> [u8; MAX_TSO_HEADER] {
        load(self.as_bytes(), Self::HEADER_AT)
    }

    /// A copy with these headers, at most [`MAX_TSO_HEADER`] bytes; what is longer is cut.
    #[inline]
    #[must_use]
    pub fn with_header(mut self, header: &[u8]) -> Self {
        let length = header.len().min(MAX_TSO_HEADER);
        self.as_mut_bytes()[Self::HEADER_AT..][..length].copy_from_slice(&header[..length]);
        self.with_header_length(length as u16)
    }
}
