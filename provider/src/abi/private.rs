//! The private driver ABI of rdma-core 44 (PABI 34), declared by hand.
//!
//! `driver.h` is in no `-dev` package, so its structs are repeated here, each with the size and the
//! offsets that a compiled C program showed. Whatever differs in another release of rdma-core fails
//! to compile here instead of failing at run time: the public structs come from the installed
//! headers through `rdma-sys`, and this file asserts that they are those of release 44.
#![allow(non_camel_case_types)]
// A mirror of C structs: fields exist for their place, not to be read.
#![allow(dead_code)]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::{offset_of, size_of};

use rdma_sys::*;

/// An operation that this provider leaves to libibverbs (which answers `EOPNOTSUPP`).
pub type Unused = Option<unsafe extern "C" fn()>;

/// Intrusive list links of the C library.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct list_node {
    /// Next.
    pub next: *mut list_node,
    /// Previous.
    pub prev: *mut list_node,
}

/// An RDMA device that libibverbs found in sysfs.
#[repr(C)]
pub struct verbs_sysfs_dev {
    /// Links of libibverbs.
    pub entry: list_node,
    /// For the provider.
    pub provider_data: *mut c_void,
    /// The entry of the match table that matched, or null.
    pub r#match: *const verbs_match_ent,
    /// `VSYSFS_READ_*`.
    pub flags: c_uint,
    /// `uverbs0`.
    pub sysfs_name: [c_char; 64],
    /// Number of the character device.
    pub sysfs_cdev: u64,
    /// `verbena0`.
    pub ibdev_name: [c_char; 64],
    /// Directory in `class/infiniband`.
    pub ibdev_path: [c_char; 256],
    /// Modalias of the device beneath it.
    pub modalias: [c_char; 512],
    /// Node GUID in the host's byte order.
    pub node_guid: u64,
    /// `RDMA_DRIVER_*`, 0 without netlink.
    pub driver_id: u32,
    /// Node type.
    pub node_type: c_int,
    /// Netlink index or -1.
    pub ibdev_idx: c_int,
    /// Ports (netlink only).
    pub num_ports: u32,
    /// ABI version that the device announces.
    pub abi_ver: u32,
    /// For comparing two scans.
    pub time_created: libc::timespec,
}

/// An entry of a provider's match table.
#[repr(C)]
pub struct verbs_match_ent {
    /// For the provider.
    pub driver_data: *mut c_void,
    /// Modalias pattern or driver id.
    pub u: *const c_char,
    /// PCI vendor.
    pub vendor: u16,
    /// PCI device.
    pub device: u16,
    /// Kind; 0 ends the table.
    pub kind: u8,
}

/// What a provider registers.
#[repr(C)]
pub struct verbs_device_ops {
    /// Name of the provider.
    pub name: *const c_char,
    /// Lowest device ABI.
    pub match_min_abi_version: u32,
    /// Highest device ABI.
    pub match_max_abi_version: u32,
    /// Match table or null.
    pub match_table: *const verbs_match_ent,
    /// Static linking only.
    pub static_providers: *const *const verbs_device_ops,
    /// Decides whether the device is ours.
    pub match_device: Option<unsafe extern "C" fn(*mut verbs_sysfs_dev) -> bool>,
    /// `ibv_open_device`; owns the descriptor from the call on.
    pub alloc_context:
        Option<unsafe extern "C" fn(*mut ibv_device, c_int, *mut c_void) -> *mut verbs_context>,
    /// `ibv_import_device`.
    pub import_context: Option<unsafe extern "C" fn(*mut ibv_device, c_int) -> *mut verbs_context>,
    /// Memory for a device.
    pub alloc_device: Option<unsafe extern "C" fn(*mut verbs_sysfs_dev) -> *mut verbs_device>,
    /// Gives it back.
    pub uninit_device: Option<unsafe extern "C" fn(*mut verbs_device)>,
}

/// A device as libibverbs keeps it.
#[repr(C)]
pub struct verbs_device {
    /// The public part.
    pub device: ibv_device,
    /// Set by libibverbs.
    pub ops: *const verbs_device_ops,
    /// Set by libibverbs.
    pub refcount: c_int,
    /// Links of libibverbs.
    pub entry: list_node,
    /// Set by libibverbs.
    pub sysfs: *mut verbs_sysfs_dev,
    /// Set by libibverbs.
    pub core_support: u64,
}

