//! Modify and query of queue pairs: attributes by name, masks by number.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::PoisonError;

use driver::{AttrMask, QpAttr, QpCaps};
use fpga_regs::{Access, QpState};
use rdma_sys::*;

use super::ah::{attr_of, ibv_attr_of};
use super::errno::{status, Errno, Result};
use super::qp::{ibv_caps_of, Qp};
use super::xrc::own_attributes;

fn state_of(state: ibv_qp_state::Type) -> Result<QpState> {
    match state {
        ibv_qp_state::IBV_QPS_RESET..=ibv_qp_state::IBV_QPS_ERR => Ok(QpState(state as u8)),
        _ => Err(Errno::EINVAL),
    }
}

/// The access flags that mean something on a QP: local write, remote write, read, atomic, and windows.
const QP_RIGHTS: u8 = Access::LOCAL_WRITE.bits()
    | Access::REMOTE_WRITE.bits()
    | Access::REMOTE_READ.bits()
    | Access::REMOTE_ATOMIC.bits()
    | Access::MW_BIND.bits();

/// The attributes that `mask` names; the others may be garbage and are not read.
fn driver_attr(attr: &ibv_qp_attr, mask: AttrMask) -> Result<QpAttr> {
    let mut out = QpAttr::default();
    if mask.contains(AttrMask::STATE) {
        out.state = state_of(attr.qp_state)?;
    }
    if mask.contains(AttrMask::CUR_STATE) {
        out.cur_state = state_of(attr.cur_qp_state)?;
    }
    if mask.contains(AttrMask::PATH_MTU) {
        out.path_mtu = match attr.path_mtu {
            ibv_mtu::IBV_MTU_256..=ibv_mtu::IBV_MTU_4096 => attr.path_mtu as u8,
            _ => return Err(Errno::EINVAL),
        };
    }
    if mask.contains(AttrMask::ACCESS_FLAGS) {
        // Cards pick the rights that a QP has and take no notice of flags that only mean something for memory.
        out.access = Access((attr.qp_access_flags as u8) & QP_RIGHTS);
    }
    if mask.contains(AttrMask::AV) {
        out.ah = attr_of(&attr.ah_attr);
    }
    if mask.contains(AttrMask::RATE_LIMIT) {
        out.rate_limit = attr.rate_limit;
    }
    // Fields of a card's context are narrower than those of the structure; cards take their bits and no notice of the rest.
    out.rq_psn = attr.rq_psn & 0xff_ffff;
    out.sq_psn = attr.sq_psn & 0xff_ffff;
    out.dest_qpn = attr.dest_qp_num & 0xff_ffff;
    out.min_rnr_timer = attr.min_rnr_timer & 0x1f;
    out.timeout = attr.timeout & 0x1f;
    out.retry_cnt = attr.retry_cnt & 7;
    out.rnr_retry = attr.rnr_retry & 7;
    out.qkey = attr.qkey;
    out.pkey_index = attr.pkey_index;
    out.port = attr.port_num;
    out.max_rd_atomic = attr.max_rd_atomic;
    out.max_dest_rd_atomic = attr.max_dest_rd_atomic;
    out.en_sqd_async_notify = attr.en_sqd_async_notify != 0;
    Ok(out)
}

fn ibv_attr(attr: &QpAttr, caps: &QpCaps) -> ibv_qp_attr {
    // SAFETY: zero is a valid value of all fields.
    let mut out: ibv_qp_attr = unsafe { std::mem::zeroed() };
    out.qp_state = attr.state.0.into();
    out.cur_qp_state = attr.state.0.into();
    out.path_mtu = attr.path_mtu.into();
    out.path_mig_state = ibv_mig_state::IBV_MIG_MIGRATED;
    out.qkey = attr.qkey;
    out.rq_psn = attr.rq_psn;
    out.sq_psn = attr.sq_psn;
    out.dest_qp_num = attr.dest_qpn;
    out.qp_access_flags = attr.access.bits().into();
    out.cap = ibv_caps_of(caps);
    out.ah_attr = ibv_attr_of(&attr.ah);
    out.pkey_index = attr.pkey_index;
    out.en_sqd_async_notify = attr.en_sqd_async_notify.into();
    out.sq_draining = attr.sq_draining.into();
    out.max_rd_atomic = attr.max_rd_atomic;
    out.max_dest_rd_atomic = attr.max_dest_rd_atomic;
    out.min_rnr_timer = attr.min_rnr_timer;
    out.port_num = attr.port;
    out.timeout = attr.timeout;
    out.retry_cnt = attr.retry_cnt;
    out.rnr_retry = attr.rnr_retry;
    out.rate_limit = attr.rate_limit;
    out
}

