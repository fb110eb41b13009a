//! Sizes and offsets of what libibverbs and this provider share, from rdma-core's `driver.h` and `verbs.h`. What
//! differs fails to compile here instead of failing at run time: the public structs are those of the installed headers.

use std::mem::{offset_of, size_of};

use rdma_sys::*;

use super::private::*;

/// Size of `verbs_context_ops` in a release.
const fn bytes(release: u32) -> usize {
    place(release, size_of::<verbs_context_ops>())
}

/// Where a release has the operation that is at `offset` in release 65.
const fn place(release: u32, offset: usize) -> usize {
    let (mut index, mut before) = (0, 0);
    while index < offset / 8 {
        before += (SINCE[index] <= release) as usize;
        index += 1;
    }
    before * 8
}

/// Fails to compile unless all are equal.
macro_rules! layout {
    ($($what:expr => $value:expr;)*) => { $(const _: () = assert!($what == $value, stringify!($what));)* };
}

layout! {
    size_of::<verbs_sysfs_dev>() => 992;
    offset_of!(verbs_sysfs_dev, sysfs_name) => 36;
    offset_of!(verbs_sysfs_dev, ibdev_name) => 112;
    offset_of!(verbs_sysfs_dev, ibdev_path) => 176;
    offset_of!(verbs_sysfs_dev, node_guid) => 944;
    offset_of!(verbs_sysfs_dev, abi_ver) => 968;
    size_of::<verbs_match_ent>() => 24;
    size_of::<verbs_device_ops>() => 72;
    offset_of!(verbs_device_ops, match_device) => 32;
    offset_of!(verbs_device_ops, alloc_context) => 40;
    offset_of!(verbs_device_ops, alloc_device) => 56;
    size_of::<verbs_device>() => 712;
    offset_of!(verbs_device, ops) => 664;
    offset_of!(verbs_device, refcount) => 672;
    offset_of!(verbs_device, entry) => 680;
    offset_of!(verbs_device, sysfs) => 696;
    offset_of!(verbs_device, core_support) => 704;
    // Releases 36 to 58, 59 to 61, 62 and 63, 64, 65.
    bytes(36) => 608;
    bytes(59) => 632;
    bytes(62) => 648;
    bytes(64) => 664;
    bytes(65) => 744;
    size_of::<verbs_context_ops>() => 744;
    place(36, offset_of!(verbs_context_ops, create_qp)) => 152;
    place(36, offset_of!(verbs_context_ops, free_context)) => 312;
    place(36, offset_of!(verbs_context_ops, poll_cq)) => 424;
    place(36, offset_of!(verbs_context_ops, query_port)) => 480;
    place(36, offset_of!(verbs_context_ops, reg_mr)) => 544;
    place(36, offset_of!(verbs_context_ops, unimport_pd)) => 600;
    place(59, offset_of!(verbs_context_ops, create_qp)) => 160;
    place(59, offset_of!(verbs_context_ops, poll_cq)) => 440;
    place(59, offset_of!(verbs_context_ops, query_port)) => 496;
    place(59, offset_of!(verbs_context_ops, reg_mr)) => 560;
    place(59, offset_of!(verbs_context_ops, unimport_pd)) => 624;
    place(62, offset_of!(verbs_context_ops, create_qp)) => 160;
    place(62, offset_of!(verbs_context_ops, poll_cq)) => 448;
    place(62, offset_of!(verbs_context_ops, query_port)) => 504;
    place(62, offset_of!(verbs_context_ops, reg_mr)) => 576;
    place(62, offset_of!(verbs_context_ops, unimport_pd)) => 640;
    place(64, offset_of!(verbs_context_ops, create_qp)) => 168;
    place(64, offset_of!(verbs_context_ops, poll_cq)) => 464;
    place(64, offset_of!(verbs_context_ops, query_port)) => 520;
    place(64, offset_of!(verbs_context_ops, reg_mr)) => 592;
    place(64, offset_of!(verbs_context_ops, unimport_pd)) => 656;
    place(65, offset_of!(verbs_context_ops, create_qp)) => 176;
    place(65, offset_of!(verbs_context_ops, poll_cq)) => 496;
    place(65, offset_of!(verbs_context_ops, query_port)) => 568;
    place(65, offset_of!(verbs_context_ops, reg_mr)) => 656;
    place(65, offset_of!(verbs_context_ops, unimport_pd)) => 736;
    size_of::<verbs_mr>() => 56;
    offset_of!(verbs_mr, mr_type) => 48;
    // `comp_mask` at 360 and a pointer after it, the largest of all releases.
    size_of::<verbs_qp>() => 376;
    size_of::<verbs_cq>() => 288;
    size_of::<create_comp_channel_cmd>() => 16;
    size_of::<ib_uverbs_async_event_desc>() => 16;
    // The public structs, from the installed headers.
    size_of::<ibv_context>() => 328;
    size_of::<ibv_port_attr>() => 52;
    size_of::<ibv_device_attr>() => 232;
    size_of::<ibv_device_attr_ex>() => 400;
    size_of::<ibv_qp>() => 160;
    size_of::<ibv_qp_ex>() => 352;
    size_of::<ibv_cq_ex>() => 288;
    size_of::<ibv_qp_attr>() => 144;
    size_of::<ibv_send_wr>() => 128;
    size_of::<ibv_wc>() => 48;
    size_of::<ibv_wq>() => 152;
    offset_of!(ibv_wq, post_recv) => 48;
    size_of::<ibv_wq_init_attr>() => 48;
    size_of::<ibv_wq_attr>() => 20;
    size_of::<ibv_rwq_ind_table>() => 24;
    size_of::<ibv_rwq_ind_table_init_attr>() => 24;
    size_of::<ibv_qp_init_attr_ex>() => 136;
    offset_of!(ibv_qp_init_attr_ex, rx_hash_conf) => 96;
    offset_of!(ibv_cq, mutex) => offset_of!(ibv_cq_ex, mutex);
    offset_of!(ibv_cq, async_events_completed) => offset_of!(ibv_cq_ex, async_events_completed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::ops::OPS;

    #[test]
    fn operations_are_where_each_release_looks_for_them() {
        for release in [36, 59, 62, 64, 65] {
            let table = OPS.table(release);
            let at = |offset| table[place(release, offset) / 8];
            assert_eq!(at(offset_of!(verbs_context_ops, alloc_pd)), OPS.alloc_pd.unwrap() as *const ());
            assert_eq!(at(offset_of!(verbs_context_ops, poll_cq)), OPS.poll_cq.unwrap() as *const ());
            assert_eq!(at(offset_of!(verbs_context_ops, resize_cq)), OPS.resize_cq.unwrap() as *const ());
            let given = table.iter().filter(|operation| !operation.is_null()).count();
            assert_eq!(given, OPS.table(65).iter().filter(|operation| !operation.is_null()).count());
        }
    }
}
