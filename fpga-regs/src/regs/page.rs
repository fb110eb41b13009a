//! A doorbell page.

use crate::doorbell::{CqArm, RqDoorbell, SqDoorbell, SrqDoorbell};

registers! {
    /// A doorbell page: what a process needs of BAR0 to post and to poll.
    REGISTERS: 0x1000 {
        /// Send queue doorbell.
        SQ (WO u64 as SqDoorbell @ 0x000);
        /// Receive queue doorbell.
        RQ (WO u64 as RqDoorbell @ 0x008);
        /// Shared receive queue doorbell.
        SRQ (WO u64 as SrqDoorbell @ 0x010);
        /// Completion queue arm.
        CQ_ARM (WO u64 as CqArm @ 0x018);
        /// Push window: 4 slots of 512 bytes. A WQE of at most 512 bytes that
        /// was written to the ring is written here too; the doorbell that
        /// follows says so and the card need not fetch it.
        PUSH (WO u64 x 256 @ 0x800);
    }
}

const _: () = {
    use crate::doorbell as at;
    assert!(PUSH == at::PUSH_WINDOW);
    assert!(at::PUSH_WINDOW + at::PUSH_SLOTS * at::PUSH_BYTES as u32 == at::DOORBELL_PAGE_BYTES);
};
