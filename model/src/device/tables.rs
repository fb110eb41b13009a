//! The card's other tables: functions, protection domains, keys, CQs, SRQs, event queues, multicast.

use crate::plain::{Flag, Plain};
use fpga_regs::MrMode;

use crate::dma::Addr;
use crate::segment::Label;

/// Most functions (open contexts) of a card.
pub const MAX_FUNCTIONS: usize = 256;
/// Most protection domains of a card.
pub const MAX_PDS: usize = 4096;
/// Most memory keys (MRs and MWs together) of a card.
pub const MAX_KEYS: usize = 65536;
/// Most completion queues of a card.
pub const MAX_CQS: usize = 16384;
/// Most shared receive queues of a card.
pub const MAX_SRQS: usize = 1024;
/// Most XRC domains that are open, by all functions of a card together.
pub const MAX_XRCDS: usize = 1024;
/// Most holds on XRC_RECV queue pairs of a card.
pub const MAX_HOLDS: usize = MAX_QPS;
/// Most queue pairs of a card (indices 0 and 1 are never given out: QP 0 and QP 1 are special).
pub const MAX_QPS: usize = 16384;
/// Most multicast groups of a card.
pub const MAX_MCAST: usize = 128;
/// Most QPs attached to one multicast group.
pub const MAX_MCAST_QPS: usize = 56;
/// Event queues of a function.
pub const EQS: usize = 8;

/// An event queue.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Eq {
    /// In use.
    pub used: Flag,
    /// Interrupt vector.
    pub vector: u8,
    /// Entries, less one.
    pub mask: u32,
    /// Entries written (running).
    pub pi: u32,
    /// Entries consumed (running), as the driver last wrote.
    pub ci: u32,
    /// Ring.
    pub ring: u64,
}

/// A function: one open context with its own BAR0.
#[derive(Clone, Copy, Plain)]
#[repr(C, align(64))]
pub struct Function {
    /// In use.
    pub used: Flag,
    /// Enabled by CONTROL.
    pub enabled: Flag,
    /// In a reset that does not end.
    pub resetting: Flag,
    /// Its DMA addresses are not those of a process here, but of a client.
    pub remote: Flag,
    /// log2 of the admin rings' entries.
    pub admin_log: u8,
    /// DMA domain of its memory.
    pub domain: u16,
    /// Admin command ring.
    pub asq: u64,
    /// Admin reply ring.
    pub acq: u64,
    /// Commands consumed (running).
    pub asq_head: u32,
    /// Commands posted (the doorbell).
    pub asq_tail: u32,
    /// Replies written (running).
    pub acq_tail: u32,
    /// Replies consumed (running).
    pub acq_consumer: u32,
    /// Scratch register.
    pub scratch: u32,
    /// Error cause register.
    pub error_cause: u32,
    /// Health register.
    pub health: u32,
    /// Doorbell pages handed out (a bit each).
    pub pages: u64,
    /// Vectors masked (a bit each).
    pub vector_mask: u32,
    /// Vectors raised while masked.
    pub vector_pending: u32,
    /// Event queues.
    pub eqs: [Eq; EQS],
}

/// A protection domain.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Pd {
    /// In use.
    pub used: Flag,
    /// Owner.
    pub function: u16,
    /// MRs, MWs, QPs, SRQs in it.
    pub users: u32,
}

/// The kind of a key.
pub mod key_kind {
    /// Free slot.
    pub const FREE: u8 = 0;
    /// Memory region.
    pub const MR: u8 = 1;
    /// Memory window of type 2: of the QP that bound it.
    pub const MW2: u8 = 2;
    /// Memory window of type 1: of all QPs of its protection domain.
    pub const MW1: u8 = 3;

    /// Whether it is a window.
    pub const fn is_window(kind: u8) -> bool {
        matches!(kind, MW1 | MW2)
    }
}

/// A memory region or window.
#[derive(Clone, Copy, Plain)]
#[repr(C, align(64))]
pub struct Key {
    /// See [`key_kind`].
    pub kind: u8,
    /// Access rights (`Access` bits).
    pub access: u8,
    /// Page size of the page list, log2.
    pub page_shift: u8,
    /// Translation.
    pub mode: MrMode,
    /// DMA domain.
    pub domain: u16,
    /// Function that owns it.
    pub function: u16,
    /// L_Key and R_Key: index and eight bits of variant.
    pub key: u32,
    /// Protection domain.
    pub pd: u32,
    /// Address on the wire of the first byte.
    pub va: u64,
    /// Bytes. 0 for an unbound window.
    pub length: u64,
    /// DMA address of the first byte, or of the page list.
    pub iova: u64,
    /// Page list: offset of the first byte in the first page.
    pub first_offset: u32,
    /// Window: where it begins in its region.
    pub window_offset: u64,
    /// Window: index of the region that it is bound to.
    pub parent: u32,
    /// Window: QP that it is bound to. Region: windows bound to it.
    pub bound: u32,
    /// Window or region is valid (a window: bound and not invalidated).
    pub valid: Flag,
}

