//! The receive work request, of a receive queue or a shared one.

use crate::wqe::WqeSge;

layout! {
    /// Head of a receive WQE; [`RecvHead::num_sge`] entries [`WqeSge`] follow.
    RecvHead: 16 {
        /// Number of SGEs.
        num_sge set_num_sge with_num_sge (u8 @ 0);
        /// Next slot of the SRQ's list (SRQ only).
        next set_next with_next (u16 @ 2);
        /// Running index of this WQE, or its slot in an SRQ.
        index set_index with_index (u32 @ 4);
        /// Bytes of all SGEs.
        length set_length with_length (u32 @ 8);
    }
}

/// Log2 of the stride of a receive ring whose WQEs have up to `sges` entries.
pub const fn recv_stride_log(sges: usize) -> u8 {
    (RecvHead::BYTES + sges * WqeSge::BYTES).next_power_of_two().trailing_zeros() as u8
}
