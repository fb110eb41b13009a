//! Extended completion queues: `ibv_start_poll`, `ibv_next_poll` and the functions that read fields.
//!
//! The fields of one completion at a time stay in the queue's [`Cursor`], guarded by a lock from
//! `ibv_start_poll` to `ibv_end_poll` unless the program promised a single thread.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use driver::{CqOptions, Wc};
use rdma_sys::*;

use super::card::Device;
use super::cq::{wc_flags, Cq};
use super::errno::{object, status, Errno, Result};
use super::pd::Pd;
use super::{fork, timeline};

const WALLCLOCK: u32 = ibv_create_cq_wc_flags::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK.0;
/// The fields that need the card's time in completions.
const STAMPED: u32 = ibv_create_cq_wc_flags::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP.0 | WALLCLOCK;

/// The fields that a program may ask for.
const SUPPORTED: u32 = ibv_create_cq_wc_flags::IBV_WC_EX_WITH_BYTE_LEN.0
    | ibv_create_cq_wc_flags::IBV_WC_EX_WITH_IMM.0
    | ibv_create_cq_wc_flags::IBV_WC_EX_WITH_QP_NUM.0
    | ibv_create_cq_wc_flags::IBV_WC_EX_WITH_SRC_QP.0
    | ibv_create_cq_wc_flags::IBV_WC_EX_WITH_SLID.0
    | ibv_create_cq_wc_flags::IBV_WC_EX_WITH_SL.0
    | ibv_create_cq_wc_flags::IBV_WC_EX_WITH_DLID_PATH_BITS.0
    | ibv_create_cq_wc_flags::IBV_WC_EX_WITH_CVLAN.0
    | ibv_create_cq_wc_flags::IBV_WC_EX_WITH_FLOW_TAG.0
    | STAMPED;

/// It is created with a parent domain.
const PARENT: u32 = ibv_cq_init_attr_mask::IBV_CQ_INIT_ATTR_MASK_PD.0;

/// The current completion of an extended poll.
#[derive(Default)]
pub struct Cursor {
    wc: UnsafeCell<Option<Wc>>,
    locked: AtomicBool,
    single_threaded: bool,
    generation: u32,
    /// What the machine's clock shows when the card's shows 0.
    wallclock: u64,
}

impl Cursor {
    fn lock(&self) {
        if self.single_threaded {
            return;
        }
        while self.locked.swap(true, Ordering::Acquire) {
            // The holder may be a thread that waits for this processor.
            std::thread::yield_now();
        }
    }

    fn unlock(&self) {
        self.locked.store(false, Ordering::Release);
    }
}

/// `ibv_create_cq_ex`.
///
/// # Safety
/// Called by libibverbs with an open context and valid attributes.
pub unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    object(|| {
        // SAFETY: as the caller promises.
        let attr = unsafe { &*attr };
        let mut single_threaded = check(attr)?;
        let mut options =
            CqOptions { stamped: attr.wc_flags & u64::from(STAMPED) != 0, ..CqOptions::default() };
        if attr.comp_mask & PARENT != 0 {
            Errno::EINVAL.when(attr.parent_domain.is_null())?;
            // SAFETY: the mask names this field, of a live domain.
            let pd = unsafe { Pd::of(attr.parent_domain) };
            single_threaded |= pd.parent.as_ref().ok_or(Errno::EINVAL)?.is_some();
            options.pd = Some(pd.driver.clone());
        }
        // SAFETY: as the caller promises.
        let cq = unsafe { Cq::create(context, attr.cqe, attr.channel, attr.comp_vector, options) }?;
        // SAFETY: a fresh queue that no other code has seen yet.
        let cq = unsafe { &mut *cq };
        cq.cursor.single_threaded = single_threaded;
        cq.cursor.generation = fork::generation();
        if attr.wc_flags & u64::from(WALLCLOCK) != 0 {
            cq.cursor.wallclock = wallclock(cq.driver.device());
        }
        fill(&mut cq.verbs.cq_ex);
        Ok(&raw mut cq.verbs.cq_ex)
    })
}

