//! The private driver ABI of rdma-core, declared by hand: `driver.h` is in no `-dev` package.
//!
//! What releases lay out differently is in [`super::libibverbs`]; the structs here are the same in all of them, and
//! [`super::layout`] asserts their sizes. The public structs come from the installed headers through `rdma-sys`.
#![allow(non_camel_case_types)]
// A mirror of C structs: fields exist for their place, not to be read.
#![allow(dead_code)]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null;

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

/// A queue pair that may carry the `ibv_wr_*` calls. Later releases have more of these calls: what follows the calls of
/// release 44 is at another place in each, so that it has no name here (see [`super::libibverbs`]).
#[repr(C)]
pub struct verbs_qp {
    /// In C a union with `ibv_qp`, which is its first field.
    pub qp_ex: ibv_qp_ex,
    /// Room for more calls, and for `comp_mask` and `xrcd` after them.
    pub more: [u64; 3],
}

/// `verbs_qp.comp_mask`: the functions of `ibv_qp_ex` are there.
pub const VERBS_QP_EX: u32 = 2;

/// A completion queue, plain or extended.
#[repr(C)]
pub struct verbs_cq {
    /// In C a union with `ibv_cq`, whose fields are its first.
    pub cq_ex: ibv_cq_ex,
}

/// Gives every operation that a provider can have to the macro `$then`, in the order of `driver.h`: with the release of
/// rdma-core that added it if that is later than 36, and with its type if this provider has it. For all others libibverbs
/// answers `EOPNOTSUPP`.
macro_rules! operations {
    ($then:ident) => {
        $then! {
            advise_mr: fn(*mut ibv_pd, c_uint, u32, *mut ibv_sge, u32) -> c_int,
            alloc_buf [64],
            alloc_dm: fn(*mut ibv_context, *mut ibv_alloc_dm_attr) -> *mut ibv_dm,
            alloc_dmah [59],
            alloc_mw: fn(*mut ibv_pd, ibv_mw_type::Type) -> *mut ibv_mw,
            alloc_null_mr: fn(*mut ibv_pd) -> *mut ibv_mr,
            alloc_parent_domain: fn(*mut ibv_context, *mut ibv_parent_domain_init_attr) -> *mut ibv_pd,
            alloc_pd: fn(*mut ibv_context) -> *mut ibv_pd,
            alloc_td: fn(*mut ibv_context, *mut ibv_td_init_attr) -> *mut ibv_td,
            async_event,
            attach_counters_point_flow:
                fn(*mut ibv_counters, *mut ibv_counter_attach_attr, *mut ibv_flow) -> c_int,
            attach_mcast: fn(*mut ibv_qp, *const ibv_gid, u16) -> c_int,
            bind_mw: fn(*mut ibv_qp, *mut ibv_mw, *mut ibv_mw_bind) -> c_int,
            close_xrcd: fn(*mut ibv_xrcd) -> c_int,
            cq_event,
            create_ah: fn(*mut ibv_pd, *mut ibv_ah_attr) -> *mut ibv_ah,
            create_comp_cntr [65],
            create_counters: fn(*mut ibv_context, *mut ibv_counters_init_attr) -> *mut ibv_counters,
            create_cq: fn(*mut ibv_context, c_int, *mut ibv_comp_channel, c_int) -> *mut ibv_cq,
            create_cq_ex: fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex,
            create_flow: fn(*mut ibv_qp, *mut ibv_flow_attr) -> *mut ibv_flow,
            create_flow_action_esp,
            create_qp: fn(*mut ibv_pd, *mut ibv_qp_init_attr) -> *mut ibv_qp,
            create_qp_ex: fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp,
            create_rwq_ind_table:
                fn(*mut ibv_context, *mut ibv_rwq_ind_table_init_attr) -> *mut ibv_rwq_ind_table,
            create_srq: fn(*mut ibv_pd, *mut ibv_srq_init_attr) -> *mut ibv_srq,
            create_srq_ex: fn(*mut ibv_context, *mut ibv_srq_init_attr_ex) -> *mut ibv_srq,
            create_wq: fn(*mut ibv_context, *mut ibv_wq_init_attr) -> *mut ibv_wq,
            dealloc_dmah [59],
            dealloc_mw: fn(*mut ibv_mw) -> c_int,
            dealloc_pd: fn(*mut ibv_pd) -> c_int,
            dealloc_td: fn(*mut ibv_td) -> c_int,
            dereg_mr: fn(*mut verbs_mr) -> c_int,
            destroy_ah: fn(*mut ibv_ah) -> c_int,
            destroy_comp_cntr [65],
            destroy_counters: fn(*mut ibv_counters) -> c_int,
            destroy_cq: fn(*mut ibv_cq) -> c_int,
            destroy_flow: fn(*mut ibv_flow) -> c_int,
            destroy_flow_action,
            destroy_qp: fn(*mut ibv_qp) -> c_int,
            destroy_rwq_ind_table: fn(*mut ibv_rwq_ind_table) -> c_int,
            destroy_srq: fn(*mut ibv_srq) -> c_int,
            destroy_wq: fn(*mut ibv_wq) -> c_int,
            detach_mcast: fn(*mut ibv_qp, *const ibv_gid, u16) -> c_int,
            dm_export_dmabuf_fd [62],
            free_buf [64],
            free_context: fn(*mut ibv_context),
            free_dm: fn(*mut ibv_dm) -> c_int,
            get_srq_num: fn(*mut ibv_srq, *mut u32) -> c_int,
            import_dm,
            import_mr,
            import_pd,
            inc_comp_cntr [65],
            inc_err_comp_cntr [65],
            modify_cq: fn(*mut ibv_cq, *mut ibv_modify_cq_attr) -> c_int,
            modify_flow_action_esp,
            modify_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int) -> c_int,
            modify_qp_rate_limit: fn(*mut ibv_qp, *mut ibv_qp_rate_limit_attr) -> c_int,
            modify_srq: fn(*mut ibv_srq, *mut ibv_srq_attr, c_int) -> c_int,
            modify_wq: fn(*mut ibv_wq, *mut ibv_wq_attr) -> c_int,
            open_qp: fn(*mut ibv_context, *mut ibv_qp_open_attr) -> *mut ibv_qp,
            open_xrcd: fn(*mut ibv_context, *mut ibv_xrcd_init_attr) -> *mut ibv_xrcd,
            poll_cq: fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int,
            post_recv: fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
            post_send: fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int,
            post_srq_ops,
            post_srq_recv: fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
            qp_attach_comp_cntr [65],
            query_comp_cntr_caps [65],
            query_device_ex:
                fn(*mut ibv_context, *const ibv_query_device_ex_input, *mut ibv_device_attr_ex, usize) -> c_int,
            query_ece: fn(*mut ibv_qp, *mut ibv_ece) -> c_int,
            query_port: fn(*mut ibv_context, u8, *mut ibv_port_attr) -> c_int,
            query_port_speed [62],
            query_qp: fn(*mut ibv_qp, *mut ibv_qp_attr, c_int, *mut ibv_qp_init_attr) -> c_int,
            query_qp_data_in_order,
            query_rt_values: fn(*mut ibv_context, *mut ibv_values_ex) -> c_int,
            query_srq: fn(*mut ibv_srq, *mut ibv_srq_attr) -> c_int,
            read_comp_cntr [65],
            read_counters: fn(*mut ibv_counters, *mut u64, u32, u32) -> c_int,
            read_err_comp_cntr [65],
            reg_dm_mr: fn(*mut ibv_pd, *mut ibv_dm, u64, usize, c_uint) -> *mut ibv_mr,
            reg_dmabuf_mr,
            reg_mr: fn(*mut ibv_pd, *mut c_void, usize, u64, c_int) -> *mut ibv_mr,
            reg_mr_ex [59],
            req_notify_cq: fn(*mut ibv_cq, c_int) -> c_int,
            rereg_mr: fn(*mut verbs_mr, c_int, *mut ibv_pd, *mut c_void, usize, c_int) -> c_int,
            resize_cq: fn(*mut ibv_cq, c_int) -> c_int,
            set_comp_cntr [65],
            set_ece: fn(*mut ibv_qp, *mut ibv_ece) -> c_int,
            set_err_comp_cntr [65],
            unimport_dm,
            unimport_mr,
            unimport_pd,
        }
    };
}
pub(crate) use operations;

