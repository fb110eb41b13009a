//! Domains of extended reliable connections, which functions share.

use std::sync::Arc;

use fpga_regs::regs::FeatureSet;
use fpga_regs::{AdminOpcode, Command, XrcdFlags};

use crate::card::Card;
use crate::device::Device;
use crate::error::Result;
use crate::object::Object;

/// An XRC domain that this function has open.
pub struct Xrcd<C: Card> {
    pub(crate) object: Object<C>,
}

impl<C: Card> Device<C> {
    /// Opens the domain that has this key, of whichever function of this machine; with a key of zero, one that is nobody
    /// else's.
    /// `NOT_FOUND` where it does not exist and `flags` do not say CREATE; `BAD_STATE` where it does and they say
    /// EXCLUSIVE.
    pub fn open_xrcd(self: &Arc<Self>, key: [u64; 2], flags: XrcdFlags) -> Result<Arc<Xrcd<C>>> {
        self.need(FeatureSet::XRC, "an XRC domain")?;
        let command = Command::of(AdminOpcode::OPEN_XRCD)
            .with_param0(key[0])
            .with_param1(key[1])
            .with_param2(flags.bits().into());
        let number = self.admin().run(command, &[])?.object();
        Ok(Arc::new(Xrcd { object: Object::new(self, "XRC domain", AdminOpcode::CLOSE_XRCD, number) }))
    }
}

impl<C: Card> Xrcd<C> {
    /// Its number, as this function knows it.
    pub fn number(&self) -> u32 {
        self.object.number
    }

    /// Closes it; fails while it has SRQs or queue pairs of this function.
    pub fn close(&self) -> Result<()> {
        self.object.destroy()
    }
}
