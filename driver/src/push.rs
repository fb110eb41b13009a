//! The push window: a short WQE travels with its doorbell, so that the card need not fetch it.

use fpga_regs::PUSH_SLOTS;

use crate::spin::{Guard, Spin};

/// Who uses which slot of the doorbell page's push window.
pub(crate) struct PushSlots([Spin<()>; PUSH_SLOTS as usize]);

impl PushSlots {
    /// All free.
    pub fn new() -> Self {
        PushSlots([const { Spin::new(()) }; PUSH_SLOTS as usize])
    }

    /// The slot of a QP, if nobody is using it right now.
    pub fn take(&self, qpn: u32) -> Option<(u32, Guard<'_, ()>)> {
        let slot = qpn % PUSH_SLOTS;
        Some((slot, self.0[slot as usize].try_lock()?))
    }
}
