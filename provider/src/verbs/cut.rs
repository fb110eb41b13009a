//! TCP that the card cuts into frames: the request `IBV_WR_TSO`.
#![allow(unsafe_code)]

use driver::{Data, Segmented, SendPost, SendWr};
use fpga_regs::WqeOpcode;
use rdma_sys::ibv_send_wr;

use super::card::Card;
use super::errno::{Errno, Result};
use super::post::{refused, send_flags, sges, INLINE};

/// Posts TCP that the card cuts into frames. Checksums are always filled in, asked for or not.
///
/// # Safety
/// `wr` must be a valid work request of TSO for a raw packet queue pair.
#[cold]
pub unsafe fn push(wr: &ibv_send_wr, post: &mut SendPost<'_, Card>) -> Result<()> {
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