/// `ibv_modify_qp`.
///
/// # Safety
/// Called by libibverbs with a live queue pair and the attributes that `mask` names.
pub unsafe extern "C" fn modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    status(|| {
        // SAFETY: as the caller promises.
        let (qp_type, qp, attr) = unsafe { ((*qp).qp_type, Qp::of(qp), &*attr) };
        let mask = own_attributes(qp_type, AttrMask(mask as u32));
        qp.driver.modify(&driver_attr(attr, mask)?, mask)?;
        Ok(())
    })
}

/// `ibv_modify_qp_rate_limit`.
///
/// # Safety
/// Called by a program with a live queue pair and valid attributes.
pub unsafe extern "C" fn modify_qp_rate_limit(qp: *mut ibv_qp, attr: *mut ibv_qp_rate_limit_attr) -> c_int {
    status(|| {
        // SAFETY: as the caller promises.
        let (qp, attr) = unsafe { (Qp::of(qp), &*attr) };
        Errno::EINVAL.when(attr.comp_mask != 0)?;
        let pace = QpAttr {
            rate_limit: attr.rate_limit,
            max_burst: attr.max_burst_sz,
            typical_packet: attr.typical_pkt_sz,
            ..QpAttr::default()
        };
        qp.driver.modify(&pace, AttrMask::RATE_LIMIT)?;
        Ok(())
    })
}

/// `ibv_query_qp`.
///
/// # Safety
/// Called by libibverbs with a live queue pair and room for both answers.
pub unsafe extern "C" fn query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _mask: c_int,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    status(|| {
        // SAFETY: a live queue pair.
        let (ibv, this) = unsafe { (&*qp, Qp::of(qp)) };
        let found = this.driver.query()?;
        let caps = this.driver.caps();
        // SAFETY: room for one of each.
        unsafe {
            attr.write(ibv_attr(&found, caps));
            init.write(ibv_qp_init_attr {
                qp_context: ibv.qp_context,
                send_cq: ibv.send_cq,
                recv_cq: ibv.recv_cq,
                srq: ibv.srq,
                cap: ibv_caps_of(caps),
                qp_type: ibv.qp_type,
                sq_sig_all: this.driver.init().is_some_and(|init| init.sq_sig_all).into(),
            });
        }
        Ok(())
    })
}

/// `ibv_attach_mcast`; twice is once.
///
/// # Safety
/// Called by libibverbs with a live queue pair and a GID.
pub unsafe extern "C" fn attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, _lid: u16) -> c_int {
    status(|| {
        // SAFETY: as the caller promises; every bit pattern is a valid GID.
        let (qp, gid) = unsafe { (Qp::of(qp), (*gid).raw) };
        let mut groups = qp.groups.lock().unwrap_or_else(PoisonError::into_inner);
        qp.driver.attach_mcast(&gid)?;
        if !groups.contains(&gid) {
            groups.push(gid);
        }
        Ok(())
    })
}

