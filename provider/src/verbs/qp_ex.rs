//! The `ibv_wr_*` calls: a chain of work requests built call by call.
//!
//! `ibv_wr_start` takes the send queue's lock and `ibv_wr_complete` or `ibv_wr_abort` gives it back;
//! between them the queue pair's [`Builder`] belongs to the thread that holds it.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::slice;

use driver::{SendPost, SendWr, Sge};
use fpga_regs::{QpType, WqeOpcode, MAX_INLINE, MAX_SGE, MAX_TSO_HEADER};
use rdma_sys::*;

use super::ah::driver_ah;
use super::card::Card;
use super::errno::{set_errno, Errno, Result};
use super::fork;
use super::mw::{bind_of, bound_rkey};
use super::post::{send_flags, CHECKSUMS, IP_CSUM};
use super::qp::Qp;
use super::wr_builder::{Builder, Cut, Parts};

/// # Safety
/// `qp` must be live, and this thread between `ibv_wr_start` and `ibv_wr_complete`.
#[inline]
unsafe fn builder<'a>(qp: *mut ibv_qp_ex) -> &'a mut Builder {
    // SAFETY: as the caller promises: the lock of the send queue makes it exclusive.
    unsafe { &mut *Qp::of(qp.cast()).builder.get() }
}

/// # Safety
/// As for [`builder`].
#[inline]
unsafe fn begin(qp: *mut ibv_qp_ex, opcode: WqeOpcode, change: impl FnOnce(&mut SendWr<'static>)) {
    // SAFETY: as the caller promises.
    let (builder, wr_id, flags) = unsafe { (builder(qp), (*qp).wr_id, (*qp).wr_flags) };
    builder.flush();
    let mut wr = SendWr { wr_id, opcode, flags: send_flags(flags), ..SendWr::default() };
    change(&mut wr);
    (builder.parts, builder.cut) = (Parts::None, None);
    builder.wr = Some(wr);
}

unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    // SAFETY: a live queue pair. Its driver object does not move and lives as long as the builder,
    // so the borrow may be called static; the builder is ours once the lock is taken.
    unsafe {
        let this = Qp::of(qp.cast());
        if (*this.builder.get()).generation != fork::generation() {
            // In the child of a fork: nothing is locked, and every call until complete fails.
            (*this.builder.get()).error = Some(Errno::EIO);
            return;
        }
        let post = std::mem::transmute::<SendPost<'_, Card>, SendPost<'static, Card>>(this.driver.send());
        let builder = &mut *this.builder.get();
        builder.post = Some(post);
        builder.wr = None;
        builder.error = None;
    }
}

unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: after ibv_wr_start by this thread.
    let builder = unsafe { builder(qp) };
    if builder.generation != fork::generation() {
        return fork::refuse();
    }
    builder.flush();
    // From the moment that the post is gone the builder may belong to another thread.
    let (error, post) = (builder.error.take(), builder.post.take());
    let rung = catch_unwind(AssertUnwindSafe(|| match (error, post) {
        (None, Some(mut post)) => {
            post.ring();
            0
        }
        (error, _) => error.unwrap_or(Errno::EINVAL).0,
    }));
    let result = rung.unwrap_or(libc::EIO);
    if result != 0 {
        set_errno(Errno(result));
    }
    result
}

unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    // SAFETY: after ibv_wr_start by this thread.
    let builder = unsafe { builder(qp) };
    builder.wr = None;
    builder.error = None;
    // Out of the builder first: dropping it gives the lock, and the builder with it, away.
    drop(builder.post.take());
}

/// Calls that begin a work request and set fields of it.
macro_rules! requests {
    ($($name:ident($($argument:ident: $type:ty),*) = $opcode:ident { $($field:ident: $value:expr),* };)*) => {
        $(unsafe extern "C" fn $name(qp: *mut ibv_qp_ex $(, $argument: $type)*) {
            // SAFETY: between ibv_wr_start and ibv_wr_complete, as in all functions below.
            unsafe { begin(qp, WqeOpcode::$opcode, |_wr| { $(_wr.$field = $value;)* }) };
        })*
    };
}

requests! {
    wr_rdma_write(key: u32, at: u64) = WRITE { rkey: key, remote_addr: at };
    wr_rdma_write_imm(key: u32, at: u64, imm: __be32) = WRITE_WITH_IMM { rkey: key, remote_addr: at, imm: imm };
    wr_rdma_read(key: u32, at: u64) = READ { rkey: key, remote_addr: at };
    wr_send() = SEND {};
    wr_send_imm(imm: __be32) = SEND_WITH_IMM { imm: imm };
    wr_send_inv(key: u32) = SEND_WITH_INV { imm: key };
    wr_local_inv(key: u32) = LOCAL_INV { imm: key };
    wr_atomic_cmp_swp(key: u32, at: u64, compare: u64, swap: u64)
        = CMP_SWAP { rkey: key, remote_addr: at, compare_add: compare, swap: swap };
    wr_atomic_fetch_add(key: u32, at: u64, add: u64) = FETCH_ADD { rkey: key, remote_addr: at, compare_add: add };
}

