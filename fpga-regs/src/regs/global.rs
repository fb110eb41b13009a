//! Identity, control, admin queue, event queues, interrupts: offset 0 of BAR0.

use super::pci::{ID_VALUE, VERSION_VALUE};
use super::values::*;

constants! {
    /// Bytes of the block.
    GLOBAL_BYTES: u32 = 0x1000;
}

registers! {
    /// Global registers of a function.
    REGISTERS: 0x1000 {
        /// Identity.
        ID (RO u32 as Id @ 0x0000) = ID_VALUE;
        /// Version of this definition; 1.2 is this one.
        VERSION (RO u32 as Version @ 0x0004) = VERSION_VALUE;
        /// What the card can do.
        FEATURES (RO u64 as Features @ 0x0008);
        /// Serial number: the node GUID.
        SERIAL (RO u64 @ 0x0010);
        /// Which function of which card this is.
        FUNCTION (RO u32 as Function @ 0x0018);
        /// Keeps what is written; no effect.
        SCRATCH (RW u32 @ 0x001c) = 0;
        /// Enable and reset.
        CONTROL (RW u32 as Control @ 0x0020) = 0;
        /// State of the function.
        STATUS (RO u32 as Status @ 0x0024) = 0;
        /// Health of the card.
        HEALTH (RO u32 as Health @ 0x0028);
        /// Why the function failed.
        ERROR_CAUSE (RO u32 as Cause @ 0x002c) = 0;
        /// The card's time: a free-running count of nanoseconds.
        TIME (RO u64 @ 0x0030);
        /// DMA address of the admin command ring; 4 KiB aligned, set before
        /// `CONTROL.enable`.
        ASQ_BASE (RW u64 @ 0x0040) = 0;
        /// DMA address of the admin reply ring; 4 KiB aligned, set before
        /// `CONTROL.enable`.
        ACQ_BASE (RW u64 @ 0x0048) = 0;
        /// Log2 of the entries of both rings.
        ADMIN_SIZE (RW u32 @ 0x0050) = 0;
        /// Running count of commands written: the card fetches up to it.
        ASQ_DOORBELL (RW u32 @ 0x0054) = 0;
        /// Running count of replies consumed.
        ACQ_CONSUMER (RW u32 @ 0x0058) = 0;
        /// Interrupt vectors of the function.
        VECTORS (RO u32 @ 0x0080);
        /// A set bit masks the vector of its number, which stays pending.
        VECTOR_MASK (RW u32 @ 0x0084) = 0;
        /// Vectors that fired while masked; writing 1 clears one.
        VECTOR_PENDING (W1C u32 @ 0x0088) = 0;
        /// Functions of the card that are open.
        FUNCTIONS_OPEN (RO u32 @ 0x0090);
        /// QPs of the card, of all functions.
        QPS_IN_USE (RO u32 @ 0x0094);
        /// CQs of the card, of all functions.
        CQS_IN_USE (RO u32 @ 0x0098);
        /// Memory registrations and windows of the card, of all functions.
        KEYS_IN_USE (RO u32 @ 0x009c);
        /// Blocks in send queues whose WQE was posted and has not completed,
        /// of all QPs of the card.
        SENDS_WAITING (RO u32 @ 0x00a0);
        /// The largest part of `SENDS_WAITING` that is one QP's.
        SENDS_DEEPEST (RO u32 @ 0x00a4);
        /// Receive WQEs that were posted and not consumed, of all QPs of the
        /// card.
        RECVS_WAITING (RO u32 @ 0x00a8);
        /// Bytes of the card's own memory, of all functions (ON_CARD_MEMORY).
        MEMORY (RO u32 @ 0x00ac);
        /// Running count of entries consumed of each event queue. The card
        /// never writes over an entry that was not consumed.
        EQ_CONSUMER (RW u32 x 32 @ 0x0100) = 0;
    }
}

/// Offset of the consumer index of event queue `eqn`.
pub const fn eq_consumer(eqn: u32) -> u32 {
    EQ_CONSUMER + eqn * 4
}
