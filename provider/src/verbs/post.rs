//! The data path: chains of work requests, translated one by one, one doorbell for each chain.
//!
//! Nothing here allocates, locks or calls the system; what there is of that is the driver's.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::mem::{align_of, offset_of, size_of};

use driver::{Data, InlineSges, PostError, Segmented, SendFlags, SendPost, SendWr, Sge};
use fpga_regs::WqeOpcode;
use rdma_sys::*;

use super::ah::driver_ah;
use super::card::Card;
use super::errno::{status, Errno, Result};
use super::mw::{bind_of, bound_rkey};
use super::qp::Qp;
use super::srq::Srq;

// The element lists of programs are handed to the driver as they are.
const _: () = {
    assert!(size_of::<ibv_sge>() == size_of::<Sge>() && align_of::<ibv_sge>() == align_of::<Sge>());
    assert!(offset_of!(ibv_sge, addr) == offset_of!(Sge, addr));
    assert!(offset_of!(ibv_sge, length) == offset_of!(Sge, length));
    assert!(offset_of!(ibv_sge, lkey) == offset_of!(Sge, lkey));
};

/// More elements than any queue takes: the driver refuses such a list, but its length is no longer negative or absurd.
const FAR_TOO_MANY: usize = 1 << 16;

/// The card's opcode for each of `enum ibv_wr_opcode`.
const OPCODES: [WqeOpcode; 10] = [
    WqeOpcode::WRITE,
    WqeOpcode::WRITE_WITH_IMM,
    WqeOpcode::SEND,
    WqeOpcode::SEND_WITH_IMM,
    WqeOpcode::READ,
    WqeOpcode::CMP_SWAP,
    WqeOpcode::FETCH_ADD,
    WqeOpcode::LOCAL_INV,
    WqeOpcode::BIND_MW,
    WqeOpcode::SEND_WITH_INV,
];

const INLINE: u32 = ibv_send_flags::IBV_SEND_INLINE.0;
/// `IBV_SEND_IP_CSUM`.
pub const IP_CSUM: u32 = ibv_send_flags::IBV_SEND_IP_CSUM.0;
/// What it asks for: of IPv4, and of TCP or UDP.
pub const CHECKSUMS: SendFlags = SendFlags::IP_CSUM.union(SendFlags::L4_CSUM);

/// The driver's flags for those of `enum ibv_send_flags`, without those that are no WQE flags.
#[inline]
pub fn send_flags(flags: u32) -> SendFlags {
    // FENCE, SIGNALED, SOLICITED are bits 0, 1, 2 there and 2, 0, 1 here.
    SendFlags::from_bits_truncate((flags >> 1 & 3 | (flags & 1) << 2) as u8)
}

/// A list of elements as the driver takes it.
///
/// # Safety
/// `list` must be readable for `count` elements as long as the result lives.
#[inline]
pub unsafe fn sges<'a>(list: *const ibv_sge, count: c_int) -> Result<&'a [Sge]> {
    let count = count as usize;
    if count == 0 {
        return Ok(&[]);
    }
    // A negative count is a huge one.
    if count > FAR_TOO_MANY || list.is_null() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: as the caller promises; both types have one layout, see above.
    Ok(unsafe { std::slice::from_raw_parts(list.cast(), count) })
}

/// Posts what most requests are, if this is one: a WRITE or SEND of one element on a connected queue pair.
///
/// # Safety
/// As [`translate`].
#[inline(always)]
unsafe fn push_plain(
    wr: &ibv_send_wr,
    post: &mut SendPost<'_, Card>,
) -> Option<std::result::Result<(), PostError>> {
    if !post.connected() || wr.num_sge != 1 || wr.send_flags & (INLINE | IP_CSUM) != 0 || wr.sg_list.is_null()
    {
        return None;
    }
    // SAFETY: as the caller promises.
    unsafe {
        match wr.opcode {
            ibv_wr_opcode::IBV_WR_RDMA_WRITE => Some(push_one::<{ WqeOpcode::WRITE.0 }>(wr, post)),
            ibv_wr_opcode::IBV_WR_SEND => Some(push_one::<{ WqeOpcode::SEND.0 }>(wr, post)),
            _ => None,
        }
    }
}

