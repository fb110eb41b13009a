//! Protection domains: the owner of memory, queues and address handles.

use std::sync::Arc;

use fpga_regs::AdminOpcode;

use crate::ah::{Ah, AhAttr};
use crate::card::Card;
use crate::device::Device;
use crate::dma::Lender;
use crate::error::Result;
use crate::object::Object;

/// A protection domain, or another handle of one.
pub struct Pd<C: Card> {
    /// First: destroyed before what it uses.
    object: Object<C>,
    pub(crate) dev: Arc<Device<C>>,
    /// The domain that this is a handle of.
    _root: Option<Arc<Pd<C>>>,
    pub(crate) lender: Option<Arc<dyn Lender>>,
}

impl<C: Card> Device<C> {
    /// A new protection domain.
    pub fn alloc_pd(self: &Arc<Self>) -> Result<Arc<Pd<C>>> {
        let pdn = self.admin().create(AdminOpcode::ALLOC_PD, &[])?;
        let object = Object::new(self, "protection domain", AdminOpcode::FREE_PD, pdn);
        Ok(Arc::new(Pd { object, dev: self.clone(), _root: None, lender: None }))
    }
}

impl<C: Card> Pd<C> {
    /// Its number.
    pub fn pdn(&self) -> u32 {
        self.object.number
    }

    /// Its device.
    pub fn device(&self) -> &Arc<Device<C>> {
        &self.dev
    }

    /// Another handle of the domain: the rings of what is created with it are in memory of `lender`, if there is one.
    pub fn handle(self: &Arc<Self>, lender: Option<Arc<dyn Lender>>) -> Arc<Pd<C>> {
        let (object, dev) = (self.object.handle(), self.dev.clone());
        Arc::new(Pd { object, dev, _root: Some(self.clone()), lender })
    }

    /// Whether an object, or another handle, was created with this handle and is still there.
    pub fn in_use(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) > 1
    }

    /// An address handle for UD sends; resolves the peer's Ethernet address now.
    pub fn create_ah(&self, attr: &AhAttr) -> Result<Ah> {
        Ah::new(&self.dev, attr)
    }

    /// Frees it; fails while it still has objects.
    pub fn destroy(&self) -> Result<()> {
        self.object.destroy()
    }
}
