//! Signals of threads that must not run the program's handlers.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// Blocks all signals of this thread until it is dropped, except those that its own instructions cause.
///
/// A signal handler that touched pages that its thread holds back would wait for itself.
pub(super) struct SignalsBlocked(libc::sigset_t);

impl SignalsBlocked {
    pub(super) fn new() -> SignalsBlocked {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut old = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: both sets are written before they are read.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            for own in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP] {
                libc::sigdelset(all.as_mut_ptr(), own);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr());
            SignalsBlocked(old.assume_init())
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the set came from pthread_sigmask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}
