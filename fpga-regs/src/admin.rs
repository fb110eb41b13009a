//! The admin queue: commands, replies, and their numbers.

use crate::syndrome::Syndrome;

open_enum! {
    /// What a command asks for.
    AdminOpcode: u16 {
        /// Nothing.
        NOP = 0x00,
        /// Limits of the card.
        QUERY_CARD = 0x01,
        /// State of a port.
        QUERY_PORT = 0x02,
        /// Settings of a port.
        SET_PORT = 0x03,
        /// Limits of whole Ethernet frames.
        QUERY_ETHERNET = 0x04,
        /// New protection domain.
        ALLOC_PD = 0x10,
        /// Frees a protection domain.
        FREE_PD = 0x11,
        /// Opens an XRC domain, a new one or that of other functions.
        OPEN_XRCD = 0x14,
        /// Closes an XRC domain; it ends with the last function that has it open.
        CLOSE_XRCD = 0x15,
        /// Registers memory.
        CREATE_MR = 0x18,
        /// Frees a memory registration.
        DESTROY_MR = 0x19,
        /// New memory window.
        CREATE_MW = 0x1a,
        /// Frees a memory window.
        DESTROY_MW = 0x1b,
        /// State of a memory window.
        QUERY_MW = 0x1c,
        /// Changes a memory registration, whose key stays.
        MODIFY_MR = 0x1d,
        /// New event queue.
        CREATE_EQ = 0x20,
        /// Frees an event queue.
        DESTROY_EQ = 0x21,
        /// New completion queue.
        CREATE_CQ = 0x28,
        /// Moves a completion queue to another ring.
        RESIZE_CQ = 0x29,
        /// Frees a completion queue.
        DESTROY_CQ = 0x2a,
        /// Changes the moderation of a completion queue's events.
        MODIFY_CQ = 0x2b,
        /// New shared receive queue.
        CREATE_SRQ = 0x30,
        /// Changes the limit of a shared receive queue.
        MODIFY_SRQ = 0x31,
        /// State of a shared receive queue.
        QUERY_SRQ = 0x32,
        /// Frees a shared receive queue.
        DESTROY_SRQ = 0x33,
        /// New queue pair, in RESET.
        CREATE_QP = 0x38,
        /// Changes a queue pair's state and attributes.
        MODIFY_QP = 0x39,
        /// State of a queue pair.
        QUERY_QP = 0x3a,
        /// Frees a queue pair; an XRC_RECV one when no function holds it any more.
        DESTROY_QP = 0x3b,
        /// Holds an XRC_RECV queue pair that another function has created.
        OPEN_QP = 0x3c,
        /// Joins a multicast group.
        ATTACH_MCAST = 0x40,
        /// Leaves a multicast group.
        DETACH_MCAST = 0x41,
        /// New flow rule: which frames a raw packet QP receives.
        CREATE_FLOW = 0x44,
        /// Frees a flow rule.
        DESTROY_FLOW = 0x45,
        /// What a flow rule has counted.
        QUERY_FLOW = 0x46,
        /// Whether the function takes a VLAN, by its flow rules with `by_vlan`.
        SET_VLAN = 0x47,
        /// The Ethernet address of a GID.
        RESOLVE = 0x48,
        /// New indirection table of receive work queues.
        CREATE_TABLE = 0x4c,
        /// Changes all entries of an indirection table, between two frames.
        MODIFY_TABLE = 0x4d,
        /// Frees an indirection table.
        DESTROY_TABLE = 0x4e,
        /// Takes a doorbell page.
        ALLOC_PAGE = 0x50,
        /// Frees a doorbell page.
        FREE_PAGE = 0x51,
        /// Takes a part of the card's own memory, zeroed.
        ALLOC_MEMORY = 0x58,
        /// Frees a part of the card's own memory.
        FREE_MEMORY = 0x59,
        /// Copies the bytes at `in_iova` into the card's own memory.
        WRITE_MEMORY = 0x5a,
        /// Copies bytes of the card's own memory to `out_iova`.
        READ_MEMORY = 0x5b,
        /// Makes the ports of the card one, or two again. No QP may be there.
        SET_LAG = 0x60,
        /// Whether the ports are one, and how a port of it is.
        QUERY_LAG = 0x61,
    }
}

open_enum! {
    /// How a command ended.
    AdminStatus: u8 {
        /// Done.
        OK = 0,
        /// The opcode is not known.
        BAD_OPCODE = 1,
        /// A parameter is out of range.
        BAD_PARAM = 2,
        /// The card has no more of this kind.
        NO_RESOURCE = 3,
        /// The object is in a state that does not allow it.
        BAD_STATE = 4,
        /// Others still use the object.
        IN_USE = 5,
        /// No object of this number.
        NOT_FOUND = 6,
        /// Above a limit of the card.
        LIMIT = 7,
        /// Known, but this card does not do it.
        NOT_SUPPORTED = 8,
        /// The card failed.
        INTERNAL = 9,
        /// A mailbox or ring could not be read or written.
        DMA_ERROR = 10,
    }
}

