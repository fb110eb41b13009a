//! Queue pairs: create and destroy.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::sync::{Arc, Mutex, PoisonError};

use driver::{Offloads, QpCaps, QpInit};
use fpga_regs::{QpType, MAX_TSO_HEADER};
use rdma_sys::*;

use super::acknowledged::acknowledged;
use super::card;
use super::context::Context;
use super::cq::Cq;
use super::device::VENDOR_ID;
use super::errno::{object, status, Errno, Result};
use super::event_state::Kind;
use super::object::Object;
use super::pd::Pd;
use super::srq::Srq;
use super::wr_builder::Builder;
use super::{fork, qp_ex};
use crate::abi::private::verbs_qp;

/// A queue pair.
#[repr(C, align(64))]
pub struct Qp {
    /// The driver's. Before what programs see, so that posting finds it in the line whose `context` libibverbs reads.
    pub driver: Arc<card::Qp>,
    /// What programs see.
    pub verbs: verbs_qp,
    /// The chain of `ibv_wr_*` calls under construction; owned by the holder of the send queue's lock.
    pub builder: UnsafeCell<Builder>,
    /// The multicast groups that it is in: the card lets go of a queue pair that is in some, verbs do not.
    pub groups: Mutex<Vec<[u8; 16]>>,
}

impl Qp {
    /// The object of a pointer that programs have.
    ///
    /// # Safety
    /// `qp` must be a live queue pair of this provider.
    #[inline]
    pub unsafe fn of<'a>(qp: *mut ibv_qp) -> &'a Self {
        // SAFETY: as the caller promises.
        unsafe { &*Self::whole(qp) }
    }

    /// As [`of`](Self::of), to be given to [`Objects::end`](super::object::Objects::end).
    fn whole(qp: *mut ibv_qp) -> *mut Self {
        // `verbs` begins with the ibv_qp.
        qp.wrapping_byte_sub(offset_of!(Self, verbs)).cast()
    }
}

impl Object for Qp {
    fn shut(&mut self) {
        // A chain that was not completed has the lock of the send queue.
        let builder = self.builder.get_mut();
        (builder.post, builder.generation) = (None, fork::NEVER);
    }
}

/// Sizes as verbs lay them out.
pub fn ibv_caps_of(caps: &QpCaps) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: caps.max_send_wr,
        max_recv_wr: caps.max_recv_wr,
        max_send_sge: caps.max_send_sge,
        max_recv_sge: caps.max_recv_sge,
        max_inline_data: caps.max_inline,
    }
}

/// Of the types that have queues.
fn type_of(qp_type: ibv_qp_type::Type) -> Result<QpType> {
    match qp_type {
        ibv_qp_type::IBV_QPT_RC => Ok(QpType::RC),
        ibv_qp_type::IBV_QPT_UC => Ok(QpType::UC),
        ibv_qp_type::IBV_QPT_UD => Ok(QpType::UD),
        ibv_qp_type::IBV_QPT_XRC_SEND => Ok(QpType::XRC_SEND),
        ibv_qp_type::IBV_QPT_RAW_PACKET => Ok(QpType::RAW_PACKET),
        ibv_qp_type::IBV_QPT_DRIVER => Err(Errno::EOPNOTSUPP),
        _ => Err(Errno::EINVAL),
    }
}

/// What `ibv_create_qp` cannot ask for.
#[derive(Default, Debug, PartialEq, Eq)]
struct More {
    /// The `ibv_wr_*` calls that are wanted.
    send_ops: Option<u64>,
    /// What it is to do for frames.
    offloads: Offloads,
}

/// # Safety
/// `pd` and all objects that `attr` names must be live.
unsafe fn create(pd: *mut ibv_pd, attr: &mut ibv_qp_init_attr, more: More) -> Result<*mut ibv_qp> {
    let qp_type = type_of(attr.qp_type)?;
    // One that only sends needs no CQ for receives.
    let recv_cq = if qp_type == QpType::XRC_SEND { attr.send_cq } else { attr.recv_cq };
    Errno::EINVAL.when(attr.send_cq.is_null() || recv_cq.is_null())?;
    let cap = &attr.cap;
    let caps = QpCaps {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline: cap.max_inline_data,
    };
    // SAFETY: as the caller promises.
    let (context, driver) = unsafe {
        let init = QpInit {
            qp_type,
            send_cq: Cq::of(attr.send_cq).driver.clone(),
            recv_cq: Cq::of(recv_cq).driver.clone(),
            srq: (!attr.srq.is_null()).then(|| Srq::of(attr.srq).driver.clone()),
            caps,
            sq_sig_all: attr.sq_sig_all != 0,
            offloads: more.offloads,
        };
        ((*pd).context, Pd::of(pd).driver.create_qp(&init)?)
    };
    attr.cap = ibv_caps_of(driver.caps());
    let mut verbs = blank(context, attr.qp_context, attr.qp_type, &driver);
    let ibv = &mut verbs.qp_ex.qp_base;
    ibv.pd = pd;
    ibv.send_cq = attr.send_cq;
    ibv.recv_cq = attr.recv_cq;
    ibv.srq = attr.srq;
    if let Some(send_ops) = more.send_ops {
        qp_ex::fill(&mut verbs.qp_ex, qp_type, send_ops)?;
        // SAFETY: an open context.
        unsafe { Context::of(context) }.library.mark_extended(&mut verbs);
    }
    // SAFETY: as above.
    unsafe { add(context, verbs, driver) }
}

