//! Completion queues.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::Arc;

use driver::{CqOptions, Wc, WcFlags};
use rdma_sys::*;

use super::acknowledged::{acknowledged, Acknowledged};
use super::card;
use super::context::Context;
use super::errno::{count, object, status, Errno, Result};
use super::event_state::Kind;
use super::object::{found_by, Object};
use super::{cq_ex, timeline};
use crate::abi::private::verbs_cq;

/// A completion queue.
#[repr(C)]
pub struct Cq {
    /// What programs see.
    pub verbs: verbs_cq,
    /// The driver's.
    pub driver: Arc<card::Cq>,
    /// The state of `ibv_start_poll` and its companions.
    pub cursor: cq_ex::Cursor,
}

found_by!(Cq, verbs: ibv_cq);

impl Object for Cq {
    fn shut(&mut self) {
        cq_ex::shut(&mut self.verbs.cq_ex);
    }
}

impl Cq {
    /// A completion queue with everything that plain and extended ones share.
    ///
    /// # Safety
    /// `context` must be open, and `channel` null or live.
    pub unsafe fn create(
        context: *mut ibv_context,
        entries: u32,
        channel: *mut ibv_comp_channel,
        vector: u32,
        options: CqOptions<card::Card>,
    ) -> Result<*mut Cq> {
        // SAFETY: as the caller promises.
        let (open, channel_fd) = unsafe { (Context::of(context), channel.as_ref().map(|c| c.fd)) };
        let driver = open.device.create_cq_with(entries, vector, options)?;
        // SAFETY: zero is a valid value of all fields; libibverbs sets the common ones.
        let mut verbs: verbs_cq = unsafe { std::mem::zeroed() };
        verbs.cq_ex.context = context;
        verbs.cq_ex.channel = channel;
        verbs.cq_ex.handle = driver.cqn();
        verbs.cq_ex.cqe = driver.entries() as c_int;
        let cqn = driver.cqn();
        let cq = Cq { verbs, driver, cursor: cq_ex::Cursor::default() };
        open.events.add(Kind::Cq, cqn, channel_fd, || open.objects.add(cq))
    }
}

/// `ibv_create_cq`.
///
/// # Safety
/// Called by libibverbs with an open context and a channel of it, or null.
pub unsafe extern "C" fn create_cq(
    context: *mut ibv_context,
    entries: c_int,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    object(|| {
        let entries = u32::try_from(entries).map_err(|_| Errno::EINVAL)?;
        let vector = u32::try_from(vector).map_err(|_| Errno::EINVAL)?;
        // SAFETY: as the caller promises.
        Ok(unsafe { Cq::create(context, entries, channel, vector, CqOptions::default()) }?.cast())
    })
}

/// `ibv_destroy_cq`: EBUSY while a QP uses it; waits for acknowledgements of its events.
///
/// # Safety
/// Called by libibverbs with a live completion queue.
pub unsafe extern "C" fn destroy_cq(cq: *mut ibv_cq) -> c_int {
    // SAFETY: a live completion queue.
    unsafe {
        let completions = Some(&raw const (*cq).comp_events_completed);
        let acknowledged = Acknowledged { completions, ..acknowledged!(cq, async_events_completed) };
        let open = Context::of((*cq).context);
        open.objects.end(cq.cast::<Cq>(), || {
            let this = Cq::of(cq);
            open.events.destroy(Kind::Cq, this.driver.cqn(), &acknowledged, || this.driver.destroy())
        })
    }
}

/// `ibv_resize_cq`.
///
/// # Safety
/// Called by libibverbs with a live completion queue.
pub unsafe extern "C" fn resize_cq(cq: *mut ibv_cq, entries: c_int) -> c_int {
    status(|| {
        let entries = u32::try_from(entries).map_err(|_| Errno::EINVAL)?;
        // SAFETY: a live completion queue.
        let driver = &unsafe { Cq::of(cq) }.driver;
        timeline::commands();
        driver.resize(entries)?;
        // SAFETY: as above; programs read this field only after the call.
        unsafe { (*cq).cqe = driver.entries() as c_int };
        Ok(())
    })
}

/// `ibv_modify_cq`: the moderation of its events, and nothing else.
///
/// # Safety
/// Called by a program with a live completion queue and valid attributes.
pub unsafe extern "C" fn modify_cq(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int {
    status(|| {
        const MODERATE: u32 = ibv_cq_attr_mask::IBV_CQ_ATTR_MODERATE.0;
        // SAFETY: as the caller promises.
        let (driver, attr) = unsafe { (&Cq::of(cq).driver, &*attr) };
        match attr.attr_mask {
            MODERATE => Ok(driver.moderate(attr.moderate.cq_count, attr.moderate.cq_period)?),
            0 => Err(Errno::EINVAL),
            _ => Err(Errno::EOPNOTSUPP),
        }
    })
}

/// `ibv_req_notify_cq`.
///
/// # Safety
/// Called by a program with a live completion queue.
pub unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    status(|| {
        // SAFETY: a live completion queue.
        unsafe { Cq::of(cq) }.driver.arm(solicited_only != 0);
        Ok(())
    })
}

