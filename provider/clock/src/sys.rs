//! System calls by the instruction itself: the functions of the C library are what this library
//! replaces, so its own code cannot use them.
#![allow(unsafe_code)]

use std::arch::asm;
use std::ffi::{c_int, c_long};

/// The result of a system call: a value, or minus an error number.
pub type Sys = isize;

/// # Safety
/// As the system call `number` with these arguments.
pub unsafe fn call(number: c_long, a: [usize; 6]) -> Sys {
    let result;
    // SAFETY: the kernel's calling convention; what the call does is the caller's promise.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Makes a system call with up to six arguments, each cast to a machine word.
macro_rules! sys {
    ($number:expr $(, $arg:expr)*) => {{
        let mut _args = [0usize; 6];
        let mut _n = 0;
        $( _args[_n] = $arg as usize; _n += 1; )*
        let _ = _n;
        $crate::sys::call($number, _args)
    }};
}
pub(crate) use sys;

/// Gives a system call's result the form of a C function: -1 and errno, or the value.
pub fn errno(result: Sys) -> Sys {
    if (-4095..0).contains(&result) {
        set_errno(-result as c_int);
        -1
    } else {
        result
    }
}

/// Sets the calling thread's errno.
pub fn set_errno(value: c_int) {
    // SAFETY: the C library's own errno of this thread.
    unsafe { *libc::__errno_location() = value }
}

/// Sets errno and returns -1.
pub fn fail<R: From<i8>>(error: c_int) -> R {
    set_errno(error);
    R::from(-1)
}

/// The calling thread's errno.
pub fn get_errno() -> c_int {
    // SAFETY: the C library's own errno of this thread.
    unsafe { *libc::__errno_location() }
}

/// The machine's CLOCK_MONOTONIC in nanoseconds.
pub fn real_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing.
    unsafe { sys!(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The number of the calling thread.
pub fn gettid() -> c_int {
    // SAFETY: no arguments, cannot fail.
    unsafe { sys!(libc::SYS_gettid) as c_int }
}

/// The number of this process.
pub fn getpid() -> c_int {
    // SAFETY: no arguments, cannot fail.
    unsafe { sys!(libc::SYS_getpid) as c_int }
}

/// Sends a signal to the calling thread.
pub fn raise(signal: c_int) {
    // SAFETY: plain numbers.
    unsafe { sys!(libc::SYS_tgkill, getpid(), gettid(), signal) };
}
