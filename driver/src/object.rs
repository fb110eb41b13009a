//! An object of the card that holds no memory: it is destroyed once, at the latest when it is dropped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use fpga_regs::AdminOpcode;

use crate::card::Card;
use crate::device::Device;
use crate::error::{Error, Result};

/// See the module. Fields are dropped in order: a struct declares it before what it depends on.
pub(crate) struct Object<C: Card> {
    pub dev: Arc<Device<C>>,
    /// Its number on the card.
    pub number: u32,
    /// What it is, for errors.
    what: &'static str,
    /// What destroys it; `None`: another handle, whose object someone else destroys.
    end: Option<AdminOpcode>,
    destroyed: AtomicBool,
}

impl<C: Card> Object<C> {
    /// That the card has just made.
    pub fn new(dev: &Arc<Device<C>>, what: &'static str, end: AdminOpcode, number: u32) -> Self {
        Object { dev: dev.clone(), number, what, end: Some(end), destroyed: AtomicBool::new(false) }
    }

    /// Another handle of it.
    pub fn handle(&self) -> Self {
        let Object { number, what, .. } = *self;
        Object { dev: self.dev.clone(), number, what, end: None, destroyed: AtomicBool::new(false) }
    }

    /// Destroys it; [`Error::Destroyed`] if it already is. One that cannot be destroyed yet stays, and is tried again.
    pub fn destroy(&self) -> Result<()> {
        if self.destroyed.swap(true, Ordering::AcqRel) {
            return Err(Error::Destroyed(self.what));
        }
        let done = self.end.map_or(Ok(()), |end| self.dev.admin().destroy(end, self.number));
        self.destroyed.store(done.is_ok(), Ordering::Release);
        done
    }
}

impl<C: Card> Drop for Object<C> {
    fn drop(&mut self) {
        // Unless it is already.
        let _ = self.destroy();
    }
}
