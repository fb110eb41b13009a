//! Memory of a queue that the card reads or writes: a slot for each frame.
//!
//! Frames are copied between slots and mbufs. An mbuf's memory is a shared mapping of a file that DPDK could shorten, which
//! the model reaches by system calls only.

use fpga_regs::MAX_FRAME;

/// Bytes of a frame that the MTU does not count: header and one VLAN tag.
pub const OVERHEAD: u32 = 18;
/// Bytes of its check sequence, which packets may have behind them.
pub const FCS: u32 = 4;
/// Bytes of a slot: whole lines.
pub const SLOT: u32 = (MAX_FRAME + FCS).next_multiple_of(64);

/// The slots of a queue.
pub type Slots<C> = driver::Slots<C, { SLOT as usize }>;
