//! The look at a thread: the timer, the two signal handlers, and how often it is worth a proof.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};

use super::step::{Proof, Verdict};
use crate::abi::TICK_SIGNAL;
use crate::sys::{self, sys};
use crate::{exempt, signals, timeline};

/// Real time between two looks at a thread, in nanoseconds.
const PERIOD_NS: i64 = 50_000;

/// After a failed proof so many looks are left out, then twice as many, up to the second number:
/// a program that computes for long loses little by it.
const PAUSE: (u32, u32) = (4, 256);

const SIGEV_THREAD_ID: c_int = 4;

/// The trap flag: the processor raises a trap after each instruction.
const TRAP_FLAG: i64 = 0x100;

struct Look {
    /// What the program had done at the last look.
    done: Cell<u64>,
    /// Looks to leave out, and how many after the next failure.
    left_out: Cell<u32>,
    pause: Cell<u32>,
    proof: RefCell<Option<Proof>>,
}

thread_local! {
    static LOOK: Look = const {
        Look { done: Cell::new(0), left_out: Cell::new(0), pause: Cell::new(PAUSE.0), proof: RefCell::new(None) }
    };
}

/// Makes a timer for a thread; `None` if the system has no more.
pub fn create(tid: c_int) -> Option<c_int> {
    // SAFETY: all zero is a valid event; it and the timer's number are valid for the call.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = TICK_SIGNAL;
        event.sigev_notify_thread_id = tid;
        let mut timer: c_int = 0;
        let made = sys!(libc::SYS_timer_create, libc::CLOCK_MONOTONIC, &raw const event, &raw mut timer);
        (made == 0).then_some(timer)
    }
}

/// Starts or stops a timer.
pub fn set(timer: c_int, on: bool) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: if on { PERIOD_NS } else { 0 } };
    let setting = libc::itimerspec { it_interval: time, it_value: time };
    // SAFETY: the setting is valid for the call.
    unsafe { sys!(libc::SYS_timer_settime, timer, 0, &raw const setting, 0) };
}

/// Deletes a timer.
pub fn delete(timer: c_int) {
    // SAFETY: plain numbers.
    unsafe { sys!(libc::SYS_timer_delete, timer) };
}

/// What the program has done so far that is not spinning; `None` while it must not be disturbed.
fn done() -> Option<u64> {
    timeline::calls().map(|calls| calls.wrapping_add(timeline::actions()))
}

/// Handles the timer's signal.
pub extern "C-unwind" fn on_tick(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid ucontext, which nothing else refers to.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let Some(done) = done() else { return };
    LOOK.with(|look| {
        if look.done.replace(done) != done {
            look.left_out.set(0);
            look.pause.set(PAUSE.0);
            return;
        }
        if look.left_out.get() > 0 {
            look.left_out.set(look.left_out.get() - 1);
            return;
        }
        if exempt::contains(registers[libc::REG_RIP as usize] as usize) {
            return;
        }
        let Ok(mut proof) = look.proof.try_borrow_mut() else { return };
        if proof.is_none() {
            *proof = Some(Proof::begin());
            // The handler returns to the instruction that was interrupted: this one is looked at too.
            drop(proof);
            advance(look, registers);
        }
    });
}

/// Handles SIGTRAP: ours while a proof is under way.
pub extern "C-unwind" fn on_trap(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let under_way = LOOK.with(|look| look.proof.try_borrow().is_ok_and(|proof| proof.is_some()));
    if !under_way {
        return signals::pass_on(signal, info, context);
    }
    let errno = sys::get_errno();
    // SAFETY: the kernel passes a valid ucontext, which nothing else refers to.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    LOOK.with(|look| advance(look, registers));
    sys::set_errno(errno);
}

/// Looks at the instruction that the thread is about to execute.
fn advance(look: &Look, registers: &mut [i64; 23]) {
    let flags = &mut registers[libc::REG_EFL as usize];
    *flags &= !TRAP_FLAG;
    let verdict = if done() != Some(look.done.get()) {
        Verdict::No
    } else {
        look.proof.borrow_mut().as_mut().map_or(Verdict::No, |proof| proof.step(registers))
    };
    match verdict {
        Verdict::GoOn => registers[libc::REG_EFL as usize] |= TRAP_FLAG,
        Verdict::No => {
            *look.proof.borrow_mut() = None;
            let pause = look.pause.get();
            look.left_out.set(pause);
            look.pause.set((pause * 2).min(PAUSE.1));
        }
        Verdict::Spins => {
            *look.proof.borrow_mut() = None;
            look.pause.set(PAUSE.0);
            timeline::memory_wait();
        }
    }
}
