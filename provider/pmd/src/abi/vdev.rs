//! The bus of virtual devices.

use std::ffi::{c_char, c_int, c_void};

/// Start of `struct rte_devargs`: what an argument says of a device.
#[repr(C)]
pub struct Devargs {
    next: [usize; 2],
    kind: c_int,
    policy: c_int,
    /// Name of the device.
    pub name: [c_char; 64],
    /// What follows the name, after a comma; null or empty if there is nothing.
    pub args: *const c_char,
}

/// `struct rte_driver`.
#[repr(C)]
pub struct Driver {
    next: [usize; 2],
    /// Its name; devices whose names begin with it are its own.
    pub name: *const c_char,
    alias: *const c_char,
}

/// `struct rte_device`.
#[repr(C)]
pub struct Device {
    next: [usize; 2],
    /// Its name.
    pub name: *const c_char,
    bus_info: *const c_char,
    driver: *const Driver,
    bus: *const c_void,
    /// NUMA node; -1 if unknown.
    pub numa_node: c_int,
    /// The argument that asked for it; null if there was none.
    pub devargs: *const Devargs,
}

/// `struct rte_vdev_device`.
#[repr(C)]
pub struct VdevDevice {
    next: [usize; 2],
    /// What every device has.
    pub device: Device,
}

/// What the bus calls for a device that appears or goes.
pub type OfDevice = unsafe extern "C" fn(*mut VdevDevice) -> c_int;

/// `struct rte_vdev_driver`.
#[repr(C)]
pub struct VdevDriver {
    next: [usize; 2],
    driver: Driver,
    probe: Option<OfDevice>,
    remove: Option<OfDevice>,
    dma: [usize; 2],
    flags: u32,
}

impl VdevDriver {
    /// A driver for devices whose names begin with `name`.
    pub const fn new(name: *const c_char, probe: OfDevice, remove: OfDevice) -> Self {
        let driver = Driver { next: [0; 2], name, alias: std::ptr::null() };
        VdevDriver { next: [0; 2], driver, probe: Some(probe), remove: Some(remove), dma: [0; 2], flags: 0 }
    }
}

const _: () = {
    assert!(std::mem::offset_of!(Devargs, name) == 24 && std::mem::offset_of!(Devargs, args) == 88);
    assert!(size_of::<Device>() == 64);
    assert!(size_of::<VdevDevice>() == 80);
    assert!(size_of::<VdevDriver>() == 88);
};
