//! The check of a thread: the timer, the two signal handlers, and how often a proof is worth its cost.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};

use super::step::{Proof, Verdict, MAX_STEPS};
use crate::sys::{self, sys};
use crate::{exempt, signals, threads, timeline};
use contract::clock::TICK_SIGNAL;

/// Real time between two checks of a thread, in nanoseconds.
const PERIOD_NS: i64 = 50_000;

/// The same for a thread that was recently found to spin, which does little else. The next check comes after
/// twice the time, and so on, `EAGER_DOUBLED` times: a check takes as long.
const EAGER_NS: i64 = 10_000;
const EAGER_DOUBLED: u32 = 3;

/// While a thread does things between the checks, each comes after twice the time, up to this many times. So do checks
/// that are left out.
const CALM: u32 = 5;

/// The time after which a check comes by itself, in nanoseconds.
const RESERVE_NS: i64 = 20_000_000;

/// This many checks after it was found to spin it no longer counts as such a thread.
const EAGER_LOOKS: u32 = 50;

/// After a failed proof this many checks are left out, then twice as many, up to the second number:
/// a program that computes for long loses little by it.
const PAUSE: (u32, u32) = (4, 256);

/// Instructions of the first proof, and how many times more the next one gets after a failure: each costs some
/// microseconds, and most loops that wait are short.
const STEPS: (u32, u32) = (64, 4);

/// How far time advances for a thread that spins on what another thread of its process may write, in picoseconds.
const SEVERAL_PS: u64 = 1_000_000;

/// Codes of a SIGTRAP after one instruction. The second one comes where a virtual machine loses the bit of DR6 that says
/// so, now and then; a breakpoint instruction has SI_KERNEL.
const TRAP_TRACE: c_int = 2;
const TRAP_BRKPT: c_int = 1;

const SIGEV_THREAD_ID: c_int = 4;

/// The trap flag: the processor raises a trap after each instruction.
const TRAP_FLAG: i64 = 0x100;

struct Look {
    /// What the program had done at the last check.
    done: Cell<u64>,
    /// Checks to leave out, and how many after the next failure.
    left_out: Cell<u32>,
    pause: Cell<u32>,
    /// For how many checks the next one stands.
    stands_for: Cell<u32>,
    /// A proof is running: this one.
    proves: Cell<bool>,
    proof: RefCell<Proof>,
    /// Instructions of the next proof, and of the first one after the program has done something: more, where a longer loop was found.
    steps: Cell<u32>,
    first_steps: Cell<u32>,
    /// Eager checks that are left.
    eager: Cell<u32>,
    /// Checks in a row at which the thread had done something.
    calm: Cell<u32>,
}

thread_local! {
    static LOOK: Look = const {
        Look {
            done: Cell::new(0),
            left_out: Cell::new(0),
            pause: Cell::new(PAUSE.0),
            stands_for: Cell::new(1),
            proves: Cell::new(false),
            proof: RefCell::new(Proof::new(0)),
            steps: Cell::new(STEPS.0),
            first_steps: Cell::new(STEPS.0),
            eager: Cell::new(0),
            calm: Cell::new(0),
        }
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
    if on {
        start(timer, PERIOD_NS);
    } else {
        set_times(timer, 0, 0);
    }
}

/// The next check is in `ns`. Each check asks for the next one: a timer that ran by itself could leave
/// a slow machine no time for anything else. It only does as a reserve, if a check is lost.
fn start(timer: c_int, ns: i64) {
    set_times(timer, ns, RESERVE_NS);
}

fn set_times(timer: c_int, first: i64, then: i64) {
    let time = |ns| libc::timespec { tv_sec: 0, tv_nsec: ns };
    let setting = libc::itimerspec { it_interval: time(then), it_value: time(first) };
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

impl Look {
    /// Asks for the next check.
    fn again(&self) {
        let period = self.period();
        threads::with_timer(|timer| start(timer, period));
    }

    /// In how many nanoseconds the next check comes.
    fn period(&self) -> i64 {
        let eager = self.eager.get();
        self.eager.set(eager.saturating_sub(1));
        if eager > 0 {
            self.stands_for.set(1);
            return EAGER_NS << EAGER_LOOKS.saturating_sub(eager).min(EAGER_DOUBLED);
        }
        let doubled = self.left_out.get().max(1).ilog2().max(self.calm.get()).min(CALM);
        self.stands_for.set(1 << doubled);
        PERIOD_NS << doubled
    }

    /// A proof has failed: the next ones come later and later.
    fn failed(&self) {
        let pause = self.pause.get();
        self.left_out.set(pause);
        self.pause.set((pause * 2).min(PAUSE.1));
        self.steps.set((self.steps.get() * STEPS.1).min(MAX_STEPS));
    }

    /// Whether this check is left out.
    fn leaves_out(&self) -> bool {
        let left_out = self.left_out.get();
        self.left_out.set(left_out.saturating_sub(self.stands_for.get()));
        left_out != 0
    }

    /// True if the thread seems to spin, and the proof is worth its cost.
    fn is_suspect(&self, at: usize) -> bool {
        let Some(done) = done() else { return false };
        if self.done.replace(done) != done {
            self.left_out.set(0);
            self.pause.set(PAUSE.0);
            self.steps.set(self.first_steps.get());
            self.calm.set((self.calm.get() + 1).min(CALM));
            return false;
        }
        self.calm.set(0);
        !self.leaves_out() && !exempt::contains(at)
    }
}

/// Handles the timer's signal.
pub extern "C-unwind" fn on_tick(_signal: c_int, _info: *mut libc::siginfo_t, context: *mut c_void) {
    let errno = sys::get_errno();
    // SAFETY: the kernel passes a valid ucontext, which nothing else refers to.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    LOOK.with(|look| {
        // A proof that is still there takes too long, or a handler of the program has left it.
        if look.proves.replace(false) {
            registers[libc::REG_EFL as usize] &= !TRAP_FLAG;
            look.failed();
        }
        let tries = !signals::program_handles(libc::SIGTRAP);
        if tries && look.is_suspect(registers[libc::REG_RIP as usize] as usize) {
            look.proves.set(true);
            *look.proof.borrow_mut() = Proof::new(look.steps.get());
            advance(look, registers);
        } else {
            look.again();
        }
    });
    sys::set_errno(errno);
}

