//! `ibv_bind_mw`: binding windows of type 1.
#![allow(unsafe_code)]

use std::ffi::c_int;

use driver::SendWr;
use fpga_regs::{Access, WqeOpcode};
use rdma_sys::{ibv_mw, ibv_mw_bind, ibv_mw_type, ibv_qp};

use super::errno::{status, Errno};
use super::mr::{kind_of, TYPE_MR};
use super::mw::bind_of;
use super::post::send_flags;
use super::qp::Qp;

const ZERO_BASED: c_int = Access::ZERO_BASED.bits() as c_int;

/// `ibv_bind_mw`, whose window has its new R_Key when this returns. libibverbs lets only type 1 through.
///
/// # Safety
/// Called by a program with a live queue pair and window.
pub unsafe extern "C" fn bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, bind: *mut ibv_mw_bind) -> c_int {
    status(|| {
        // SAFETY: as the caller promises.
        let (qp, bind) = unsafe { (Qp::of(qp), &*bind) };
        // SAFETY: as above.
        let what = unsafe { bind_of(mw, &bind.bind_info, ibv_mw_type::IBV_MW_TYPE_1) }?;
        let mr = bind.bind_info.mr;
        // SAFETY: as above.
        let region = (!mr.is_null()).then(|| unsafe { kind_of(mr) });
        match region {
            Some((kind, _)) if kind != TYPE_MR => return Err(Errno::EOPNOTSUPP),
            Some((_, access)) if access & ZERO_BASED != 0 => return Err(Errno::EINVAL),
            _ if what.access.contains(Access::ZERO_BASED) => return Err(Errno::EINVAL),
            _ => {}
        }
        // Another variant: its lowest byte.
        let rkey = what.mw_rkey & !0xff | what.mw_rkey.wrapping_add(1) & 0xff;
        let mut post = qp.driver.send();
        let flags = send_flags(bind.send_flags);
        let (wr_id, opcode) = (bind.wr_id, WqeOpcode::BIND_MW);
        let wr = SendWr { wr_id, opcode, flags, imm: rkey, bind: Some(what), ..SendWr::default() };
        post.push(&wr).map_err(|error| Errno(error.errno()))?;
        post.ring();
        // SAFETY: as above.
        unsafe { (*mw).rkey = rkey };
        Ok(())
    })
}