/// How long the events of a CQ are held back.
#[derive(Clone, Copy, PartialEq, Eq, Plain)]
#[repr(C)]
pub struct Moderation {
    /// Until an event tells of this many completions.
    pub count: u16,
    /// Microseconds, at most; 0: not at all.
    pub period: u16,
}

impl Moderation {
    /// Whether an event that tells of `held` completions waits for more.
    pub fn holds(self, held: u32) -> bool {
        self.period != 0 && held < self.count.into()
    }
}

/// A completion queue.
#[derive(Clone, Copy, Plain)]
#[repr(C, align(64))]
pub struct Cq {
    /// Ring.
    pub ring: Addr,
    /// Entries, less one.
    pub mask: u32,
    /// Entries written (running).
    pub pi: u32,
    /// Entries written when the last event told of them.
    pub told: u32,
    /// Consumer index as last read.
    pub ci: u32,
    /// Consumer index record in host memory.
    pub ci_iova: u64,
    /// In use.
    pub used: Flag,
    /// Armed: 0 no, 1 any completion, 2 solicited or error only.
    pub armed: u8,
    /// Overrun: nothing is written any more.
    pub overrun: Flag,
    /// Its CQEs have the time.
    pub stamped: Flag,
    /// Queue pairs of several islands use it: one at a time, by [`Env::with_cq`](crate::env::Env::with_cq).
    pub shared: Flag,
    /// One of the three above: plain ones do not look further.
    pub special: Flag,
    /// Overrun just now: its QPs do not know yet.
    pub failed: Flag,
    /// Completions that an event tells of, and that is held back.
    pub held: u32,
    /// How often it was armed.
    pub arming: u32,
    /// How software moderates its events.
    pub moderation: Moderation,
    /// When the event that is held back is due (ns); 0: none is.
    pub due: u64,
    /// Event queue.
    pub eq: u8,
    /// Function.
    pub function: u16,
    /// QPs that use it (a QP with one CQ for both counts twice).
    pub users: u32,
    /// An island that uses it.
    pub island: Label,
}

/// A shared receive queue.
#[derive(Clone, Copy, Plain)]
#[repr(C, align(64))]
pub struct Srq {
    /// In use.
    pub used: Flag,
    /// log2 of the stride in bytes.
    pub stride_log: u8,
    /// Scatter entries of a WQE at most.
    pub max_sge: u8,
    /// DMA domain.
    pub domain: u16,
    /// Function.
    pub function: u16,
    /// Protection domain.
    pub pd: u32,
    /// Entries, less one.
    pub mask: u32,
    /// Next WQE (running).
    pub ci: u32,
    /// Limit: an event is raised when fewer WQEs are left; 0: none.
    pub limit: u32,
    /// QPs that use it.
    pub users: u32,
    /// Ring.
    pub ring: u64,
    /// Which island uses it.
    pub island: Label,
    /// XRC: [`Xrcd::domain`]; 0 for an ordinary queue.
    pub xrcd: u32,
    /// XRC: where its receives complete.
    pub cq: u16,
    /// XRC: the domain as its owner has it open.
    pub opened: u16,
}

/// An XRC domain as one function has it open.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Xrcd {
    /// In use.
    pub used: Flag,
    /// Who has it open.
    pub function: u16,
    /// Its SRQs, and its holds on QPs.
    pub users: u32,
    /// Which domain it is, from 1.
    pub domain: u32,
    /// What software knows the domain by, or zero.
    pub key: [u64; 2],
}

/// A function's hold on an XRC_RECV queue pair.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Hold {
    /// In use.
    pub used: Flag,
    /// Who holds it.
    pub function: u16,
    /// The domain as it has it open.
    pub xrcd: u16,
    /// Index of the queue pair.
    pub qp: u16,
}

/// Most parts of a card's own memory.
pub const MAX_PARTS: usize = 128;

/// A part of the card's own memory.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Part {
    /// In use.
    pub used: Flag,
    /// Owner.
    pub function: u16,
    /// Where it begins.
    pub start: u32,
    /// Bytes.
    pub len: u32,
    /// Regions of it.
    pub users: u32,
}

impl Part {
    /// Its first byte.
    pub fn start(&self) -> u64 {
        self.start.into()
    }

    /// One past its last.
    pub fn end(&self) -> u64 {
        self.start() + u64::from(self.len)
    }
}

/// Most indirection tables of a card.
pub const MAX_INDIRECTIONS: usize = 256;
/// Most entries of one.
pub const MAX_ENTRIES: usize = 512;

/// An indirection table.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Indirection {
    /// In use.
    pub used: Flag,
    /// Log2 of its entries.
    pub log_size: u8,
    /// Owner.
    pub function: u16,
    /// The indices of its work queues.
    pub entries: [u16; MAX_ENTRIES],
}

/// A multicast group.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Mcast {
    /// MGID.
    pub gid: [u8; 16],
    /// QPs attached; 0: free.
    pub count: u32,
    /// Their indices.
    pub qps: [u16; MAX_MCAST_QPS],
}
