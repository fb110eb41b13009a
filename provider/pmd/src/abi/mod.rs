//! DPDK as a driver sees it: its structures, of which distributions ship no headers for drivers, and its functions.
//!
//! | file | idea |
//! |---|---|
//! | [`release`] | which releases are known, and where their structures differ |
//! | `dpdk` | the program's own DPDK: its release, its functions |
//! | [`ethdev`], [`info`] | Ethernet devices, what they are and what they say of themselves |
//! | [`flow`] | rules |
//! | [`mbuf`] | packets and their pools |
//! | [`processes`] | what the processes of a program tell each other |
//! | [`vdev`] | the bus |
//!
//! The sizes are asserted when this is compiled.
#![allow(unsafe_code)]

mod dpdk;
pub mod ethdev;
#[cfg(test)]
mod ethdev_tests;
pub mod flow;
pub mod info;
pub mod mbuf;
#[cfg(test)]
mod mbuf_tests;
pub mod processes;
pub mod release;
pub mod vdev;

use std::ffi::{c_char, c_int, c_void, CStr};
use std::sync::OnceLock;

pub use dpdk::log;
use dpdk::Dpdk;
use ethdev::EthDev;
use mbuf::{Mbuf, OpsTable};
use processes::{Answer, Message, Replies};
use vdev::{Devargs, VdevDriver};

/// `RTE_DEVTYPE_VIRTUAL`.
const DEVICE_VIRTUAL: c_int = 2;
/// `RTE_PROC_PRIMARY`.
const PROCESS_PRIMARY: c_int = 0;

dpdk::functions! {
    fn rte_eal_process_type() -> c_int;
    fn rte_devargs_next(bus: *const c_char, start: *const Devargs) -> *mut Devargs;
    fn rte_devargs_add(kind: c_int, text: *const c_char) -> c_int;

    /// Registers a driver with the bus of virtual devices.
    fn rte_vdev_register(driver: *mut VdevDriver);
    /// Has `callback` called before the bus looks for devices.
    fn rte_vdev_add_custom_scan(callback: unsafe extern "C" fn(*mut c_void), arg: *mut c_void) -> c_int;

    /// A new Ethernet device; null when there are too many.
    fn rte_eth_dev_allocate(name: *const c_char) -> *mut EthDev;
    /// The Ethernet device of that name; null if there is none.
    fn rte_eth_dev_allocated(name: *const c_char) -> *mut EthDev;
    /// In a secondary process: the Ethernet device of that name of the primary one; null if there is none.
    fn rte_eth_dev_attach_secondary(name: *const c_char) -> *mut EthDev;
    /// Tells programs of a new device.
    fn rte_eth_dev_probing_finish(dev: *mut EthDev);
    /// Takes a device away, with its `mac_addrs` and `dev_private`.
    fn rte_eth_dev_release_port(dev: *mut EthDev) -> c_int;
    /// Tells the program of an event of a device (`RTE_ETH_EVENT_*`).
    fn rte_eth_dev_callback_process(dev: *mut EthDev, event: c_int, about: *mut c_void) -> c_int;

    /// A handle for interrupts of a device; null when there is no memory.
    fn rte_intr_instance_alloc(flags: u32) -> *mut c_void;
    /// Frees it.
    fn rte_intr_instance_free(handle: *mut c_void);
    /// Says of what kind it is.
    fn rte_intr_type_set(handle: *mut c_void, kind: c_int) -> c_int;
    /// Says how many descriptors of queues it has.
    fn rte_intr_nb_efd_set(handle: *mut c_void, count: c_int) -> c_int;
    /// Gives it the descriptor of one.
    fn rte_intr_efds_index_set(handle: *mut c_void, queue: c_int, fd: c_int) -> c_int;
    /// Makes room for the vectors of so many queues, if there is none yet.
    fn rte_intr_vec_list_alloc(handle: *mut c_void, name: *const c_char, count: c_int) -> c_int;
    /// Gives it the vector of one.
    fn rte_intr_vec_list_index_set(handle: *mut c_void, queue: c_int, vector: c_int) -> c_int;
    /// Frees that room.
    fn rte_intr_vec_list_free(handle: *mut c_void);
    /// Has nobody wait for its descriptors any more.
    fn rte_intr_free_epoll_fd(handle: *mut c_void);

    /// Zeroed memory that `rte_free` frees, which all processes of the program have at the same address.
    fn rte_zmalloc(kind: *const c_char, bytes: usize, align: u32) -> *mut c_void;
    /// Frees it.
    fn rte_free(memory: *mut c_void);
    /// Has messages to a name answered.
    fn rte_mp_action_register(name: *const c_char, answer: Answer) -> c_int;
    /// Sends a message to the other processes, and waits for their answers.
    fn rte_mp_request_sync(message: *mut Message, replies: *mut Replies, limit: *const libc::timespec) -> c_int;
    /// Answers one.
    fn rte_mp_reply(message: *mut Message, to: *const c_char) -> c_int;
    /// Frees mbufs with all their segments.
    fn rte_pktmbuf_free_bulk(mbufs: *mut *mut Mbuf, count: u32);
}

/// What the driver uses of the program's DPDK.
struct Found {
    functions: Functions,
    /// `rte_mempool_ops_table`.
    pool_kinds: *const OpsTable,
}

// SAFETY: functions of libraries that stay, and a table that DPDK fills before it starts threads.
unsafe impl Send for Found {}
// SAFETY: as above.
unsafe impl Sync for Found {}

static FOUND: OnceLock<Found> = OnceLock::new();

fn found() -> &'static Found {
    FOUND.get().expect("the driver has found its DPDK before it registers")
}

/// Finds the program's DPDK; else says why it is none for this driver. Nothing else of the driver may run before.
pub fn find() -> Result<(), String> {
    let dpdk = Dpdk::find()?;
    let (functions, pool_kinds) = (Functions::find(&dpdk)?, dpdk.symbol(c"rte_mempool_ops_table")?.cast());
    // EAL loads a driver once.
    let _ = FOUND.set(Found { functions, pool_kinds });
    Ok(())
}

/// The kinds of pools.
fn pool_kinds() -> *const OpsTable {
    found().pool_kinds
}

/// Whether this is the process that owns the devices. EAL knows when it looks for devices, and not before.
pub fn is_primary() -> bool {
    // SAFETY: a function without conditions.
    unsafe { rte_eal_process_type() == PROCESS_PRIMARY }
}

/// The names of the virtual devices that the program's arguments ask for, with `--vdev` or `-a`.
pub fn asked_for() -> Vec<String> {
    let mut names = Vec::new();
    let mut devargs = std::ptr::null_mut();
    loop {
        // SAFETY: EAL's list, which only this thread uses while it looks for devices.
        unsafe {
            devargs = rte_devargs_next(c"vdev".as_ptr(), devargs);
            if devargs.is_null() {
                return names;
            }
            names.push(CStr::from_ptr((*devargs).name.as_ptr()).to_string_lossy().into_owned());
        }
    }
}

/// Asks for a virtual device as `--vdev` does.
pub fn ask_for(name: &CStr) {
    // SAFETY: a zero-terminated name, which is copied.
    if unsafe { rte_devargs_add(DEVICE_VIRTUAL, name.as_ptr()) } != 0 {
        log(&format!("DPDK does not take the device {}", name.to_string_lossy()));
    }
}
