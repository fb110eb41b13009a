//! Identity, control, admin queue, event queues, interrupts: offset 0 of BAR0.

use super::pci::{ID_VALUE, VERSION_VALUE};
use super::values::*;

constants! {
    /// Bytes of the block.
    GLOBAL_BYTES: u32 = 0x1000;
}

registers! {
    /// Global registers of a function.
    Global: 0x1000 {
        /// Identity.
        ID id (RO Id: u32 @ 0x0000) = ID_VALUE;
        /// Version of this definition; 1.2 is this one.
        VERSION version (RO Version: u32 @ 0x0004) = VERSION_VALUE;
        /// What the card can do.
        FEATURES features (RO Features: u64 @ 0x0008);
        /// Serial number: the node GUID.
        SERIAL serial (RO u64 @ 0x0010);
        /// Which function of which card this is.
        FUNCTION function (RO Function: u32 @ 0x0018);
        /// Keeps what is written; no effect.
        SCRATCH scratch (RW u32 @ 0x001c) = 0;
        /// Enable and reset.
        CONTROL control (RW Control: u32 @ 0x0020) = 0;
        /// State of the function.
        STATUS status (RO Status: u32 @ 0x0024) = 0;
        /// Health of the card.
        HEALTH health (RO Health: u32 @ 0x0028);
        /// Why the function failed.
        ERROR_CAUSE error_cause (RO Cause: u32 @ 0x002c) = 0;
        /// The card's time: a free-running count of nanoseconds.
        TIME time (RO u64 @ 0x0030);
        gap _gap0 0x08;
        /// DMA address of the admin command ring; 4 KiB aligned, set before
        /// `CONTROL.enable`.
        ASQ_BASE asq_base (RW u64 @ 0x0040) = 0;
        /// DMA address of the admin reply ring; 4 KiB aligned, set before
        /// `CONTROL.enable`.
        ACQ_BASE acq_base (RW u64 @ 0x0048) = 0;
        /// Log2 of the entries of both rings.
        ADMIN_SIZE admin_size (RW u32 @ 0x0050) = 0;
        /// Running count of commands written: the card fetches up to it.
        ASQ_DOORBELL asq_doorbell (RW u32 @ 0x0054) = 0;
        /// Running count of replies consumed.
        ACQ_CONSUMER acq_consumer (RW u32 @ 0x0058) = 0;
        gap _gap1 0x24;
        /// Interrupt vectors of the function.
        VECTORS vectors (RO u32 @ 0x0080);
        /// A set bit masks the vector of its number, which stays pending.
        VECTOR_MASK vector_mask (RW u32 @ 0x0084) = 0;
        /// Vectors that fired while masked; writing 1 clears one.
        VECTOR_PENDING vector_pending (W1C u32 @ 0x0088) = 0;
        gap _gap2 0x04;
        /// Functions of the card that are open.
        FUNCTIONS_OPEN functions_open (RO u32 @ 0x0090);
        /// QPs of the card, of all functions.
        QPS_IN_USE qps_in_use (RO u32 @ 0x0094);
        /// CQs of the card, of all functions.
        CQS_IN_USE cqs_in_use (RO u32 @ 0x0098);
        /// Memory registrations and windows of the card, of all functions.
        KEYS_IN_USE keys_in_use (RO u32 @ 0x009c);
        /// Blocks in send queues whose WQE was posted and has not completed,
        /// of all QPs of the card.
        SENDS_WAITING sends_waiting (RO u32 @ 0x00a0);
        /// The largest part of `SENDS_WAITING` that is one QP's.
        SENDS_DEEPEST sends_deepest (RO u32 @ 0x00a4);
        /// Receive WQEs that were posted and not consumed, of all QPs of the
        /// card.
        RECVS_WAITING recvs_waiting (RO u32 @ 0x00a8);
        /// Bytes of the card's own memory, of all functions (ON_CARD_MEMORY).
        MEMORY memory (RO u32 @ 0x00ac);
        gap _gap3 0x50;
        /// Running count of entries consumed of each event queue. The card
        /// never writes over an entry that was not consumed.
        EQ_CONSUMER eq_consumer (RW u32 x 32 @ 0x0100) = 0;
        rest _rest 0xe80;
    }
}

/// Offset of the consumer index of event queue `eqn`.
pub const fn eq_consumer(eqn: u32) -> u32 {
    EQ_CONSUMER + eqn * 4
}
