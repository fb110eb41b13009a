//! How ports appear: without an argument all ports of the cards in view, else those that `--vdev` or `-a` names.
//!
//! A port is called `net_verbena0` (card 0, port 1) or `net_verbena0p2` (card 0, port 2), as the RDMA device is
//! `verbena0`.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void, CStr, CString};
use std::panic::{catch_unwind, UnwindSafe};
use std::ptr::null_mut;
use std::sync::{Mutex, OnceLock};

use verbena::verbs::card::{Card, Device};
use verbena::verbs::in_view::in_view;
use verbena::verbs::timeline;

use crate::abi::ethdev::{EthDev, EthDevData, EthDevOps, Mac, AUTOFILL_QUEUE_XSTATS, TELLS_LINK};
use crate::abi::release::layout;
use crate::abi::vdev::{VdevDevice, VdevDriver};
use crate::abi::{self, log};
use crate::info::ADDRESSES;
use crate::locks;
use crate::ops;
use crate::port::Port;
use crate::secondary;

/// Name of the driver, with which the names of its devices begin.
const DRIVER: &CStr = c"net_verbena";
/// Ports of a card.
const PORTS: u8 = 2;

/// Runs when EAL loads the library.
#[used]
#[link_section = ".init_array"]
static INIT: extern "C" fn() = init;

extern "C" fn init() {
    if let Err(why) = abi::find() {
        return log(&why);
    }
    let driver = VdevDriver::new(DRIVER.as_ptr(), probe, remove);
    // SAFETY: a driver that stays for ever, and a function without conditions.
    unsafe {
        abi::rte_vdev_register(Box::into_raw(Box::new(driver)));
        abi::rte_vdev_add_custom_scan(scan, null_mut());
    }
}

/// Card and port of a device's name.
fn parse(name: &str) -> Option<(u32, u8)> {
    let rest = name.strip_prefix(DRIVER.to_str().ok()?)?;
    let (card, port) = rest.split_once('p').unwrap_or((rest, "1"));
    let port = port.parse().ok().filter(|port| (1..=PORTS).contains(port))?;
    let card = card.parse().ok()?;
    // No second spelling of the same port.
    (name_of(card, port) == name).then_some((card, port))
}

fn name_of(card: u32, port: u8) -> String {
    let suffix = if port == 1 { String::new() } else { format!("p{port}") };
    format!("{}{card}{suffix}", DRIVER.to_string_lossy())
}

unsafe extern "C" fn scan(_: *mut c_void) {
    let driver = DRIVER.to_string_lossy();
    if !abi::is_primary() || abi::asked_for().iter().any(|name| name.starts_with(&*driver)) {
        return;
    }
    for (card, _) in in_view() {
        for port in 1..=PORTS {
            if let Ok(name) = CString::new(name_of(card, port)) {
                abi::ask_for(&name);
            }
        }
    }
}

/// Opens the port that a name says.
fn open(name: &str) -> Result<Port<Card>, String> {
    let (number, port) =
        parse(name).ok_or("a name is net_verbena, a card's number, and p2 for its second port")?;
    let cards = in_view();
    let dir = cards.iter().find(|card| card.0 == number).map(|card| &card.1);
    let dir = dir
        .ok_or_else(|| format!("there is no verbena{number} in view: start the program with verbena run"))?;
    timeline::exempt();
    let card = Card::open(dir, number)?;
    timeline::attach(&card)?;
    let device = Device::open(card).map_err(|error| error.to_string())?;
    Port::new(device, port).map_err(|error| error.to_string())
}

fn operations() -> &'static [usize] {
    static OPERATIONS: OnceLock<Vec<usize>> = OnceLock::new();
    let all = || match abi::is_primary() {
        true => EthDevOps { dev_close: Some(close), dev_reset: Some(reset), ..EthDevOps::of::<Card>() },
        false => secondary::operations(),
    };
    OPERATIONS.get_or_init(|| all().of_release(layout()))
}

unsafe extern "C" fn close(dev: *mut EthDev) -> c_int {
    // SAFETY: called for a device of this driver, which is not used any more: by secondary processes neither, from here on.
    unsafe {
        secondary::forget(dev);
        ops::close::<Card>(dev)
    }
}

