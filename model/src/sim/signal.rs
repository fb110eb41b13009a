//! A signal to one thread.
#![allow(unsafe_code)]

/// Sends a signal to a thread of a process; that it is gone does not matter.
pub fn send(pid: u32, tid: u32, signal: i32) {
    // SAFETY: a system call with plain numbers.
    unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, signal) };
}
