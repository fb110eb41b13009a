//! The queue pair of a transmit queue.

use std::sync::Arc;

use driver::{Card, Cq, Device, Offloads, Pd, Qp, QpAttr, QpCaps, QpInit, Result};
use fpga_regs::{QpState, QpType};

/// A raw packet queue pair that sends, and where its work completes.
pub struct RawQp<C: Card> {
    /// The queue pair.
    pub qp: Arc<Qp<C>>,
    /// Where its sends complete.
    pub cq: Arc<Cq<C>>,
    /// The card's port, from 1.
    port: u8,
}

impl<C: Card> RawQp<C> {
    /// One for the card's port, which sends from a [`restart`](Self::restart) on and may cut TCP into frames.
    pub fn new(device: &Arc<Device<C>>, pd: &Arc<Pd<C>>, port: u8, caps: QpCaps, tso: bool) -> Result<Self> {
        let cq = device.create_cq(caps.max_send_wr + 1, 0)?;
        let offloads = Offloads { tso, ..Offloads::default() };
        let init = QpInit { offloads, ..QpInit::new(QpType::RAW_PACKET, &cq, caps) };
        Ok(RawQp { qp: pd.create_qp(&init)?, cq, port })
    }

    /// Sends nothing any more. Nothing that was posted completes.
    pub fn stop(&self) -> Result<()> {
        self.qp.step(&QpAttr { state: QpState::RESET, ..QpAttr::default() })
    }

    /// Begins, or begins again, with empty queues.
    pub fn restart(&self) -> Result<()> {
        self.stop()?;
        self.qp.bring_up(&QpAttr { port: self.port, ..QpAttr::default() })
    }
}
