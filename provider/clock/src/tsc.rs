//! `rdtsc` and `rdtscp` trap, and are answered with the virtual counter.
//!
//! `prctl(PR_SET_TSC)` is a property of a thread that its children and even a program that it
//! executes inherit, whose dynamic loader would die of it: see `process`.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use crate::cost::Source;
use crate::sys::{self, sys};
use crate::timeline;
use crate::{exempt, read_clock, signals};

const PR_SET_TSC: c_int = 26;
const PR_TSC_ENABLE: c_int = 1;
const PR_TSC_SIGSEGV: c_int = 2;

/// A general protection fault, as opposed to an address that is not mapped.
const SI_KERNEL: c_int = 0x80;

/// Lets the instructions of the calling thread trap, or run.
pub fn trap(on: bool) {
    let how = if on { PR_TSC_SIGSEGV } else { PR_TSC_ENABLE };
    // SAFETY: plain numbers.
    unsafe { sys!(libc::SYS_prctl, PR_SET_TSC, how, 0, 0, 0) };
}

/// Handles SIGSEGV, on the program's signal stack if it wants its own handler there (`SA_ONSTACK`).
pub fn handle(on_stack: c_int) {
    signals::handle(libc::SIGSEGV, on_segv, on_stack);
}

extern "C-unwind" fn on_segv(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let errno = sys::get_errno();
    // SAFETY: the kernel passes a valid siginfo and ucontext, which nothing else refers to.
    let (code, frame) = unsafe { ((*info).si_code, &mut *context.cast::<libc::ucontext_t>()) };
    let registers = &mut frame.uc_mcontext.gregs;
    let at = registers[libc::REG_RIP as usize] as usize;
    // SAFETY: a general protection fault comes from an instruction at `at`, which can be read.
    let length = if code == SI_KERNEL { unsafe { length_of_rdtsc(at) } } else { None };
    let Some(length) = length else {
        signals::pass_on(signal, info, context);
        sys::set_errno(errno);
        return;
    };
    let value = answer(at, on_signal_stack(&frame.uc_stack));
    registers[libc::REG_RAX as usize] = (value & 0xffff_ffff) as i64;
    registers[libc::REG_RDX as usize] = (value >> 32) as i64;
    if length == 3 {
        registers[libc::REG_RCX as usize] = 0; // rdtscp: processor 0
    }
    registers[libc::REG_RIP as usize] += length as i64;
    sys::set_errno(errno);
}

/// What the instruction at `at` reads: virtual time, at its cost. Where the stack is too small for the
/// timeline that is paid later.
fn answer(at: usize, small_stack: bool) -> u64 {
    if exempt::contains(at) {
        machine()
    } else if small_stack {
        read_clock::cycles(timeline::read_owing(Source::Tsc))
    } else {
        read_clock::cycles(timeline::read(Source::Tsc))
    }
}

/// Length of the instruction at `at` if it reads the counter.
///
/// # Safety
/// There must be an instruction at `at`.
unsafe fn length_of_rdtsc(at: usize) -> Option<usize> {
    let code = at as *const u8;
    // SAFETY: bytes are read only as far as those before them say that the instruction goes.
    unsafe {
        match (*code, if *code == 0x0f { *code.add(1) } else { 0 }) {
            (0x0f, 0x31) => Some(2),
            (0x0f, 0x01) if *code.add(2) == 0xf9 => Some(3),
            _ => None,
        }
    }
}

/// The machine's counter.
fn machine() -> u64 {
    trap(false);
    // SAFETY: does not trap now.
    let value = unsafe { std::arch::x86_64::_rdtsc() };
    trap(true);
    value
}

/// True if the handler runs on the thread's signal stack, which may be too small for more than it.
fn on_signal_stack(stack: &libc::stack_t) -> bool {
    let here = &raw const *stack as usize;
    let from = stack.ss_sp as usize;
    stack.ss_flags & libc::SS_DISABLE == 0 && (from..from + stack.ss_size).contains(&here)
}