/// What programs see of a new queue pair, without the objects that it uses.
pub fn blank(
    context: *mut ibv_context,
    qp_context: *mut c_void,
    qp_type: ibv_qp_type::Type,
    driver: &card::Qp,
) -> verbs_qp {
    // SAFETY: zero is a valid value of all fields, functions are absent.
    let mut verbs: verbs_qp = unsafe { std::mem::zeroed() };
    let ibv = &mut verbs.qp_ex.qp_base;
    ibv.context = context;
    ibv.qp_context = qp_context;
    ibv.handle = driver.qpn();
    ibv.qp_num = driver.qpn();
    ibv.state = ibv_qp_state::IBV_QPS_RESET;
    ibv.qp_type = qp_type;
    ibv.mutex = libc::PTHREAD_MUTEX_INITIALIZER;
    ibv.cond = libc::PTHREAD_COND_INITIALIZER;
    verbs
}

/// Gives a new queue pair its place in memory.
///
/// # Safety
/// `context` must be open.
pub unsafe fn add(context: *mut ibv_context, verbs: verbs_qp, driver: Arc<card::Qp>) -> Result<*mut ibv_qp> {
    let number = driver.qpn();
    let builder = UnsafeCell::new(Builder::default());
    let qp = Qp { driver, verbs, builder, groups: Mutex::default() };
    // SAFETY: as the caller promises.
    let open = unsafe { Context::of(context) };
    let place = || open.objects.add(qp).wrapping_byte_add(offset_of!(Qp, verbs)).cast();
    open.events.add(Kind::Qp, number, None, place)
}

/// `ibv_create_qp`; the granted sizes go back into `attr`.
///
/// # Safety
/// Called by libibverbs with a live protection domain and valid attributes.
pub unsafe extern "C" fn create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    // SAFETY: as the caller promises.
    object(|| unsafe { create(pd, &mut *attr, More::default()) })
}

/// What only `ibv_create_qp_ex` asks for; EOPNOTSUPP for attributes that are not supported.
fn check_ex(attr: &ibv_qp_init_attr_ex) -> Result<More> {
    const PD: u32 = ibv_qp_init_attr_mask::IBV_QP_INIT_ATTR_PD.0;
    const CREATE_FLAGS: u32 = ibv_qp_init_attr_mask::IBV_QP_INIT_ATTR_CREATE_FLAGS.0;
    const SEND_OPS: u32 = ibv_qp_init_attr_mask::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS.0;
    const TSO_HEADER: u32 = ibv_qp_init_attr_mask::IBV_QP_INIT_ATTR_MAX_TSO_HEADER.0;
    Errno::EOPNOTSUPP.when(attr.comp_mask & !(PD | CREATE_FLAGS | SEND_OPS | TSO_HEADER) != 0)?;
    const STRIP_VLAN: u32 = ibv_qp_create_flags::IBV_QP_CREATE_CVLAN_STRIPPING.0;
    let flags = if attr.comp_mask & CREATE_FLAGS != 0 { attr.create_flags } else { 0 };
    const SCATTER_FCS: u32 = ibv_qp_create_flags::IBV_QP_CREATE_SCATTER_FCS.0;
    Errno::EOPNOTSUPP.when(flags & !(STRIP_VLAN | SCATTER_FCS) != 0)?;
    let header = if attr.comp_mask & TSO_HEADER != 0 { usize::from(attr.max_tso_header) } else { 0 };
    Errno::EINVAL.when(attr.comp_mask & PD == 0 || attr.pd.is_null() || header > MAX_TSO_HEADER)?;
    Ok(More {
        send_ops: (attr.comp_mask & SEND_OPS != 0).then_some(attr.send_ops_flags),
        offloads: Offloads {
            strip_vlan: flags & STRIP_VLAN != 0,
            scatter_fcs: flags & SCATTER_FCS != 0,
            tso: header != 0,
        },
    })
}

