//! `ibv_advise_mr`: which memory an advice is about, and having it there before the card asks for it.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::c_uint;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fpga_regs::Access;
use rdma_sys::ibv_sge;

use super::card;
use super::errno::{Errno, Result};

/// What a program expects to do with memory; the numbers are those of `enum ib_uverbs_advise_mr_advice`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// The card will read it.
    Read,
    /// The card will write to it.
    Write,
    /// The card may know of what is there: it does in any case.
    NoFault,
}

impl Advice {
    /// ENOTSUP for one that is not known.
    pub fn of(advice: c_uint) -> Result<Advice> {
        match advice {
            0 => Ok(Advice::Read),
            1 => Ok(Advice::Write),
            2 => Ok(Advice::NoFault),
            _ => Err(Errno(libc::ENOTSUP)),
        }
    }
}

/// The regions of a context whose memory is found on demand, by their L_Keys.
#[derive(Default)]
pub struct OnDemand(Mutex<HashMap<u32, Arc<card::Mr>>>);

impl OnDemand {
    fn regions(&self) -> MutexGuard<'_, HashMap<u32, Arc<card::Mr>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A region is one of them, or is not (any more).
    pub fn note(&self, region: &Arc<card::Mr>, on_demand: bool) {
        match on_demand {
            true => self.regions().insert(region.lkey(), region.clone()),
            false => self.regions().remove(&region.lkey()),
        };
    }

    /// Address and length of an element's memory: ENOENT for another key, EPERM for one of another protection domain or
    /// without the right to write, EFAULT outside of the region.
    pub fn find(&self, pdn: u32, advice: Advice, sge: &ibv_sge) -> Result<(u64, u64)> {
        let regions = self.regions();
        let region = regions.get(&sge.lkey).ok_or(Errno(libc::ENOENT))?;
        Errno(libc::EPERM).when(region.pd().pdn() != pdn)?;
        Errno(libc::EPERM).when(advice == Advice::Write && !region.access().contains(Access::LOCAL_WRITE))?;
        let (offset, length) = (sge.addr.wrapping_sub(region.wire_va()), sge.length.into());
        Errno(libc::EFAULT).when(offset > region.length() || region.length() - offset < length)?;
        Ok((region.addr().wrapping_add(offset), length))
    }
}

/// Has the pages of a range made, so that the first access of the card need not.
pub fn populate(advice: Advice, addr: u64, len: u64) -> Result<()> {
    const PAGE: u64 = 4096;
    let how = match advice {
        Advice::Read => libc::MADV_POPULATE_READ,
        Advice::Write => libc::MADV_POPULATE_WRITE,
        Advice::NoFault => return Ok(()),
    };
    let start = addr & !(PAGE - 1);
    let len = (addr - start + len) as usize;
    // SAFETY: the kernel checks the range, and only makes what the program has mapped.
    if len == 0 || unsafe { libc::madvise(start as *mut _, len, how) } == 0 {
        return Ok(());
    }
    match Errno::last() {
        // A kernel before 5.14, or memory that cannot be made before it is used: it is found when it is accessed.
        Errno::EINVAL => Ok(()),
        Errno(libc::ENOMEM) => Err(Errno(libc::EFAULT)),
        error => Err(error),
    }
}