/// Posts a request of one element whose opcode the compiler knows, and so all but the numbers.
///
/// # Safety
/// As [`translate`], and the list has an element.
#[inline(always)]
unsafe fn push_one<const OPCODE: u8>(
    wr: &ibv_send_wr,
    post: &mut SendPost<'_, Card>,
) -> std::result::Result<(), PostError> {
    // SAFETY: the caller's request has a valid list of one element; both types have one layout, see above. Every
    // number is valid in the union.
    let (sge, rdma) = unsafe { (&*wr.sg_list.cast::<Sge>(), wr.wr.rdma) };
    post.push(&SendWr {
        wr_id: wr.wr_id,
        opcode: WqeOpcode(OPCODE),
        flags: send_flags(wr.send_flags),
        remote_addr: rdma.remote_addr,
        rkey: rdma.rkey,
        data: Data::Sges(std::slice::from_ref(sge)),
        ..SendWr::default()
    })
}

/// Hands a request to `push` as the driver's. Not as a result: that would be copied from place to place.
///
/// # Safety
/// `wr` must be a valid work request for a queue pair of type `qp_type`.
#[inline]
unsafe fn translate<'a>(
    wr: &'a ibv_send_wr,
    qp_type: ibv_qp_type::Type,
    push: impl FnOnce(&SendWr<'a>) -> std::result::Result<(), PostError>,
) -> Result<()> {
    let opcode = *OPCODES.get(wr.opcode as usize).ok_or(Errno::EINVAL)?;
    // SAFETY: every number is valid here.
    let imm = unsafe { wr.imm_data_invalidated_rkey_union.imm_data };
    let mut out =
        SendWr { wr_id: wr.wr_id, opcode, flags: send_flags(wr.send_flags), imm, ..SendWr::default() };
    // SAFETY: the caller's request has a valid list of elements; inline ones are plain memory.
    unsafe {
        let sges = sges(wr.sg_list, wr.num_sge)?;
        out.data =
            if wr.send_flags & INLINE == 0 { Data::Sges(sges) } else { Data::Inline(InlineSges::new(sges)) };
    }
    // SAFETY: the type of the queue pair and the opcode say which part of the unions is set.
    unsafe {
        match (qp_type, opcode) {
            (ibv_qp_type::IBV_QPT_RC | ibv_qp_type::IBV_QPT_UC | ibv_qp_type::IBV_QPT_XRC_SEND, _) => {
                match opcode {
                    WqeOpcode::WRITE | WqeOpcode::WRITE_WITH_IMM | WqeOpcode::READ => {
                        out.remote_addr = wr.wr.rdma.remote_addr;
                        out.rkey = wr.wr.rdma.rkey;
                    }
                    WqeOpcode::CMP_SWAP | WqeOpcode::FETCH_ADD => {
                        let atomic = &wr.wr.atomic;
                        out.remote_addr = atomic.remote_addr;
                        out.rkey = atomic.rkey;
                        out.compare_add = atomic.compare_add;
                        out.swap = atomic.swap;
                    }
                    WqeOpcode::BIND_MW => {
                        let bind = &wr.bind_mw_tso_union.bind_mw;
                        let (mw, asked) = (bind.mw, bind.rkey);
                        let bind = bind_of(mw, &bind.bind_info, ibv_mw_type::IBV_MW_TYPE_2)?;
                        out.imm = bound_rkey(&bind, asked);
                        out.bind = Some(bind);
                    }
                    _ => {}
                }
            }
            (ibv_qp_type::IBV_QPT_UD, _) => {
                let ud = &wr.wr.ud;
                out.ah = driver_ah(ud.ah);
                out.remote_qpn = ud.remote_qpn;
                out.remote_qkey = ud.remote_qkey;
            }
            (ibv_qp_type::IBV_QPT_RAW_PACKET, WqeOpcode::SEND) => out.opcode = WqeOpcode::RAW_ETH,
            _ => return Err(Errno::EINVAL),
        }
    }
    if qp_type == ibv_qp_type::IBV_QPT_XRC_SEND {
        // SAFETY: the requests of this type have this part set.
        out.remote_srqn = unsafe { wr.qp_type.xrc.remote_srqn };
    }
    if wr.send_flags & IP_CSUM != 0 {
        // Those of RoCE packets are always right: nothing to ask for.
        out.flags |= (out.opcode == WqeOpcode::RAW_ETH).then_some(CHECKSUMS).ok_or(Errno::EINVAL)?;
    }
    push(&out).map_err(refused)
}

