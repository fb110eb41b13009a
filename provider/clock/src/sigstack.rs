//! The signal stack of a thread (`sigaltstack`): too small for the timeline.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_int;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::next::{next, replace};

thread_local! {
    /// First address and the one behind it, as the thread has set them.
    static STACK: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// A trap is handled on the signal stack, if there is one.
static TRAPS: AtomicBool = AtomicBool::new(false);

/// Traps are handled on signal stacks from now on, or are not.
pub fn traps(on: bool) {
    TRAPS.store(on, Ordering::Relaxed);
}

/// True if a trap of the calling thread, whose stack is at `stack`, would be handled on a signal stack.
pub fn is_small(stack: usize) -> bool {
    let (from, to) = STACK.get();
    from != to && (TRAPS.load(Ordering::Relaxed) || (from..to).contains(&stack))
}

/// The addresses of an enabled signal stack that handlers do not leave.
fn addresses(stack: &libc::stack_t) -> Range<usize> {
    const SS_AUTODISARM: c_int = 1 << 31;
    let from = stack.ss_sp as usize;
    if stack.ss_flags & (libc::SS_DISABLE | SS_AUTODISARM) != 0 {
        return from..from;
    }
    from..from + stack.ss_size
}

replace! {
    /// sigaltstack(2)
    fn sigaltstack(new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int {
        let wanted = new.as_ref().map(addresses);
        let result = next!(fn sigaltstack(new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int);
        if let (0, Some(stack)) = (result, wanted) {
            STACK.set((stack.start, stack.end));
        }
        result
    }
}
