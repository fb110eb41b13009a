//! `ibv_create_comp_channel`, the one verb that libibverbs does not pass to its providers.
//!
//! libibverbs writes the kernel command CREATE_COMP_CHANNEL to `context->cmd_fd` and takes the
//! descriptor of the new channel from the answer. Here `cmd_fd` is no kernel device: the write would
//! "succeed" and leave a garbage descriptor. So the import of `write` in libibverbs (and in no
//! other library) is redirected to [`write()`] below, which answers that one command for the
//! descriptors of this provider's contexts and passes everything else on.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::libibverbs;
use super::private::{create_comp_channel_cmd, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL};
use crate::cm::imports::opendir;

/// Makes a completion channel for the context of a registration and returns its descriptor.
pub type MakeChannel = fn(context: usize) -> Result<RawFd, c_int>;

/// The command descriptors of open contexts, each with a function and its argument.
pub type Ours = Vec<(RawFd, MakeChannel, usize)>;

static OURS: Mutex<Ours> = Mutex::new(Vec::new());

/// The list. A thread that forks holds it meanwhile: in the child, no other thread could give the lock back.
pub fn lock() -> MutexGuard<'static, Ours> {
    OURS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on a CREATE_COMP_CHANNEL written to `cmd_fd` is answered by `make(context)`.
pub fn answer_for(cmd_fd: RawFd, make: MakeChannel, context: usize) {
    let mut ours = lock();
    ours.retain(|entry| entry.0 != cmd_fd);
    ours.push((cmd_fd, make, context));
}

/// The descriptor is about to be closed.
pub fn forget(cmd_fd: RawFd) {
    lock().retain(|entry| entry.0 != cmd_fd);
}

/// Patches every libibverbs that this provider has registered with, once.
pub fn install() {
    for library in libibverbs::loaded() {
        library.patch_once(|image| {
            // SAFETY: `write` below and `opendir` have the signatures of what they replace, and libibverbs never unloads a
            // provider.
            let patched = unsafe {
                image
                    .replace_import(c"opendir", opendir as *const () as usize)
                    .and_then(|_| image.replace_import(c"write", write as *const () as usize))
            };
            match patched {
                Ok(0) => {
                    model::tell!(
                        "verbena: libibverbs does not import write(): completion channels will not work"
                    )
                }
                Ok(_) => {}
                Err(why) => model::tell!("verbena: completion channels will not work: {why}"),
            }
        });
    }
}

/// What libibverbs calls instead of `write(2)`.
unsafe extern "C" fn write(fd: c_int, buf: *const c_void, count: usize) -> isize {
    // SAFETY: the same arguments as the caller's.
    let pass_on = || unsafe { libc::write(fd, buf, count) };
    if count != size_of::<create_comp_channel_cmd>() {
        return pass_on();
    }
    let found = lock().iter().find(|entry| entry.0 == fd).map(|entry| (entry.1, entry.2));
    let Some((make, context)) = found else {
        return pass_on();
    };
    // SAFETY: `count` bytes are readable at `buf`, and that is the size of the command.
    let command = unsafe { std::ptr::read_unaligned(buf.cast::<create_comp_channel_cmd>()) };
    if command.command != IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL {
        return pass_on();
    }
    let made = std::panic::catch_unwind(|| make(context)).unwrap_or(Err(libc::EIO));
    match made {
        Ok(channel) => {
            // SAFETY: libibverbs wants the answer, one 32-bit descriptor, at this address.
            unsafe { std::ptr::write_unaligned(command.response as *mut u32, channel as u32) };
            count as isize
        }
        Err(error) => {
            // SAFETY: errno of this thread.
            unsafe { *libc::__errno_location() = error };
            -1
        }
    }
}
