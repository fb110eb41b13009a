//! Shared receive queues.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use driver::{SrqAttr, SrqAttrMask};
use rdma_sys::*;

use super::acknowledged::acknowledged;
use super::card;
use super::context::Context;
use super::errno::{object, status, Result};
use super::event_state::Kind;
use super::object::{found_by, Object};
use super::pd::Pd;

/// A shared receive queue.
#[repr(C)]
pub struct Srq {
    ibv: ibv_srq,
    /// The driver's.
    pub driver: Arc<card::Srq>,
}

found_by!(Srq, ibv: ibv_srq);

impl Object for Srq {}

/// `ibv_create_srq`; the granted sizes go back into `init`.
///
/// # Safety
/// Called by libibverbs with a live protection domain and valid attributes.
pub unsafe extern "C" fn create_srq(pd: *mut ibv_pd, init: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    object(|| {
        // SAFETY: as the caller promises.
        unsafe {
            let ((context, driver), init) = (((*pd).context, &Pd::of(pd).driver), &mut *init);
            create(context, pd, init.srq_context, &mut init.attr, |wanted| driver.create_srq(wanted))
        }
    })
}

/// A queue that `make` makes; the granted sizes go back into `attr`.
///
/// # Safety
/// `context` must be open.
pub unsafe fn create(
    context: *mut ibv_context,
    pd: *mut ibv_pd,
    srq_context: *mut c_void,
    attr: &mut ibv_srq_attr,
    make: impl FnOnce(&SrqAttr) -> driver::Result<Arc<card::Srq>>,
) -> Result<*mut ibv_srq> {
    // `srq_limit` does not count here: it is set by ibv_modify_srq.
    let driver = make(&SrqAttr { max_wr: attr.max_wr, max_sge: attr.max_sge, limit: 0 })?;
    let granted = driver.attr();
    attr.max_wr = granted.max_wr;
    attr.max_sge = granted.max_sge;
    let number = driver.srqn();
    let ibv = ibv_srq {
        context,
        srq_context,
        pd,
        handle: number,
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        cond: libc::PTHREAD_COND_INITIALIZER,
        events_completed: 0,
    };
    // SAFETY: as the caller promises.
    let open = unsafe { Context::of(context) };
    open.events.add(Kind::Srq, number, None, || open.objects.add(Srq { ibv, driver }).cast())
}

/// `ibv_modify_srq`.
///
/// # Safety
/// Called by libibverbs with a live queue and valid attributes.
pub unsafe extern "C" fn modify_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> c_int {
    status(|| {
        // SAFETY: as the caller promises.
        let (srq, attr) = unsafe { (Srq::of(srq), &*attr) };
        let wanted = SrqAttr { max_wr: attr.max_wr, max_sge: attr.max_sge, limit: attr.srq_limit };
        srq.driver.modify(&wanted, SrqAttrMask::from_bits_retain(mask as u32))?;
        Ok(())
    })
}

/// `ibv_query_srq`.
///
/// # Safety
/// Called by libibverbs with a live queue and room for the answer.
pub unsafe extern "C" fn query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    status(|| {
        // SAFETY: a live queue.
        let found = unsafe { Srq::of(srq) }.driver.query()?;
        // SAFETY: room for one ibv_srq_attr.
        unsafe {
            attr.write(ibv_srq_attr { max_wr: found.max_wr, max_sge: found.max_sge, srq_limit: found.limit });
        }
        Ok(())
    })
}

/// `ibv_get_srq_num`.
///
/// # Safety
/// Called by a program with a live queue and room for the answer.
pub unsafe extern "C" fn get_srq_num(srq: *mut ibv_srq, number: *mut u32) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { *number = Srq::of(srq).driver.srqn() };
    0
}

/// `ibv_destroy_srq`: EBUSY while a QP uses it; waits for acknowledgements of its events.
///
/// # Safety
/// Called by libibverbs with a live queue.
pub unsafe extern "C" fn destroy_srq(srq: *mut ibv_srq) -> c_int {
    // SAFETY: a live queue.
    unsafe {
        let acknowledged = acknowledged!(srq, events_completed);
        let open = Context::of((*srq).context);
        open.objects.end(srq.cast::<Srq>(), || {
            let this = Srq::of(srq);
            open.events.destroy(Kind::Srq, this.driver.srqn(), &acknowledged, || this.driver.destroy())
        })
    }
}
