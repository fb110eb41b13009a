//! Doorbells: one 4 KiB page of BAR0 a context, so that a page can be handed to
//! a process.

constants! {
    /// Bytes of a doorbell page.
    DOORBELL_PAGE_BYTES: u32 = 0x1000;
    /// Doorbell pages of a function.
    DOORBELL_PAGES: u32 = 64;
    /// Offset of page 0 in BAR0.
    DOORBELL_BASE: u32 = 0x10000;
    /// Offset in a page: push window.
    PUSH_WINDOW: u32 = 0x800;
    /// Bytes of a slot of the push window.
    PUSH_BYTES: usize = 512;
    /// Slots of the push window.
    PUSH_SLOTS: u32 = 4;
}

pub use crate::regs::page::{
    CQ_ARM as DOORBELL_CQ_ARM, RQ as DOORBELL_RQ, SQ as DOORBELL_SQ, SRQ as DOORBELL_SRQ,
};

/// Offset of doorbell page `page` in BAR0.
#[inline]
pub const fn doorbell_page(page: u32) -> u32 {
    DOORBELL_BASE + page * DOORBELL_PAGE_BYTES
}

/// A doorbell that rang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doorbell {
    /// Of a send queue.
    Send(SqDoorbell),
    /// Of a receive queue.
    Recv(RqDoorbell),
    /// Of a shared receive queue.
    SharedRecv(SrqDoorbell),
    /// Arms a completion queue.
    Arm(CqArm),
}

impl Doorbell {
    /// What a store of `value` to a doorbell page means; `offset` is in BAR0 or in the page. `None`: no doorbell is there.
    // Callers' offsets are constants but for the page: a call that is inlined keeps one of the arms.
    #[inline(always)]
    pub const fn decode(offset: u32, value: u64) -> Option<Doorbell> {
        match offset % DOORBELL_PAGE_BYTES {
            DOORBELL_SQ => Some(Doorbell::Send(SqDoorbell(value))),
            DOORBELL_RQ => Some(Doorbell::Recv(RqDoorbell(value))),
            DOORBELL_SRQ => Some(Doorbell::SharedRecv(SrqDoorbell(value))),
            DOORBELL_CQ_ARM => Some(Doorbell::Arm(CqArm(value))),
            _ => None,
        }
    }
}

word! {
    /// Send queue doorbell: WQEs up to `index` are ready.
    SqDoorbell: u64 {
        /// The QP.
        qpn with_qpn (u32 0..24);
        /// The last WQE is also in slot `slot` of the page's push window.
        pushed with_pushed (bool 24);
        /// Slot of the push window, with `pushed`.
        slot with_slot (u32 25..27);
        /// Blocks of the pushed WQE, with `pushed`; 0 means 8.
        blocks with_blocks (u32 27..30);
        /// Running block index after the last WQE.
        index with_index (u32 32..64);
    }
}

word! {
    /// Receive queue doorbell: WQEs up to `index` are ready.
    RqDoorbell: u64 {
        /// The QP.
        qpn with_qpn (u32 0..24);
        /// Running index after the last WQE.
        index with_index (u32 32..64);
    }
}

word! {
    /// Shared receive queue doorbell: WQEs up to `index` are ready.
    SrqDoorbell: u64 {
        /// The SRQ.
        srqn with_srqn (u32 0..24);
        /// Running index after the last WQE.
        index with_index (u32 32..64);
    }
}

word! {
    /// Completion queue arm: the next CQE at or after `index` raises an event, or one that is there already if no
    /// event was raised for it or a later one.
    CqArm: u64 {
        /// The CQ.
        cqn with_cqn (u32 0..24);
        /// Only for a solicited CQE or one in error.
        solicited_only with_solicited_only (bool 24);
        /// Consumer index: CQEs before it were seen.
        index with_index (u32 32..64);
    }
}

impl SqDoorbell {
    /// For QP `qpn`, with the running block index after its last WQE.
    #[inline]
    pub const fn new(qpn: u32, index: u32) -> Self {
        Self(0).with_qpn(qpn).with_index(index)
    }
}

impl RqDoorbell {
    /// For QP `qpn`, with the running index after its last receive WQE.
    #[inline]
    pub const fn new(qpn: u32, index: u32) -> Self {
        Self(0).with_qpn(qpn).with_index(index)
    }
}

impl SrqDoorbell {
    /// For SRQ `srqn`, with the running index after its last WQE.
    #[inline]
    pub const fn new(srqn: u32, index: u32) -> Self {
        Self(0).with_srqn(srqn).with_index(index)
    }
}

impl CqArm {
    /// For CQ `cqn`, with its consumer index.
    #[inline]
    pub const fn new(cqn: u32, solicited_only: bool, index: u32) -> Self {
        Self(0).with_cqn(cqn).with_solicited_only(solicited_only).with_index(index)
    }
}
