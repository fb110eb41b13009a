//! Memory regions.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use fpga_regs::Access;
use rdma_sys::{ibv_access_flags, ibv_mr, ibv_pd};

use super::card;
use super::errno::{object, status, Errno, Result};
use super::pd::Pd;
use crate::abi::private::verbs_mr;

/// `IBV_MR_TYPE_MR`.
const TYPE_MR: c_int = 0;

#[repr(C)]
struct Mr {
    verbs: verbs_mr,
    driver: Arc<card::Mr>,
}

/// The access rights of a registration, or EINVAL / EOPNOTSUPP as `ibv_reg_mr(3)` says.
pub fn access_of(flags: c_int) -> Result<Access> {
    /// Hints that change nothing here: huge pages, and ordering that may be relaxed.
    const HINTS: u32 = ibv_access_flags::IBV_ACCESS_HUGETLB.0 | OPTIONAL;
    const OPTIONAL: u32 = 0x3ff0_0000;
    const ON_DEMAND: u32 = ibv_access_flags::IBV_ACCESS_ON_DEMAND.0;
    let flags = flags as u32 & !HINTS;
    if flags & ON_DEMAND != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let access = Access(u8::try_from(flags).map_err(|_| Errno::EINVAL)?);
    if access.unknown() != 0 {
        return Err(Errno::EINVAL);
    }
    let needs_local = access.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
    if needs_local && !access.contains(Access::LOCAL_WRITE) {
        return Err(Errno::EINVAL);
    }
    Ok(access)
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
        let rights = access_of(access)?;
        let wire_va = if rights.contains(Access::ZERO_BASED) { 0 } else { wire_va };
        // SAFETY: a live protection domain; the program keeps the memory until it deregisters it.
        let driver = unsafe { Pd::of(pd).driver.reg_mr(addr.cast(), length, wire_va, rights) }?;
        let verbs = verbs_mr {
            // libibverbs fills in what it knows.
            ibv_mr: ibv_mr {
                context: std::ptr::null_mut(),
                pd,
                addr,
                length,
                handle: driver.lkey(),
                lkey: driver.lkey(),
                rkey: driver.rkey(),
            },
            mr_type: TYPE_MR,
            access,
        };
        Ok(Box::into_raw(Box::new(Mr { verbs, driver })).cast())
    })
}

/// `ibv_dereg_mr`; EBUSY while a window is bound to it.
///
/// # Safety
/// Called by libibverbs with a live memory region.
pub unsafe extern "C" fn dereg_mr(mr: *mut verbs_mr) -> c_int {
    status(|| {
        let mr = mr.cast::<Mr>();
        // SAFETY: a live memory region, which ends here only if the driver agrees.
        unsafe {
            (*mr).driver.destroy()?;
            drop(Box::from_raw(mr));
        }
        Ok(())
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
        assert_eq!(access_of(1 << 6), Err(Errno::EOPNOTSUPP), "on demand paging");
        assert_eq!(access_of(1 << 20 | 1), Ok(Access::LOCAL_WRITE), "relaxed ordering is a hint");
        assert_eq!(access_of(1 << 12), Err(Errno::EINVAL));
    }
}
