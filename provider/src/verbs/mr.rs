//! Memory regions.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use driver::Region;
use fpga_regs::Access;
use rdma_sys::{ibv_access_flags, ibv_mr, ibv_pd, ibv_rereg_mr_flags, ibv_sge};

use super::card;
use super::context::Context;
use super::errno::{object, status, Errno, Result};
use super::object::Object;
use super::pd::Pd;
use super::prefetch::{self, Advice};
use crate::abi::private::verbs_mr;

/// `IBV_MR_TYPE_MR`.
pub const TYPE_MR: c_int = 0;
/// `IBV_MR_TYPE_NULL_MR`, also for other regions without memory of the program: libibverbs lets none be changed.
pub const TYPE_NULL_MR: c_int = 1;

#[repr(C)]
struct Mr {
    verbs: verbs_mr,
    driver: Arc<card::Mr>,
}

impl Object for Mr {}

const ON_DEMAND: c_int = ibv_access_flags::IBV_ACCESS_ON_DEMAND.0 as c_int;

/// The access rights of a registration, or EINVAL as `ibv_reg_mr(3)` says.
pub fn access_of(flags: c_int) -> Result<Access> {
    /// Hints that change nothing here: huge pages, and ordering that may be relaxed.
    const HINTS: u32 = ibv_access_flags::IBV_ACCESS_HUGETLB.0 | OPTIONAL;
    const OPTIONAL: u32 = 0x3ff0_0000;
    let flags = flags as u32 & !HINTS;
    let access = Access(u8::try_from(flags).map_err(|_| Errno::EINVAL)?);
    Errno::EINVAL.when(access.unknown() != 0)?;
    let needs_local = access.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
    Errno::EINVAL.when(needs_local && !access.contains(Access::LOCAL_WRITE))?;
    Ok(access)
}

fn region_of(addr: *mut c_void, len: usize, wire_va: u64, flags: c_int) -> Result<Region> {
    let access = access_of(flags & !ON_DEMAND)?;
    let wire_va = if access.contains(Access::ZERO_BASED) { 0 } else { wire_va };
    Ok(Region { addr: addr.cast(), len, wire_va, access, on_demand: flags & ON_DEMAND != 0 })
}

/// Gives a region its place in memory. libibverbs fills in what it knows.
///
/// # Safety
/// `pd` must be a live protection domain.
pub unsafe fn add(pd: *mut ibv_pd, driver: Arc<card::Mr>, mr_type: c_int, access: c_int) -> *mut ibv_mr {
    let (addr, length) = (driver.addr() as *mut c_void, driver.length() as usize);
    let (lkey, rkey) = (driver.lkey(), driver.rkey());
    // SAFETY: as the caller promises.
    let (context, objects) = unsafe { ((*pd).context, &Context::of((*pd).context).objects) };
    let ibv_mr = ibv_mr { context, pd, addr, length, handle: lkey, lkey, rkey };
    objects.add(Mr { verbs: verbs_mr { ibv_mr, mr_type, access }, driver }).cast()
}

/// A region's type and access flags.
///
/// # Safety
/// `mr` must be a live region of this provider.
pub unsafe fn kind_of(mr: *const ibv_mr) -> (c_int, c_int) {
    // SAFETY: the `ibv_mr` is the first field of the first field.
    let verbs = unsafe { &(*mr.cast::<Mr>()).verbs };
    (verbs.mr_type, verbs.access)
}

/// `ibv_reg_mr` and its variants: `wire_va` is the address that work requests use.
///
/// # Safety
/// Called by libibverbs with a live protection domain.
pub unsafe extern "C" fn reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    wire_va: u64,
    access: c_int,
) -> *mut ibv_mr {
    object(|| {
        let region = region_of(addr, length, wire_va, access)?;
        // SAFETY: a live protection domain; the program keeps the memory until it deregisters it.
        let (driver, context) = unsafe { (Pd::of(pd).driver.register(&region)?, Context::of((*pd).context)) };
        context.on_demand.note(&driver, region.on_demand);
        // SAFETY: as above.
        Ok(unsafe { add(pd, driver, TYPE_MR, access) })
    })
}

/// `ibv_alloc_null_mr`.
///
/// # Safety
/// Called by a program with a live protection domain.
pub unsafe extern "C" fn alloc_null_mr(pd: *mut ibv_pd) -> *mut ibv_mr {
    // SAFETY: a live protection domain.
    object(|| unsafe { Ok(add(pd, Pd::of(pd).driver.alloc_null_mr()?, TYPE_NULL_MR, 0)) })
}