/// Declares `verbs_context_ops`.
macro_rules! declare {
    ($($name:ident $([$since:literal])? $(: fn($($argument:ty),*) $(-> $result:ty)?)?,)*) => {
        /// One pointer for each operation, null where the provider has none: as release 65 lays it out.
        #[repr(C)]
        pub struct verbs_context_ops {
            $(#[doc = stringify!($name)]
            pub $name: Option<unsafe extern "C" fn($($($argument),*)?) $($(-> $result)?)?>,)*
        }

        /// The release that added each operation; 0 for those that releases 36 to 58 have, too.
        pub const SINCE: &[u32] = &[$(0 $(+ $since)?),*];

        impl verbs_context_ops {
            /// Nothing set: libibverbs keeps what it has.
            pub const NONE: Self = Self { $($name: None),* };

            /// The operations as `release` lays them out, which has fewer of them than the newest.
            pub fn table(&self, release: u32) -> [*const (); SINCE.len()] {
                let all = [$(self.$name.map_or(null(), |function| function as *const ())),*];
                let mut table = [null(); SINCE.len()];
                let there = all.into_iter().zip(SINCE).filter(|(_, &since)| since <= release);
                table.iter_mut().zip(there).for_each(|(place, (operation, _))| *place = operation);
                table
            }
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
