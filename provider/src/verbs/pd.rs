//! Protection domains.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::Arc;

use rdma_sys::{ibv_context, ibv_pd};

use super::card;
use super::context::Context;
use super::errno::{object, Errno};
use super::object::{found_by, Object};

/// A protection domain, or a parent domain.
#[repr(C)]
pub struct Pd {
    ibv: ibv_pd,
    /// The driver's.
    pub driver: Arc<card::Pd>,
    /// It is a parent domain, whose objects are not used by several threads at a time if it has (and holds) a thread domain.
    pub parent: Option<Option<Arc<()>>>,
}

found_by!(Pd, ibv: ibv_pd);

impl Object for Pd {}

impl Pd {
    /// Gives it its place in memory.
    ///
    /// # Safety
    /// `context` must be open.
    pub unsafe fn add(
        context: *mut ibv_context,
        driver: Arc<card::Pd>,
        parent: Option<Option<Arc<()>>>,
    ) -> *mut ibv_pd {
        let ibv = ibv_pd { context, handle: driver.pdn() };
        // SAFETY: as the caller promises.
        unsafe { Context::of(context) }.objects.add(Pd { ibv, driver, parent }).cast()
    }
}

/// `ibv_alloc_pd`.
///
/// # Safety
/// Called by libibverbs with an open context.
pub unsafe extern "C" fn alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    object(|| {
        // SAFETY: an open context.
        unsafe { Ok(Pd::add(context, Context::of(context).device.alloc_pd()?, None)) }
    })
}

/// `ibv_dealloc_pd`, also of a parent domain; EBUSY while something lives in it.
///
/// # Safety
/// Called by libibverbs with a live protection domain.
pub unsafe extern "C" fn dealloc_pd(pd: *mut ibv_pd) -> c_int {
    // SAFETY: a live protection domain.
    unsafe {
        Context::of((*pd).context).objects.end(pd.cast::<Pd>(), || {
            let driver = &Pd::of(pd).driver;
            match driver.in_use() {
                true => Err(Errno(libc::EBUSY)),
                false => Ok(driver.destroy()?),
            }
        })
    }
}
