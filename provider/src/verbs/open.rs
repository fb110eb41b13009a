//! Opening a device.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void, CStr, OsStr};
use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;

use rdma_sys::{ibv_device, verbs_context};

use super::context::{Context, VContext};
use super::errno::{object, Errno};
use super::{fork, ops};
use crate::abi::private::{_verbs_init_and_alloc_context, verbs_set_ops, verbs_uninit_context};
use crate::abi::write_hook;

fn make_channel(context: usize) -> std::result::Result<RawFd, c_int> {
    // SAFETY: the hook is told to forget the context before it is freed.
    let context = unsafe { &*(context as *const Context) };
    context.events.make_channel().map_err(|error| error.0)
}

/// `ibv_open_device`.
///
/// # Safety
/// Called by libibverbs with a device of this provider and a descriptor that becomes ours.
pub unsafe extern "C" fn alloc_context(
    device: *mut ibv_device,
    cmd_fd: c_int,
    _private: *mut c_void,
) -> *mut verbs_context {
    object(|| {
        // SAFETY: VContext begins with the verbs_context, hence the offset of null.
        let whole =
            unsafe { _verbs_init_and_alloc_context(device, cmd_fd, size_of::<VContext>(), null_mut(), 0) }
                .cast::<VContext>();
        if whole.is_null() {
            return Err(Errno::last());
        }
        // SAFETY: libibverbs keeps the strings of a device terminated.
        let (name, dir) = unsafe {
            let dir = CStr::from_ptr((*device).ibdev_path.as_ptr());
            (CStr::from_ptr((*device).name.as_ptr()), Path::new(OsStr::from_bytes(dir.to_bytes())))
        };
        match Context::open(name, dir) {
            // SAFETY: a fresh context that no other code has seen yet.
            Ok((context, async_fd)) => unsafe { Ok(finish(whole, context, async_fd)) },
            Err((errno, why)) => {
                eprintln!("verbena: cannot open {}: {why}", name.to_string_lossy());
                // SAFETY: undoes the allocation above; this closes cmd_fd.
                unsafe {
                    verbs_uninit_context(&raw mut (*whole).verbs);
                    libc::free(whole.cast());
                }
                Err(errno)
            }
        }
    })
}

/// # Safety
/// `whole` must be fresh from libibverbs.
unsafe fn finish(whole: *mut VContext, context: Context, async_fd: OwnedFd) -> *mut verbs_context {
    let vectors = context.device.eq_vectors();
    let open = Box::into_raw(Box::new(context));
    // SAFETY: as the caller promises; the fields are set before libibverbs shows the context.
    unsafe {
        (*whole).open = open;
        let verbs = &raw mut (*whole).verbs;
        (*verbs).context.async_fd = async_fd.into_raw_fd();
        (*verbs).context.num_comp_vectors = vectors as c_int;
        verbs_set_ops(verbs, &ops::OPS);
        write_hook::answer_for((*verbs).context.cmd_fd, make_channel, open as usize);
        fork::opened(verbs);
        verbs
    }
}
