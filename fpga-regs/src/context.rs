//! The contexts that commands carry in their mailboxes.

use crate::rss::{HashFields, HashFunction};
use crate::wqe::Access;

open_enum! {
    /// State of a queue pair; the numbers are those of `ibv_qp_state`.
    QpState: u8 {
        /// Nothing runs.
        RESET = 0,
        /// Receives may be posted.
        INIT = 1,
        /// Ready to receive.
        RTR = 2,
        /// Ready to send.
        RTS = 3,
        /// The send queue drains.
        SQD = 4,
        /// The send queue is in error.
        SQE = 5,
        /// Everything is flushed.
        ERR = 6,
    }
}

open_enum! {
    /// Transport of a queue pair; the numbers below 0xf0 are those of
    /// `ibv_qp_type`.
    QpType: u8 {
        /// Reliable connection.
        RC = 2,
        /// Unreliable connection.
        UC = 3,
        /// Unreliable datagram.
        UD = 4,
        /// Whole Ethernet frames.
        RAW_PACKET = 8,
        /// Sending end of an extended reliable connection.
        XRC_SEND = 9,
        /// Receiving end of an extended reliable connection.
        XRC_RECV = 10,
        /// Receive work queue: a receive queue for whole Ethernet frames, without a
        /// send queue, that indirection tables name. It goes from RESET to RTR.
        WQ = 0xf0,
        /// Whole Ethernet frames, spread over the work queues of an indirection
        /// table by a hash. It has no queues and no states, and receives from its
        /// creation on.
        RX_HASH = 0xf1,
    }
}

open_enum! {
    /// Path MTU; the numbers are those of `ibv_mtu`.
    Mtu: u8 {
        /// 256 bytes.
        MTU_256 = 1,
        /// 512 bytes.
        MTU_512 = 2,
        /// 1024 bytes.
        MTU_1024 = 3,
        /// 2048 bytes.
        MTU_2048 = 4,
        /// 4096 bytes.
        MTU_4096 = 5,
    }
}

impl Mtu {
    /// The number of bytes; `None` for a value without a name.
    pub const fn bytes(self) -> Option<u32> {
        match self.0 {
            1..=5 => Some(128 << self.0),
            _ => None,
        }
    }
}

