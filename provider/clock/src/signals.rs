//! The signals that this library handles itself. A program that sets a handler for one of them
//! keeps it: its handler gets what is not ours.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

use crate::next::{next, replace};
use crate::sys::{self, sys};
use contract::clock::{TICK_SIGNAL, WAKE_SIGNAL};

/// The signals of this library.
const OURS: [c_int; 4] = [libc::SIGSEGV, libc::SIGTRAP, TICK_SIGNAL, WAKE_SIGNAL];

/// Signals that an instruction raises: blocked, they end the process at once.
pub const SYNCHRONOUS: u64 = bit(libc::SIGSEGV) | bit(libc::SIGTRAP);

/// The bit of `signal` in the kernel's signal mask.
pub const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// What the program asked for.
struct Kept {
    handler: AtomicUsize,
    flags: AtomicI32,
    mask: AtomicU64,
}

static KEPT: [Kept; OURS.len()] = [const {
    Kept { handler: AtomicUsize::new(libc::SIG_DFL), flags: AtomicI32::new(0), mask: AtomicU64::new(0) }
}; OURS.len()];

/// The program has handlers that do not restart an interrupted call.
static INTERRUPTS: AtomicBool = AtomicBool::new(false);

/// A handler with `SA_SIGINFO`.
pub type Handler = extern "C-unwind" fn(c_int, *mut libc::siginfo_t, *mut c_void);

fn place(signal: c_int) -> Option<usize> {
    OURS.iter().position(|&ours| ours == signal)
}

unsafe fn real_sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    // SAFETY: the caller keeps the contract of sigaction(2).
    unsafe {
        next!(fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int)
    }
}

/// The kernel's mask: the first word of the C library's.
fn mask(set: &libc::sigset_t) -> u64 {
    // SAFETY: a sigset_t is an array of words, longer than one.
    unsafe { (&raw const *set).cast::<u64>().read() }
}

fn set_mask(set: &mut libc::sigset_t, mask: u64) {
    // SAFETY: a sigset_t is an array of words, longer than one.
    unsafe { (&raw mut *set).cast::<u64>().write(mask) }
}

/// Handles `signal` from now on. Nothing but the signals that instructions raise interrupts it: a
/// handler of the program would find the timeline in use.
pub fn handle(signal: c_int, handler: Handler, flags: c_int) {
    // SAFETY: all zero is a valid sigaction; both are valid for the call.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_NODEFER | flags;
        set_mask(&mut action.sa_mask, !SYNCHRONOUS);
        real_sigaction(signal, &action, std::ptr::null_mut());
    }
}

/// Gives the signal that was not ours to the program's handler, or lets it end the process.
pub fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(kept) = place(signal).map(|i| &KEPT[i]) else { return };
    let handler = kept.handler.load(Ordering::Relaxed);
    let flags = kept.flags.load(Ordering::Relaxed);
    // SAFETY: the kernel passes a valid siginfo.
    let by_instruction = unsafe { (*info).si_code } > 0;
    if handler == libc::SIG_DFL || (handler == libc::SIG_IGN && by_instruction) {
        // SAFETY: all zero is a valid sigaction, that of SIG_DFL. An instruction is run again and
        // raises the signal again; what was sent is sent again.
        unsafe {
            let action: libc::sigaction = std::mem::zeroed();
            real_sigaction(signal, &action, std::ptr::null_mut());
        }
        if !by_instruction || signal == libc::SIGTRAP {
            sys::raise(signal);
        }
        return;
    }
    if handler == libc::SIG_IGN {
        return;
    }
    if flags & libc::SA_RESETHAND != 0 {
        kept.handler.store(libc::SIG_DFL, Ordering::Relaxed);
    }
    // The mask that the program expects in its handler, also if it jumps out of it.
    // SAFETY: the kernel passes a valid ucontext.
    let interrupted = mask(unsafe { &(*context.cast::<libc::ucontext_t>()).uc_sigmask });
    set_blocked(interrupted | kept.mask.load(Ordering::Relaxed) & !SYNCHRONOUS);
    if flags & libc::SA_SIGINFO != 0 {
        // SAFETY: the program has set a handler of this form.
        let handler: Handler = unsafe { std::mem::transmute(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: the program has set a handler of this form.
        let handler: extern "C-unwind" fn(c_int) = unsafe { std::mem::transmute(handler) };
        handler(signal);
    }
}

/// True if the program has a handler of its own for one of our signals, or ignores it.
pub fn program_handles(signal: c_int) -> bool {
    place(signal).is_some_and(|i| KEPT[i].handler.load(Ordering::Relaxed) != libc::SIG_DFL)
}

/// The calling thread's mask.
pub fn blocked() -> u64 {
    let mut now = 0u64;
    // SAFETY: `now` has the size of the kernel's mask.
    unsafe { sys!(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, 0, &raw mut now, 8) };
    now
}

/// Sets the calling thread's mask.
pub fn set_blocked(mask: u64) {
    // SAFETY: the mask has the size of the kernel's.
    unsafe { sys!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const mask, 0, 8) };
}

/// True if the program would see `signal` if it came now: it is neither blocked nor ignored.
pub fn is_seen(signal: c_int) -> bool {
    action_of(signal).sa_sigaction != libc::SIG_IGN && blocked() & bit(signal) == 0
}

