//! What the device and its ports can do, as the card says it.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};
use std::sync::OnceLock;

use driver::PortInfo;
use fpga_regs::regs::FeatureSet;
use rdma_sys::*;

use super::card::Device;
use super::context::Context;
use super::errno::{status, Errno};
use contract::shown::{firmware, width_and_speed, PORT_CAPABILITIES};

/// PCI vendor of the card.
pub const VENDOR_ID: u32 = 0x1bd4;
/// The longest message: IB allows 2 GiB.
const MAX_MESSAGE: u32 = 1 << 31;
/// `IBV_QPF_GRH_REQUIRED`: every address needs a GRH.
const GRH_REQUIRED: u8 = 1;
const LINK_LAYER_ETHERNET: u8 = 2;
/// `IBV_DEVICE_RAW_SCATTER_FCS`: frames with their check sequence. No 32 bits hold it.
const RAW_SCATTER_FCS: u64 = 1 << 34;
/// Physical states of a port.
const PHYS_LINK_UP: u8 = 5;
const PHYS_DISABLED: u8 = 3;
/// Longest delay before an ACK, 4.096 us * 2^n: the peer's process may have to be scheduled.
const LOCAL_ACK_DELAY: u8 = 15;

/// The part id to show: programs that grant features only to ids they know can be given one.
fn part_id(device: &Device) -> u32 {
    static OVERRIDE: OnceLock<Option<u32>> = OnceLock::new();
    OVERRIDE
        .get_or_init(|| {
            let text = std::env::var("VERBENA_PART_ID").ok().filter(|t| !t.is_empty())?;
            let id = parse_number(&text);
            if id.is_none() {
                model::tell!("verbena: VERBENA_PART_ID={text} is no number, the card's own id is used");
            }
            id
        })
        .unwrap_or_else(|| device.limits().part_id())
}

fn parse_number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn copy_text(to: &mut [c_char], text: &str) {
    let room = to.len() - 1;
    for (to, from) in to[..room].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
}

fn capabilities(features: FeatureSet) -> u32 {
    use ibv_device_cap_flags as cap;
    let always = cap::IBV_DEVICE_CURR_QP_STATE_MOD
        | cap::IBV_DEVICE_PORT_ACTIVE_EVENT
        | cap::IBV_DEVICE_SYS_IMAGE_GUID
        | cap::IBV_DEVICE_RC_RNR_NAK_GEN
        | cap::IBV_DEVICE_MEM_MGT_EXTENSIONS
        | cap::IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    let windows = if features.contains(FeatureSet::MW_TYPE1) { cap::IBV_DEVICE_MEM_WINDOW.0 } else { 0 };
    let xrc = if features.contains(FeatureSet::XRC) { cap::IBV_DEVICE_XRC.0 } else { 0 };
    let rules = if features.contains(FeatureSet::FLOW) { cap::IBV_DEVICE_MANAGED_FLOW_STEERING.0 } else { 0 };
    let raw = if features.contains(FeatureSet::RAW_ETH) { cap::IBV_DEVICE_RAW_MULTI.0 } else { 0 };
    let sums = if features.contains(FeatureSet::CHECKSUM) { cap::IBV_DEVICE_RAW_IP_CSUM.0 } else { 0 };
    always.0 | windows | xrc | rules | raw | sums
}

/// What may be done with memory that is found when it is accessed: everything, but as the kernel copies.
fn on_demand() -> ibv_odp_caps {
    use ibv_odp_transport_cap_bits as can;
    let datagrams = can::IBV_ODP_SUPPORT_SEND | can::IBV_ODP_SUPPORT_RECV | can::IBV_ODP_SUPPORT_SRQ_RECV;
    let unreliable = datagrams | can::IBV_ODP_SUPPORT_WRITE;
    let reliable = unreliable | can::IBV_ODP_SUPPORT_READ | can::IBV_ODP_SUPPORT_ATOMIC;
    let general = ibv_odp_general_caps::IBV_ODP_SUPPORT | ibv_odp_general_caps::IBV_ODP_SUPPORT_IMPLICIT;
    ibv_odp_caps {
        general_caps: general.0.into(),
        per_transport_caps: ibv_odp_caps__bindgen_ty_1 {
            rc_odp_caps: reliable.0,
            uc_odp_caps: unreliable.0,
            ud_odp_caps: datagrams.0,
        },
    }
}

