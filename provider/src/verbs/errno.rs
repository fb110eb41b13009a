//! Results for C: errno values, and no panic past this point.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null_mut;

/// An errno value, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub c_int);

impl Errno {
    /// The call's arguments are wrong.
    pub const EINVAL: Self = Self(libc::EINVAL);
    /// This provider does not do that.
    pub const EOPNOTSUPP: Self = Self(libc::EOPNOTSUPP);
    /// No memory or no free object.
    pub const ENOMEM: Self = Self(libc::ENOMEM);
    /// Something that must not happen.
    pub const EIO: Self = Self(libc::EIO);

    /// This error if that is so.
    #[inline]
    pub fn when(self, so: bool) -> Result<()> {
        match so {
            true => Err(self),
            false => Ok(()),
        }
    }

    /// The error of the last system call of this thread.
    pub fn last() -> Self {
        Self(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<driver::Error> for Errno {
    fn from(error: driver::Error) -> Self {
        if verbose() {
            model::tell!("verbena: {error}");
        }
        Self(error.errno())
    }
}

/// Whether refused calls say why on standard error (`VERBENA_VERBOSE=1`).
pub fn verbose() -> bool {
    static VERBOSE: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *VERBOSE.get_or_init(|| std::env::var_os("VERBENA_VERBOSE").is_some_and(|v| v != "0"))
}

/// The result of a provider call.
pub type Result<T> = std::result::Result<T, Errno>;

/// Sets errno of this thread.
pub fn set_errno(error: Errno) {
    // SAFETY: the address of this thread's errno is always valid.
    unsafe { *libc::__errno_location() = error.0 };
}

fn guarded<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    // The program gets EIO. What a panic leaves half done is the object of the call's, or the cards': their lock counts
    // as a dead holder's then, and they are repaired before anything else happens to them.
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(Err(Errno::EIO))
}

/// For verbs that return 0 or an errno value.
#[inline]
pub fn status(call: impl FnOnce() -> Result<()>) -> c_int {
    match guarded(call) {
        Ok(()) => 0,
        Err(error) => {
            set_errno(error);
            error.0
        }
    }
}

/// For verbs that return an object or null with errno.
pub fn object<T>(call: impl FnOnce() -> Result<*mut T>) -> *mut T {
    guarded(call).unwrap_or_else(|error| {
        set_errno(error);
        null_mut()
    })
}

/// For verbs that return a count, or -1 with errno.
#[inline]
pub fn count(call: impl FnOnce() -> Result<usize>) -> c_int {
    match guarded(call) {
        Ok(n) => n as c_int,
        Err(error) => {
            set_errno(error);
            -1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_eio() {
        assert_eq!(status(|| panic!("test")), libc::EIO);
        assert_eq!(count(|| panic!("test")), -1);
        assert!(object::<u8>(|| panic!("test")).is_null());
        assert_eq!(Errno::last(), Errno::EIO);
    }

    #[test]
    fn results_pass_through() {
        assert_eq!(status(|| Ok(())), 0);
        assert_eq!(status(|| Err(Errno::EINVAL)), libc::EINVAL);
        assert_eq!(count(|| Ok(7)), 7);
    }
}
