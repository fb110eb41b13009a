//! Simulated time does not advance: how long that may last, and how it ends.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Environment variable: seconds of real time that simulated time may stand still. A program in a debugger needs more.
pub const PATIENCE_VARIABLE: &str = "VERBENA_PATIENCE";

const DEFAULT: Duration = Duration::from_secs(60);
/// After this time a program that cannot continue says so: a user should not wait in silence for five seconds.
const SILENCE: Duration = Duration::from_secs(4);
/// Exit status of a program whose simulated time stood still: that of `timeout`.
const EXIT: i32 = 124;

/// Seconds as the variable gives them.
pub fn read_patience(text: &str) -> Result<Duration, String> {
    match text.trim().parse() {
        Ok(seconds @ 1..) => Ok(Duration::from_secs(seconds)),
        _ => Err(format!("{PATIENCE_VARIABLE}: `{text}` is not a number of seconds from 1 on")),
    }
}

/// How long simulated time may stand still.
pub(crate) fn patience() -> Duration {
    static PATIENCE: OnceLock<Duration> = OnceLock::new();
    *PATIENCE.get_or_init(|| {
        // An invalid value was reported when the program was started.
        let text = std::env::var(PATIENCE_VARIABLE).ok();
        text.and_then(|text| read_patience(&text).ok()).unwrap_or(DEFAULT)
    })
}

/// Progress of simulated time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// It advances, or has not stood still for long.
    Moves,
    /// It does not, for so long that the user is told.
    Say,
    /// It stood still for as long as it may.
    TooLong,
}

/// Notices that time stands still, or that nothing happens in it.
pub(crate) struct Standstill {
    since: Option<Instant>,
    executed: u64,
    said: bool,
    looks: u32,
}

impl Standstill {
    /// Nothing was seen yet.
    pub const NEW: Standstill = Standstill { since: None, executed: 0, said: false, looks: 0 };

    /// After a sleep in vain. `executed` counts what has happened.
    pub fn look(&mut self, executed: u64) -> Look {
        if executed != self.executed {
            *self = Standstill { executed, looks: self.looks, ..Standstill::NEW };
        }
        // A trap in these programs; but they have just slept.
        let still = self.since.get_or_insert_with(Instant::now).elapsed();
        if still > SILENCE.min(patience()) && !self.said {
            self.said = true;
            Look::Say
        } else if still > patience() {
            Look::TooLong
        } else {
            Look::Moves
        }
    }

    /// The same for a thread that has not slept and calls often.
    pub fn look_sometimes(&mut self, executed: u64) -> Look {
        self.looks = self.looks.wrapping_add(1);
        if self.looks % 64 == 0 {
            self.look(executed)
        } else {
            Look::Moves
        }
    }
}

/// Time between two checks of a thread that may sleep.
pub(crate) const LOOK: Duration = Duration::from_millis(5);
/// The same of a thread that sleeps for what others have sent. A busy machine takes its time to bring it; and it does not
/// come if another thread reads it.
pub(crate) const DELIVERY: Duration = Duration::from_secs(1);

/// What the kernel says of the system call that a thread is in, cut off. In place: see [`crate::sim::threads::prepare`].
type SystemCall = [u8; 256];

/// Notices that a thread sleeps in the kernel, in the same system call all the time.
#[derive(Default)]
pub(crate) struct Sleeper {
    /// When a thread was last checked, which, and the system call that it was in.
    seen: Option<(Instant, u32, SystemCall)>,
}

impl Sleeper {
    /// Whether the thread has slept since the last check, at least for `time`.
    pub fn sleeps_on(&mut self, pid: u32, tid: u32, time: Duration) -> bool {
        if self.seen.as_ref().is_some_and(|(at, ..)| at.elapsed() < time) {
            return false;
        }
        let call = system_call(pid, tid).unwrap_or([0; 256]);
        let asleep = call[0].is_ascii_digit() && !is_awake(pid, tid);
        let same = self.seen.as_ref().is_some_and(|(_, thread, before)| (*thread, before) == (tid, &call));
        self.seen = Some((Instant::now(), tid, call));
        asleep && same
    }
}