/// Whether a SIGTRAP says that one instruction was executed, by its code and the flags after the instruction.
fn is_step(code: c_int, flags: i64) -> bool {
    code == TRAP_TRACE || (code == TRAP_BRKPT && flags & TRAP_FLAG != 0)
}

/// Handles SIGTRAP: ours while a proof is running.
pub extern "C-unwind" fn on_trap(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid siginfo and ucontext, which nothing else refers to.
    let (code, frame) = unsafe { ((*info).si_code, &mut *context.cast::<libc::ucontext_t>()) };
    if !is_step(code, frame.uc_mcontext.gregs[libc::REG_EFL as usize]) || signals::program_handles(signal) {
        return signals::pass_on(signal, info, context);
    }
    if !LOOK.with(|look| look.proves.get()) {
        // The rest of an abandoned proof.
        frame.uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP_FLAG;
        return;
    }
    let errno = sys::get_errno();
    LOOK.with(|look| advance(look, &mut frame.uc_mcontext.gregs));
    sys::set_errno(errno);
}

/// Examines the instruction that the thread is about to execute.
fn advance(look: &Look, registers: &mut [i64; 23]) {
    registers[libc::REG_EFL as usize] &= !TRAP_FLAG;
    let disturbed =
        done() != Some(look.done.get()) || exempt::contains(registers[libc::REG_RIP as usize] as usize);
    let verdict = if disturbed { Verdict::No } else { look.proof.borrow_mut().step(registers) };
    match verdict {
        Verdict::GoOn => {
            registers[libc::REG_EFL as usize] |= TRAP_FLAG;
            return;
        }
        Verdict::No => look.failed(),
        Verdict::Spins => {
            look.pause.set(PAUSE.0);
            look.eager.set(EAGER_LOOKS);
            look.first_steps.set(look.steps.get());
            if threads::several() {
                // Another one may write what it waits for.
                timeline::spend(SEVERAL_PS);
            } else {
                timeline::memory_wait(&look.proof.borrow().places());
            }
            // Continuing to spin is nothing new.
            look.done.set(done().unwrap_or(0));
        }
    }
    look.proves.set(false);
    look.again();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that computes, or that has waited in the kernel since before there was a timeline: no proof is worth much.
    #[test]
    fn a_thread_that_does_not_spin_is_seldom_disturbed() {
        LOOK.with(|look| {
            let (mut checks, mut proofs) = (0, 0);
            let mut left = 1_000_000_000;
            while left > 0 {
                left -= look.period();
                checks += 1;
                if !look.leaves_out() {
                    proofs += 1;
                    look.failed();
                }
            }
            assert!((50..100).contains(&proofs) && checks < 1100, "{proofs} proofs in {checks} checks");
        });
    }

    #[test]
    fn a_step_is_told_from_a_breakpoint() {
        assert!(is_step(TRAP_TRACE, 0x246));
        // As a virtual machine has reported it.
        assert!(is_step(TRAP_BRKPT, 0x387));
        assert!(!is_step(TRAP_BRKPT, 0x246), "nobody single-steps");
        assert!(!is_step(0x80, 0x346), "a breakpoint instruction");
    }
}
