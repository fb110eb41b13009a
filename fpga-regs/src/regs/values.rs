//! The values of registers that have more than one field.

use super::cause::ErrorCause;
use crate::context::GidType;

word! {
    /// What PCI configuration space says too.
    Id: u32 {
        /// PCI vendor, 0x1bd4.
        vendor with_vendor (u16 0..16);
        /// PCI device, 0xf10a.
        device with_device (u16 16..32);
    }
}

word! {
    /// Version of this definition.
    Version: u32 {
        /// A higher one only adds.
        minor with_minor (u16 0..16);
        /// Software refuses one that it does not know.
        major with_major (u16 16..32);
    }
}

flag_set! {
    /// What the card can do.
    FeatureSet: u64 {
        /// Reliable connections.
        RC = 0,
        /// Unreliable connections.
        UC = 1,
        /// Unreliable datagrams.
        UD = 2,
        /// Raw packet QPs.
        RAW_ETH = 3,
        /// Shared receive queues.
        SRQ = 4,
        /// CMP_SWAP and FETCH_ADD.
        ATOMICS = 5,
        /// Memory windows of type 1.
        MW_TYPE1 = 6,
        /// Memory windows of type 2.
        MW_TYPE2 = 7,
        /// LOCAL_INV and SEND_WITH_INV.
        INVALIDATE = 8,
        /// Multicast groups.
        MULTICAST = 9,
        /// Inline data.
        INLINE = 10,
        /// Push window.
        PUSH = 11,
        /// Memory registrations of one DMA range.
        DIRECT_MR = 12,
        /// Memory registrations by page list.
        PAGE_LIST_MR = 13,
        /// RESIZE_CQ.
        RESIZE_CQ = 14,
        /// Checksums of frames: filled in, and checked (RAW_ETH, WQ).
        CHECKSUM = 15,
        /// VLAN insertion and removal.
        VLAN = 16,
        /// RoCE v2 over IPv4.
        IPV4 = 17,
        /// RoCE v2 over IPv6.
        IPV6 = 18,
        /// Timestamps in the CQEs of CQs that ask for them.
        TIMESTAMP = 19,
        /// Several event queues with a vector each.
        EVENT_VECTORS = 20,
        /// Congestion notification (ECN, CNP).
        CONGESTION = 21,
        /// Pause frames: SET_PORT of `rx_pause` and `tx_pause`.
        PAUSE = 22,
        /// QUERY_MW.
        QUERY_MW = 23,
        /// SET_PORT.
        SET_PORT = 24,
        /// Memory registrations of no memory.
        NULL_MR = 25,
        /// MODIFY_MR.
        MODIFY_MR = 26,
        /// Moderation of the events of a completion queue.
        MODERATION = 27,
        /// Memory registrations that find their memory when it is accessed.
        ON_DEMAND = 28,
        /// Memory of the card's own, of MEMORY bytes.
        ON_CARD_MEMORY = 29,
        /// Extended reliable connections.
        XRC = 30,
        /// Flow rules: CREATE_FLOW and DESTROY_FLOW.
        FLOW = 31,
        /// Receive work queues, indirection tables, RX-hash QPs: CREATE_TABLE,
        /// MODIFY_TABLE, DESTROY_TABLE and QUERY_ETHERNET.
        RSS = 32,
        /// Flow rules that drop frames, and that ask for VLAN tags: `drop` and
        /// `tags` of FlowContext.
        FLOW_DROP = 33,
        /// MODIFY_QP changes whether a receive work queue strips VLAN tags.
        STRIP_VLAN = 34,
        /// RAW_TSO: the card cuts bytes of TCP into frames.
        TSO = 35,
        /// Received frames with their check sequence (RAW_ETH, WQ).
        SCATTER_FCS = 36,
        /// Completions of frames say what kind they are: `frame_kind` of Cqe.
        FRAME_KIND = 37,
        /// Flow rules that mark frames: `marked` and `mark` of FlowContext and Cqe.
        FLOW_MARK = 38,
        /// Flow rules that count frames: `counted` of FlowContext, and QUERY_FLOW.
        FLOW_COUNT = 39,
        /// The ports can be one: SET_LAG and QUERY_LAG. The card has one port then, the
        /// first, and answers QUERY_CARD so.
        LAG = 40,
        /// Flow rules that go by a table of VLANs: `by_vlan` of FlowContext, and SET_VLAN.
        VLAN_FILTER = 41,
        /// Packet pacing: MODIFY_QP of RATE_LIMIT (RAW_ETH).
        PACING = 42,
        /// Ports can be disabled: SET_PORT of `enabled`.
        PORT_ENABLE = 43,
    }
}