/// Posts TCP that the card cuts into frames. Checksums are always filled in, asked for or not.
///
/// # Safety
/// `wr` must be a valid work request of TSO for a raw packet queue pair.
#[cold]
unsafe fn push_segmented(wr: &ibv_send_wr, post: &mut SendPost<'_, Card>) -> Result<()> {
    if wr.send_flags & INLINE != 0 {
        return Err(Errno::EINVAL);
    }
    // SAFETY: as the caller promises: the headers are plain memory.
    let (header, mss, data) = unsafe {
        let tso = &wr.bind_mw_tso_union.tso;
        if tso.hdr.is_null() {
            return Err(Errno::EINVAL);
        }
        let header = std::slice::from_raw_parts(tso.hdr.cast(), tso.hdr_sz.into());
        (header, tso.mss, sges(wr.sg_list, wr.num_sge)?)
    };
    let wr = SendWr {
        wr_id: wr.wr_id,
        opcode: WqeOpcode::RAW_TSO,
        flags: send_flags(wr.send_flags),
        data: Data::Segmented(&Segmented { header, mss, data }),
        ..SendWr::default()
    };
    post.push(&wr).map_err(refused)
}

/// The general way, apart from the frequent one: the chain goes there and back by value, so that it need not be in
/// memory otherwise.
///
/// # Safety
/// As [`translate`].
#[inline(never)]
unsafe fn push_any<'a>(
    wr: &ibv_send_wr,
    qp_type: ibv_qp_type::Type,
    mut post: SendPost<'a, Card>,
) -> (SendPost<'a, Card>, Result<()>) {
    let cut = wr.opcode == ibv_wr_opcode::IBV_WR_TSO && qp_type == ibv_qp_type::IBV_QPT_RAW_PACKET;
    // SAFETY: as the caller promises.
    let pushed = unsafe {
        match cut {
            true => push_segmented(wr, &mut post),
            false => translate(wr, qp_type, |wr| post.push(wr)),
        }
    };
    (post, pushed)
}

/// What posting fails with.
#[cold]
pub fn refused(error: PostError) -> Errno {
    Errno(error.errno())
}

/// `ibv_post_send`: on an error the requests before `*bad_wr` are posted.
///
/// # Safety
/// Called by a program with a live queue pair and a valid chain of work requests.
pub unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    status(move || {
        // SAFETY: a live queue pair.
        let this = unsafe { Qp::of(qp) };
        let mut post = this.driver.send();
        let mut next = wr;
        let mut result = Ok(());
        // SAFETY: the chain ends with null, and each of its requests is valid.
        while let Some(wr) = unsafe { next.as_ref() } {
            // SAFETY: as above.
            let pushed = match unsafe { push_plain(wr, &mut post) } {
                Some(pushed) => pushed.map_err(refused),
                None => {
                    let pushed;
                    // SAFETY: as above.
                    (post, pushed) = unsafe { push_any(wr, (*qp).qp_type, post) };
                    pushed
                }
            };
            if let Err(error) = pushed {
                // SAFETY: programs give a place for this.
                unsafe { *bad_wr = next };
                result = Err(error);
                break;
            }
            next = wr.next;
        }
        post.ring();
        result
    })
}

/// All kinds of receive queue.
macro_rules! post_receives {
    ($chain:expr, $wr:ident, $bad_wr:ident) => {{
        let mut post = $chain;
        let mut next = $wr;
        let mut result = Ok(());
        // SAFETY: the chain ends with null, and each of its requests is valid.
        while let Some(wr) = unsafe { next.as_ref() } {
            // SAFETY: as above.
            let pushed = unsafe { sges(wr.sg_list, wr.num_sge) }
                .and_then(|sges| post.push(wr.wr_id, sges).map_err(refused));
            if let Err(error) = pushed {
                // SAFETY: programs give a place for this.
                unsafe { *$bad_wr = next };
                result = Err(error);
                break;
            }
            next = wr.next;
        }
        post.ring();
        result
    }};
}

pub(super) use post_receives;

/// `ibv_post_recv`; EINVAL where receives come from an SRQ.
///
/// # Safety
/// Called by a program with a live queue pair and a valid chain of work requests.
pub unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    status(|| {
        // SAFETY: a live queue pair.
        let this = unsafe { Qp::of(qp) };
        post_receives!(this.driver.recv(), wr, bad_wr)
    })
}

/// `ibv_post_srq_recv`.
///
/// # Safety
/// Called by a program with a live queue and a valid chain of work requests.
pub unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    status(|| {
        // SAFETY: a live queue.
        let this = unsafe { Srq::of(srq) };
        post_receives!(this.driver.post(), wr, bad_wr)
    })
}

#[cfg(test)]
#[path = "post_tests.rs"]
mod tests;
