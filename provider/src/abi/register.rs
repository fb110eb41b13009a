//! Registration with libibverbs, the way rdma-core's own providers do it: a constructor of the
//! shared object registers the operations, and libibverbs offers each device that it finds.
#![allow(unsafe_code)]

use std::ffi::{c_char, CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null;

use super::private::{verbs_device, verbs_device_ops, verbs_register_driver_34, verbs_sysfs_dev};
use contract::release;

use super::write_hook;
use crate::verbs::context::card_index;
use crate::verbs::open;

struct Shared(verbs_device_ops);
// SAFETY: the operations are constant, and their pointers point to constants.
unsafe impl Sync for Shared {}

static DEVICE_OPS: Shared = Shared(verbs_device_ops {
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
});

/// Runs when the shared object is loaded, as PROVIDER_DRIVER's constructor does in C.
#[used]
#[link_section = ".init_array"]
static CONSTRUCTOR: extern "C" fn() = {
    extern "C" fn register() {
        // Nothing here can panic; a panic in a constructor would end the program.
        if let Some(why) = refused() {
            let text = format!("verbena: {why}: its programs do not get to see the cards\n");
            // SAFETY: the text is readable; nothing can be done about an error.
            unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
            return;
        }
        // SAFETY: the operations live as long as the shared object, which libibverbs never unloads.
        unsafe { verbs_register_driver_34(&DEVICE_OPS.0) };
    }
    register
};

/// Why this provider cannot work with the libibverbs that has loaded it.
fn refused() -> Option<String> {
    let newer = std::ffi::CString::new(release::NEWER_SYMBOL).ok()?;
    let function: unsafe extern "C" fn(*const verbs_device_ops) = verbs_register_driver_34;
    // SAFETY: zero is a valid value; the address is of one of the library's functions, and its strings stay.
    let (path, newer) = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(function as *const libc::c_void, &mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        let handle = libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        let found = !handle.is_null() && !libc::dlsym(handle, newer.as_ptr()).is_null();
        if !handle.is_null() {
            libc::dlclose(handle);
        }
        (c_str(info.dli_fname), found)
    };
    release::refused(Path::new(OsStr::from_bytes(path.to_bytes())), newer)
}

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

unsafe extern "C" fn alloc_device(_sysfs: *mut verbs_sysfs_dev) -> *mut verbs_device {
    write_hook::install();
    // SAFETY: zero is a valid verbs_device; libibverbs fills it in.
    unsafe { libc::calloc(1, size_of::<verbs_device>()).cast() }
}

unsafe extern "C" fn uninit_device(device: *mut verbs_device) {
    // SAFETY: comes from alloc_device, and libibverbs has dropped its last reference.
    unsafe { libc::free(device.cast()) };
}