unsafe extern "C" fn reset(dev: *mut EthDev) -> c_int {
    // SAFETY: called by ethdev for a device of this driver, whose name is a C string.
    unsafe {
        let name = CStr::from_ptr((*EthDev::data(dev)).name.as_ptr()).to_string_lossy();
        match said(&name, || open(&name)) {
            Ok(port) => ops::reset(dev, port),
            Err(errno) => -errno,
        }
    }
}

/// A port that is opened; else logs why it is not, and gives an errno value.
fn said(
    name: &str,
    open: impl FnOnce() -> Result<Port<Card>, String> + UnwindSafe,
) -> Result<Port<Card>, c_int> {
    let opened = catch_unwind(open).map_err(|_| libc::EIO)?;
    opened.map_err(|why| {
        log(&format!("{name}: {why}"));
        libc::ENODEV
    })
}

/// The primary process has the port.
///
/// # Safety
/// `vdev` must be a device of the bus.
unsafe fn attach(vdev: *mut VdevDevice) -> c_int {
    // SAFETY: as the caller promises, and a device that nobody else of this process uses yet.
    unsafe {
        let dev = abi::rte_eth_dev_attach_secondary((*vdev).device.name);
        if dev.is_null() {
            return -libc::ENODEV;
        }
        EthDev::belongs(dev, operations(), &raw mut (*vdev).device);
        secondary::data_path(dev);
        abi::rte_eth_dev_probing_finish(dev);
    }
    0
}

unsafe extern "C" fn probe(vdev: *mut VdevDevice) -> c_int {
    if !abi::is_primary() {
        // SAFETY: called by the bus with a device.
        return unsafe { attach(vdev) };
    }
    // SAFETY: called by the bus with a device, whose name is a C string.
    let named = unsafe { CStr::from_ptr((*vdev).device.name) };
    let name = named.to_string_lossy();
    // SAFETY: as above; its arguments, if it has some, are a C string.
    let argued = unsafe {
        let devargs = (*vdev).device.devargs;
        !devargs.is_null() && !(*devargs).args.is_null() && *(*devargs).args != 0
    };
    let opened = said(&name, || match () {
        () if argued => Err("the device takes no arguments".into()),
        // Before memory of the net is mapped.
        () => locks::check().and_then(|()| open(&name)),
    });
    let port = match opened {
        Ok(port) => port,
        Err(errno) => return -errno,
    };
    // SAFETY: functions of ethdev, and the device that it allocates, which nobody else uses yet.
    unsafe {
        let dev = abi::rte_eth_dev_allocate(named.as_ptr());
        if dev.is_null() {
            return -libc::ENOMEM;
        }
        let macs: *mut Mac =
            abi::rte_zmalloc(DRIVER.as_ptr(), ADDRESSES as usize * size_of::<Mac>(), 0).cast();
        if macs.is_null() {
            abi::rte_eth_dev_release_port(dev);
            return -libc::ENOMEM;
        }
        *macs = port.mac();
        let data = EthDev::data(dev);
        let more = EthDevData::more(data);
        (*more).mac_addrs = macs;
        (*more).dev_flags = AUTOFILL_QUEUE_XSTATS | TELLS_LINK;
        (*more).numa_node = (*vdev).device.numa_node;
        (*data).dev_private = Box::into_raw(Box::new(Mutex::new(port))).cast();
        EthDev::belongs(dev, operations(), &raw mut (*vdev).device);
        ops::data_path::<Card>(dev);
        secondary::serve(dev);
        abi::rte_eth_dev_probing_finish(dev);
    }
    0
}

unsafe extern "C" fn remove(vdev: *mut VdevDevice) -> c_int {
    // SAFETY: called by the bus with a device that was probed.
    unsafe {
        let dev = abi::rte_eth_dev_allocated((*vdev).device.name);
        if dev.is_null() {
            return 0;
        }
        // Also of a port that is started, which ethdev would refuse: its memory is gone after this.
        if abi::is_primary() {
            close(dev);
        }
        abi::rte_eth_dev_release_port(dev)
    }
}
