//! Registration with libibverbs, the way rdma-core's own providers do it: a constructor of the
//! shared object registers the operations, and libibverbs offers each device that it finds.
#![allow(unsafe_code)]

use std::ffi::{c_char, CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null;

use super::libibverbs;
use super::private::{verbs_device, verbs_device_ops, verbs_sysfs_dev};
use super::write_hook;
use crate::verbs::context::card_index;
use crate::verbs::open;

fn device_ops() -> verbs_device_ops {
    verbs_device_ops {
        name: c"verbena".as_ptr(),
        match_min_abi_version: 0,
        match_max_abi_version: u32::MAX,
        match_table: null(),
        static_providers: null(),
        match_device: Some(match_device),
        alloc_context: Some(open::alloc_context),
        import_context: None,
        alloc_device: Some(alloc_device),
        uninit_device: Some(uninit_device),
    }
}

/// Runs when the shared object is loaded, as PROVIDER_DRIVER's constructor does in C.
#[used]
#[link_section = ".init_array"]
static CONSTRUCTOR: extern "C" fn() = {
    extern "C" fn register() {
        // A panic in a constructor would end the program.
        let refused = std::panic::catch_unwind(|| libibverbs::register(device_ops)).unwrap_or_default();
        for why in refused {
            let text = format!("verbena: {why}: its programs do not get to see the cards\n");
            // SAFETY: the text is readable; nothing can be done about an error.
            unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
        }
    }
    register
};

/// # Safety
/// `text` must be terminated by a zero.
unsafe fn c_str<'a>(text: *const c_char) -> &'a CStr {
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(text) }
}

unsafe extern "C" fn match_device(sysfs: *mut verbs_sysfs_dev) -> bool {
    // A device of the kernel that happens to have this name comes from netlink with an index.
    // SAFETY: libibverbs passes a valid device whose name is terminated.
    unsafe { card_index(c_str((*sysfs).ibdev_name.as_ptr())).is_some() && (*sysfs).driver_id == 0 }
}

unsafe extern "C" fn alloc_device(sysfs: *mut verbs_sysfs_dev) -> *mut verbs_device {
    write_hook::install();
    // SAFETY: libibverbs passes a valid device whose path is terminated.
    let directory = unsafe { c_str((*sysfs).ibdev_path.as_ptr()) };
    crate::cm::imports::install(Some(Path::new(OsStr::from_bytes(directory.to_bytes())).into()));
    // SAFETY: zero is a valid verbs_device; libibverbs fills it in.
    unsafe { libc::calloc(1, size_of::<verbs_device>()).cast() }
}

unsafe extern "C" fn uninit_device(device: *mut verbs_device) {
    // SAFETY: comes from alloc_device, and libibverbs has dropped its last reference.
    unsafe { libc::free(device.cast()) };
}
