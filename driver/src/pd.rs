//! Protection domains: the owner of memory, queues and address handles.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use fpga_regs::{AdminOpcode, Command};

use crate::ah::{Ah, AhAttr};
use crate::card::Card;
use crate::device::Device;
use crate::error::{Error, Result};

/// A protection domain.
pub struct Pd<C: Card> {
    pub(crate) dev: Arc<Device<C>>,
    pdn: u32,
    freed: AtomicBool,
}

impl<C: Card> Device<C> {
    /// A new protection domain.
    pub fn alloc_pd(self: &Arc<Self>) -> Result<Arc<Pd<C>>> {
        let reply = self.admin().run(Command::new().with_opcode(AdminOpcode::ALLOC_PD), &[], &mut [])?;
        Ok(Arc::new(Pd { dev: self.clone(), pdn: reply.object(), freed: AtomicBool::new(false) }))
    }
}

impl<C: Card> Pd<C> {
    /// Its number.
    pub fn pdn(&self) -> u32 {
        self.pdn
    }

    /// The device that it belongs to.
    pub fn device(&self) -> &Arc<Device<C>> {
        &self.dev
    }

    /// An address handle for UD sends; resolves the way now.
    pub fn create_ah(&self, attr: &AhAttr) -> Result<Ah> {
        Ah::new(&self.dev, attr)
    }

    /// Frees it; fails while something still belongs to it.
    pub fn destroy(&self) -> Result<()> {
        if self.freed.swap(true, Ordering::AcqRel) {
            return Err(Error::Destroyed("protection domain"));
        }
        let command = Command::new().with_opcode(AdminOpcode::FREE_PD).with_object(self.pdn);
        let done = self.dev.admin().run(command, &[], &mut []);
        self.freed.store(done.is_ok(), Ordering::Release);
        done.map(|_| ())
    }
}

impl<C: Card> Drop for Pd<C> {
    fn drop(&mut self) {
        if !*self.freed.get_mut() {
            let _ = self.destroy();
        }
    }
}
