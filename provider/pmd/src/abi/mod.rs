//! DPDK as a driver sees it: release 22.11 (ABI 23), of which distributions ship no headers for drivers.
//!
//! The sizes are asserted when this is compiled, and [`supported`] refuses other releases. The functions are the
//! program's: whoever loads this has DPDK's libraries.
#![allow(unsafe_code)]

pub mod ethdev;
pub mod flow;
pub mod info;
pub mod mbuf;
pub mod vdev;

use std::ffi::{c_char, c_int, c_void, CStr};

use ethdev::EthDev;
use mbuf::Mbuf;
use vdev::{Devargs, VdevDriver};

/// The release whose structures these are.
const RELEASE: &str = "DPDK 22.11.";
/// `RTE_LOG_ERR`.
const LOG_ERROR: u32 = 4;
/// `RTE_LOGTYPE_PMD`.
const LOG_PMD: u32 = 5;
/// `RTE_DEVTYPE_VIRTUAL`.
const DEVICE_VIRTUAL: c_int = 2;
/// `RTE_PROC_PRIMARY`.
const PROCESS_PRIMARY: c_int = 0;

extern "C" {
    fn rte_version() -> *const c_char;
    fn rte_log(level: u32, logtype: u32, format: *const c_char, ...) -> c_int;
    fn rte_eal_process_type() -> c_int;
    fn rte_devargs_next(bus: *const c_char, start: *const Devargs) -> *mut Devargs;
    fn rte_devargs_add(kind: c_int, text: *const c_char) -> c_int;

    /// Registers a driver with the bus of virtual devices.
    pub fn rte_vdev_register(driver: *mut VdevDriver);
    /// Has `callback` called before the bus looks for devices.
    pub fn rte_vdev_add_custom_scan(callback: unsafe extern "C" fn(*mut c_void), arg: *mut c_void) -> c_int;

    /// A new Ethernet device; null when there are too many.
    pub fn rte_eth_dev_allocate(name: *const c_char) -> *mut EthDev;
    /// The Ethernet device of that name; null if there is none.
    pub fn rte_eth_dev_allocated(name: *const c_char) -> *mut EthDev;
    /// Tells programs of a new device.
    pub fn rte_eth_dev_probing_finish(dev: *mut EthDev);
    /// Takes a device away, with its `mac_addrs` and `dev_private`.
    pub fn rte_eth_dev_release_port(dev: *mut EthDev) -> c_int;
    /// Tells the program of an event of a device (`RTE_ETH_EVENT_*`).
    pub fn rte_eth_dev_callback_process(dev: *mut EthDev, event: c_int, about: *mut c_void) -> c_int;

    /// Zeroed memory that `rte_free` frees.
    pub fn rte_zmalloc(kind: *const c_char, bytes: usize, align: u32) -> *mut c_void;
    /// Frees mbufs with all their segments.
    pub fn rte_pktmbuf_free_bulk(mbufs: *mut *mut Mbuf, count: u32);
}

/// Whether the structures are those of the program's DPDK; else why not.
pub fn supported() -> Result<(), String> {
    // SAFETY: a function without conditions; the text is static.
    let version = unsafe { CStr::from_ptr(rte_version()) }.to_string_lossy();
    if !version.starts_with(RELEASE) {
        return Err(format!("this driver is for {RELEASE}x and not for {version}: it stays out"));
    }
    Ok(())
}

/// Whether this is the process that owns the devices. EAL knows when it looks for devices, and not before.
pub fn is_primary() -> bool {
    // SAFETY: a function without conditions.
    unsafe { rte_eal_process_type() == PROCESS_PRIMARY }
}

/// Says an error where DPDK says its own.
pub fn log(text: &str) {
    let text = format!("verbena: {text}\n\0").replace('%', "percent");
    // SAFETY: the text ends in a zero, and is given to a format that prints one.
    unsafe { rte_log(LOG_ERROR, LOG_PMD, c"%s".as_ptr(), text.as_ptr()) };
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
