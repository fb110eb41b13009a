//! Memory windows: keys that a QP binds to a part of a memory region.

use std::sync::Arc;

use fpga_regs::regs::FeatureSet;
use fpga_regs::{AdminOpcode, Command};

use crate::card::Card;
use crate::error::Result;
use crate::object::Object;
use crate::pd::Pd;

/// A memory window.
pub struct Mw<C: Card> {
    /// First: destroyed before what it uses.
    object: Object<C>,
    _pd: Arc<Pd<C>>,
    type2: bool,
}

impl<C: Card> Pd<C> {
    /// A new, unbound window of type 1 or 2.
    pub fn alloc_mw(self: &Arc<Self>, type2: bool) -> Result<Arc<Mw<C>>> {
        self.dev.need(if type2 { FeatureSet::MW_TYPE2 } else { FeatureSet::MW_TYPE1 }, "a memory window")?;
        let command = Command::of(AdminOpcode::CREATE_MW)
            .with_param0(self.pdn().into())
            .with_param1(if type2 { 2 } else { 1 });
        let rkey = self.dev.admin().run(command, &[])?.object();
        let object = Object::new(&self.dev, "memory window", AdminOpcode::DESTROY_MW, rkey);
        Ok(Arc::new(Mw { object, _pd: self.clone(), type2 }))
    }
}

impl<C: Card> Mw<C> {
    /// Its first R_Key; a bind gives it another one.
    pub fn rkey(&self) -> u32 {
        self.object.number
    }

    /// Whether it is of type 2.
    pub fn type2(&self) -> bool {
        self.type2
    }

    /// Frees it, bound or not.
    pub fn destroy(&self) -> Result<()> {
        self.object.destroy()
    }
}
