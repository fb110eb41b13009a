//! The card's own memory.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use fpga_regs::Access;
use rdma_sys::{ibv_alloc_dm_attr, ibv_context, ibv_dm, ibv_mr, ibv_pd};

use super::card;
use super::context::Context;
use super::errno::{object, status, Errno, Result};
use super::fork;
use super::mr::{access_of, add, TYPE_NULL_MR};
use super::object::Object;
use super::pd::Pd;

/// A part of the card's own memory.
#[repr(C)]
struct Dm {
    ibv: ibv_dm,
    driver: Arc<card::Dm>,
    /// Of the process that has it.
    generation: u32,
}

impl Object for Dm {
    fn shut(&mut self) {
        self.generation = fork::NEVER;
    }
}

/// # Safety
/// `dm` must be live.
unsafe fn driver_of<'a>(dm: *mut ibv_dm) -> Result<&'a Arc<card::Dm>> {
    // SAFETY: `ibv` is the first field.
    let dm = unsafe { &*dm.cast::<Dm>() };
    if dm.generation != fork::generation() {
        fork::refuse();
        return Err(Errno::EIO);
    }
    Ok(&dm.driver)
}

/// `ibv_alloc_dm`: ENOMEM if the card has not as much left, EINVAL if it never has.
///
/// # Safety
/// Called by a program with an open context and valid attributes.
pub unsafe extern "C" fn alloc_dm(context: *mut ibv_context, attr: *mut ibv_alloc_dm_attr) -> *mut ibv_dm {
    object(|| {
        // SAFETY: as the caller promises.
        let (open, attr) = unsafe { (Context::of(context), &*attr) };
        Errno::EINVAL.when(attr.comp_mask != 0)?;
        let driver = open.device_here()?.alloc_dm(attr.length as u64, attr.log_align_req)?;
        let (memcpy_to_dm, memcpy_from_dm) = (Some(write as _), Some(read as _));
        let ibv = ibv_dm { context, memcpy_to_dm, memcpy_from_dm, comp_mask: 0, handle: 0 };
        Ok(open.objects.add(Dm { ibv, driver, generation: fork::generation() }).cast())
    })
}

/// `ibv_free_dm`; EBUSY while there is a region of it.
///
/// # Safety
/// Called by a program with a live part.
pub unsafe extern "C" fn free_dm(dm: *mut ibv_dm) -> c_int {
    // SAFETY: a live part.
    unsafe { Context::of((*dm).context).objects.end(dm.cast::<Dm>(), || Ok(driver_of(dm)?.destroy()?)) }
}

/// `ibv_reg_dm_mr`: EINVAL unless it is zero-based.
///
/// # Safety
/// Called by a program with a live protection domain and a live part.
pub unsafe extern "C" fn reg_dm_mr(
    pd: *mut ibv_pd,
    dm: *mut ibv_dm,
    offset: u64,
    length: usize,
    access: c_uint,
) -> *mut ibv_mr {
    object(|| {
        let rights = access_of(access as c_int)?;
        Errno::EINVAL.when(!rights.contains(Access::ZERO_BASED))?;
        // SAFETY: live objects.
        unsafe {
            let driver = Pd::of(pd).driver.reg_dm(driver_of(dm)?, offset, length as u64, rights)?;
            Ok(add(pd, driver, TYPE_NULL_MR, access as c_int))
        }
    })
}

unsafe extern "C" fn write(dm: *mut ibv_dm, offset: u64, from: *const c_void, length: usize) -> c_int {
    // SAFETY: a program calls this with a live part and `length` bytes.
    status(|| unsafe {
        Ok(driver_of(dm)?.write(offset, std::slice::from_raw_parts(from.cast::<u8>(), length))?)
    })
}

unsafe extern "C" fn read(to: *mut c_void, dm: *mut ibv_dm, offset: u64, length: usize) -> c_int {
    // SAFETY: a program calls this with a live part and room for `length` bytes.
    status(|| unsafe {
        Ok(driver_of(dm)?.read(offset, std::slice::from_raw_parts_mut(to.cast::<u8>(), length))?)
    })
}