/// A memory region with what libibverbs remembers beside it.
#[repr(C)]
pub struct verbs_mr {
    /// The public part.
    pub ibv_mr: ibv_mr,
    /// `IBV_MR_TYPE_*`.
    pub mr_type: c_int,
    /// Access flags.
    pub access: c_int,
}

/// A queue pair that may carry the `ibv_wr_*` calls.
#[repr(C)]
pub struct verbs_qp {
    /// In C a union with `ibv_qp`, which is its first field.
    pub qp_ex: ibv_qp_ex,
    /// `VERBS_QP_*`.
    pub comp_mask: u32,
    /// Not supported.
    pub xrcd: *mut c_void,
}

/// `verbs_qp.comp_mask`: the functions of `ibv_qp_ex` are there.
pub const VERBS_QP_EX: u32 = 2;

/// A completion queue, plain or extended.
#[repr(C)]
pub struct verbs_cq {
    /// In C a union with `ibv_cq`, whose fields are its first.
    pub cq_ex: ibv_cq_ex,
}

/// Every operation that a provider can have, in the order of `driver.h`.
#[repr(C)]
pub struct verbs_context_ops {
    /// `advise_mr`.
    pub advise_mr: Unused,
    /// `alloc_dm`.
    pub alloc_dm: Unused,
    /// `alloc_mw`.
    pub alloc_mw: Option<unsafe extern "C" fn(*mut ibv_pd, ibv_mw_type::Type) -> *mut ibv_mw>,
    /// `alloc_null_mr`.
    pub alloc_null_mr: Unused,
    /// `alloc_parent_domain`.
    pub alloc_parent_domain: Unused,
    /// `alloc_pd`.
    pub alloc_pd: Option<unsafe extern "C" fn(*mut ibv_context) -> *mut ibv_pd>,
    /// `alloc_td`.
    pub alloc_td: Unused,
    /// `async_event`.
    pub async_event: Unused,
    /// `attach_counters_point_flow`.
    pub attach_counters_point_flow: Unused,
    /// `attach_mcast`.
    pub attach_mcast: Option<unsafe extern "C" fn(*mut ibv_qp, *const ibv_gid, u16) -> c_int>,
    /// `bind_mw`.
    pub bind_mw: Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_mw, *mut ibv_mw_bind) -> c_int>,
    /// `close_xrcd`.
    pub close_xrcd: Unused,
    /// `cq_event`.
    pub cq_event: Unused,
    /// `create_ah`.
    pub create_ah: Option<unsafe extern "C" fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah>,
    /// `create_counters`.
    pub create_counters: Unused,
    /// `create_cq`.
    pub create_cq:
        Option<unsafe extern "C" fn(*mut ibv_context, c_int, *mut ibv_comp_channel, c_int) -> *mut ibv_cq>,
    /// `create_cq_ex`.
    pub create_cq_ex:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex>,
    /// `create_flow`.
    pub create_flow: Unused,
    /// `create_flow_action_esp`.
    pub create_flow_action_esp: Unused,
    /// `create_qp`.
    pub create_qp: Option<unsafe extern "C" fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp>,
    /// `create_qp_ex`.
    pub create_qp_ex: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp>,
    /// `create_rwq_ind_table`.
    pub create_rwq_ind_table: Unused,
    /// `create_srq`.
    pub create_srq: Option<unsafe extern "C" fn(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq>,
    /// `create_srq_ex`.
    pub create_srq_ex:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq>,
    /// `create_wq`.
    pub create_wq: Unused,
    /// `dealloc_mw`.
    pub dealloc_mw: Option<unsafe extern "C" fn(*mut ibv_mw) -> c_int>,
    /// `dealloc_pd`.
    pub dealloc_pd: Option<unsafe extern "C" fn(*mut ibv_pd) -> c_int>,
    /// `dealloc_td`.
    pub dealloc_td: Unused,
    /// `dereg_mr`.
    pub dereg_mr: Option<unsafe extern "C" fn(*mut verbs_mr) -> c_int>,
    /// `destroy_ah`.
    pub destroy_ah: Option<unsafe extern "C" fn(*mut ibv_ah) -> c_int>,
    /// `destroy_counters`.
    pub destroy_counters: Unused,
    /// `destroy_cq`.
    pub destroy_cq: Option<unsafe extern "C" fn(*mut ibv_cq) -> c_int>,
    /// `destroy_flow`.
    pub destroy_flow: Unused,
    /// `destroy_flow_action`.
    pub destroy_flow_action: Unused,
    /// `destroy_qp`.
    pub destroy_qp: Option<unsafe extern "C" fn(*mut ibv_qp) -> c_int>,
    /// `destroy_rwq_ind_table`.
    pub destroy_rwq_ind_table: Unused,
    /// `destroy_srq`.
    pub destroy_srq: Option<unsafe extern "C" fn(*mut ibv_srq) -> c_int>,
    /// `destroy_wq`.
    pub destroy_wq: Unused,
    /// `detach_mcast`.
    pub detach_mcast: Option<unsafe extern "C" fn(*mut ibv_qp, *const ibv_gid, u16) -> c_int>,
    /// `free_context`.
    pub free_context: Option<unsafe extern "C" fn(*mut ibv_context)>,
    /// `free_dm`.
    pub free_dm: Unused,
    /// `get_srq_num`.
    pub get_srq_num: Option<unsafe extern "C" fn(*mut ibv_srq, *mut u32) -> c_int>,
    /// `import_dm`.
    pub import_dm: Unused,
    /// `import_mr`.
    pub import_mr: Unused,
    /// `import_pd`.
    pub import_pd: Unused,
    /// `modify_cq`.
    pub modify_cq: Unused,
    /// `modify_flow_action_esp`.
    pub modify_flow_action_esp: Unused,
    /// `modify_qp`.
    pub modify_qp: Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int>,
    /// `modify_qp_rate_limit`.
    pub modify_qp_rate_limit: Unused,
    /// `modify_srq`.
    pub modify_srq: Option<unsafe extern "C" fn(*mut ibv_srq, *mut ibv_srq_attr, c_int) -> c_int>,
    /// `modify_wq`.
    pub modify_wq: Unused,
    /// `open_qp`.
    pub open_qp: Unused,
    /// `open_xrcd`.
    pub open_xrcd: Unused,
    /// `poll_cq`.
    pub poll_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int>,
    /// `post_recv`.
    pub post_recv:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
    /// `post_send`.
    pub post_send:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int>,
    /// `post_srq_ops`.
    pub post_srq_ops: Unused,
    /// `post_srq_recv`.
    pub post_srq_recv:
        Option<unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
    /// `query_device_ex`.
    pub query_device_ex: Option<
        unsafe extern "C" fn(
            *mut ibv_context,
            *const ibv_query_device_ex_input,
            *mut ibv_device_attr_ex,
            usize,
        ) -> c_int,
    >,
    /// `query_ece`.
    pub query_ece: Unused,
    /// `query_port`.
    pub query_port: Option<unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int>,
    /// `query_qp`.
    pub query_qp:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_qp_attr, c_int, *mut ibv_qp_init_attr) -> c_int>,
    /// `query_qp_data_in_order`.
    pub query_qp_data_in_order: Unused,
    /// `query_rt_values`.
    pub query_rt_values: Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_values_ex) -> c_int>,
    /// `query_srq`.
    pub query_srq: Option<unsafe extern "C" fn(*mut ibv_srq, *mut ibv_srq_attr) -> c_int>,
    /// `read_counters`.
    pub read_counters: Unused,
    /// `reg_dm_mr`.
    pub reg_dm_mr: Unused,
    /// `reg_dmabuf_mr`.
    pub reg_dmabuf_mr: Unused,
    /// `reg_mr`.
    pub reg_mr: Option<unsafe extern "C" fn(*mut ibv_pd, *mut c_void, usize, u64, c_int) -> *mut ibv_mr>,
    /// `req_notify_cq`.
    pub req_notify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int>,
    /// `rereg_mr`.
    pub rereg_mr:
        Option<unsafe extern "C" fn(*mut verbs_mr, c_int, *mut ibv_pd, *mut c_void, usize, c_int) -> c_int>,
    /// `resize_cq`.
    pub resize_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int>,
    /// `set_ece`.
    pub set_ece: Unused,
    /// `unimport_dm`.
    pub unimport_dm: Unused,
    /// `unimport_mr`.
    pub unimport_mr: Unused,
    /// `unimport_pd`.
    pub unimport_pd: Unused,
}

