//! The objects of pointers that programs have: they end first in the card, then in memory, at the latest when their context
//! is closed.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::card::Device;
use super::errno::{status, Result};
use super::fork;

/// What a program has a pointer to.
pub trait Object {
    /// When its context is closed it ends before the others, which could not end before it.
    const FIRST: bool = false;

    /// Its context is closed: what the program calls without asking that refuses from now on.
    fn shut(&mut self) {}
}

/// By their addresses, each with what ends it, in its card, too, or not: those that end first, then the others.
type Left = BTreeMap<(bool, usize), unsafe fn(usize, bool)>;

/// The objects of a context that its program has not destroyed.
pub struct Objects {
    left: Mutex<Left>,
    /// Of the process that opened the context.
    generation: u32,
}

impl Objects {
    /// None yet, in a context that this generation of processes opened.
    pub fn none(generation: u32) -> Self {
        Self { left: Mutex::default(), generation }
    }

    /// `None` in the child of a fork, in which nobody would unlock it, and which closes nothing.
    fn left(&self) -> Option<MutexGuard<'_, Left>> {
        let here = self.generation == fork::generation();
        here.then(|| self.left.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives an object its place in memory.
    pub fn add<T: Object>(&self, object: T) -> *mut T {
        let object = Box::into_raw(Box::new(object));
        if let Some(mut left) = self.left() {
            left.insert((!T::FIRST, object as usize), abandon::<T>);
        }
        object
    }

    /// Ends an object by `destroy`, whose error leaves it as it was: 0 or an errno value.
    ///
    /// # Safety
    /// It must be what [`add`](Self::add) gave, and be used by nobody else after `destroy`.
    pub unsafe fn end<T: Object>(&self, object: *mut T, destroy: impl FnOnce() -> Result<()>) -> c_int {
        status(|| {
            destroy()?;
            if let Some(mut left) = self.left() {
                left.remove(&(!T::FIRST, object as usize));
            }
            // SAFETY: as the caller promises; it ends here only if the card has agreed.
            drop(unsafe { Box::from_raw(object) });
            Ok(())
        })
    }

    /// Ends all that are left, in their card, too; true if there were any. Their memory stays, as the program may still come
    /// with pointers to it. Of a queue whose memory the program has lent (`ibv_alloc_parent_domain`) it takes that back.
    ///
    /// # Safety
    /// No other thread uses them, and their context refuses everything from now on.
    pub unsafe fn abandon(&self, device: &Device) -> bool {
        let left = self.left().map(|mut left| std::mem::take(&mut *left)).unwrap_or_default();
        for (&(_, object), end) in &left {
            // A card that is lost would be asked in vain, and for long.
            let in_card = device.check().is_ok();
            // SAFETY: in the list are objects that live, each once, with the function of its type.
            unsafe { end(object, in_card) };
        }
        !left.is_empty()
    }
}

/// # Safety
/// `object` must be the address of a live one, whose contents nobody uses any more.
unsafe fn abandon<T: Object>(object: usize, in_card: bool) {
    let object = object as *mut T;
    // SAFETY: as the caller promises.
    unsafe {
        (*object).shut();
        if in_card {
            object.drop_in_place();
        }
    }
}

/// Gives an object that begins with what programs see of it, which is the field `$seen`, the function `of`.
macro_rules! found_by {
    ($object:ident, $seen:ident: $ibv:ident) => {
        const _: () = assert!(std::mem::offset_of!($object, $seen) == 0);

        impl $object {
            /// The object of a pointer that programs have.
            ///
            /// # Safety
            /// It must be a live one of this provider.
            #[inline]
            pub unsafe fn of<'a>(seen: *mut $ibv) -> &'a Self {
                // SAFETY: a live object, as the caller promises, which begins there, as is asserted above.
                unsafe { &*seen.cast() }
            }
        }
    };
}
pub(super) use found_by;
