//! The limits that the model reports, as far as they are the model's own.

use fpga_regs::{CardLimits, MAX_INLINE, MAX_SGE};

use crate::device::tables::*;
use crate::device::PortSetting;
use crate::packet::PORTS;
use crate::profile::Profile;

/// Limits of the card: the model's own, or less where the profile in use has less.
pub fn limits(profile: Option<&Profile>) -> CardLimits {
    let all = all();
    let Some(Profile { sq, limits, .. }) = profile else { return all };
    all.with_max_qp_wr(limits.max_qp_wr.min(all.max_qp_wr()))
        .with_max_sge(limits.max_sge.min(all.max_sge()))
        .with_max_inline(sq.inline_max.min(all.max_inline()))
        .with_max_cqe(limits.max_cqe.min(all.max_cqe()))
        .with_max_qp_rd_atom(limits.max_rd_atom.min(all.max_qp_rd_atom()))
        .with_max_qp_init_rd_atom(limits.max_rd_atom.min(all.max_qp_init_rd_atom()))
}

/// How the ports are set: to `mtu`, else to what the profile says or as large as they can.
pub(super) fn ports(profile: Option<&Profile>, mtu: Option<u32>) -> PortSetting {
    let all = PortSetting::default();
    PortSetting { mtu: mtu.or(profile.map(|p| p.limits.mtu)).unwrap_or(all.mtu), mbps: mbps(profile) }
}

/// Line rate of the ports in Mb/s.
pub fn mbps(profile: Option<&Profile>) -> u32 {
    profile.map_or(PortSetting::default().mbps, |p| (p.wire.rate_bps.bits_per_second() / 1_000_000) as u32)
}

fn all() -> CardLimits {
    CardLimits::default()
        .with_max_qp(MAX_QPS as u32 - 16)
        .with_max_qp_wr(16_384)
        .with_max_sge(MAX_SGE as u32)
        .with_max_sge_rd(MAX_SGE as u32)
        .with_max_inline(MAX_INLINE as u32)
        .with_max_cq(MAX_CQS as u32 - 1)
        .with_max_cqe(1 << 22)
        .with_max_mr(MAX_KEYS as u32 - 1)
        .with_max_mr_size(1 << 40)
        .with_max_pd(MAX_PDS as u32 - 1)
        .with_max_qp_rd_atom(crate::device::qp::RESOURCES as u32)
        .with_max_qp_init_rd_atom(crate::device::qp::RESOURCES as u32)
        .with_max_srq(MAX_SRQS as u32 - 1)
        .with_max_srq_wr(16_384)
        .with_max_srq_sge(MAX_SGE as u32)
        .with_max_mw(MAX_KEYS as u32 - 1)
        // Address handles live in the driver; the card takes the address with each WQE.
        .with_max_ah(1 << 20)
        .with_max_mcast_grp(MAX_MCAST as u32)
        .with_max_mcast_qp_attach(MAX_MCAST_QPS as u32)
        .with_max_total_mcast_qp_attach((MAX_MCAST * MAX_MCAST_QPS) as u32)
        .with_ports(PORTS as u32)
        .with_gid_table_len(crate::gids::GID_TABLE_LEN as u32)
        .with_pkey_table_len(1)
        .with_clock_khz(1_000_000)
        .with_page_size_cap(0x7fff_f000)
        .with_fw_ver(1 << 32)
        .with_eq_count(EQS as u32)
        .with_part_id(0xf10a)
        .with_max_res_rd_atom(((MAX_QPS - 16) * crate::device::qp::RESOURCES) as u32)
}