fn attributes(context: &Context) -> ibv_device_attr_ex {
    let device = &context.device;
    let limits = device.limits();
    // Some limits are larger than the signed field that shows them.
    let int = |value: u32| c_int::try_from(value).unwrap_or(c_int::MAX);
    // SAFETY: zero is a valid value of every field: it says "cannot".
    let mut attr: ibv_device_attr_ex = unsafe { std::mem::zeroed() };
    let orig = &mut attr.orig_attr;
    copy_text(&mut orig.fw_ver, &firmware(limits.fw_ver()));
    orig.node_guid = device.node_guid().to_be();
    orig.sys_image_guid = device.node_guid().to_be();
    orig.max_mr_size = limits.max_mr_size();
    orig.page_size_cap = limits.page_size_cap();
    orig.vendor_id = VENDOR_ID;
    orig.vendor_part_id = part_id(device);
    orig.hw_ver = 1;
    orig.max_qp = int(limits.max_qp());
    orig.max_qp_wr = int(limits.max_qp_wr());
    orig.device_cap_flags = capabilities(device.features());
    orig.max_sge = int(limits.max_sge());
    orig.max_sge_rd = int(limits.max_sge_rd());
    orig.max_cq = int(limits.max_cq());
    orig.max_cqe = int(limits.max_cqe());
    orig.max_mr = int(limits.max_mr());
    orig.max_pd = int(limits.max_pd());
    orig.max_qp_rd_atom = int(limits.max_qp_rd_atom());
    orig.max_res_rd_atom = int(limits.max_res_rd_atom());
    orig.max_qp_init_rd_atom = int(limits.max_qp_init_rd_atom());
    orig.atomic_cap = ibv_atomic_cap::IBV_ATOMIC_HCA;
    if device.features().contains(FeatureSet::RAW_ETH) {
        orig.max_raw_ethy_qp = int(limits.max_qp());
    }
    orig.max_mw = int(limits.max_mw());
    orig.max_mcast_grp = int(limits.max_mcast_grp());
    orig.max_mcast_qp_attach = int(limits.max_mcast_qp_attach());
    orig.max_total_mcast_qp_attach = int(limits.max_total_mcast_qp_attach());
    orig.max_ah = int(limits.max_ah());
    orig.max_srq = int(limits.max_srq());
    orig.max_srq_wr = int(limits.max_srq_wr());
    orig.max_srq_sge = int(limits.max_srq_sge());
    orig.max_pkeys = limits.pkey_table_len() as u16;
    orig.local_ca_ack_delay = LOCAL_ACK_DELAY;
    orig.phys_port_cnt = limits.ports() as u8;
    if device.features().contains(FeatureSet::TIMESTAMP) {
        attr.completion_timestamp_mask = u64::MAX;
    }
    if device.features().contains(FeatureSet::ON_DEMAND) {
        attr.odp_caps = on_demand();
        if device.features().contains(FeatureSet::XRC) {
            attr.xrc_odp_caps = attr.odp_caps.per_transport_caps.rc_odp_caps;
        }
    }
    if device.features().contains(FeatureSet::CHECKSUM) {
        attr.raw_packet_caps |= ibv_raw_packet_caps::IBV_RAW_PACKET_CAP_IP_CSUM.0;
    }
    if device.features().contains(FeatureSet::VLAN) {
        attr.raw_packet_caps |= ibv_raw_packet_caps::IBV_RAW_PACKET_CAP_CVLAN_STRIPPING.0;
    }
    if device.features().contains(FeatureSet::SCATTER_FCS) {
        attr.raw_packet_caps |= ibv_raw_packet_caps::IBV_RAW_PACKET_CAP_SCATTER_FCS.0;
    }
    let frames = device.ethernet();
    if device.features().contains(FeatureSet::RSS) {
        attr.rss_caps = ibv_rss_caps {
            supported_qpts: 1 << ibv_qp_type::IBV_QPT_RAW_PACKET,
            max_rwq_indirection_tables: frames.max_tables(),
            max_rwq_indirection_table_size: frames.max_table_entries(),
            rx_hash_fields_mask: frames.hash_fields().bits().into(),
            rx_hash_function: ibv_rx_hash_function_flags::IBV_RX_HASH_FUNC_TOEPLITZ.0 as u8,
        };
        attr.max_wq_type_rq = frames.max_wq();
    }
    if device.features().contains(FeatureSet::TSO) {
        attr.tso_caps.max_tso = frames.max_tso();
        attr.tso_caps.supported_qpts = 1 << ibv_qp_type::IBV_QPT_RAW_PACKET;
    }
    if device.features().contains(FeatureSet::PACING) {
        attr.packet_pacing_caps.qp_rate_limit_min = frames.min_rate_limit();
        attr.packet_pacing_caps.qp_rate_limit_max = frames.max_rate_limit();
        attr.packet_pacing_caps.supported_qpts = 1 << ibv_qp_type::IBV_QPT_RAW_PACKET;
    }
    attr.max_dm_size = context.memory_bytes.into();
    if device.features().contains(FeatureSet::MODERATION) {
        attr.cq_mod_caps.max_cq_count = u16::MAX;
        attr.cq_mod_caps.max_cq_period = u16::MAX;
    }
    attr.hca_core_clock = limits.clock_khz().into();
    attr.device_cap_flags_ex = capabilities(device.features()).into();
    if device.features().contains(FeatureSet::SCATTER_FCS) {
        attr.device_cap_flags_ex |= RAW_SCATTER_FCS;
    }
    attr.phys_port_cnt_ex = limits.ports();
    attr
}