impl verbs_context_ops {
    /// Nothing set: libibverbs keeps what it has.
    pub const NONE: Self = Self {
        advise_mr: None,
        alloc_dm: None,
        alloc_mw: None,
        alloc_null_mr: None,
        alloc_parent_domain: None,
        alloc_pd: None,
        alloc_td: None,
        async_event: None,
        attach_counters_point_flow: None,
        attach_mcast: None,
        bind_mw: None,
        close_xrcd: None,
        cq_event: None,
        create_ah: None,
        create_counters: None,
        create_cq: None,
        create_cq_ex: None,
        create_flow: None,
        create_flow_action_esp: None,
        create_qp: None,
        create_qp_ex: None,
        create_rwq_ind_table: None,
        create_srq: None,
        create_srq_ex: None,
        create_wq: None,
        dealloc_mw: None,
        dealloc_pd: None,
        dealloc_td: None,
        dereg_mr: None,
        destroy_ah: None,
        destroy_counters: None,
        destroy_cq: None,
        destroy_flow: None,
        destroy_flow_action: None,
        destroy_qp: None,
        destroy_rwq_ind_table: None,
        destroy_srq: None,
        destroy_wq: None,
        detach_mcast: None,
        free_context: None,
        free_dm: None,
        get_srq_num: None,
        import_dm: None,
        import_mr: None,
        import_pd: None,
        modify_cq: None,
        modify_flow_action_esp: None,
        modify_qp: None,
        modify_qp_rate_limit: None,
        modify_srq: None,
        modify_wq: None,
        open_qp: None,
        open_xrcd: None,
        poll_cq: None,
        post_recv: None,
        post_send: None,
        post_srq_ops: None,
        post_srq_recv: None,
        query_device_ex: None,
        query_ece: None,
        query_port: None,
        query_qp: None,
        query_qp_data_in_order: None,
        query_rt_values: None,
        query_srq: None,
        read_counters: None,
        reg_dm_mr: None,
        reg_dmabuf_mr: None,
        reg_mr: None,
        req_notify_cq: None,
        rereg_mr: None,
        resize_cq: None,
        set_ece: None,
        unimport_dm: None,
        unimport_mr: None,
        unimport_pd: None,
    };
}

