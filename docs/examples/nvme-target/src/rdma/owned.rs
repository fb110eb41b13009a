//! A thing of libibverbs or librdmacm, freed when it is dropped; and their two ways to say that something failed.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::io;
use std::ptr::NonNull;

/// Owns what a C function made.
pub struct Owned<T, R = c_int> {
    raw: NonNull<T>,
    free: unsafe extern "C" fn(*mut T) -> R,
}

// SAFETY: both libraries lock what they share between threads.
unsafe impl<T, R> Send for Owned<T, R> {}
// SAFETY: as above.
unsafe impl<T, R> Sync for Owned<T, R> {}

impl<T, R> Owned<T, R> {
    /// What was made, which `free` takes back; a null pointer is a failure whose reason is in errno.
    ///
    /// # Safety
    ///
    /// `raw` is null, or nobody else frees it and `free` is the function to do it.
    pub unsafe fn new(raw: *mut T, free: unsafe extern "C" fn(*mut T) -> R) -> io::Result<Owned<T, R>> {
        let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
        Ok(Owned { raw, free })
    }

    /// For calls of the library.
    pub fn raw(&self) -> *mut T {
        self.raw.as_ptr()
    }
}

impl<T, R> Drop for Owned<T, R> {
    fn drop(&mut self) {
        // SAFETY: promised to `new`.
        unsafe { (self.free)(self.raw()) };
    }
}

/// The result of a function that returns -1 and sets errno, as those of librdmacm do.
pub fn posix(result: c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The result of a function that returns the error's number, as most of libibverbs do.
pub fn code(result: c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error.abs())),
    }
}
