//! What a thread needs to take a robust lock: its id, and the list of locks that it announces to the kernel.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::ptr::null;
use std::sync::atomic::AtomicPtr;

/// `struct robust_list_head` of linux/futex.h.
#[repr(C)]
pub(super) struct Head {
    list: AtomicPtr<u8>,
    /// From a lock's entry in the list to the lock.
    pub futex_offset: libc::c_long,
    /// The entry of the lock that is being taken, held or released.
    pub pending: AtomicPtr<u8>,
}

/// What a thread needs to take a lock.
#[repr(C)]
pub(super) struct Me {
    /// The head of its list.
    head: Cell<*const Head>,
    /// Its id; 0 before the first lock. In a forked child it is that of the parent's thread, see [`forget_thread`].
    tid: Cell<u32>,
}

// The thread-local variable, in the initial-exec model: two instructions find it. `thread_local!` in a library that
// is loaded at run time calls the dynamic linker each time, which took a tenth of a doorbell. The C library keeps some
// 1.6 KB in each thread for such variables of libraries (glibc.rtld.optional_static_tls); ours has 200 bytes of them.
std::arch::global_asm!(
    ".pushsection .tbss.verbena_me,\"awT\",@nobits",
    ".balign 8",
    ".globl verbena_robust_me",
    ".hidden verbena_robust_me",
    ".type verbena_robust_me, @tls_object",
    ".size verbena_robust_me, {size}",
    "verbena_robust_me:",
    ".zero {size}",
    ".popsection",
    size = const size_of::<Me>(),
);

impl Me {
    /// The calling thread's.
    #[inline(always)]
    pub fn of_thread<'a>() -> &'a Me {
        let me: *const Me;
        // SAFETY: reads the variable's offset; the dynamic linker and the C library provide both.
        unsafe {
            std::arch::asm!(
                "mov {me}, qword ptr [rip + verbena_robust_me@GOTTPOFF]",
                "add {me}, qword ptr fs:[0]",
                me = out(reg) me,
                options(pure, readonly, nostack),
            );
            // As long as the thread, which this reference does not leave; zero bytes are a value.
            &*me
        }
    }

    /// Makes the other fields valid.
    #[inline(always)]
    pub fn introduced(&self) -> io::Result<()> {
        if self.tid.get() == 0 {
            return introduce();
        }
        Ok(())
    }

    /// The id and the list, once they are [`introduced`](Self::introduced).
    #[inline(always)]
    pub fn known(&self) -> (u32, &Head) {
        // SAFETY: set together with the id; the list lives as long as the thread, which this reference does not leave.
        (self.tid.get(), unsafe { &*self.head.get() })
    }
}

/// The calling thread is new: the only one of a forked child.
pub(super) fn forget_thread() {
    Me::of_thread().tid.set(0);
}

/// Finds the id of the calling thread and the head of its list.
#[cold]
fn introduce() -> io::Result<()> {
    let mut head: *const Head = null();
    let mut length = 0_usize;
    // SAFETY: asks for the calling thread's own list; both places are written.
    let code = unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut length) };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    if head.is_null() || length != size_of::<Head>() {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "the C library announces no robust futexes"));
    }
    // SAFETY: has no arguments and never fails.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    let me = Me::of_thread();
    me.tid.set(tid);
    me.head.set(head);
    Ok(())
}
