//! The completion queue entry.

use crate::syndrome::Syndrome;

open_enum! {
    /// What completed; the numbers are those of `ibv_wc_opcode`.
    CqeOpcode: u8 {
        /// SEND of any kind.
        SEND = 0,
        /// WRITE of any kind.
        RDMA_WRITE = 1,
        /// READ.
        RDMA_READ = 2,
        /// Compare and swap.
        COMP_SWAP = 3,
        /// Fetch and add.
        FETCH_ADD = 4,
        /// Window bound.
        BIND_MW = 5,
        /// Key invalidated.
        LOCAL_INV = 6,
        /// RAW_TSO.
        TSO = 7,
        /// A receive WQE took a SEND.
        RECV = 128,
        /// A receive WQE took a WRITE_WITH_IMM.
        RECV_RDMA_WITH_IMM = 129,
    }
}

open_enum! {
    /// How it ended; the numbers are those of `ibv_wc_status`.
    CqeStatus: u8 {
        /// Success.
        SUCCESS = 0,
        /// The local data was longer than allowed or than the buffer.
        LOC_LEN_ERR = 1,
        /// The local QP could not do this request.
        LOC_QP_OP_ERR = 2,
        /// Not used.
        LOC_EEC_OP_ERR = 3,
        /// A local key, bound or right was wrong.
        LOC_PROT_ERR = 4,
        /// The QP was in error before this request ran.
        WR_FLUSH_ERR = 5,
        /// The window could not be bound, or the key not invalidated.
        MW_BIND_ERR = 6,
        /// The peer's answer made no sense.
        BAD_RESP_ERR = 7,
        /// A peer's WRITE with immediate data named memory that it may not write.
        LOC_ACCESS_ERR = 8,
        /// The peer refused the request as invalid.
        REM_INV_REQ_ERR = 9,
        /// The peer refused the key, bounds or rights.
        REM_ACCESS_ERR = 10,
        /// The peer could not finish the request.
        REM_OP_ERR = 11,
        /// The peer did not answer.
        RETRY_EXC_ERR = 12,
        /// The peer had no receive WQE for too long.
        RNR_RETRY_EXC_ERR = 13,
        /// Not used.
        LOC_RDD_VIOL_ERR = 14,
        /// Not used.
        REM_INV_RD_REQ_ERR = 15,
        /// The peer aborted the request.
        REM_ABORT_ERR = 16,
        /// Not used.
        INV_EECN_ERR = 17,
        /// Not used.
        INV_EEC_STATE_ERR = 18,
        /// The card failed.
        FATAL_ERR = 19,
        /// Not used.
        RESP_TIMEOUT_ERR = 20,
        /// Anything else.
        GENERAL_ERR = 21,
        /// Not used.
        TM_ERR = 22,
        /// Not used.
        TM_RNDV_INCOMPLETE = 23,
    }
}

open_enum! {
    /// What the card finds in a frame, behind its VLAN tags.
    FrameKind: u8 {
        /// No IP, or more tags than it passes.
        OTHER = 0,
        /// IPv4 with something else than TCP or UDP.
        IPV4 = 1,
        /// A part of an IPv4 packet.
        IPV4_FRAGMENT = 2,
        /// TCP over IPv4.
        IPV4_TCP = 3,
        /// UDP over IPv4.
        IPV4_UDP = 4,
        /// IPv6 with something else than TCP or UDP.
        IPV6 = 5,
        /// A part of an IPv6 packet.
        IPV6_FRAGMENT = 6,
        /// TCP over IPv6.
        IPV6_TCP = 7,
        /// UDP over IPv6.
        IPV6_UDP = 8,
    }
}

