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

/// Gives every operation that a provider can have to the macro `$then`, in the order of `driver.h`: with its type if
/// this provider has it. For all others libibverbs answers `EOPNOTSUPP`.
macro_rules! operations {
    ($then:ident) => {
        $then! {
            advise_mr,
            alloc_dm,
            alloc_mw: fn(*mut ibv_pd, ibv_mw_type::Type) -> *mut ibv_mw,
            alloc_null_mr,
            alloc_parent_domain,
            alloc_pd: fn(*mut ibv_context) -> *mut ibv_pd,
            alloc_td,
            async_event,
            attach_counters_point_flow,
            attach_mcast: fn(*mut ibv_qp, *const ibv_gid, u16) -> c_int,
            bind_mw,
            close_xrcd,
            cq_event,
            create_ah: fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah,
            create_counters,
            create_cq: fn(*mut ibv_context, c_int, *mut ibv_comp_channel, c_int) -> *mut ibv_cq,
            create_cq_ex: fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex,
            create_flow,
            create_flow_action_esp,
            create_qp: fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp,
            create_qp_ex: fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp,
            create_rwq_ind_table,
            create_srq: fn(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq,
            create_srq_ex,
            create_wq,
            dealloc_mw: fn(*mut ibv_mw) -> c_int,
            dealloc_pd: fn(*mut ibv_pd) -> c_int,
            dealloc_td,
            dereg_mr: fn(*mut verbs_mr) -> c_int,
            destroy_ah: fn(*mut ibv_ah) -> c_int,
            destroy_counters,
            destroy_cq: fn(*mut ibv_cq) -> c_int,
            destroy_flow,
            destroy_flow_action,
            destroy_qp: fn(*mut ibv_qp) -> c_int,
            destroy_rwq_ind_table,
            destroy_srq: fn(*mut ibv_srq) -> c_int,
            destroy_wq,
            detach_mcast: fn(*mut ibv_qp, *const ibv_gid, u16) -> c_int,
            free_context: fn(*mut ibv_context),
            free_dm,
            get_srq_num: fn(*mut ibv_srq, *mut u32) -> c_int,
            import_dm,
            import_mr,
            import_pd,
            modify_cq,
            modify_flow_action_esp,
            modify_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int,
            modify_qp_rate_limit,
            modify_srq: fn(*mut ibv_srq, *mut ibv_srq_attr, c_int) -> c_int,
            modify_wq,
            open_qp,
            open_xrcd,
            poll_cq: fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int,
            post_recv: fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
            post_send: fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int,
            post_srq_ops,
            post_srq_recv: fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
            query_device_ex:
                fn(*mut ibv_context, *const ibv_query_device_ex_input, *mut ibv_device_attr_ex, usize) -> c_int,
            query_ece,
            query_port: fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int,
            query_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int, *mut ibv_qp_init_attr) -> c_int,
            query_qp_data_in_order,
            query_rt_values: fn(*mut ibv_context, *mut ibv_values_ex) -> c_int,
            query_srq: fn(*mut ibv_srq, *mut ibv_srq_attr) -> c_int,
            read_counters,
            reg_dm_mr,
            reg_dmabuf_mr,
            reg_mr: fn(*mut ibv_pd, *mut c_void, usize, u64, c_int) -> *mut ibv_mr,
            req_notify_cq: fn(*mut ibv_cq, c_int) -> c_int,
            rereg_mr,
            resize_cq: fn(*mut ibv_cq, c_int) -> c_int,
            set_ece,
            unimport_dm,
            unimport_mr,
            unimport_pd,
        }
    };
}
pub(crate) use operations;

/// Declares `verbs_context_ops`.
macro_rules! declare {
    ($($name:ident $(: fn($($argument:ty),*) $(-> $result:ty)?)?,)*) => {
        /// One pointer for each operation, null where the provider has none.
        #[repr(C)]
        pub struct verbs_context_ops {
            $(#[doc = stringify!($name)]
            pub $name: Option<unsafe extern "C" fn($($($argument),*)?) $($(-> $result)?)?>,)*
        }

        impl verbs_context_ops {
            /// Nothing set: libibverbs keeps what it has.
            pub const NONE: Self = Self { $($name: None),* };
        }
    };
}
operations!(declare);

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