layout! {
    /// Context of a queue pair: CREATE_QP, MODIFY_QP, QUERY_QP.
    QpContext: 256 {
        /// State.
        state set_state with_state (u8 @ 0 as QpState);
        /// Transport.
        qp_type set_qp_type with_qp_type (u8 @ 1 as QpType);
        /// Port, counted from 1.
        port set_port with_port (u8 @ 2);
        /// Path MTU as `ibv_mtu` ([`Mtu`]).
        mtu set_mtu with_mtu (u8 @ 3);
        /// Protection domain.
        pd set_pd with_pd (u32 @ 4);
        /// Send CQ.
        send_cq set_send_cq with_send_cq (u32 @ 8);
        /// Receive CQ.
        recv_cq set_recv_cq with_recv_cq (u32 @ 12);
        /// Shared receive queue, with `has_srq`.
        srq set_srq with_srq (u32 @ 16);
        /// Receives come from `srq`.
        has_srq set_has_srq with_has_srq (bool @ 20 bit 0);
        /// Every send WQE makes a CQE.
        sq_sig_all set_sq_sig_all with_sq_sig_all (bool @ 20 bit 1);
        /// Doorbell page.
        page set_page with_page (u16 @ 22);
        /// DMA address of the send ring.
        sq_iova set_sq_iova with_sq_iova (u64 @ 24);
        /// DMA address of the receive ring.
        rq_iova set_rq_iova with_rq_iova (u64 @ 32);
        /// Log2 of the send ring's blocks.
        sq_log set_sq_log with_sq_log (u8 @ 40);
        /// Log2 of the receive ring's entries.
        rq_log set_rq_log with_rq_log (u8 @ 41);
        /// Log2 of the bytes of a receive WQE.
        rq_stride_log set_rq_stride_log with_rq_stride_log (u8 @ 42);
        /// What a peer may do ([`Access`]).
        access set_access with_access (u8 @ 43 as Access);
        /// Index of the P_Key.
        pkey_index set_pkey_index with_pkey_index (u16 @ 44);
        /// Retries after a time-out or a sequence error, 0 to 7.
        retry_cnt set_retry_cnt with_retry_cnt (u8 @ 46);
        /// Retries after receiver-not-ready, 0 to 7; 7 is for ever.
        rnr_retry set_rnr_retry with_rnr_retry (u8 @ 47);
        /// Time-out of 4.096 us * 2^n; 0 is never.
        timeout set_timeout with_timeout (u8 @ 48);
        /// Code of the time that a peer waits after receiver-not-ready.
        min_rnr_timer set_min_rnr_timer with_min_rnr_timer (u8 @ 49);
        /// READs and atomics that this side may have outstanding.
        max_rd_atomic set_max_rd_atomic with_max_rd_atomic (u8 @ 50);
        /// READs and atomics that the peer may have outstanding.
        max_dest_rd_atomic set_max_dest_rd_atomic with_max_dest_rd_atomic (u8 @ 51);
        /// The peer's QP.
        dest_qpn set_dest_qpn with_dest_qpn (u32 @ 52);
        /// Q_Key (UD).
        qkey set_qkey with_qkey (u32 @ 56);
        /// First PSN to send.
        sq_psn set_sq_psn with_sq_psn (u32 @ 60);
        /// First PSN to receive.
        rq_psn set_rq_psn with_rq_psn (u32 @ 64);
        /// Index of the source GID.
        sgid_index set_sgid_index with_sgid_index (u8 @ 68);
        /// Hop limit.
        hop_limit set_hop_limit with_hop_limit (u8 @ 69);
        /// Traffic class.
        traffic_class set_traffic_class with_traffic_class (u8 @ 70);
        /// Service level: the priority in the VLAN of the source GID.
        sl set_sl with_sl (u8 @ 71);
        /// Flow label.
        flow_label set_flow_label with_flow_label (u32 @ 72);
        /// Destination GID.
        dgid set_dgid with_dgid ([u8; 16] @ 76);
        /// Destination Ethernet address.
        dmac set_dmac with_dmac ([u8; 6] @ 92);
        /// UDP source port; 0 lets the card choose.
        udp_sport set_udp_sport with_udp_sport (u16 @ 98);
        /// Most bytes of inline data.
        max_inline set_max_inline with_max_inline (u32 @ 100);
        /// Most SGEs of a send WQE.
        max_send_sge set_max_send_sge with_max_send_sge (u8 @ 104);
        /// Most SGEs of a receive WQE.
        max_recv_sge set_max_recv_sge with_max_recv_sge (u8 @ 105);
        /// The send queue is draining (SQD).
        sq_draining set_sq_draining with_sq_draining (bool @ 106 bit 0);
        /// The 802.1Q tag of a received frame goes into its CQE (RAW_PACKET, WQ).
        strip_vlan set_strip_vlan with_strip_vlan (bool @ 106 bit 1);
        /// A received frame has its check sequence behind it, as on the wire (RAW_PACKET,
        /// WQ).
        scatter_fcs set_scatter_fcs with_scatter_fcs (bool @ 106 bit 2);
        /// Its number.
        qpn set_qpn with_qpn (u32 @ 108);
        /// XRC domain (XRC_RECV).
        xrcd set_xrcd with_xrcd (u32 @ 112);
        /// Indirection table (RX_HASH).
        table_number set_table_number with_table_number (u32 @ 116);
        /// Fields that are hashed (RX_HASH).
        hash_fields set_hash_fields with_hash_fields (u32 @ 120 as HashFields);
        /// How they are hashed (RX_HASH).
        hash_function set_hash_function with_hash_function (u8 @ 124 as HashFunction);
        /// Bytes 0 to 7 of the hash key, the first in the lowest byte (RX_HASH).
        hash_key0 set_hash_key0 with_hash_key0 (u64 @ 128);
        /// Bytes 8 to 15.
        hash_key1 set_hash_key1 with_hash_key1 (u64 @ 136);
        /// Bytes 16 to 23.
        hash_key2 set_hash_key2 with_hash_key2 (u64 @ 144);
        /// Bytes 24 to 31.
        hash_key3 set_hash_key3 with_hash_key3 (u64 @ 152);
        /// Bytes 32 to 39.
        hash_key4 set_hash_key4 with_hash_key4 (u64 @ 160);
        /// Most that is sent, in kbit/s of frames without their check sequences; 0 is as
        /// fast as the port (RAW_PACKET).
        rate_limit set_rate_limit with_rate_limit (u32 @ 168);
        /// Bytes that may leave back to back, with `rate_limit`; 0 is one frame.
        max_burst set_max_burst with_max_burst (u32 @ 172);
        /// Bytes of a frame of such a burst, by which it is cut; 0 lets it have a frame more.
        typical_packet set_typical_packet with_typical_packet (u16 @ 176);
    }
}

