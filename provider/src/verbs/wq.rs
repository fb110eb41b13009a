//! Receive work queues: receive queues for whole Ethernet frames, which indirection tables ([`super::rss`]) name.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::Arc;

use driver::{AttrMask, Offloads, QpAttr};
use fpga_regs::QpState;
use rdma_sys::*;

use super::acknowledged::acknowledged;
use super::context::Context;
use super::cq::Cq;
use super::errno::{object, status, Errno, Result};
use super::event_state::Kind;
use super::object::{found_by, Object};
use super::pd::Pd;
use super::post::{post_receives, refused, sges};
use super::{card, fork};

/// A receive work queue.
#[repr(C)]
pub struct Wq {
    ibv: ibv_wq,
    /// The driver's.
    pub driver: Arc<card::Qp>,
    /// The process that created it, by its forks.
    generation: u32,
}

found_by!(Wq, ibv: ibv_wq);

impl Object for Wq {
    fn shut(&mut self) {
        self.generation = fork::NEVER;
    }
}

/// The flag that is changed while a work queue is there.
const STRIP_VLAN: u32 = ibv_wq_flags::IBV_WQ_FLAGS_CVLAN_STRIPPING.0;

/// What it is to do for frames; EINVAL and EOPNOTSUPP for what does not make sense or is not there.
fn check(attr: &ibv_wq_init_attr) -> Result<Offloads> {
    const FLAGS: u32 = ibv_wq_init_attr_mask::IBV_WQ_INIT_ATTR_FLAGS.0;
    Errno::EINVAL.when(attr.wq_type != ibv_wq_type::IBV_WQT_RQ || attr.pd.is_null() || attr.cq.is_null())?;
    let flags = if attr.comp_mask & FLAGS != 0 { attr.create_flags } else { 0 };
    const SCATTER_FCS: u32 = ibv_wq_flags::IBV_WQ_FLAGS_SCATTER_FCS.0;
    Errno::EOPNOTSUPP.when(attr.comp_mask & !FLAGS != 0 || flags & !(STRIP_VLAN | SCATTER_FCS) != 0)?;
    let (strip_vlan, scatter_fcs) = (flags & STRIP_VLAN != 0, flags & SCATTER_FCS != 0);
    Ok(Offloads { strip_vlan, scatter_fcs, ..Offloads::default() })
}

/// `ibv_create_wq`; the granted sizes go back into `attr`.
///
/// # Safety
/// Called by a program with an open context and valid attributes.
pub unsafe extern "C" fn create_wq(context: *mut ibv_context, attr: *mut ibv_wq_init_attr) -> *mut ibv_wq {
    object(|| {
        // SAFETY: as the caller promises.
        let attr = unsafe { &mut *attr };
        let offloads = check(attr)?;
        // SAFETY: live objects of this provider.
        let (pd, cq) = unsafe { (&Pd::of(attr.pd).driver, &Cq::of(attr.cq).driver) };
        let driver = pd.create_wq(cq, (attr.max_wr, attr.max_sge), offloads)?;
        (attr.max_wr, attr.max_sge) = (driver.caps().max_recv_wr, driver.caps().max_recv_sge);
        let number = driver.qpn();
        let ibv = ibv_wq {
            context,
            wq_context: attr.wq_context,
            pd: attr.pd,
            cq: attr.cq,
            wq_num: number,
            handle: number,
            state: ibv_wq_state::IBV_WQS_RESET,
            wq_type: attr.wq_type,
            post_recv: Some(post_recv),
            mutex: libc::PTHREAD_MUTEX_INITIALIZER,
            cond: libc::PTHREAD_COND_INITIALIZER,
            events_completed: 0,
            comp_mask: 0,
        };
        let wq = Wq { ibv, driver, generation: fork::generation() };
        // SAFETY: an open context.
        let open = unsafe { Context::of(context) };
        open.events.add(Kind::Wq, number, None, || open.objects.add(wq).cast())
    })
}

/// `ibv_post_wq_recv`, which calls it without asking the context.
///
/// # Safety
/// Called by a program with a live work queue and a valid chain of work requests.
unsafe extern "C" fn post_recv(
    wq: *mut ibv_wq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: a live work queue.
    let this = unsafe { Wq::of(wq) };
    if this.generation != fork::generation() {
        return fork::refuse();
    }
    status(|| post_receives!(this.driver.recv(), wr, bad_wr))
}

/// The states of a work queue are some of those of a queue pair.
fn state_of(state: ibv_wq_state::Type) -> Result<QpState> {
    match state {
        ibv_wq_state::IBV_WQS_RESET => Ok(QpState::RESET),
        ibv_wq_state::IBV_WQS_RDY => Ok(QpState::RTR),
        ibv_wq_state::IBV_WQS_ERR => Ok(QpState::ERR),
        _ => Err(Errno::EINVAL),
    }
}

/// What a modify call is to change.
#[derive(Debug)]
struct Change {
    /// The state, if the mask says so.
    to: QpAttr,
    mask: AttrMask,
    /// Whether VLAN tags are stripped from now on.
    strip_vlan: Option<bool>,
}