word! {
    /// What the card can do.
    Features: u64 {
        /// The features.
        set with_set (FeatureSet: u64 0..64);
    }
}

word! {
    /// What software wants of the function.
    Control: u32 {
        /// The function works: it takes commands and doorbells.
        enable with_enable (bool 0);
        /// Starts a reset; reads 1 until the reset is over.
        reset with_reset (bool 1);
    }
}

word! {
    /// The state of the function.
    Status: u32 {
        /// Enabled, and the admin queue runs.
        ready with_ready (bool 0);
        /// A reset is in progress.
        resetting with_resetting (bool 1);
        /// Failed; only a reset helps. ERROR_CAUSE says why.
        error with_error (bool 2);
    }
}

word! {
    /// Health of the card.
    Health: u32 {
        /// Failed; only a reset helps.
        fatal with_fatal (bool 0);
        /// The admin queue is stalled.
        admin_stalled with_admin_stalled (bool 1);
        /// A DMA access failed since the last reset.
        dma_error with_dma_error (bool 2);
        /// An event queue was full since the last reset.
        eq_overrun with_eq_overrun (bool 3);
        /// A completion queue was full since the last reset.
        cq_overrun with_cq_overrun (bool 4);
        /// The card's memory had an error that was corrected.
        memory_corrected with_memory_corrected (bool 5);
        /// Too hot.
        hot with_hot (bool 6);
        /// Temperature in degrees Celsius; 0 where the card has no sensor.
        temperature with_temperature (u8 8..16);
        /// Counts on while the card works.
        heartbeat with_heartbeat (u16 16..32);
    }
}

word! {
    /// Why the function failed; kept until the next reset.
    Cause: u32 {
        /// The code.
        code with_code (ErrorCause: u16 0..16);
        /// More, by code: the number of the queue or object.
        detail with_detail (u16 16..32);
    }
}

word! {
    /// Which function of the card this is.
    Function: u32 {
        /// Number of the function.
        index with_index (u16 0..16);
        /// Number of the card in its machine or segment.
        card with_card (u16 16..32);
    }
}

open_enum! {
    /// State of a port; the numbers are those of `ibv_port_state`.
    LinkState: u8 {
        /// No link.
        DOWN = 1,
        /// Link, not configured.
        INIT = 2,
        /// Configured, no traffic yet.
        ARMED = 3,
        /// The link is up.
        ACTIVE = 4,
    }
}

open_enum! {
    /// State of the cable; the numbers are those of IB PortInfo.
    PhysState: u8 {
        /// Asleep.
        SLEEP = 1,
        /// Waits for a link partner.
        POLLING = 2,
        /// Switched off.
        DISABLED = 3,
        /// Adapts to the cable.
        TRAINING = 4,
        /// Up.
        LINK_UP = 5,
        /// Recovers from an error.
        RECOVERY = 6,
    }
}

word! {
    /// The link of a port.
    Link: u32 {
        /// The link is up.
        up with_up (bool 0);
        /// A module is in the cage.
        module with_module (bool 1);
        /// The port stops sending whole frames while a receiver asks for that (PAUSE).
        rx_pause with_rx_pause (bool 2);
        /// The port asks senders of whole frames to stop while receives are missing
        /// (PAUSE).
        tx_pause with_tx_pause (bool 3);
        /// State of the port.
        state with_state (LinkState: u8 4..8);
        /// State of the cable.
        phys with_phys (PhysState: u8 8..12);
        /// Number of link changes.
        changes with_changes (u16 16..32);
    }
}

word! {
    /// What an entry of the GID table is.
    GidAttr: u32 {
        /// The entry may be used.
        valid with_valid (bool 0);
        /// Its kind.
        kind with_kind (GidType: u8 8..16);
    }
}

word! {
    /// The VLAN of an entry of the GID table.
    GidVlan: u32 {
        /// VLAN number.
        id with_id (u16 0..12);
        /// `id` is used.
        present with_present (bool 16);
    }
}