/// `ibv_detach_mcast`: EINVAL if it is not in the group.
///
/// # Safety
/// Called by libibverbs with a live queue pair and a GID.
pub unsafe extern "C" fn detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, _lid: u16) -> c_int {
    status(|| {
        // SAFETY: as the caller promises; every bit pattern is a valid GID.
        let (qp, gid) = unsafe { (Qp::of(qp), (*gid).raw) };
        let mut groups = qp.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let place = groups.iter().position(|group| *group == gid).ok_or(Errno::EINVAL)?;
        qp.driver.detach_mcast(&gid)?;
        groups.swap_remove(place);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zeroed() -> ibv_qp_attr {
        // SAFETY: zero is a valid value of all fields.
        unsafe { std::mem::zeroed() }
    }

    #[test]
    fn masks_have_the_numbers_of_verbs() {
        for (ours, theirs) in [
            (AttrMask::STATE, ibv_qp_attr_mask::IBV_QP_STATE),
            (AttrMask::ACCESS_FLAGS, ibv_qp_attr_mask::IBV_QP_ACCESS_FLAGS),
            (AttrMask::AV, ibv_qp_attr_mask::IBV_QP_AV),
            (AttrMask::MAX_QP_RD_ATOMIC, ibv_qp_attr_mask::IBV_QP_MAX_QP_RD_ATOMIC),
            (AttrMask::MIN_RNR_TIMER, ibv_qp_attr_mask::IBV_QP_MIN_RNR_TIMER),
            (AttrMask::DEST_QPN, ibv_qp_attr_mask::IBV_QP_DEST_QPN),
            (AttrMask::RATE_LIMIT, ibv_qp_attr_mask::IBV_QP_RATE_LIMIT),
        ] {
            assert_eq!(ours.bits(), theirs.0);
        }
    }

    #[test]
    fn fields_that_the_mask_does_not_name_may_be_garbage() {
        let mut attr = zeroed();
        attr.path_mtu = 77;
        attr.cur_qp_state = 99;
        attr.qp_access_flags = u32::MAX;
        attr.qp_state = ibv_qp_state::IBV_QPS_RTS;
        let out = driver_attr(&attr, AttrMask::STATE).unwrap();
        assert_eq!(out.state, QpState::RTS);
        assert_eq!(driver_attr(&attr, AttrMask::PATH_MTU), Err(Errno::EINVAL));
        assert_eq!(driver_attr(&attr, AttrMask::CUR_STATE), Err(Errno::EINVAL));
        attr.qp_access_flags = 0xffff_fff3;
        let access = driver_attr(&attr, AttrMask::ACCESS_FLAGS).unwrap().access;
        assert_eq!(
            access,
            Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::MW_BIND,
            "others do not count"
        );
    }

    /// DLSlime sets an RNR timer of 0x20, for which a ConnectX takes 0.
    #[test]
    fn bits_beyond_a_field_are_left_out() {
        let mut attr = zeroed();
        (attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry) = (0x20, 0x2e, 0x0f, 0xf9);
        (attr.rq_psn, attr.sq_psn, attr.dest_qp_num) = (0x0112_3456, 0xffab_cdef, 0x8000_0077);
        let out = driver_attr(&attr, AttrMask(0)).unwrap();
        assert_eq!((out.min_rnr_timer, out.timeout, out.retry_cnt, out.rnr_retry), (0, 14, 7, 1));
        assert_eq!((out.rq_psn, out.sq_psn, out.dest_qpn), (0x12_3456, 0xab_cdef, 0x77));
    }

    #[test]
    fn attributes_survive_both_ways() {
        let attr = QpAttr {
            state: QpState::RTS,
            cur_state: QpState::RTS,
            path_mtu: 5,
            qkey: 0x1111_1111,
            rq_psn: 0xabcdef,
            sq_psn: 0x123456,
            dest_qpn: 0x77,
            access: Access(0xf),
            pkey_index: 0,
            port: 1,
            max_rd_atomic: 4,
            max_dest_rd_atomic: 8,
            min_rnr_timer: 12,
            timeout: 14,
            retry_cnt: 7,
            rnr_retry: 6,
            en_sqd_async_notify: true,
            rate_limit: 1000,
            ..QpAttr::default()
        };
        let all = AttrMask(0x1f_ffff) | AttrMask::RATE_LIMIT;
        assert_eq!(driver_attr(&ibv_attr(&attr, &QpCaps::default()), all), Ok(attr));
    }
}
