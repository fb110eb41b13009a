//! An open device.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::mem::offset_of;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::Arc;

use rdma_sys::ibv_context;

use super::card::{Card, Device};
use super::errno::{set_errno, Errno, Result};
use super::events::Events;
use super::fork;
use super::object::Objects;
use super::prefetch::OnDemand;
use crate::abi::libibverbs::{Libibverbs, CONTEXT_ROOM};
use crate::abi::write_hook;

/// Devices of this provider have this name and a number.
const DEVICE_NAME: &str = "verbena";

/// The number in `verbena<n>`, if it is such a name.
pub fn card_index(name: &CStr) -> Option<u32> {
    let digits = name.to_str().ok()?.strip_prefix(DEVICE_NAME)?;
    // No sign, and no second spelling of the same number.
    let number: u32 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

/// What libibverbs allocates for a context.
#[repr(C)]
pub struct VContext {
    /// The fields of a `verbs_context` that only libibverbs uses, up to the end of this. How many depends on the release.
    room: [u64; CONTEXT_ROOM / 8],
    /// What programs see: the last field of the `verbs_context`.
    pub context: ibv_context,
    /// The part that is Rust.
    pub open: *mut Context,
}

impl VContext {
    fn whole(context: *mut ibv_context) -> *mut Self {
        context.wrapping_byte_sub(offset_of!(Self, context)).cast()
    }
}

/// The part of a context that is Rust.
pub struct Context {
    /// The copy of libibverbs that it is open in.
    pub library: &'static Libibverbs,
    /// The card function.
    pub device: Arc<Device>,
    /// Bytes of the card's own memory.
    pub memory_bytes: u32,
    /// Where it is described in sysfs, and which card it is.
    place: (PathBuf, u32),
    /// Of the process that opened it.
    pub generation: u32,
    /// Its events.
    pub events: Events,
    /// What its program has created in it.
    pub objects: Objects,
    /// Its memory that is found on demand.
    pub on_demand: OnDemand,
}

impl Context {
    /// The context of a pointer that programs have.
    ///
    /// # Safety
    /// `context` must be an open context of this provider.
    #[inline]
    pub unsafe fn of<'a>(context: *mut ibv_context) -> &'a Context {
        // SAFETY: `open` is set while the context is open.
        unsafe { &*(*VContext::whole(context)).open }
    }

    /// The card function, or one of its own for the child of a fork, in which the parent's works no more.
    pub fn device_here(&self) -> Result<Arc<Device>> {
        match self.generation == fork::generation() {
            true => Ok(self.device.clone()),
            false => open_device(&self.place).map_err(|(error, _)| error),
        }
    }

    /// Opens the card that has this name, described in the sysfs folder `dir`; also returns what becomes `async_fd`.
    pub fn open(library: &'static Libibverbs, name: &CStr, dir: &Path) -> Opened<(Self, OwnedFd)> {
        let no_device = || (Errno(libc::ENODEV), "this name is not ours".into());
        let card = card_index(name).ok_or_else(no_device)?;
        let place = (dir.to_owned(), card);
        let device = open_device(&place)?;
        let (events, async_fd) =
            Events::new(device.clone()).map_err(|error| (error, "no pipe for events".into()))?;
        events.watch().map_err(|error| (error, "no thread for events".into()))?;
        let (on_demand, generation) = (OnDemand::default(), fork::generation());
        let memory_bytes = device.memory_bytes();
        let objects = Objects::none(generation);
        Ok((Self { library, device, memory_bytes, place, generation, events, objects, on_demand }, async_fd))
    }
}

type Opened<T> = std::result::Result<T, (Errno, String)>;

fn open_device((dir, card): &(PathBuf, u32)) -> Opened<Arc<Device>> {
    super::timeline::exempt();
    let card = Card::open(dir, *card).map_err(|error| (Errno(libc::ENODEV), error))?;
    let device = Device::open(card).map_err(|error| (Errno(error.errno()), error.to_string()))?;
    super::timeline::attach(device.card()).map_err(|why| (Errno(libc::ENODEV), why))?;
    Ok(device)
}

/// `ibv_close_device`. As in Linux, what the program has not destroyed ends here, too.
///
/// # Safety
/// Called by libibverbs with an open context that is no longer in use.
pub unsafe extern "C" fn free_context(context: *mut ibv_context) {
    // Nothing here may unwind into C.
    let freed: Result<()> = std::panic::catch_unwind(|| {
        // SAFETY: as the caller promises; nothing refers to the context after this.
        unsafe {
            let whole = VContext::whole(context);
            write_hook::forget((*context).cmd_fd);
            fork::closing(context);
            let open = Box::from_raw(std::mem::replace(&mut (*whole).open, null_mut()));
            let library = open.library;
            library.set_ops(context, &fork::REFUSED);
            open.events.stop();
            let left = open.objects.abandon(&open.device);
            drop(open);
            if !left {
                library.uninit_context(context);
                libc::free(whole.cast());
                return;
            }
            // Through what it still has pointers to the program comes to the context: that stays.
            for fd in [&mut (*context).cmd_fd, &mut (*context).async_fd] {
                libc::close(std::mem::replace(fd, -1));
            }
        }
    })
    .map_err(|_| Errno::EIO);
    if let Err(error) = freed {
        set_errno(error);
    }
}

#[cfg(test)]
mod tests {
    use super::card_index;

    #[test]
    fn only_our_names_match() {
        assert_eq!(card_index(c"verbena0"), Some(0));
        assert_eq!(card_index(c"verbena12"), Some(12));
        for other in [c"verbena", c"verbena00", c"verbena+1", c"verbena0x", c"mlx5_0", c"xverbena0"] {
            assert_eq!(card_index(other), None, "{other:?}");
        }
    }
}
