//! A doorbell page.

use crate::doorbell::{CqArm, RqDoorbell, SqDoorbell, SrqDoorbell};

registers! {
    /// A doorbell page: what a process needs of BAR0 to post and to poll.
    DoorbellPage: 0x1000 {
        /// Send queue doorbell.
        SQ sq (WO SqDoorbell: u64 @ 0x000);
        /// Receive queue doorbell.
        RQ rq (WO RqDoorbell: u64 @ 0x008);
        /// Shared receive queue doorbell.
        SRQ srq (WO SrqDoorbell: u64 @ 0x010);
        /// Completion queue arm.
        CQ_ARM cq_arm (WO CqArm: u64 @ 0x018);
        gap _gap0 0x7e0;
        /// Push window: 4 slots of 512 bytes. A WQE of at most 512 bytes that
        /// was written to the ring is written here too; the doorbell that
        /// follows says so and the card need not fetch it.
        PUSH push (WO u64 x 256 @ 0x800);
    }
}

const _: () = {
    use crate::doorbell as at;
    assert!(SQ == at::DOORBELL_SQ && RQ == at::DOORBELL_RQ);
    assert!(SRQ == at::DOORBELL_SRQ && CQ_ARM == at::DOORBELL_CQ_ARM);
    assert!(PUSH == at::PUSH_WINDOW);
    assert!(at::PUSH_WINDOW + at::PUSH_SLOTS * at::PUSH_BYTES as u32 == at::DOORBELL_PAGE_BYTES);
};
