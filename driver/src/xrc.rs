//! Domains of extended reliable connections, which functions share.

use std::sync::Arc;

use fpga_regs::regs::FeatureSet;
use fpga_regs::{AdminOpcode, Command, XrcdFlags};

use crate::card::Card;
use crate::device::Device;
use crate::error::Result;
use crate::freed::Freed;

/// An XRC domain that this function has open.
pub struct Xrcd<C: Card> {
    pub(crate) dev: Arc<Device<C>>,
    number: u32,
    freed: Freed,
}

impl<C: Card> Device<C> {
    /// Opens the domain that has this key, of whichever function of this machine; with a key of zero, one that is nobody
    /// else's.
    /// `NOT_FOUND` where it does not exist and `flags` do not say CREATE; `BAD_STATE` where it does and they say
    /// EXCLUSIVE.
    pub fn open_xrcd(self: &Arc<Self>, key: [u64; 2], flags: XrcdFlags) -> Result<Arc<Xrcd<C>>> {
        self.need(FeatureSet::XRC, "an XRC domain")?;
        let command = Command::new()
            .with_opcode(AdminOpcode::OPEN_XRCD)
            .with_param0(key[0])
            .with_param1(key[1])
            .with_param2(flags.bits().into());
        let number = self.admin().run(command, &[], &mut [])?.object();
        Ok(Arc::new(Xrcd { dev: self.clone(), number, freed: Freed::default() }))
    }
}

impl<C: Card> Xrcd<C> {
    /// Its number, as this function knows it.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Closes it; fails while it has SRQs or queue pairs of this function.
    pub fn close(&self) -> Result<()> {
        self.freed.once("XRC domain", || self.dev.admin().destroy(AdminOpcode::CLOSE_XRCD, self.number))
    }
}

impl<C: Card> Drop for Xrcd<C> {
    fn drop(&mut self) {
        // Unless it is already.
        let _ = self.close();
    }
}
