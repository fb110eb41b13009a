//! Why a request or a command failed: the card's vendor syndrome.

open_enum! {
    /// Vendor syndrome of a CQE or of an admin reply.
    Syndrome: u8 {
        /// Nothing to say.
        NONE = 0x00,
        /// The WQE's opcode is not known.
        BAD_OPCODE = 0x01,
        /// The type of the QP does not allow the opcode.
        OPCODE_QP_TYPE = 0x02,
        /// `ds`, `num_sge` or a length of the WQE do not agree.
        BAD_WQE = 0x03,
        /// The WQE's index is not the one expected here.
        BAD_WQE_INDEX = 0x04,
        /// Too many SGEs.
        TOO_MANY_SGE = 0x05,
        /// Too much inline data.
        INLINE_TOO_LONG = 0x06,
        /// The message is longer than the largest one, or than the MTU (UD).
        MESSAGE_TOO_LONG = 0x07,
        /// The message does not fit the receive WQE.
        RECV_TOO_SHORT = 0x08,
        /// An atomic is not of 8 bytes or not aligned to 8.
        ATOMIC_ALIGN = 0x09,
        /// A key or address is not that of an address handle that can be used.
        BAD_ADDRESS = 0x0a,
        /// No L_Key of this number.
        LKEY_UNKNOWN = 0x10,
        /// The L_Key is of another PD.
        LKEY_PD = 0x11,
        /// The L_Key does not cover the range.
        LKEY_BOUNDS = 0x12,
        /// The L_Key does not allow writing.
        LKEY_ACCESS = 0x13,
        /// The memory of a local key is gone, or the bus refused it.
        LOCAL_DMA = 0x14,
        /// No R_Key of this number.
        RKEY_UNKNOWN = 0x20,
        /// The R_Key is of another PD.
        RKEY_PD = 0x21,
        /// The R_Key does not cover the range.
        RKEY_BOUNDS = 0x22,
        /// The R_Key does not allow this access.
        RKEY_ACCESS = 0x23,
        /// The QP does not allow this access.
        QP_ACCESS = 0x24,
        /// The window belongs to another QP.
        RKEY_QP = 0x25,
        /// The memory of a remote key is gone, or the bus refused it.
        REMOTE_DMA = 0x26,
        /// The key cannot be invalidated.
        KEY_NOT_INVALIDATABLE = 0x27,
        /// The window cannot be bound like this.
        BAD_BIND = 0x28,
        /// No acknowledgement in time.
        ACK_TIMEOUT = 0x30,
        /// The peer repeated its sequence error NAK too often.
        SEQUENCE_NAK = 0x31,
        /// The peer repeated its receiver-not-ready NAK too often.
        RNR_NAK = 0x32,
        /// The peer's NAK: invalid request.
        NAK_INVALID_REQUEST = 0x33,
        /// The peer's NAK: remote access error.
        NAK_REMOTE_ACCESS = 0x34,
        /// The peer's NAK: remote operational error.
        NAK_REMOTE_OPERATION = 0x35,
        /// The peer's answer does not fit the request.
        BAD_RESPONSE = 0x36,
        /// No path to the destination, or the port is down.
        NO_ROUTE = 0x37,
        /// The opcodes of the packets do not follow one another.
        PACKET_SEQUENCE = 0x38,
        /// More READs or atomics outstanding than agreed.
        TOO_MANY_RD_ATOMIC = 0x39,
        /// A packet's length does not fit its header.
        PACKET_LENGTH = 0x3a,
        /// Flushed: software moved the QP to error.
        FLUSH_MODIFIED = 0x40,
        /// Flushed: an earlier request of the QP failed.
        FLUSH_EARLIER = 0x41,
        /// Flushed: the peer's request failed at this QP's responder.
        FLUSH_RESPONDER = 0x42,
        /// Flushed: the card or its port failed.
        FLUSH_CARD = 0x43,
        /// The completion queue is full.
        CQ_OVERRUN = 0x48,
        /// Command: the object's number is not in use.
        NO_OBJECT = 0x60,
        /// Command: the object is of another function or PD.
        NOT_OWNER = 0x61,
        /// Command: others still use the object.
        STILL_USED = 0x62,
        /// Command: a ring's size is not allowed.
        BAD_SIZE = 0x63,
        /// Command: an address is not aligned or cannot be reached.
        BAD_IOVA = 0x64,
        /// Command: the mailbox is too short.
        BAD_MAILBOX = 0x65,
        /// Command: access rights that do not go together.
        BAD_ACCESS = 0x66,
        /// Command: a required attribute is missing.
        ATTR_MISSING = 0x67,
        /// Command: an attribute is not allowed in this transition.
        ATTR_NOT_ALLOWED = 0x68,
        /// Command: an attribute's value is out of range.
        ATTR_RANGE = 0x69,
        /// Command: the QP is not in the state that was named.
        WRONG_STATE = 0x6a,
        /// Command: no such GID index.
        BAD_GID_INDEX = 0x6b,
        /// Command: no such port.
        BAD_PORT = 0x6c,
        /// Command: the table of this kind of object is full.
        TABLE_FULL = 0x6d,
        /// Command: reserved bits are set.
        RESERVED_SET = 0x6e,
    }
}
