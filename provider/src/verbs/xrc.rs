//! Extended reliable connections: domains, their shared receive queues, and their receiving queue pairs.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use driver::{AttrMask, Error};
use fpga_regs::{AdminStatus, XrcdFlags};
use rdma_sys::*;

use super::card;
use super::context::Context;
use super::cq::Cq;
use super::errno::{object, Errno, Result};
use super::object::{found_by, Object};
use super::pd::Pd;
use super::{qp, rss, srq};

/// An XRC domain.
#[repr(C)]
pub struct Xrcd {
    ibv: ibv_xrcd,
    /// The driver's.
    pub driver: Arc<card::Xrcd>,
    /// The file that it is known by: its inode stays this file's.
    _file: Option<OwnedFd>,
}

found_by!(Xrcd, ibv: ibv_xrcd);

impl Object for Xrcd {}

/// What all processes that have a file open know it by.
fn key_of(file: &OwnedFd) -> Result<[u64; 2]> {
    // SAFETY: zero is a valid value of all fields.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: an open descriptor, and room for one answer.
    match unsafe { libc::fstat(file.as_raw_fd(), &mut stat) } {
        0 => Ok([stat.st_ino, stat.st_dev]),
        _ => Err(Errno::last()),
    }
}

/// A descriptor of the same file.
fn duplicate(fd: c_int) -> Result<OwnedFd> {
    Errno(libc::EBADF).when(fd < 0)?;
    // SAFETY: the program's descriptor, which it does not close during this call; one that is not open is refused.
    let file = unsafe { BorrowedFd::borrow_raw(fd) };
    file.try_clone_to_owned().map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EBADF)))
}

/// `ibv_open_xrcd`: the domain of a file's inode, or with the descriptor -1 one that nobody else has. EAGAIN where there is
/// none and O_CREAT is not set, EINVAL where there is one and O_EXCL is set.
///
/// # Safety
/// Called by a program with an open context and valid attributes.
pub unsafe extern "C" fn open_xrcd(
    context: *mut ibv_context,
    attr: *mut ibv_xrcd_init_attr,
) -> *mut ibv_xrcd {
    const FD: u32 = ibv_xrcd_init_attr_mask::IBV_XRCD_INIT_ATTR_FD.0;
    const OFLAGS: u32 = ibv_xrcd_init_attr_mask::IBV_XRCD_INIT_ATTR_OFLAGS.0;
    object(|| {
        // SAFETY: as the caller promises.
        let (open, attr) = unsafe { (Context::of(context), &*attr) };
        Errno::EOPNOTSUPP.when(attr.comp_mask & !(FD | OFLAGS) != 0)?;
        Errno::EINVAL.when(attr.comp_mask != FD | OFLAGS)?;
        let file = if attr.fd == -1 { None } else { Some(duplicate(attr.fd)?) };
        let key = file.as_ref().map_or(Ok([0; 2]), key_of)?;
        let mut flags = XrcdFlags::empty();
        if attr.oflags & libc::O_CREAT != 0 {
            flags |= XrcdFlags::CREATE;
        }
        if attr.oflags & libc::O_EXCL != 0 {
            flags |= XrcdFlags::EXCLUSIVE;
        }
        let driver = open.device.open_xrcd(key, flags).map_err(|error| match error {
            Error::Refused { status: AdminStatus::NOT_FOUND, .. } => Errno(libc::EAGAIN),
            error => error.into(),
        })?;
        Ok(open.objects.add(Xrcd { ibv: ibv_xrcd { context }, driver, _file: file }).cast())
    })
}

/// `ibv_close_xrcd`: EBUSY while it has SRQs or queue pairs of this context.
///
/// # Safety
/// Called by a program with a live domain.
pub unsafe extern "C" fn close_xrcd(xrcd: *mut ibv_xrcd) -> c_int {
    // SAFETY: a live domain.
    unsafe {
        Context::of((*xrcd).context).objects.end(xrcd.cast::<Xrcd>(), || Ok(Xrcd::of(xrcd).driver.close()?))
    }
}

/// `ibv_create_srq_ex`; the granted sizes go back into `attr`.
///
/// # Safety
/// Called by a program with an open context and valid attributes.
pub unsafe extern "C" fn create_srq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    use ibv_srq_init_attr_mask as mask;
    const TYPE: u32 = mask::IBV_SRQ_INIT_ATTR_TYPE.0;
    const PD: u32 = mask::IBV_SRQ_INIT_ATTR_PD.0;
    const NEEDED: u32 = TYPE | PD | mask::IBV_SRQ_INIT_ATTR_XRCD.0 | mask::IBV_SRQ_INIT_ATTR_CQ.0;
    object(|| {
        // SAFETY: as the caller promises.
        let attr = unsafe { &mut *attr };
        let extended = attr.comp_mask & TYPE != 0 && attr.srq_type == ibv_srq_type::IBV_SRQT_XRC;
        let plain = attr.comp_mask & TYPE == 0 || attr.srq_type == ibv_srq_type::IBV_SRQT_BASIC;
        Errno::EOPNOTSUPP.when(attr.comp_mask & !NEEDED != 0 || !(extended || plain))?;
        let lacks = extended && (attr.comp_mask != NEEDED || attr.xrcd.is_null() || attr.cq.is_null());
        Errno::EINVAL.when(lacks || attr.comp_mask & PD == 0 || attr.pd.is_null())?;
        // SAFETY: live objects of this provider.
        unsafe {
            let create = |wanted: &driver::SrqAttr| {
                let pd = &Pd::of(attr.pd).driver;
                match extended {
                    true => pd.create_xrc_srq(wanted, &Xrcd::of(attr.xrcd).driver, &Cq::of(attr.cq).driver),
                    false => pd.create_srq(wanted),
                }
            };
            srq::create(context, attr.pd, attr.srq_context, &mut attr.attr, create)
        }
    })
}