/// `ibv_create_qp_ex` of a queue pair with queues, with the `ibv_wr_*` calls if `send_ops_flags` asks for them.
///
/// # Safety
/// Called by a program with an open context and valid attributes.
pub unsafe extern "C" fn create_qp_ex(
    _context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    object(|| {
        // SAFETY: as the caller promises.
        let attr = unsafe { &mut *attr };
        let more = check_ex(attr)?;
        let mut plain = ibv_qp_init_attr {
            qp_context: attr.qp_context,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            cap: attr.cap,
            qp_type: attr.qp_type,
            sq_sig_all: attr.sq_sig_all,
        };
        // SAFETY: as the caller promises.
        let qp = unsafe { create(attr.pd, &mut plain, more) }?;
        attr.cap = plain.cap;
        Ok(qp)
    })
}

/// `ibv_destroy_qp`: EBUSY while attached to a multicast group; waits for acknowledgements of its events.
///
/// # Safety
/// Called by libibverbs with a live queue pair.
pub unsafe extern "C" fn destroy_qp(qp: *mut ibv_qp) -> c_int {
    // SAFETY: a live queue pair.
    unsafe {
        let acknowledged = acknowledged!(qp, events_completed);
        let open = Context::of((*qp).context);
        open.objects.end(Qp::whole(qp), || {
            let this = Qp::of(qp);
            Errno(libc::EBUSY)
                .when(!this.groups.lock().unwrap_or_else(PoisonError::into_inner).is_empty())?;
            open.events.destroy(Kind::Qp, this.driver.qpn(), &acknowledged, || this.driver.destroy())
        })
    }
}

/// `ibv_query_ece`: enhancements that two cards of one make would agree on. These have none.
///
/// # Safety
/// Called by libibverbs with room for the answer.
pub unsafe extern "C" fn query_ece(_qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    // SAFETY: room for the answer.
    unsafe { ece.write(ibv_ece { vendor_id: VENDOR_ID, options: 0, comp_mask: 0 }) };
    0
}

/// `ibv_set_ece`: EINVAL for another make's. The options that are accepted, none, go back into `ece`.
///
/// # Safety
/// Called by libibverbs with valid options.
pub unsafe extern "C" fn set_ece(_qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    status(|| {
        // SAFETY: as the caller promises.
        let ece = unsafe { &mut *ece };
        Errno::EINVAL.when(ece.vendor_id != VENDOR_ID || ece.comp_mask != 0)?;
        ece.options = 0;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types() {
        assert_eq!(type_of(ibv_qp_type::IBV_QPT_RC), Ok(QpType::RC));
        assert_eq!(type_of(ibv_qp_type::IBV_QPT_DRIVER), Err(Errno::EOPNOTSUPP));
        assert_eq!(type_of(ibv_qp_type::IBV_QPT_XRC_RECV), Err(Errno::EINVAL), "has none");
        assert_eq!(type_of(1), Err(Errno::EINVAL));
    }

    #[test]
    fn extended_attributes() {
        // SAFETY: zero is a valid value of all fields.
        let mut attr: ibv_qp_init_attr_ex = unsafe { std::mem::zeroed() };
        assert_eq!(check_ex(&attr), Err(Errno::EINVAL), "no protection domain");
        attr.comp_mask = 1;
        attr.pd = std::ptr::dangling_mut();
        assert_eq!(check_ex(&attr), Ok(More::default()));
        attr.comp_mask |= 1 << 6;
        attr.send_ops_flags = 5;
        assert_eq!(check_ex(&attr), Ok(More { send_ops: Some(5), offloads: Offloads::default() }));
        (attr.comp_mask, attr.create_flags) = (attr.comp_mask | 1 << 2, 1 << 9);
        assert_eq!(
            check_ex(&attr),
            Ok(More { send_ops: Some(5), offloads: Offloads { strip_vlan: true, ..Offloads::default() } })
        );
        attr.create_flags = 1 << 8;
        assert!(check_ex(&attr).unwrap().offloads.scatter_fcs);
        attr.create_flags = 1 << 11;
        assert_eq!(check_ex(&attr), Err(Errno::EOPNOTSUPP), "padding at the end");
        (attr.create_flags, attr.comp_mask) = (0, attr.comp_mask | 1 << 3);
        for (header, tso) in [(0, Some(false)), (54, Some(true)), (128, Some(true)), (129, None)] {
            attr.max_tso_header = header;
            assert_eq!(check_ex(&attr).ok().map(|more| more.offloads.tso), tso, "{header}");
        }
        attr.comp_mask |= 1 << 4;
        assert_eq!(check_ex(&attr), Err(Errno::EOPNOTSUPP), "an indirection table");
    }
}