/// The number of the system call that a thread is in and its arguments; `running` if it is in none.
fn system_call(pid: u32, tid: u32) -> io::Result<SystemCall> {
    of_thread(pid, tid, "syscall")
}

/// Whether a thread runs, wants to, or waits for the machine (state D: for a page, a file, a lock of the kernel's), which a busy
/// one makes it do for long. Not if it sleeps for what others do, or has ended.
pub(crate) fn is_awake(pid: u32, tid: u32) -> bool {
    let Ok(stat) = of_thread(pid, tid, "stat") else { return false };
    // The name, in parentheses, may hold anything.
    let state = stat.iter().rposition(|&byte| byte == b')').and_then(|at| stat.get(at + 2));
    matches!(state, Some(b'R' | b'D'))
}

/// What the kernel says in a file of a thread, cut off; zeroes follow shorter text.
fn of_thread(pid: u32, tid: u32, file: &str) -> io::Result<[u8; 256]> {
    let mut path = [0; 64];
    let mut rest = &mut path[..];
    write!(rest, "/proc/{pid}/task/{tid}/{file}")?;
    let length = 64 - rest.len();
    let mut text = [0; 256];
    let _ = File::open(OsStr::from_bytes(&path[..length]))?.read(&mut text)?;
    Ok(text)
}

/// Says which thread waits for what; ends the program if that was too long. Alone on its net it waits for another to
/// start.
#[cold]
pub(crate) fn tell(look: Look, alone: bool, who_waits: &str) {
    let seconds = |time: Duration| time.as_secs();
    if look == Look::TooLong {
        let borne = seconds(patience());
        tell!(
            "verbena: simulated time stood still for {borne} s ({PATIENCE_VARIABLE} sets how long it may); {who_waits}"
        );
        std::process::exit(EXIT);
    }
    say(
        &match alone {
            true => "nobody else is on this net who could do something".to_owned(),
            false => format!("it ends after {} s ({PATIENCE_VARIABLE})", seconds(patience())),
        },
        who_waits,
    );
}

/// Says that nothing happens, what can be expected, and who waits for what.
#[cold]
pub(crate) fn say(hope: &str, who_waits: &str) {
    let so_long = SILENCE.min(patience()).as_secs();
    tell!("verbena: nothing has happened in simulated time for {so_long} s, {hope}; {who_waits}");
}

/// Ends the program, which cannot reach the cards.
#[cold]
pub(crate) fn cannot_continue(why: &dyn std::fmt::Display) -> ! {
    tell!("verbena: the simulation cannot go on: {why}");
    std::process::exit(EXIT)
}

