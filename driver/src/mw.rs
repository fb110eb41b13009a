//! Memory windows: keys that a QP binds to a part of a memory region.

use std::sync::Arc;

use fpga_regs::regs::FeatureSet;
use fpga_regs::{AdminOpcode, Command};

use crate::card::Card;
use crate::error::Result;
use crate::freed::Freed;
use crate::pd::Pd;

/// A memory window.
pub struct Mw<C: Card> {
    pd: Arc<Pd<C>>,
    rkey: u32,
    type2: bool,
    freed: Freed,
}

impl<C: Card> Pd<C> {
    /// A new, unbound window of type 1 or 2.
    pub fn alloc_mw(self: &Arc<Self>, type2: bool) -> Result<Arc<Mw<C>>> {
        self.dev.need(if type2 { FeatureSet::MW_TYPE2 } else { FeatureSet::MW_TYPE1 }, "a memory window")?;
        let command = Command::new()
            .with_opcode(AdminOpcode::CREATE_MW)
            .with_param0(self.pdn().into())
            .with_param1(if type2 { 2 } else { 1 });
        let reply = self.dev.admin().run(command, &[], &mut [])?;
        Ok(Arc::new(Mw { pd: self.clone(), rkey: reply.object(), type2, freed: Freed::default() }))
    }
}

impl<C: Card> Mw<C> {
    /// Its first R_Key; a bind gives it another one.
    pub fn rkey(&self) -> u32 {
        self.rkey
    }

    /// Whether it is of type 2.
    pub fn type2(&self) -> bool {
        self.type2
    }

    /// Its protection domain.
    pub fn pd(&self) -> &Arc<Pd<C>> {
        &self.pd
    }

    /// Frees it, bound or not.
    pub fn destroy(&self) -> Result<()> {
        self.freed.once("memory window", || self.pd.dev.admin().destroy(AdminOpcode::DESTROY_MW, self.rkey))
    }
}

impl<C: Card> Drop for Mw<C> {
    fn drop(&mut self) {
        // Unless it is already.
        let _ = self.destroy();
    }
}
