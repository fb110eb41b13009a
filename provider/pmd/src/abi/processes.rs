//! Messages between a program's primary process and its secondary ones (`rte_mp_*`).
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void, CStr};

/// Bytes that a message has room for (`RTE_MP_MAX_PARAM_LEN`).
const ROOM: usize = 256;

/// `struct rte_mp_msg`.
#[repr(C)]
pub struct Message {
    pub(crate) name: [c_char; 64],
    pub(crate) length: c_int,
    pub(crate) fd_count: c_int,
    pub(crate) content: [u8; ROOM],
    /// None are sent. 24.11 has room for so many, 22.11 for 8.
    pub(crate) fds: [c_int; 253],
}

/// `struct rte_mp_reply`: what all that were asked have answered.
#[repr(C)]
pub struct Replies {
    asked: c_int,
    /// Their number.
    pub answered: c_int,
    /// To be freed.
    pub messages: *mut Message,
}

/// Called in a thread of DPDK's, with a message and who sent it.
pub type Answer = unsafe extern "C" fn(*const Message, *const c_void) -> c_int;

impl Replies {
    /// None yet.
    pub fn none() -> Replies {
        Replies { asked: 0, answered: 0, messages: std::ptr::null_mut() }
    }
}

impl Message {
    /// One for who has registered this name.
    pub fn new<T: Copy>(to: &CStr, content: T) -> Message {
        const { assert!(size_of::<T>() <= ROOM) };
        let length = size_of::<T>() as c_int;
        let mut message = Message { name: [0; 64], length, fd_count: 0, content: [0; ROOM], fds: [0; 253] };
        for (to, from) in message.name.iter_mut().zip(to.to_bytes()) {
            *to = *from as c_char;
        }
        // SAFETY: there is room.
        unsafe { message.content.as_mut_ptr().cast::<T>().write_unaligned(content) };
        message
    }

    /// What it says, if it is as long as that.
    ///
    /// # Safety
    /// `message` must be one of DPDK's; any bytes must be a `T`.
    pub unsafe fn content<T: Copy>(message: *const Message) -> Option<T> {
        const { assert!(size_of::<T>() <= ROOM) };
        // SAFETY: as the caller promises; 22.11 has no room for all descriptors, so there is no reference to the whole.
        unsafe {
            let whole = (*message).length as usize == size_of::<T>();
            whole.then(|| (&raw const (*message).content).cast::<T>().read_unaligned())
        }
    }
}