layout! {
    /// Context of a completion queue: CREATE_CQ, RESIZE_CQ, MODIFY_CQ. The last of these reads only the moderation,
    /// which RESIZE_CQ leaves as it is.
    CqContext: 64 {
        /// DMA address of the ring.
        ring_iova set_ring_iova with_ring_iova (u64 @ 0);
        /// DMA address of the u32 consumer index that software keeps.
        ci_iova set_ci_iova with_ci_iova (u64 @ 8);
        /// Log2 of the entries.
        log_size set_log_size with_log_size (u8 @ 16);
        /// Index of the event queue.
        vector set_vector with_vector (u8 @ 17);
        /// Doorbell page.
        page set_page with_page (u16 @ 18);
        /// Overwrite instead of failing where the ring is full.
        ignore_overrun set_ignore_overrun with_ignore_overrun (bool @ 20 bit 0);
        /// CQEs say when they were written (TIMESTAMP).
        stamped set_stamped with_stamped (bool @ 20 bit 1);
        /// An event is held back until it tells of this many completions; 0 and
        /// 1: until the first (MODERATION).
        event_count set_event_count with_event_count (u16 @ 22);
        /// Longest time in microseconds that an event is held back; 0: no event
        /// is (MODERATION).
        event_period set_event_period with_event_period (u16 @ 24);
    }
}

layout! {
    /// Context of a shared receive queue: CREATE_SRQ, MODIFY_SRQ, QUERY_SRQ.
    SrqContext: 64 {
        /// Protection domain.
        pd set_pd with_pd (u32 @ 0);
        /// DMA address of the ring.
        ring_iova set_ring_iova with_ring_iova (u64 @ 8);
        /// Log2 of the entries.
        log_size set_log_size with_log_size (u8 @ 16);
        /// Log2 of the bytes of a WQE.
        stride_log set_stride_log with_stride_log (u8 @ 17);
        /// Doorbell page.
        page set_page with_page (u16 @ 18);
        /// An event is raised when fewer WQEs than this are left; 0 is never.
        limit set_limit with_limit (u32 @ 20);
        /// Most SGEs of a WQE.
        max_sge set_max_sge with_max_sge (u8 @ 24);
        /// XRC domain; 0 for a queue that QPs are created with.
        xrcd set_xrcd with_xrcd (u32 @ 28);
        /// Where its receives complete, with `xrcd`.
        cq set_cq with_cq (u32 @ 32);
    }
}

layout! {
    /// Context of an event queue: CREATE_EQ.
    EqContext: 32 {
        /// DMA address of the ring.
        ring_iova set_ring_iova with_ring_iova (u64 @ 0);
        /// Log2 of the entries.
        log_size set_log_size with_log_size (u8 @ 8);
        /// Interrupt vector.
        vector set_vector with_vector (u8 @ 9);
    }
}

open_enum! {
    /// How a memory registration finds its memory.
    MrMode: u8 {
        /// One range of DMA addresses.
        DIRECT = 0,
        /// A list of pages.
        PAGE_LIST = 1,
        /// There is none (NULL_MR): it reads as zeros, and what is written to it
        /// is lost. It has all addresses and no R_Key.
        NULL = 2,
        /// Whatever the process that created it has at an address when that is
        /// accessed (ON_DEMAND): nothing is mapped for DMA before.
        ON_DEMAND = 3,
        /// The card's own (ON_CARD_MEMORY), a part of what ALLOC_MEMORY gave.
        ON_CARD = 4,
    }
}