/// The flags of a completion as verbs number them.
#[inline]
pub fn wc_flags(flags: WcFlags) -> u32 {
    let flag = |ours, theirs: u32| if flags.contains(ours) { theirs } else { 0 };
    flag(WcFlags::GRH, ibv_wc_flags::IBV_WC_GRH.0)
        | flag(WcFlags::WITH_IMM, ibv_wc_flags::IBV_WC_WITH_IMM.0)
        | flag(WcFlags::WITH_INV, ibv_wc_flags::IBV_WC_WITH_INV.0)
        | flag(WcFlags::IP_CSUM_OK | WcFlags::L4_CSUM_OK, ibv_wc_flags::IBV_WC_IP_CSUM_OK.0)
}

/// A completion as verbs lay it out. Opcodes and status codes have the same numbers.
#[inline]
fn ibv_wc_of(wc: &Wc) -> ibv_wc {
    ibv_wc {
        wr_id: wc.wr_id,
        status: wc.status.0.into(),
        opcode: wc.opcode.0.into(),
        vendor_err: wc.vendor_err,
        byte_len: wc.byte_len,
        imm_data_invalidated_rkey_union: imm_data_invalidated_rkey_union_t { imm_data: wc.imm },
        qp_num: wc.qpn,
        src_qp: wc.src_qp,
        wc_flags: wc_flags(wc.flags),
        pkey_index: wc.pkey_index,
        slid: 0,
        sl: wc.sl,
        dlid_path_bits: 0,
    }
}

/// `ibv_poll_cq`.
///
/// # Safety
/// Called by a program with a live completion queue and room for `entries` completions.
pub unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int {
    count(|| {
        let room = usize::try_from(entries).map_err(|_| Errno::EINVAL)?;
        let mut out = wc;
        // SAFETY: a live completion queue.
        let polled = unsafe { Cq::of(cq) }.driver.poll(room, |wc| {
            // SAFETY: the driver hands over at most `room` completions.
            unsafe {
                out.write(ibv_wc_of(&wc));
                out = out.add(1);
            }
        });
        polled.map_err(|_| Errno::EIO)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fpga_regs::{CqeOpcode, CqeStatus};

    #[test]
    fn flags_have_the_numbers_of_verbs() {
        assert_eq!(wc_flags(WcFlags::empty()), 0);
        assert_eq!(wc_flags(WcFlags::GRH), 1);
        assert_eq!(wc_flags(WcFlags::WITH_IMM), 2);
        assert_eq!(wc_flags(WcFlags::WITH_INV), 8);
        assert_eq!(wc_flags(WcFlags::RECV | WcFlags::L4_CSUM_OK), 0);
        assert_eq!(wc_flags(WcFlags::IP_CSUM_OK | WcFlags::L4_CSUM_OK), 4);
    }

    #[test]
    fn codes_have_the_numbers_of_verbs() {
        let pairs = [
            (CqeOpcode::SEND, ibv_wc_opcode::IBV_WC_SEND),
            (CqeOpcode::RDMA_WRITE, ibv_wc_opcode::IBV_WC_RDMA_WRITE),
            (CqeOpcode::RDMA_READ, ibv_wc_opcode::IBV_WC_RDMA_READ),
            (CqeOpcode::COMP_SWAP, ibv_wc_opcode::IBV_WC_COMP_SWAP),
            (CqeOpcode::FETCH_ADD, ibv_wc_opcode::IBV_WC_FETCH_ADD),
            (CqeOpcode::BIND_MW, ibv_wc_opcode::IBV_WC_BIND_MW),
            (CqeOpcode::LOCAL_INV, ibv_wc_opcode::IBV_WC_LOCAL_INV),
            (CqeOpcode::TSO, ibv_wc_opcode::IBV_WC_TSO),
            (CqeOpcode::RECV, ibv_wc_opcode::IBV_WC_RECV),
            (CqeOpcode::RECV_RDMA_WITH_IMM, ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM),
        ];
        for (ours, theirs) in pairs {
            assert_eq!(u32::from(ours.0), theirs, "{ours}");
        }
        let pairs = [
            (CqeStatus::WR_FLUSH_ERR, ibv_wc_status::IBV_WC_WR_FLUSH_ERR),
            (CqeStatus::REM_ACCESS_ERR, ibv_wc_status::IBV_WC_REM_ACCESS_ERR),
            (CqeStatus::RETRY_EXC_ERR, ibv_wc_status::IBV_WC_RETRY_EXC_ERR),
            (CqeStatus::GENERAL_ERR, ibv_wc_status::IBV_WC_GENERAL_ERR),
        ];
        for (ours, theirs) in pairs {
            assert_eq!(u32::from(ours.0), theirs, "{ours}");
        }
    }
}