/// `ibv_wr_send` of a raw packet queue pair.
unsafe extern "C" fn wr_send_frame(qp: *mut ibv_qp_ex) {
    // SAFETY: see `requests`.
    unsafe {
        let checksums = (*qp).wr_flags & IP_CSUM != 0;
        begin(qp, WqeOpcode::RAW_ETH, |wr| {
            if checksums {
                wr.flags |= CHECKSUMS;
            }
        });
    }
}

unsafe extern "C" fn wr_send_tso(qp: *mut ibv_qp_ex, header: *mut c_void, length: u16, mss: u16) {
    // SAFETY: see `requests`.
    unsafe { begin(qp, WqeOpcode::RAW_TSO, |_| {}) };
    // SAFETY: as above.
    let builder = unsafe { builder(qp) };
    let length = usize::from(length);
    if length > MAX_TSO_HEADER || header.is_null() {
        return builder.fail(Errno::EINVAL);
    }
    // The program may use its buffer again at once.
    // SAFETY: readable for its length, and there is room.
    unsafe { builder.bytes.as_mut_ptr().copy_from(header.cast(), length) };
    builder.cut = Some(Cut { mss, header: length });
}

unsafe extern "C" fn wr_bind_mw(
    qp: *mut ibv_qp_ex,
    mw: *mut ibv_mw,
    rkey: u32,
    info: *const ibv_mw_bind_info,
) {
    // SAFETY: see `requests`; the window and the region are live.
    unsafe {
        match bind_of(mw, &*info, ibv_mw_type::IBV_MW_TYPE_2) {
            Ok(bind) => begin(qp, WqeOpcode::BIND_MW, |wr| {
                wr.imm = bound_rkey(&bind, rkey);
                wr.bind = Some(bind);
            }),
            Err(error) => builder(qp).fail(error),
        }
    }
}

unsafe extern "C" fn wr_set_ud_addr(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, remote_qpn: u32, remote_qkey: u32) {
    // SAFETY: see `requests`; the address handle lives until the chain is complete.
    unsafe {
        let ah = driver_ah(ah);
        builder(qp).set(|wr| {
            wr.ah = ah;
            wr.remote_qpn = remote_qpn;
            wr.remote_qkey = remote_qkey;
        });
    }
}

unsafe extern "C" fn wr_set_xrc_srqn(qp: *mut ibv_qp_ex, remote_srqn: u32) {
    // SAFETY: see `requests`.
    unsafe { builder(qp).set(|wr| wr.remote_srqn = remote_srqn) };
}

unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp_ex, lkey: u32, addr: u64, length: u32) {
    // SAFETY: see `requests`.
    let builder = unsafe { builder(qp) };
    builder.sges[0] = Sge { addr, length, lkey };
    builder.parts = Parts::Sges(1);
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_sge) {
    // SAFETY: see `requests`.
    let builder = unsafe { builder(qp) };
    if count > MAX_SGE {
        return builder.fail(Errno::EINVAL);
    }
    if count != 0 {
        // SAFETY: `count` elements are readable, and laid out as the driver's (see post.rs).
        builder.sges[..count].copy_from_slice(unsafe { slice::from_raw_parts(list.cast(), count) });
    }
    builder.parts = Parts::Sges(count);
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp_ex, addr: *mut c_void, length: usize) {
    let buffer = ibv_data_buf { addr, length };
    // SAFETY: one valid buffer.
    unsafe { wr_set_inline_data_list(qp, 1, &buffer) };
}

unsafe extern "C" fn wr_set_inline_data_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_data_buf) {
    // SAFETY: see `requests`.
    let builder = unsafe { builder(qp) };
    if builder.cut.is_some() {
        // The room is that of its headers.
        return builder.fail(Errno::EINVAL);
    }
    let mut end = 0;
    for index in 0..count {
        // SAFETY: `count` buffers, each readable for its length.
        let buffer = unsafe { &*list.add(index) };
        if buffer.length > MAX_INLINE - end {
            return builder.fail(Errno::EINVAL);
        }
        // The program may use its buffer again at once.
        // SAFETY: as above, and there is room.
        unsafe {
            builder.bytes[end..].as_mut_ptr().copy_from(buffer.addr.cast(), buffer.length);
        }
        end += buffer.length;
    }
    builder.parts = Parts::Inline(end);
}