layout! {
    /// Entry of the admin command ring.
    Command: 64 {
        /// What to do.
        opcode set_opcode with_opcode (u16 @ 0 as AdminOpcode);
        /// Returned in the reply.
        tag set_tag with_tag (u16 @ 2);
        /// Number of the object.
        object set_object with_object (u32 @ 4);
        /// DMA address of the context to read.
        in_iova set_in_iova with_in_iova (u64 @ 8);
        /// Bytes to read.
        in_len set_in_len with_in_len (u32 @ 16);
        /// Bytes that may be written.
        out_len set_out_len with_out_len (u32 @ 20);
        /// DMA address to which the card writes.
        out_iova set_out_iova with_out_iova (u64 @ 24);
        /// First parameter, by opcode.
        param0 set_param0 with_param0 (u64 @ 32);
        /// Second parameter, by opcode.
        param1 set_param1 with_param1 (u64 @ 40);
        /// Third parameter, by opcode.
        param2 set_param2 with_param2 (u64 @ 48);
        /// Fourth parameter, by opcode.
        param3 set_param3 with_param3 (u64 @ 56);
    }
}

impl Command {
    /// A command with this opcode.
    pub const fn of(opcode: AdminOpcode) -> Self {
        Self::new().with_opcode(opcode)
    }

    /// The GID in `param0` and `param1`: its 16 bytes are in the order of the
    /// wire (ATTACH_MCAST, DETACH_MCAST, RESOLVE).
    pub const fn gid(&self) -> [u8; 16] {
        crate::layout::load(self.as_bytes(), 32)
    }

    /// A copy with the GID in `param0` and `param1`.
    #[must_use]
    pub const fn with_gid(mut self, gid: [u8; 16]) -> Self {
        crate::layout::store(self.as_mut_bytes(), 32, gid);
        self
    }
}

layout! {
    /// Entry of the admin reply ring. The card writes the phase bit last.
    Reply: 32 {
        /// The command's tag.
        tag set_tag with_tag (u16 @ 0);
        /// How it ended.
        status set_status with_status (u8 @ 2 as AdminStatus);
        /// Why: the card's vendor syndrome.
        syndrome set_syndrome with_syndrome (u8 @ 3 as Syndrome);
        /// Number of the object.
        object set_object with_object (u32 @ 4);
        /// First value, by opcode.
        value0 set_value0 with_value0 (u64 @ 8);
        /// Second value, by opcode.
        value1 set_value1 with_value1 (u64 @ 16);
        /// 1 on the first lap of the ring, then it toggles with each lap.
        phase set_phase with_phase (bool @ 31 bit 0);
    }
}

impl Reply {
    /// The byte that holds the phase bit.
    pub const PHASE_BYTE: usize = 31;

    /// The Ethernet address in `value0` (RESOLVE), as [`mac_from_u64`].
    pub const fn mac(&self) -> [u8; 6] {
        mac_from_u64(self.value0())
    }

    /// A copy with the Ethernet address in `value0`.
    #[must_use]
    pub const fn with_mac(self, mac: [u8; 6]) -> Self {
        self.with_value0(mac_to_u64(mac))
    }
}

/// An Ethernet address in a 64-bit register or value: the first byte of the
/// wire in the lowest byte.
pub const fn mac_to_u64(mac: [u8; 6]) -> u64 {
    u64::from_le_bytes([mac[0], mac[1], mac[2], mac[3], mac[4], mac[5], 0, 0])
}

/// The reverse of [`mac_to_u64`].
pub const fn mac_from_u64(value: u64) -> [u8; 6] {
    crate::layout::load(&value.to_le_bytes(), 0)
}

flag_set! {
    /// What MODIFY_MR changes (`param0`); the numbers of `ibv_rereg_mr_flags`.
    MrAttrMask: u32 {
        /// Where the memory is: all fields that no other bit names.
        TRANSLATION = 0,
        /// `pd`.
        PD = 1,
        /// `access`.
        ACCESS = 2,
    }
}

flag_set! {
    /// Which XRC domain OPEN_XRCD gives; with neither, the one that has the key
    /// has to exist.
    XrcdFlags: u32 {
        /// A new one if none has the key.
        CREATE = 0,
        /// Only a new one.
        EXCLUSIVE = 1,
    }
}

flag_set! {
    /// Which attributes MODIFY_QP changes; the numbers of `ibv_qp_attr_mask`.
    QpAttrMask: u32 {
        /// `state`, in `param1`.
        STATE = 0,
        /// The state that the QP must be in, in `param2`.
        CUR_STATE = 1,
        /// Event when the send queue has drained.
        EN_SQD_ASYNC_NOTIFY = 2,
        /// `access`.
        ACCESS_FLAGS = 3,
        /// `pkey_index`.
        PKEY_INDEX = 4,
        /// `port`.
        PORT = 5,
        /// `qkey`.
        QKEY = 6,
        /// The address vector.
        AV = 7,
        /// `mtu`.
        PATH_MTU = 8,
        /// `timeout`.
        TIMEOUT = 9,
        /// `retry_cnt`.
        RETRY_CNT = 10,
        /// `rnr_retry`.
        RNR_RETRY = 11,
        /// `rq_psn`.
        RQ_PSN = 12,
        /// `max_rd_atomic`.
        MAX_QP_RD_ATOMIC = 13,
        /// Alternate path: not supported.
        ALT_PATH = 14,
        /// `min_rnr_timer`.
        MIN_RNR_TIMER = 15,
        /// `sq_psn`.
        SQ_PSN = 16,
        /// `max_dest_rd_atomic`.
        MAX_DEST_RD_ATOMIC = 17,
        /// Path migration: not supported.
        PATH_MIG_STATE = 18,
        /// Resizing the queues: not supported.
        CAP = 19,
        /// `dest_qpn`.
        DEST_QPN = 20,
        /// `rate_limit`, `max_burst` and `typical_packet` (PACING).
        RATE_LIMIT = 25,
        /// `strip_vlan` of a receive work queue, alone: from the next frame on. Not
        /// one of verbs.
        STRIP_VLAN = 31,
    }
}