layout! {
    /// Context of a memory registration: CREATE_MR.
    MrContext: 64 {
        /// Protection domain.
        pd set_pd with_pd (u32 @ 0);
        /// Rights.
        access set_access with_access (u8 @ 4 as Access);
        /// How it finds its memory.
        mode set_mode with_mode (u8 @ 5 as MrMode);
        /// Log2 of the page size (PAGE_LIST).
        page_shift set_page_shift with_page_shift (u8 @ 6);
        /// Address of the first byte as keys know it; 0 for a zero-based one.
        va set_va with_va (u64 @ 8);
        /// Bytes.
        length set_length with_length (u64 @ 16);
        /// DMA address of the first byte (DIRECT), or of the list of
        /// [`PageEntry`] (PAGE_LIST), or address of the first byte in the
        /// process (ON_DEMAND), or its offset in the card's memory (ON_CARD).
        iova set_iova with_iova (u64 @ 24);
        /// Offset of the first byte in the first page (PAGE_LIST).
        first_offset set_first_offset with_first_offset (u32 @ 32);
    }
}

layout! {
    /// Entry of a page list.
    PageEntry: 8 {
        /// DMA address of the page.
        addr set_addr with_addr (u64 @ 0);
    }
}

layout! {
    /// State of a memory window: QUERY_MW.
    MwContext: 64 {
        /// Protection domain.
        pd set_pd with_pd (u32 @ 0);
        /// Type, 1 or 2.
        mw_type set_mw_type with_mw_type (u8 @ 4);
        /// Rights.
        access set_access with_access (u8 @ 5 as Access);
        /// The window is bound.
        bound set_bound with_bound (bool @ 6 bit 0);
        /// Its R_Key.
        rkey set_rkey with_rkey (u32 @ 8);
        /// Key of the MR that it is bound to.
        mr_lkey set_mr_lkey with_mr_lkey (u32 @ 12);
        /// The QP that bound it (type 2).
        qpn set_qpn with_qpn (u32 @ 16 bits 0..24);
        /// First address.
        addr set_addr with_addr (u64 @ 24);
        /// Bytes.
        length set_length with_length (u64 @ 32);
    }
}

open_enum! {
    /// Kind of a GID; the numbers are those of `ibv_gid_type`.
    GidType: u8 {
        /// InfiniBand; also an empty entry.
        IB = 0,
        /// RoCE version 1.
        ROCE_V1 = 1,
        /// RoCE version 2.
        ROCE_V2 = 2,
    }
}

layout! {
    /// State of a port: QUERY_PORT (out) and SET_PORT (in).
    PortContext: 64 {
        /// The link is up.
        link_up set_link_up with_link_up (bool @ 0 bit 0);
        /// Software wants the link to be up, as it does when the card is powered up. All functions have one setting, which
        /// `CONTROL.reset` does not change. Else the port sends no signal, and LINK says `DISABLED`.
        enabled set_enabled with_enabled (bool @ 0 bit 1);
        /// The port stops sending whole frames while a receiver asks for that.
        rx_pause set_rx_pause with_rx_pause (bool @ 0 bit 2);
        /// The port asks senders of whole frames to stop while receives are missing.
        tx_pause set_tx_pause with_tx_pause (bool @ 0 bit 3);
        /// Index of the GID in `gid`.
        gid_index set_gid_index with_gid_index (u8 @ 1);
        /// Kind of `gid`; IB clears the entry.
        gid_type set_gid_type with_gid_type (u8 @ 2 as GidType);
        /// `vlan` is used with `gid`.
        vlan_present set_vlan_present with_vlan_present (bool @ 3 bit 0);
        /// Speed in Mb/s.
        speed_mbps set_speed_mbps with_speed_mbps (u32 @ 4);
        /// Largest path MTU now, in bytes.
        mtu_active set_mtu_active with_mtu_active (u32 @ 8);
        /// Largest path MTU that the card can do, in bytes.
        mtu_max set_mtu_max with_mtu_max (u32 @ 12);
        /// Ethernet address.
        mac set_mac with_mac ([u8; 6] @ 16);
        /// VLAN of `gid`.
        vlan set_vlan with_vlan (u16 @ 22);
        /// A GID.
        gid set_gid with_gid ([u8; 16] @ 24);
    }
}

flag_set! {
    /// What SET_PORT changes (`param0`).
    PortAttrMask: u32 {
        /// `enabled` (PORT_ENABLE).
        ENABLED = 0,
        /// `mtu_active`.
        MTU = 1,
        /// The GID at `gid_index`.
        GID = 2,
        /// `rx_pause` and `tx_pause` (PAUSE).
        PAUSE = 3,
    }
}