/// The operations that a type of queue pair has.
fn supported(qp_type: QpType) -> u64 {
    use ibv_qp_create_send_ops_flags as op;
    let send = op::IBV_QP_EX_WITH_SEND | op::IBV_QP_EX_WITH_SEND_WITH_IMM;
    let unreliable = send
        | op::IBV_QP_EX_WITH_SEND_WITH_INV
        | op::IBV_QP_EX_WITH_RDMA_WRITE
        | op::IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
        | op::IBV_QP_EX_WITH_LOCAL_INV
        | op::IBV_QP_EX_WITH_BIND_MW;
    let reliable = unreliable
        | op::IBV_QP_EX_WITH_RDMA_READ
        | op::IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
        | op::IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    let ops = match qp_type {
        QpType::RC | QpType::XRC_SEND => reliable,
        QpType::UC => unreliable,
        QpType::UD => send,
        QpType::RAW_PACKET => op::IBV_QP_EX_WITH_SEND | op::IBV_QP_EX_WITH_TSO,
        _ => return 0,
    };
    ops.0.into()
}

/// Sets the functions for the operations asked for; EOPNOTSUPP if one of them is not supported.
pub fn fill(qp: &mut ibv_qp_ex, qp_type: QpType, send_ops: u64) -> Result<()> {
    use ibv_qp_create_send_ops_flags as op;
    Errno::EOPNOTSUPP.when(send_ops & !supported(qp_type) != 0)?;
    macro_rules! operation {
        ($($flag:ident => $name:ident;)*) => {
            $(if send_ops & u64::from(op::$flag.0) != 0 { qp.$name = Some($name); })*
        };
    }
    operation! {
        IBV_QP_EX_WITH_RDMA_WRITE => wr_rdma_write;
        IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM => wr_rdma_write_imm;
        IBV_QP_EX_WITH_SEND => wr_send;
        IBV_QP_EX_WITH_SEND_WITH_IMM => wr_send_imm;
        IBV_QP_EX_WITH_SEND_WITH_INV => wr_send_inv;
        IBV_QP_EX_WITH_RDMA_READ => wr_rdma_read;
        IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP => wr_atomic_cmp_swp;
        IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD => wr_atomic_fetch_add;
        IBV_QP_EX_WITH_LOCAL_INV => wr_local_inv;
        IBV_QP_EX_WITH_BIND_MW => wr_bind_mw;
        IBV_QP_EX_WITH_TSO => wr_send_tso;
    }
    if qp_type == QpType::RAW_PACKET && qp.wr_send.is_some() {
        qp.wr_send = Some(wr_send_frame);
    }
    if qp_type == QpType::UD {
        qp.wr_set_ud_addr = Some(wr_set_ud_addr);
    }
    if qp_type == QpType::XRC_SEND {
        qp.wr_set_xrc_srqn = Some(wr_set_xrc_srqn);
    }
    qp.wr_set_sge = Some(wr_set_sge);
    qp.wr_set_sge_list = Some(wr_set_sge_list);
    qp.wr_set_inline_data = Some(wr_set_inline_data);
    qp.wr_set_inline_data_list = Some(wr_set_inline_data_list);
    qp.wr_start = Some(wr_start);
    qp.wr_complete = Some(wr_complete);
    qp.wr_abort = Some(wr_abort);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_a_type_lacks_are_refused() {
        // SAFETY: zero is a valid value of all fields; functions are absent.
        let mut qp: ibv_qp_ex = unsafe { std::mem::zeroed() };
        let read = ibv_qp_create_send_ops_flags::IBV_QP_EX_WITH_RDMA_READ.0.into();
        assert_eq!(fill(&mut qp, QpType::UD, read), Err(Errno::EOPNOTSUPP));
        assert_eq!(fill(&mut qp, QpType::UC, read), Err(Errno::EOPNOTSUPP));
        assert_eq!(fill(&mut qp, QpType::RC, 1 << 10), Err(Errno::EOPNOTSUPP), "TSO");
        assert!(qp.wr_start.is_none());
        assert_eq!(fill(&mut qp, QpType::RC, read), Ok(()));
        assert!(qp.wr_rdma_read.is_some() && qp.wr_rdma_write.is_none() && qp.wr_start.is_some());
        assert!(qp.wr_set_ud_addr.is_none());
        let tso = ibv_qp_create_send_ops_flags::IBV_QP_EX_WITH_TSO.0.into();
        assert_eq!(fill(&mut qp, QpType::RAW_PACKET, read), Err(Errno::EOPNOTSUPP));
        assert_eq!(fill(&mut qp, QpType::RAW_PACKET, tso), Ok(()));
        assert!(qp.wr_send_tso.is_some() && qp.wr_send.is_none());
    }
}
