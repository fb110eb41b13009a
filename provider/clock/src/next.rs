//! The C library's own versions of the functions that this library replaces.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// One function of the C library, looked up on first use, after this library in the search order.
pub struct Next {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Next {
    /// The function `name`.
    pub const fn new(name: &'static CStr) -> Next {
        Next { name, address: AtomicUsize::new(0) }
    }

    /// Its address. Ends the process if the C library has no such function, since there is nothing
    /// that could be called instead.
    pub fn address(&self) -> usize {
        let known = self.address.load(Ordering::Relaxed);
        if known != 0 {
            return known;
        }
        // SAFETY: a valid name.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
        if found == 0 {
            eprintln!("verbena: the C library has no function {}", self.name.to_string_lossy());
            std::process::abort();
        }
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

/// Calls the C library's own version of a function: `next!(fn read(fd: c_int, ...) -> ssize_t)`.
macro_rules! next {
    (fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)?) => {{
        const NAME: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(
            concat!(stringify!($name), "\0").as_bytes()) { Ok(name) => name, Err(_) => unreachable!() };
        static NEXT: $crate::next::Next = $crate::next::Next::new(NAME);
        let function: unsafe extern "C-unwind" fn($($type),*) $(-> $ret)? =
            std::mem::transmute::<usize, _>(NEXT.address());
        function($($arg),*)
    }};
}
pub(crate) use next;

/// Defines functions that take the place of the C library's (not in unit tests, whose harness
/// keeps its own), and the list of their names, `REPLACED`. In each, `next` is the C library's own version.
macro_rules! replace {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $ret:ty)? $body:block)*) => {
        /// The names of the functions that this file replaces.
        pub const REPLACED: &[&str] = &[$(concat!(stringify!($name), "\0")),*];
        $(
        $(#[$doc])*
        #[cfg_attr(not(test), no_mangle)]
        #[allow(clippy::missing_safety_doc)] // that of the C function of the same name
        #[cfg_attr(test, allow(dead_code))]
        pub unsafe extern "C-unwind" fn $name($($arg: $type),*) $(-> $ret)? {
            #[allow(dead_code, clippy::missing_safety_doc)]
            #[inline(always)]
            unsafe fn next($($arg: $type),*) $(-> $ret)? {
                // SAFETY: the caller keeps the contract of the C function of that name, whose type this is.
                unsafe { $crate::next::next!(fn $name($($arg: $type),*) $(-> $ret)?) }
            }
            // SAFETY: the caller keeps the contract of the C function of the same name, which is
            // all that the body relies upon.
            #[allow(unused_unsafe)]
            unsafe { $body }
        }
    )*};
}
pub(crate) use replace;