/// Kernel command that `ibv_create_comp_channel` writes to the command descriptor.
pub const IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL: u32 = 17;

/// That command, as libibverbs writes it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct create_comp_channel_cmd {
    /// Number of the command.
    pub command: u32,
    /// Size of the request in 4-byte words.
    pub in_words: u16,
    /// Size of the answer in 4-byte words.
    pub out_words: u16,
    /// Address where the answer, a 32-bit descriptor, is wanted.
    pub response: u64,
}

/// What `ibv_get_async_event` reads from `async_fd`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ib_uverbs_async_event_desc {
    /// Address of the object, or a port number.
    pub element: u64,
    /// `ibv_event_type`.
    pub event_type: u32,
    /// Zero.
    pub reserved: u32,
}

#[link(name = "ibverbs")]
extern "C" {
    /// Adds a provider to libibverbs' list.
    pub fn verbs_register_driver_34(ops: *const verbs_device_ops);
    /// Allocates a zeroed context with `calloc` and initialises libibverbs' part; owns `cmd_fd`.
    pub fn _verbs_init_and_alloc_context(
        device: *mut ibv_device,
        cmd_fd: c_int,
        alloc_size: usize,
        context_offset: *mut verbs_context,
        driver_id: u32,
    ) -> *mut c_void;
    /// Sets the operations of a context that are not null.
    pub fn verbs_set_ops(context: *mut verbs_context, ops: *const verbs_context_ops);
    /// Undoes the initialisation; closes `cmd_fd` and `async_fd`.
    pub fn verbs_uninit_context(context: *mut verbs_context);
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
    size_of::<verbs_context_ops>() => 608;
    offset_of!(verbs_context_ops, create_qp) => 152;
    offset_of!(verbs_context_ops, free_context) => 312;
    offset_of!(verbs_context_ops, poll_cq) => 424;
    offset_of!(verbs_context_ops, query_port) => 480;
    offset_of!(verbs_context_ops, reg_mr) => 544;
    offset_of!(verbs_context_ops, unimport_pd) => 600;
    size_of::<verbs_mr>() => 56;
    offset_of!(verbs_mr, mr_type) => 48;
    size_of::<verbs_qp>() => 368;
    offset_of!(verbs_qp, comp_mask) => 352;
    size_of::<verbs_cq>() => 288;
    size_of::<create_comp_channel_cmd>() => 16;
    size_of::<ib_uverbs_async_event_desc>() => 16;
    // The public structs, from the installed headers.
    size_of::<verbs_context>() => 648;
    offset_of!(verbs_context, context) => 320;
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
    offset_of!(ibv_cq, mutex) => offset_of!(ibv_cq_ex, mutex);
    offset_of!(ibv_cq, async_events_completed) => offset_of!(ibv_cq_ex, async_events_completed);
}
