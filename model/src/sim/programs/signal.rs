//! Signals to and of one thread.
#![allow(unsafe_code)]

use contract::clock::TICK_SIGNAL;

/// Sends a signal to a thread of a process; that it is gone does not matter.
pub fn send(pid: u32, tid: u32, signal: i32) {
    // SAFETY: a system call with plain numbers.
    unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, signal) };
}

/// Whether a signal is pending for the thread, other than the clock library's tick.
pub(crate) fn pending() -> bool {
    let mut waiting = 0u64;
    // SAFETY: the kernel's signal sets have 64 bits.
    unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut waiting, size_of::<u64>()) };
    waiting & !(0b11 << (TICK_SIGNAL - 1)) != 0
}

/// While this exists, the clock library's tick does not end the thread's sleep.
pub(crate) struct Undisturbed {
    before: u64,
}

impl Undisturbed {
    pub fn new() -> Self {
        let mut it = Undisturbed { before: 0 };
        let tick = 1u64 << (TICK_SIGNAL - 1);
        set_mask(libc::SIG_BLOCK, &tick, &mut it.before);
        it
    }
}

impl Drop for Undisturbed {
    fn drop(&mut self) {
        set_mask(libc::SIG_SETMASK, &self.before, &mut 0);
    }
}

/// Not the C library's function, which the clock library sees.
fn set_mask(how: libc::c_int, mask: &u64, before: &mut u64) {
    // SAFETY: the kernel's signal sets have 64 bits, and both are valid for the call.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            how,
            std::ptr::from_ref(mask),
            std::ptr::from_mut(before),
            size_of::<u64>(),
        )
    };
}