layout! {
    /// Completion queue entry. The card writes the phase bit last.
    Cqe: 64 {
        /// Send side: running index of the first block of the last WQE that
        /// completed. Receive side: running index of the WQE, or its slot in an
        /// SRQ.
        wqe_index set_wqe_index with_wqe_index (u32 @ 0);
        /// The QP.
        qpn set_qpn with_qpn (u32 @ 4 bits 0..24);
        /// The peer's QP (UD, XRC).
        srcqp set_srcqp with_srcqp (u32 @ 8 bits 0..24);
        /// Bytes received, or read.
        byte_len set_byte_len with_byte_len (u32 @ 12);
        /// Immediate data in the order of the wire, or the key that the peer
        /// invalidated, or the frame's hash (RX-hash QP).
        imm set_imm with_imm (u32 @ 16);
        /// The first 40 bytes of the buffer hold a GRH.
        grh set_grh with_grh (bool @ 20 bit 0);
        /// `imm` holds immediate data.
        has_imm set_has_imm with_has_imm (bool @ 20 bit 1);
        /// `imm` holds an invalidated key.
        inv set_inv with_inv (bool @ 20 bit 2);
        /// The receive side completed.
        recv set_recv with_recv (bool @ 20 bit 3);
        /// The frame is of IPv4, and the checksum of that header is right (raw packet QP, WQ).
        ip_csum_ok set_ip_csum_ok with_ip_csum_ok (bool @ 20 bit 4);
        /// `vlan_tci` holds the frame's tag.
        vlan set_vlan with_vlan (bool @ 20 bit 5);
        /// The frame is of TCP or UDP, and its checksum is right (raw packet QP, WQ).
        l4_csum_ok set_l4_csum_ok with_l4_csum_ok (bool @ 20 bit 6);
        /// `imm` holds the frame's hash.
        hashed set_hashed with_hashed (bool @ 20 bit 7);
        /// What completed.
        opcode set_opcode with_opcode (u8 @ 21 as CqeOpcode);
        /// How it ended.
        status set_status with_status (u8 @ 22 as CqeStatus);
        /// Why: the card's vendor syndrome.
        syndrome set_syndrome with_syndrome (u8 @ 23 as Syndrome);
        /// The card's time in nanoseconds, where the CQ was created `stamped`.
        timestamp set_timestamp with_timestamp (u64 @ 24);
        /// Receives of UD: the priority of the packet's 802.1Q tag; without one the kind of packet, 9 for UDP over
        /// IPv6 and 10 for UDP over IPv4 (bit 3: with a UDP header; bits 0 to 2: 1 IPv6, 2 IPv4), 0 for RoCE version 1.
        sl set_sl with_sl (u8 @ 32);
        /// Kind of the frame (raw packet QP, WQ).
        frame_kind set_frame_kind with_frame_kind (u8 @ 33 as FrameKind);
        /// Index of the P_Key.
        pkey_index set_pkey_index with_pkey_index (u16 @ 34);
        /// VLAN tag that was removed.
        vlan_tci set_vlan_tci with_vlan_tci (u16 @ 36);
        /// `mark` holds the mark of the flow rule by which the frame came.
        marked set_marked with_marked (bool @ 38 bit 0);
        /// Counts the uses of the QP number, so that a CQE of an earlier QP is recognised.
        generation set_generation with_generation (u32 @ 40);
        /// Receives of XRC: the SRQ that `wqe_index` is a slot of; 0 for all others.
        srqn set_srqn with_srqn (u32 @ 44 bits 0..24);
        /// Mark of a flow rule.
        mark set_mark with_mark (u32 @ 48);
        /// 1 on the first lap of the ring, then it toggles with each lap.
        phase set_phase with_phase (bool @ 63 bit 0);
    }
}

impl Cqe {
    /// Bit of `grh` in [`Self::flags`].
    pub const GRH: u8 = 1 << 0;
    /// Bit of `has_imm` in [`Self::flags`].
    pub const IMM: u8 = 1 << 1;
    /// Bit of `inv` in [`Self::flags`].
    pub const INV: u8 = 1 << 2;
    /// Bit of `recv` in [`Self::flags`].
    pub const RECV: u8 = 1 << 3;
    /// Bit of `ip_csum_ok` in [`Self::flags`].
    pub const IP_CSUM_OK: u8 = 1 << 4;
    /// Bit of `vlan` in [`Self::flags`].
    pub const VLAN: u8 = 1 << 5;
    /// Bit of `l4_csum_ok` in [`Self::flags`].
    pub const L4_CSUM_OK: u8 = 1 << 6;
    /// Bit of `hashed` in [`Self::flags`].
    pub const HASHED: u8 = 1 << 7;
    /// The byte that holds the phase bit.
    pub const PHASE_BYTE: usize = 63;

    /// All flags as one byte.
    #[inline]
    pub const fn flags(&self) -> u8 {
        self.as_bytes()[20]
    }

    /// Sets all flags at once.
    #[inline]
    pub const fn set_flags(&mut self, flags: u8) {
        self.as_mut_bytes()[20] = flags;
    }

    /// A copy with all flags set at once.
    #[inline]
    #[must_use]
    pub const fn with_flags(mut self, flags: u8) -> Self {
        self.set_flags(flags);
        self
    }
}