/// EINVAL and EOPNOTSUPP for changes that make no sense or cannot be made.
fn change(attr: &ibv_wq_attr) -> Result<Change> {
    use ibv_wq_attr_mask as mask;
    const STATE: u32 = mask::IBV_WQ_ATTR_STATE.0;
    const CURRENT: u32 = mask::IBV_WQ_ATTR_CURR_STATE.0;
    const FLAGS: u32 = mask::IBV_WQ_ATTR_FLAGS.0;
    let flags = if attr.attr_mask & FLAGS != 0 { attr.flags_mask } else { 0 };
    Errno::EOPNOTSUPP.when(attr.attr_mask & !(STATE | CURRENT | FLAGS) != 0 || flags & !STRIP_VLAN != 0)?;
    Errno::EINVAL.when(attr.attr_mask & (STATE | FLAGS) == 0)?;
    let (mut to, mut changed) = (QpAttr::default(), AttrMask::empty());
    if attr.attr_mask & STATE != 0 {
        to.state = state_of(attr.wq_state)?;
        changed |= AttrMask::STATE;
    }
    if attr.attr_mask & CURRENT != 0 {
        to.cur_state = state_of(attr.curr_wq_state)?;
        changed |= AttrMask::CUR_STATE;
    }
    let strip_vlan = (flags & STRIP_VLAN != 0).then_some(attr.flags & STRIP_VLAN != 0);
    Ok(Change { to, mask: changed, strip_vlan })
}

/// `ibv_modify_wq`.
///
/// # Safety
/// Called by a program with a live work queue and valid attributes.
pub unsafe extern "C" fn modify_wq(wq: *mut ibv_wq, attr: *mut ibv_wq_attr) -> c_int {
    status(|| {
        // SAFETY: as the caller promises.
        let (this, attr) = unsafe { (Wq::of(wq), &*attr) };
        let Change { to, mask, strip_vlan } = change(attr)?;
        // With a new state, the card looks at it.
        Errno::EINVAL.when(mask == AttrMask::CUR_STATE && this.driver.state() != to.cur_state)?;
        // First what a wrong state refuses.
        if mask.contains(AttrMask::STATE) {
            this.driver.modify(&to, mask)?;
            // SAFETY: a live work queue.
            unsafe { (*wq).state = attr.wq_state };
        }
        strip_vlan.map_or(Ok(()), |strip| Ok(this.driver.set_strip_vlan(strip)?))
    })
}

/// `ibv_destroy_wq`: EBUSY while an indirection table has it; waits for acknowledgements of its events.
///
/// # Safety
/// Called by a program with a live work queue.
pub unsafe extern "C" fn destroy_wq(wq: *mut ibv_wq) -> c_int {
    // SAFETY: a live work queue.
    unsafe {
        let acknowledged = acknowledged!(wq, events_completed);
        let open = Context::of((*wq).context);
        open.objects.end(wq.cast::<Wq>(), || {
            let this = Wq::of(wq);
            open.events.destroy(Kind::Wq, this.driver.qpn(), &acknowledged, || this.driver.destroy())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use super::*;

    #[test]
    fn states_are_those_of_a_queue_pair() {
        let mut attr = ibv_wq_attr {
            attr_mask: 3,
            wq_state: ibv_wq_state::IBV_WQS_RDY,
            curr_wq_state: ibv_wq_state::IBV_WQS_RESET,
            flags: 0,
            flags_mask: 0,
        };
        let Change { to, mask, strip_vlan } = change(&attr).unwrap();
        assert_eq!(strip_vlan, None);
        assert_eq!((to.state, to.cur_state), (QpState::RTR, QpState::RESET));
        assert_eq!(mask, AttrMask::STATE | AttrMask::CUR_STATE);
        attr.wq_state = ibv_wq_state::IBV_WQS_UNKNOWN;
        assert_eq!(change(&attr).err(), Some(Errno::EINVAL));
        for (mask, flags, strip) in [(1, 0, Some(false)), (1, 3, Some(true)), (0, 1, None)] {
            (attr.attr_mask, attr.flags_mask, attr.flags) = (4, mask, flags);
            assert_eq!(change(&attr).unwrap().strip_vlan, strip);
        }
        attr.flags_mask = 2;
        assert_eq!(change(&attr).err(), Some(Errno::EOPNOTSUPP), "check sequences");
        attr.attr_mask = 8;
        assert_eq!(change(&attr).err(), Some(Errno::EOPNOTSUPP));
        // Flags, but none of them.
        (attr.attr_mask, attr.flags_mask, attr.wq_state) = (4, 0, ibv_wq_state::IBV_WQS_RDY);
        assert_eq!(change(&attr).unwrap().mask, AttrMask::empty());
        for changes_nothing in [0, 2] {
            attr.attr_mask = changes_nothing;
            assert_eq!(change(&attr).err(), Some(Errno::EINVAL));
        }
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let mut attr = ibv_wq_init_attr {
            wq_context: null_mut(),
            wq_type: ibv_wq_type::IBV_WQT_RQ,
            max_wr: 1,
            max_sge: 1,
            pd: std::ptr::dangling_mut(),
            cq: std::ptr::dangling_mut(),
            comp_mask: 0,
            create_flags: 1,
        };
        assert_eq!(check(&attr), Ok(Offloads::default()), "flags that the mask does not name do not count");
        attr.comp_mask = 1;
        let strips = Offloads { strip_vlan: true, ..Offloads::default() };
        assert_eq!(check(&attr), Ok(strips), "VLAN stripping");
        attr.create_flags = 2;
        assert!(check(&attr).unwrap().scatter_fcs);
        attr.create_flags = 4;
        assert_eq!(check(&attr), Err(Errno::EOPNOTSUPP), "delayed drop");
        (attr.comp_mask, attr.wq_type) = (0, 1);
        assert_eq!(check(&attr), Err(Errno::EINVAL));
        (attr.cq, attr.wq_type) = (null_mut(), ibv_wq_type::IBV_WQT_RQ);
        assert_eq!(check(&attr), Err(Errno::EINVAL));
    }
}