/// `ibv_query_device` and `ibv_query_device_ex`: what was found out when the device was opened, so that the child of a
/// fork has it, too.
///
/// # Safety
/// Called by libibverbs: `size` bytes are writable at `attr`.
pub unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    size: usize,
) -> c_int {
    status(|| {
        // SAFETY: `input` is null or valid.
        if unsafe { input.as_ref() }.is_some_and(|input| input.comp_mask != 0) {
            return Err(Errno::EINVAL);
        }
        // SAFETY: an open context.
        let found = attributes(unsafe { Context::of(context) });
        // A program built against another release has room for less, or for more.
        let known = size.min(size_of_val(&found));
        // SAFETY: `size` bytes are writable, and `known` bytes are readable.
        unsafe {
            attr.cast::<u8>().write_bytes(0, size);
            attr.cast::<u8>().copy_from((&raw const found).cast(), known);
        }
        Ok(())
    })
}

/// The largest IB MTU that fits.
fn mtu_code(bytes: u32) -> ibv_mtu::Type {
    match bytes {
        0..=511 => ibv_mtu::IBV_MTU_256,
        512..=1023 => ibv_mtu::IBV_MTU_512,
        1024..=2047 => ibv_mtu::IBV_MTU_1024,
        2048..=4095 => ibv_mtu::IBV_MTU_2048,
        _ => ibv_mtu::IBV_MTU_4096,
    }
}

/// As `P_KeyViolations` and `Q_KeyViolations` show a count: in 16 bits, where it stays at the end (IB spec
/// 14.2.5.6).
fn violations(count: u64) -> u32 {
    count.min(u16::MAX.into()) as u32
}

fn port_attributes(device: &Device, info: &PortInfo) -> ibv_port_attr {
    let limits = device.limits();
    // SAFETY: zero is a valid value of every field.
    let mut attr: ibv_port_attr = unsafe { std::mem::zeroed() };
    (attr.state, attr.phys_state) = match info.link_up {
        true => (ibv_port_state::IBV_PORT_ACTIVE, PHYS_LINK_UP),
        false => (ibv_port_state::IBV_PORT_DOWN, PHYS_DISABLED),
    };
    attr.max_mtu = mtu_code(info.mtu_max);
    attr.active_mtu = mtu_code(info.mtu_active);
    attr.gid_tbl_len = limits.gid_table_len() as c_int;
    attr.pkey_tbl_len = limits.pkey_table_len() as u16;
    attr.port_cap_flags = PORT_CAPABILITIES;
    attr.max_msg_sz = MAX_MESSAGE;
    attr.max_vl_num = 1;
    attr.bad_pkey_cntr = violations(info.counter("RX_PKEY_ERRORS"));
    attr.qkey_viol_cntr = violations(info.counter("RX_QKEY_ERRORS"));
    (attr.active_width, attr.active_speed) = width_and_speed(info.speed_mbps);
    attr.link_layer = LINK_LAYER_ETHERNET;
    attr.flags = GRH_REQUIRED;
    attr
}

/// `ibv_query_port`. Writes the 52 bytes that all releases have room for; later ones have 56, zeroed before.
///
/// # Safety
/// Called by libibverbs with an open context and room for the answer.
pub unsafe extern "C" fn query_port(context: *mut ibv_context, port: u8, attr: *mut ibv_port_attr) -> c_int {
    status(|| {
        // SAFETY: an open context.
        let device = &unsafe { Context::of(context) }.device;
        let found = port_attributes(device, &device.query_port(port)?);
        // SAFETY: room for one ibv_port_attr.
        unsafe { attr.write(found) };
        Ok(())
    })
}

/// `ibv_query_rt_values_ex`: the card's clock.
///
/// # Safety
/// Called by a program with an open context and valid values.
pub unsafe extern "C" fn query_rt_values(context: *mut ibv_context, values: *mut ibv_values_ex) -> c_int {
    status(|| {
        const RAW_CLOCK: u32 = ibv_values_mask::IBV_VALUES_MASK_RAW_CLOCK.0;
        // SAFETY: as the caller promises.
        let (context, values) = unsafe { (Context::of(context), &mut *values) };
        if values.comp_mask & RAW_CLOCK != 0 {
            // Ticks of `hca_core_clock`, all in this field, as other providers do it.
            values.raw_clock.tv_sec = 0;
            values.raw_clock.tv_nsec = context.device.time() as i64;
        }
        values.comp_mask &= RAW_CLOCK;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mtus() {
        assert_eq!(mtu_code(4096), 5);
        assert_eq!(mtu_code(4095), 4);
        assert_eq!(mtu_code(1500), 3);
        assert_eq!(mtu_code(256), 1);
    }

    #[test]
    fn violations_stay_at_the_end() {
        assert_eq!([0u64, 65_535, 65_536, 1 << 32].map(violations), [0, 65_535, 65_535, 65_535]);
    }

    #[test]
    fn numbers_of_the_environment() {
        assert_eq!(parse_number("0x1015"), Some(0x1015));
        assert_eq!(parse_number("4117"), Some(4117));
        assert_eq!(parse_number("ConnectX"), None);
    }

    #[test]
    fn text_is_cut_and_terminated() {
        let mut to = [0; 4];
        copy_text(&mut to, "1.2.3");
        assert_eq!(to.map(|c| c as u8), *b"1.2\0");
    }
}