/// The same for when the handler that got `context` has returned.
pub fn is_seen_after(signal: c_int, context: *mut c_void) -> bool {
    // SAFETY: the kernel passes a valid ucontext.
    let blocked = mask(unsafe { &(*context.cast::<libc::ucontext_t>()).uc_sigmask });
    action_of(signal).sa_sigaction != libc::SIG_IGN && blocked & bit(signal) == 0
}

/// True if a wait that a handler has interrupted is to continue. Which handler it was is only known of
/// SIGALRM: else it continues if all of the program's handlers ask for that.
pub fn restarts(by_alarm: bool) -> bool {
    if by_alarm {
        action_of(libc::SIGALRM).sa_flags & libc::SA_RESTART != 0
    } else {
        !INTERRUPTS.load(Ordering::Relaxed)
    }
}

fn action_of(signal: c_int) -> libc::sigaction {
    // SAFETY: all zero is a valid sigaction, and it is valid for writing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        real_sigaction(signal, std::ptr::null(), &mut action);
        action
    }
}

fn kept_action(kept: &Kept) -> libc::sigaction {
    // SAFETY: all zero is a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = kept.handler.load(Ordering::Relaxed);
    action.sa_flags = kept.flags.load(Ordering::Relaxed);
    set_mask(&mut action.sa_mask, kept.mask.load(Ordering::Relaxed));
    action
}

/// sigaction(2) as the program means it.
unsafe fn program_action(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    // SAFETY: the caller keeps the contract of sigaction(2).
    let wanted = unsafe { new.as_ref() }.copied();
    if let Some(i) = place(signal) {
        let was = kept_action(&KEPT[i]);
        if let Some(new) = wanted {
            KEPT[i].handler.store(new.sa_sigaction, Ordering::Relaxed);
            KEPT[i].flags.store(new.sa_flags, Ordering::Relaxed);
            KEPT[i].mask.store(mask(&new.sa_mask), Ordering::Relaxed);
            if signal == libc::SIGSEGV {
                crate::tsc::handle(new.sa_flags & libc::SA_ONSTACK);
            }
        }
        // SAFETY: the caller keeps the contract of sigaction(2).
        if let Some(old) = unsafe { old.as_mut() } {
            *old = was;
        }
        return 0;
    }
    let Some(mut action) = wanted else {
        // SAFETY: as the caller's.
        return unsafe { real_sigaction(signal, new, old) };
    };
    let trapped = mask(&action.sa_mask) & !SYNCHRONOUS;
    set_mask(&mut action.sa_mask, trapped);
    let handled = action.sa_sigaction != libc::SIG_DFL && action.sa_sigaction != libc::SIG_IGN;
    if handled && action.sa_flags & libc::SA_RESTART == 0 && signal != libc::SIGALRM {
        INTERRUPTS.store(true, Ordering::Relaxed);
    }
    // SAFETY: as the caller's.
    unsafe { real_sigaction(signal, &action, old) }
}

unsafe fn simple(signal: c_int, handler: usize, flags: c_int) -> usize {
    // SAFETY: all zero is a valid sigaction; both are valid for the call.
    unsafe {
        let (mut new, mut old): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
        new.sa_sigaction = handler;
        new.sa_flags = flags;
        if flags & libc::SA_NODEFER == 0 && (1..=64).contains(&signal) {
            set_mask(&mut new.sa_mask, bit(signal));
        }
        if program_action(signal, &new, &mut old) == 0 {
            old.sa_sigaction
        } else {
            libc::SIG_ERR
        }
    }
}

replace! {
    /// sigaction(2)
    fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
        program_action(signal, new, old)
    }

    /// signal(2), of BSD
    fn signal(signal: c_int, handler: usize) -> usize {
        simple(signal, handler, libc::SA_RESTART)
    }

    /// bsd_signal(3)
    fn bsd_signal(signal: c_int, handler: usize) -> usize {
        simple(signal, handler, libc::SA_RESTART)
    }

    /// sysv_signal(3)
    fn sysv_signal(signal: c_int, handler: usize) -> usize {
        simple(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER)
    }

    /// signal(2) of programs compiled for System V
    fn __sysv_signal(signal: c_int, handler: usize) -> usize {
        simple(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER)
    }

    /// sigprocmask(2): SIGSEGV is never blocked.
    fn sigprocmask(how: c_int, new: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int {
        let copy = unblocking(how, new);
        next(how, copy.as_ref().map_or(std::ptr::null(), |set| &raw const *set), old)
    }

    /// pthread_sigmask(3): SIGSEGV is never blocked.
    fn pthread_sigmask(how: c_int, new: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int {
        let copy = unblocking(how, new);
        next(how, copy.as_ref().map_or(std::ptr::null(), |set| &raw const *set), old)
    }
}

unsafe fn unblocking(how: c_int, new: *const libc::sigset_t) -> Option<libc::sigset_t> {
    // SAFETY: the caller keeps the contract of sigprocmask(2).
    let mut set = *unsafe { new.as_ref() }?;
    if how != libc::SIG_UNBLOCK {
        let trapped = mask(&set) & !SYNCHRONOUS;
        set_mask(&mut set, trapped);
    }
    Some(set)
}