/// `ibv_rereg_mr`, which keeps the keys: EBUSY while a window is bound to it. After a failure it is as before.
///
/// # Safety
/// Called by libibverbs with a live memory region, and a live protection domain if `flags` says so.
pub unsafe extern "C" fn rereg_mr(
    mr: *mut verbs_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    status(|| {
        use ibv_rereg_mr_flags as change;
        // SAFETY: as the caller promises.
        let mr = unsafe { &mut *mr.cast::<Mr>() };
        let changes = |flag: change| flags as u32 & flag.0 != 0;
        Errno::EINVAL.when(flags == 0 || (changes(change::IBV_REREG_MR_CHANGE_PD) && pd.is_null()))?;
        let access = if changes(change::IBV_REREG_MR_CHANGE_ACCESS) { access } else { mr.verbs.access };
        let region = match changes(change::IBV_REREG_MR_CHANGE_TRANSLATION) {
            true => region_of(addr, length, addr as u64, access)?,
            false => region_of(mr.verbs.ibv_mr.addr, mr.verbs.ibv_mr.length, mr.driver.wire_va(), access)?,
        };
        let pd = if changes(change::IBV_REREG_MR_CHANGE_PD) { pd } else { mr.verbs.ibv_mr.pd };
        // SAFETY: live objects; the program keeps the memory until it deregisters it.
        let context = unsafe {
            mr.driver.modify(&Pd::of(pd).driver, &region)?;
            Context::of((*pd).context)
        };
        context.on_demand.note(&mr.driver, region.on_demand);
        mr.verbs.access = access;
        Ok(())
    })
}

/// `ibv_dereg_mr`; EBUSY while a window is bound to it.
///
/// # Safety
/// Called by libibverbs with a live memory region.
pub unsafe extern "C" fn dereg_mr(mr: *mut verbs_mr) -> c_int {
    let mr = mr.cast::<Mr>();
    // SAFETY: a live memory region.
    unsafe {
        let open = Context::of((*mr).verbs.ibv_mr.context);
        open.objects.end(mr, || {
            (*mr).driver.destroy()?;
            open.on_demand.note(&(*mr).driver, false);
            Ok(())
        })
    }
}

/// `ibv_advise_mr`, for regions whose memory is found on demand.
///
/// # Safety
/// Called by a program with a live protection domain and a list of `count` elements.
pub unsafe extern "C" fn advise_mr(
    pd: *mut ibv_pd,
    advice: c_uint,
    flags: u32,
    list: *mut ibv_sge,
    count: u32,
) -> c_int {
    status(|| {
        let advice = Advice::of(advice)?;
        // `IBV_ADVISE_MR_FLAG_FLUSH`: all is done when this returns, in any case.
        Errno::EINVAL.when(flags & !1 != 0 || count == 0 || list.is_null())?;
        // SAFETY: as the caller promises.
        let (pd, context, list) = unsafe {
            let list = std::slice::from_raw_parts(list, count as usize);
            (Pd::of(pd), Context::of((*pd).context), list)
        };
        // All are checked before anything is done.
        let ranges = list.iter().map(|sge| context.on_demand.find(pd.driver.pdn(), advice, sge));
        let ranges = ranges.collect::<Result<Vec<_>>>()?;
        ranges.into_iter().try_for_each(|(addr, len)| prefetch::populate(advice, addr, len))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_follow_the_man_page() {
        assert_eq!(access_of(0), Ok(Access::empty()));
        assert_eq!(access_of(0x3f).map(|a| a.bits()), Ok(0x3f));
        assert_eq!(access_of(2), Err(Errno::EINVAL), "remote write needs local write");
        assert_eq!(access_of(8), Err(Errno::EINVAL), "remote atomic needs local write");
        assert_eq!(access_of(4), Ok(Access::REMOTE_READ));
        assert_eq!(access_of(1 << 6), Err(Errno::EINVAL), "a window has no paging of its own");
        assert_eq!(access_of(1 << 20 | 1), Ok(Access::LOCAL_WRITE), "relaxed ordering is a hint");
        assert_eq!(access_of(1 << 12), Err(Errno::EINVAL));
        let region = region_of(std::ptr::null_mut(), usize::MAX, 0, ON_DEMAND | 1).unwrap();
        assert!(region.on_demand && region.access == Access::LOCAL_WRITE);
    }
}