/// `ibv_create_qp_ex`, of every type of queue pair.
///
/// # Safety
/// Called by a program with an open context and valid attributes.
pub unsafe extern "C" fn create_qp_ex(
    context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    const TABLE: u32 = ibv_qp_init_attr_mask::IBV_QP_INIT_ATTR_IND_TABLE.0;
    const HASH: u32 = ibv_qp_init_attr_mask::IBV_QP_INIT_ATTR_RX_HASH.0;
    // SAFETY: as the caller promises.
    unsafe {
        match (*attr).qp_type {
            ibv_qp_type::IBV_QPT_XRC_RECV => object(|| create_recv_qp(context, &mut *attr)),
            _ if (*attr).comp_mask & (TABLE | HASH) != 0 => {
                object(|| rss::create_hash_qp(context, &mut *attr))
            }
            _ => qp::create_qp_ex(context, attr),
        }
    }
}

/// A queue pair that receives for a domain.
///
/// # Safety
/// As [`create_qp_ex`].
unsafe fn create_recv_qp(context: *mut ibv_context, attr: &mut ibv_qp_init_attr_ex) -> Result<*mut ibv_qp> {
    const XRCD: u32 = ibv_qp_init_attr_mask::IBV_QP_INIT_ATTR_XRCD.0;
    // A protection domain would be of no use: that of the SRQ counts.
    const PD: u32 = ibv_qp_init_attr_mask::IBV_QP_INIT_ATTR_PD.0;
    Errno::EOPNOTSUPP.when(attr.comp_mask & !(XRCD | PD) != 0)?;
    Errno::EINVAL.when(attr.comp_mask & XRCD == 0 || attr.xrcd.is_null())?;
    // SAFETY: as the caller promises.
    let driver = unsafe { Xrcd::of(attr.xrcd) }.driver.create_qp()?;
    attr.cap = qp::ibv_caps_of(driver.caps());
    let verbs = qp::blank(context, attr.qp_context, attr.qp_type, &driver);
    // SAFETY: as the caller promises.
    unsafe { qp::add(context, verbs, driver) }
}

/// `ibv_open_qp`: a receiving queue pair that another process, or this one, has created. EINVAL if the domain has none of
/// this number.
///
/// # Safety
/// Called by a program with an open context and valid attributes.
pub unsafe extern "C" fn open_qp(context: *mut ibv_context, attr: *mut ibv_qp_open_attr) -> *mut ibv_qp {
    use ibv_qp_open_attr_mask as mask;
    const NEEDED: u32 =
        mask::IBV_QP_OPEN_ATTR_NUM.0 | mask::IBV_QP_OPEN_ATTR_XRCD.0 | mask::IBV_QP_OPEN_ATTR_TYPE.0;
    const CONTEXT: u32 = mask::IBV_QP_OPEN_ATTR_CONTEXT.0;
    object(|| {
        // SAFETY: as the caller promises.
        let attr = unsafe { &*attr };
        Errno::EOPNOTSUPP.when(attr.comp_mask & !(NEEDED | CONTEXT) != 0)?;
        let kind = ibv_qp_type::IBV_QPT_XRC_RECV;
        Errno::EINVAL
            .when(attr.comp_mask & NEEDED != NEEDED || attr.xrcd.is_null() || attr.qp_type != kind)?;
        // SAFETY: a live domain of this provider, and an open context.
        unsafe {
            let opened = Xrcd::of(attr.xrcd).driver.open_qp(attr.qp_num);
            let driver = opened.map_err(|error| match error {
                Error::Refused { status: AdminStatus::NOT_FOUND, .. } => Errno::EINVAL,
                error => error.into(),
            })?;
            let mut verbs = qp::blank(context, attr.qp_context, kind, &driver);
            verbs.qp_ex.qp_base.state = ibv_qp_state::IBV_QPS_UNKNOWN;
            qp::add(context, verbs, driver)
        }
    })
}

/// The attributes of a modify call that mean something to a queue pair of this type: each half of a connection takes no
/// notice of what is the other half's, as on Linux.
pub fn own_attributes(qp_type: ibv_qp_type::Type, mask: AttrMask) -> AttrMask {
    match qp_type {
        ibv_qp_type::IBV_QPT_XRC_SEND => mask.without(AttrMask::MAX_DEST_RD_ATOMIC | AttrMask::MIN_RNR_TIMER),
        ibv_qp_type::IBV_QPT_XRC_RECV => {
            mask.without(AttrMask::MAX_QP_RD_ATOMIC | AttrMask::RETRY_CNT | AttrMask::RNR_RETRY)
        }
        _ => mask,
    }
}
