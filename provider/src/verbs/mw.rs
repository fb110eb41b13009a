//! Memory windows: of type 2, which are bound and invalidated by work requests, and of type 1, which `ibv_bind_mw`
//! ([`super::bind`]) binds.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::Arc;

use driver::Bind;
use fpga_regs::Access;
use rdma_sys::{ibv_mw, ibv_mw_bind_info, ibv_mw_type, ibv_pd};

use super::card;
use super::context::Context;
use super::errno::{object, Errno, Result};
use super::mr::access_of;
use super::object::Object;
use super::pd::Pd;

#[repr(C)]
struct Mw {
    ibv: ibv_mw,
    driver: Arc<card::Mw>,
}

impl Object for Mw {
    /// One that is bound keeps its region.
    const FIRST: bool = true;
}

/// `ibv_alloc_mw`.
///
/// # Safety
/// Called by a program with a live protection domain.
pub unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, kind: ibv_mw_type::Type) -> *mut ibv_mw {
    object(|| {
        let type2 = match kind {
            ibv_mw_type::IBV_MW_TYPE_1 => false,
            ibv_mw_type::IBV_MW_TYPE_2 => true,
            _ => return Err(Errno::EINVAL),
        };
        // SAFETY: a live protection domain.
        let driver = unsafe { Pd::of(pd) }.driver.alloc_mw(type2)?;
        // SAFETY: a live protection domain.
        let (context, objects) = unsafe { ((*pd).context, &Context::of((*pd).context).objects) };
        let ibv = ibv_mw { context, pd, rkey: driver.rkey(), handle: driver.rkey(), type_: kind };
        Ok(objects.add(Mw { ibv, driver }).cast())
    })
}

/// `ibv_dealloc_mw`.
///
/// # Safety
/// Called by a program with a live window.
pub unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    let this = mw.cast::<Mw>();
    // SAFETY: a live window.
    unsafe { Context::of((*mw).context).objects.end(this, || Ok((*this).driver.destroy()?)) }
}

/// The key that a bind gives a window: its index stays, only the low 8 bits are the program's to choose.
pub fn bound_rkey(bind: &Bind, asked: u32) -> u32 {
    bind.mw_rkey & !0xff | asked & 0xff
}

/// What a BIND_MW work request binds; EINVAL for a window of another type.
///
/// # Safety
/// `mw` and the region of `info` must be live objects of this provider.
pub unsafe fn bind_of(mw: *const ibv_mw, info: &ibv_mw_bind_info, kind: ibv_mw_type::Type) -> Result<Bind> {
    // SAFETY: as the caller promises; a length of zero unbinds and needs no region.
    let (mw, mr) = unsafe { (&*mw, info.mr.as_ref()) };
    Errno::EINVAL.when(mw.type_ != kind)?;
    Errno::EINVAL.when(mr.is_none() && info.length != 0)?;
    Ok(Bind {
        addr: info.addr,
        length: info.length,
        mr_lkey: mr.map_or(0, |mr| mr.lkey),
        mw_rkey: mw.rkey,
        // A window grants remote rights only; local write is the business of the region beneath.
        access: access_of(info.mw_access_flags as c_int | Access::LOCAL_WRITE.bits() as c_int)?
            .without(Access::LOCAL_WRITE),
    })
}
