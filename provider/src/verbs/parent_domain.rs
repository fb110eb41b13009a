//! Parent domains: other handles of a protection domain, whose objects may have memory of the program's for their rings,
//! and belong to one thread if they have a thread domain.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::Arc;

use driver::{CardError, Lender};
use rdma_sys::*;

use super::context::Context;
use super::errno::{object, Errno};
use super::object::{found_by, Object};
use super::pd::Pd;

/// A thread domain.
#[repr(C)]
struct Td {
    ibv: ibv_td,
    /// The parent domains that have it hold this, too.
    held: Arc<()>,
}

found_by!(Td, ibv: ibv_td);

impl Object for Td {}

/// `ibv_alloc_td`.
///
/// # Safety
/// Called by a program with an open context and valid attributes.
pub unsafe extern "C" fn alloc_td(context: *mut ibv_context, attr: *mut ibv_td_init_attr) -> *mut ibv_td {
    object(|| {
        // SAFETY: as the caller promises.
        if unsafe { attr.as_ref() }.is_some_and(|attr| attr.comp_mask != 0) {
            return Err(Errno::EINVAL);
        }
        // SAFETY: an open context.
        let objects = &unsafe { Context::of(context) }.objects;
        Ok(objects.add(Td { ibv: ibv_td { context }, held: Arc::default() }).cast())
    })
}

/// `ibv_dealloc_td`; EBUSY while a parent domain has it.
///
/// # Safety
/// Called by a program with a live thread domain.
pub unsafe extern "C" fn dealloc_td(td: *mut ibv_td) -> c_int {
    // SAFETY: a live thread domain.
    unsafe {
        Context::of((*td).context)
            .objects
            .end(td.cast::<Td>(), || Errno(libc::EBUSY).when(Arc::strong_count(&Td::of(td).held) > 1))
    }
}

/// The functions of a parent domain that give memory.
struct Allocator {
    alloc: AllocFn,
    free: FreeFn,
    context: *mut c_void,
    /// The parent domain.
    pd: AtomicPtr<ibv_pd>,
}

type AllocFn = unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, usize, u64) -> *mut c_void;
type FreeFn = unsafe extern "C" fn(*mut ibv_pd, *mut c_void, *mut c_void, u64);

/// What the memory is for: a ring of queue entries. The upper half would name the kernel's driver, of which there is none.
const RING: u64 = 1;
/// Rings are lent by the page.
const ALIGNMENT: usize = 4096;
/// `IBV_ALLOCATOR_USE_DEFAULT`.
const USE_DEFAULT: usize = usize::MAX;

// SAFETY: a program that gives functions for its domain's objects expects their calls in the threads that create and
// destroy them; the context is only handed through.
unsafe impl Send for Allocator {}
// SAFETY: as above.
unsafe impl Sync for Allocator {}

impl Lender for Allocator {
    fn lend(&self, bytes: usize) -> Result<Option<NonNull<u8>>, CardError> {
        let pd = self.pd.load(Ordering::Relaxed);
        // SAFETY: a function of the program, called as its manual says.
        let ptr = unsafe { (self.alloc)(pd, self.context, bytes, ALIGNMENT, RING) };
        match ptr as usize {
            USE_DEFAULT => Ok(None),
            _ => NonNull::new(ptr.cast()).map(Some).ok_or(CardError::NoMemory { bytes }),
        }
    }

    fn take_back(&self, ptr: *mut u8) {
        // SAFETY: memory that `alloc` gave.
        unsafe { (self.free)(self.pd.load(Ordering::Relaxed), self.context, ptr.cast(), RING) };
    }
}

/// `IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC`, of release 65: in a confidential guest, memory that the
/// hypervisor may read will do, where a card needs that. This one does not.
const ALLOW_UNPROTECTED: u32 = 1 << 2;

/// `ibv_alloc_parent_domain`.
///
/// # Safety
/// Called by a program with an open context and valid attributes.
pub unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    object(|| {
        const ALLOCATORS: u32 = ibv_parent_domain_init_attr_mask::IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS.0;
        const CONTEXT: u32 = ibv_parent_domain_init_attr_mask::IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT.0;
        // SAFETY: as the caller promises; fields beyond the mask may be garbage.
        let (pd, td, mask) = unsafe { ((*attr).pd, (*attr).td, (*attr).comp_mask) };
        Errno::EINVAL.when(pd.is_null())?;
        Errno::EOPNOTSUPP.when(mask & !(ALLOCATORS | CONTEXT | ALLOW_UNPROTECTED) != 0)?;
        let allocator = match mask & ALLOCATORS != 0 {
            true => {
                // SAFETY: the mask names these fields.
                let (alloc, free) = unsafe { ((*attr).alloc, (*attr).free) };
                let (Some(alloc), Some(free)) = (alloc, free) else { return Err(Errno::EINVAL) };
                // SAFETY: as above.
                let context = if mask & CONTEXT != 0 { unsafe { (*attr).pd_context } } else { null_mut() };
                Some(Arc::new(Allocator { alloc, free, context, pd: AtomicPtr::new(null_mut()) }))
            }
            false => None,
        };
        // SAFETY: null, or a live thread domain.
        let td = (!td.is_null()).then(|| unsafe { Td::of(td) }.held.clone());
        // SAFETY: a live protection domain.
        let root = unsafe { &Pd::of(pd).driver };
        let driver = root.handle(allocator.clone().map(|allocator| allocator as Arc<dyn Lender>));
        // SAFETY: an open context.
        let parent = unsafe { Pd::add(context, driver, Some(td)) };
        if let Some(allocator) = allocator {
            allocator.pd.store(parent, Ordering::Relaxed);
        }
        Ok(parent)
    })
}