/// A process by number and name, and what explains that its clock does not advance.
pub(crate) fn process(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name may hold anything.
    let known = stat.rsplit_once(") ").and_then(|(before, after)| {
        let name = before.split_once('(')?.1;
        Some((name, after.chars().next()?))
    });
    let Some((name, state)) = known else { return format!("process {pid}, which has ended") };
    let state = match state {
        'T' => ", which is stopped",
        't' => ", which is in a debugger",
        'Z' | 'X' => ", which has ended",
        _ => "",
    };
    format!("process {pid} ({name}){state}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_a_number_of_seconds() {
        assert_eq!(read_patience("5"), Ok(Duration::from_secs(5)));
        for bad in ["", "0", "-1", "5s", "1.5"] {
            assert!(read_patience(bad).unwrap_err().contains(PATIENCE_VARIABLE), "{bad}");
        }
    }

    #[test]
    fn progress_restarts_the_wait() {
        let long_ago = Instant::now().checked_sub(patience() * 2);
        let mut still = Standstill { since: long_ago, executed: 7, ..Standstill::NEW };
        assert!(long_ago.is_none() || [still.look(7), still.look(7)] == [Look::Say, Look::TooLong]);
        assert_eq!([still.look(8), still.look(8)], [Look::Moves; 2]);
        still.since = Instant::now().checked_sub(SILENCE * 2);
        assert!(still.since.is_none() || [still.look(8), still.look(8)] == [Look::Say, Look::Moves]);
    }

    #[test]
    fn a_thread_that_sleeps_is_told_from_one_that_runs() {
        use std::sync::atomic::{AtomicBool, Ordering};
        use std::sync::{mpsc, Arc};

        let over = Arc::new(AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let me = || rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let (runs, tells) = (over.clone(), tell.clone());
        let runner = std::thread::spawn(move || {
            tells.send(me()).unwrap();
            while !runs.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let runner_tid = told.recv().unwrap();
        let sleeper = std::thread::spawn(move || {
            tell.send(me()).unwrap();
            let _ = ends.recv();
        });
        let sleeper_tid = told.recv().unwrap();
        let asleep = |tid, looks| {
            let mut sleeper = Sleeper::default();
            (0..looks).any(|_| {
                std::thread::sleep(LOOK);
                sleeper.sleeps_on(std::process::id(), tid, LOOK)
            })
        };
        // The sleeper may take a while until it sleeps.
        let found = (asleep(sleeper_tid, 4000), asleep(runner_tid, 20));
        over.store(true, Ordering::Relaxed);
        drop(end);
        runner.join().unwrap();
        sleeper.join().unwrap();
        assert_eq!(found, (true, false));
    }

    /// As a thread that waits for a page of a slow disk does: its parent's memory is a child's until that ends (vfork).
    #[test]
    #[allow(unsafe_code)]
    fn a_thread_that_waits_for_the_machine_does_not_sleep() {
        use std::sync::mpsc;

        extern "C" fn child(_: *mut libc::c_void) -> libc::c_int {
            // SAFETY: sleeps.
            unsafe { libc::usleep(300_000) };
            0
        }
        let (tell, told) = mpsc::channel();
        let waits = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
            let mut stack = vec![0u128; 4096];
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            // SAFETY: the child has a stack of its own, which lives until it has ended, and makes system calls only.
            let child = unsafe {
                libc::clone(child, stack.as_mut_ptr_range().end.cast(), flags, std::ptr::null_mut())
            };
            // SAFETY: a child of ours; the status is not wanted.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        });
        let tid = told.recv().unwrap();
        let mut sleeper = Sleeper::default();
        let slept = (0..20).any(|_| {
            std::thread::sleep(LOOK);
            sleeper.sleeps_on(std::process::id(), tid, LOOK)
        });
        assert!(!slept && is_awake(std::process::id(), tid));
        waits.join().unwrap();
        assert!(!is_awake(std::process::id(), tid), "it has ended");
    }

    /// See [`crate::sim::threads::prepare`].
    #[test]
    fn looking_after_a_thread_allocates_nothing() {
        let me = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let mut sleeper = Sleeper::default();
        let mut still = Standstill::NEW;
        crate::sim::threads::prepare();
        let before = crate::allocations::of_thread();
        for _ in 0..3 {
            std::thread::sleep(LOOK);
            // Which reads, and so is in a system call itself.
            sleeper.sleeps_on(std::process::id(), me, LOOK);
            assert_eq!(still.look(1), Look::Moves);
        }
        assert_eq!(crate::allocations::of_thread(), before);
        drop(std::fs::read_to_string("/proc/self/comm"));
        assert_ne!(crate::allocations::of_thread(), before, "they are counted");
    }

    #[test]
    fn processes_have_names_and_may_be_gone() {
        let me = std::process::id();
        let name = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!(process(me), format!("process {me} ({})", name.trim_end()));
        assert_eq!(process(u32::MAX), format!("process {}, which has ended", u32::MAX));
    }
}