fn check(attr: &ibv_cq_init_attr_ex) -> Result<bool> {
    const FLAGS: u32 = ibv_cq_init_attr_mask::IBV_CQ_INIT_ATTR_MASK_FLAGS.0;
    const SINGLE: u32 = ibv_create_cq_attr_flags::IBV_CREATE_CQ_ATTR_SINGLE_THREADED.0;
    Errno::EOPNOTSUPP
        .when(attr.wc_flags & !u64::from(SUPPORTED) != 0 || attr.comp_mask & !(FLAGS | PARENT) != 0)?;
    let flags = if attr.comp_mask & FLAGS != 0 { attr.flags } else { 0 };
    Errno::EOPNOTSUPP.when(flags & !SINGLE != 0)?;
    Ok(flags & SINGLE != 0)
}

/// The machine's clock, nanoseconds since 1970, when the card's showed 0: of a few readings of both, that which took
/// the least.
fn wallclock(device: &Device) -> u64 {
    let now = || {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: room for the answer; this clock is always there.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut now) };
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    };
    let reading = |_| {
        let (before, card, after) = (now(), device.time(), now());
        let took = after.wrapping_sub(before);
        (took, before.wrapping_add(took / 2).wrapping_sub(card))
    };
    if let Some(epoch) = timeline::epoch(device) {
        return epoch;
    }
    (0..5).map(reading).min().map_or(0, |(_, offset)| offset)
}

fn fill(cq: &mut ibv_cq_ex) {
    cq.start_poll = Some(start_poll);
    cq.next_poll = Some(next_poll);
    cq.end_poll = Some(end_poll);
    cq.read_opcode = Some(read_opcode);
    cq.read_vendor_err = Some(read_vendor_err);
    cq.read_byte_len = Some(read_byte_len);
    cq.read_imm_data = Some(read_imm_data);
    cq.read_qp_num = Some(read_qp_num);
    cq.read_src_qp = Some(read_src_qp);
    cq.read_wc_flags = Some(read_wc_flags);
    cq.read_slid = Some(read_slid);
    cq.read_sl = Some(read_sl);
    cq.read_dlid_path_bits = Some(read_dlid_path_bits);
    cq.read_cvlan = Some(read_cvlan);
    cq.read_flow_tag = Some(read_flow_tag);
    cq.read_completion_ts = Some(read_completion_ts);
    cq.read_completion_wallclock_ns = Some(read_completion_wallclock_ns);
}

/// The context is closed: polls refuse.
pub fn shut(cq: &mut ibv_cq_ex) {
    unsafe extern "C" fn start(_: *mut ibv_cq_ex, _: *mut ibv_poll_cq_attr) -> c_int {
        fork::refuse()
    }
    unsafe extern "C" fn next(_: *mut ibv_cq_ex) -> c_int {
        fork::refuse()
    }
    cq.start_poll = Some(start);
    cq.next_poll = Some(next);
}

/// # Safety
/// `cq` must be live, and its cursor held by this thread.
unsafe fn advance(cq: *mut ibv_cq_ex) -> Result<()> {
    // SAFETY: as the caller promises.
    let this = unsafe { Cq::of(cq.cast()) };
    let mut next = None;
    this.driver.poll(1, |wc| next = Some(wc)).map_err(|_| Errno::EIO)?;
    let Some(wc) = next else {
        return Err(Errno(libc::ENOENT));
    };
    // SAFETY: only the holder of the cursor touches these.
    unsafe {
        (*cq).wr_id = wc.wr_id;
        (*cq).status = wc.status.0.into();
        *this.cursor.wc.get() = Some(wc);
    }
    Ok(())
}

unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    // SAFETY: a program calls this with a live queue and valid attributes.
    let (cursor, mask) = unsafe { (&Cq::of(cq.cast()).cursor, (*attr).comp_mask) };
    if cursor.generation != fork::generation() {
        return fork::refuse();
    }
    if mask != 0 {
        return libc::EINVAL;
    }
    cursor.lock();
    // SAFETY: the cursor was locked above; on failure the program does not call ibv_end_poll.
    let result = status(|| unsafe { advance(cq) });
    if result != 0 {
        cursor.unlock();
    }
    result
}

unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    // SAFETY: between ibv_start_poll and ibv_end_poll, so the cursor is held.
    status(|| unsafe { advance(cq) })
}

unsafe extern "C" fn end_poll(cq: *mut ibv_cq_ex) {
    // SAFETY: a live queue whose cursor this thread holds.
    unsafe { Cq::of(cq.cast()) }.cursor.unlock();
}

/// Functions that read one field of the current completion.
macro_rules! fields {
    ($($name:ident -> $type:ty = |$wc:ident| $value:expr;)*) => {
        $(unsafe extern "C" fn $name(cq: *mut ibv_cq_ex) -> $type {
            // SAFETY: between ibv_start_poll and ibv_end_poll the cursor is this thread's.
            let current = unsafe { &*Cq::of(cq.cast()).cursor.wc.get() };
            current.as_ref().map_or(0, |$wc| $value)
        })*
    };
}

unsafe extern "C" fn read_completion_wallclock_ns(cq: *mut ibv_cq_ex) -> u64 {
    // SAFETY: as for the other fields.
    unsafe { read_completion_ts(cq).wrapping_add(Cq::of(cq.cast()).cursor.wallclock) }
}

fields! {
    read_opcode -> ibv_wc_opcode::Type = |wc| wc.opcode.0.into();
    read_vendor_err -> u32 = |wc| wc.vendor_err;
    read_byte_len -> u32 = |wc| wc.byte_len;
    read_imm_data -> __be32 = |wc| wc.imm;
    read_qp_num -> u32 = |wc| wc.qpn;
    read_src_qp -> u32 = |wc| wc.src_qp;
    read_wc_flags -> u32 = |wc| wc_flags(wc.flags);
    read_slid -> u32 = |_wc| 0;
    read_sl -> u8 = |wc| wc.sl;
    read_dlid_path_bits -> u8 = |_wc| 0;
    read_cvlan -> u16 = |wc| wc.vlan_tci;
    read_flow_tag -> u32 = |wc| wc.mark.unwrap_or_default();
    read_completion_ts -> u64 = |wc| wc.timestamp;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attr(wc_flags: u64, comp_mask: u32, flags: u32) -> ibv_cq_init_attr_ex {
        ibv_cq_init_attr_ex {
            cqe: 1,
            cq_context: std::ptr::null_mut(),
            channel: std::ptr::null_mut(),
            comp_vector: 0,
            wc_flags,
            comp_mask,
            flags,
            parent_domain: std::ptr::null_mut(),
        }
    }

    #[test]
    fn what_is_not_supported_is_refused() {
        assert_eq!(check(&attr(0x7f, 0, 0)), Ok(false));
        assert_eq!(check(&attr(1 << 7, 0, 0)), Ok(false));
        assert_eq!(check(&attr(0, 1, 1)), Ok(true));
        assert_eq!(check(&attr(0, 0, 2)), Ok(false), "flags do not count without the mask");
        assert_eq!(check(&attr(1 << 9, 0, 0)), Ok(false), "the tag of a flow rule");
        assert_eq!(check(&attr(1 << 10, 0, 0)), Err(Errno::EOPNOTSUPP), "tag matching");
        assert_eq!(check(&attr(1 << 11, 0, 0)), Ok(false), "wall clock");
        assert_eq!(check(&attr(1 << 12, 0, 0)), Err(Errno::EOPNOTSUPP), "what is not known");
        assert_eq!(check(&attr(0, 1, 2)), Err(Errno::EOPNOTSUPP), "ignoring overruns");
        assert_eq!(check(&attr(0, 2, 0)), Ok(false), "parent domain");
        assert_eq!(check(&attr(0, 4, 0)), Err(Errno::EOPNOTSUPP), "what is not known");
    }
}
