//! Opening a device.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void, CStr, OsStr};
use std::os::fd::{IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rdma_sys::{ibv_device, verbs_context};

use super::context::{Context, VContext};
use super::errno::{object, Errno};
use super::{fork, ops};
use crate::abi::libibverbs::Libibverbs;
use crate::abi::write_hook;

fn make_channel(context: usize) -> std::result::Result<RawFd, c_int> {
    // SAFETY: the hook is told to forget the context before it is freed.
    let context = unsafe { &*(context as *const Context) };
    if context.generation != fork::generation() {
        return Err(fork::refuse());
    }
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
        // SAFETY: a device of this provider.
        let library = unsafe { Libibverbs::of(device) }.ok_or(Errno(libc::ENODEV))?;
        // SAFETY: a VContext begins with the room that libibverbs needs.
        let whole =
            unsafe { library.alloc_context(device, cmd_fd, size_of::<VContext>()) }.cast::<VContext>();
        if whole.is_null() {
            return Err(Errno::last());
        }
        // SAFETY: libibverbs keeps the strings of a device terminated.
        let (name, dir) = unsafe {
            let dir = CStr::from_ptr((*device).ibdev_path.as_ptr());
            (CStr::from_ptr((*device).name.as_ptr()), Path::new(OsStr::from_bytes(dir.to_bytes())))
        };
        match Context::open(library, name, dir) {
            // SAFETY: a fresh context that no other code has seen yet.
            Ok((context, async_fd)) => unsafe { Ok(finish(whole, context, async_fd)) },
            Err((errno, why)) => {
                model::tell!("verbena: cannot open {}: {why}", name.to_string_lossy());
                // SAFETY: undoes the allocation above; this closes cmd_fd.
                unsafe {
                    library.uninit_context(&raw mut (*whole).context);
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
    let (vectors, library) = (context.device.eq_vectors(), context.library);
    let open = Box::into_raw(Box::new(context));
    // SAFETY: as the caller promises; the fields are set before libibverbs shows the context.
    unsafe {
        (*whole).open = open;
        let context = &raw mut (*whole).context;
        (*context).async_fd = async_fd.into_raw_fd();
        (*context).num_comp_vectors = vectors as c_int;
        library.set_ops(context, &ops::OPS);
        write_hook::answer_for((*context).cmd_fd, make_channel, open as usize);
        fork::opened(library, context, &ops::IN_CHILD);
        library.verbs_context(context)
    }
}
