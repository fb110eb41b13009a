//! Programs that start others. A trapping time stamp counter is inherited by what a thread
//! executes, and the dynamic loader reads the counter before this library is there: so it is
//! switched off for the time of the call.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_long, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::next::replace;
use crate::sys;
use crate::wait::wait_for;
use crate::{poll, read_clock, stream, timeline, timerfd, tsc};

/// Does `call` with a time stamp counter that does not trap. A call that executes another program
/// returns only if it has failed.
fn untrapped<R>(call: impl FnOnce() -> R) -> R {
    timeline::acted();
    tsc::trap(false);
    let result = call();
    tsc::trap(true);
    result
}

/// At the end of the process, tells the timeline that its streams end.
pub fn tell_end() {
    extern "C" fn ends() {
        if timeline::is_attached() {
            stream::closes_all();
        }
    }
    static TOLD: std::sync::Once = std::sync::Once::new();
    // SAFETY: a function that is never unloaded.
    TOLD.call_once(|| unsafe {
        libc::atexit(ends);
    });
}

/// The virtual time of the last check of a child.
static CHECKED: AtomicU64 = AtomicU64::new(0);

/// The shortest and the longest real wait after a check of a child, in picoseconds.
const SHORTEST_CHECK: u64 = 1_000_000_000;
const LONGEST_CHECK: u64 = 100 * SHORTEST_CHECK;

/// After a check (`WNOHANG`) that has found child `pid` running: the child's time is the machine's. It gets as much
/// of that as has passed for this program since the last check, so that a virtual time-out is not over before a child
/// could have come so far. With a timeline the child may be a part of it, and gets a moment only.
fn unhurried(pid: libc::pid_t, found: libc::pid_t) -> libc::pid_t {
    if found == 0 {
        let now = timeline::now();
        let passed = now.saturating_sub(CHECKED.swap(now, Ordering::Relaxed));
        let most = if timeline::is_attached() { SHORTEST_CHECK } else { LONGEST_CHECK };
        let mut time = read_clock::timespec(0, passed.clamp(SHORTEST_CHECK, most));
        // SAFETY: plain numbers; the descriptor and the time are valid for the call. Of any child there is no
        // descriptor: then the call only waits.
        unsafe {
            let fd = sys::sys!(libc::SYS_pidfd_open, pid, 0);
            let mut ends = libc::pollfd { fd: fd.max(-1) as c_int, events: libc::POLLIN, revents: 0 };
            sys::sys!(libc::SYS_ppoll, &raw mut ends, 1, &raw mut time, 0, 0);
            if fd >= 0 {
                sys::sys!(libc::SYS_close, fd);
            }
        }
    }
    found
}

type Words = *const *const c_char;

/// How many arguments execl(3) and its kind take.
const MAX_ARGUMENTS: usize = 1024;

/// The arguments of a variadic call that are not in registers: they are on the caller's stack.
#[repr(C)]
pub struct OnStack([*const c_char; MAX_ARGUMENTS]);

/// The arguments of an execl(3) up to its null pointer, that included.
struct List {
    words: [*const c_char; MAX_ARGUMENTS],
    length: usize,
}

impl List {
    /// # Safety
    /// `stack` is where the caller of a variadic function has put the arguments after the first six,
    /// and one of all arguments is null.
    unsafe fn new(registers: &[*const c_char], stack: *const OnStack) -> Option<List> {
        let mut list = List { words: [std::ptr::null(); MAX_ARGUMENTS], length: 0 };
        while list.length < MAX_ARGUMENTS {
            let i = list.length;
            let word = match registers.get(i) {
                Some(word) => *word,
                // SAFETY: no further than the null pointer.
                None => unsafe { *stack.cast::<*const c_char>().add(i - registers.len()) },
            };
            list.words[i] = word;
            list.length += 1;
            if word.is_null() {
                return Some(list);
            }
        }
        sys::set_errno(libc::E2BIG);
        None
    }
}

replace! {
    /// execve(2)
    fn execve(path: *const c_char, arguments: Words, environment: Words) -> c_int {
        untrapped(|| next(path, arguments, environment))
    }

    /// execv(3)
    fn execv(path: *const c_char, arguments: Words) -> c_int {
        untrapped(|| next(path, arguments))
    }

    /// execvp(3)
    fn execvp(file: *const c_char, arguments: Words) -> c_int {
        untrapped(|| next(file, arguments))
    }

    /// execvpe(3)
    fn execvpe(file: *const c_char, arguments: Words, environment: Words) -> c_int {
        untrapped(|| next(file, arguments, environment))
    }

    /// fexecve(3)
    fn fexecve(fd: c_int, arguments: Words, environment: Words) -> c_int {
        untrapped(|| next(fd, arguments, environment))
    }

    /// execveat(2)
    fn execveat(fd: c_int, path: *const c_char, arguments: Words, environment: Words, flags: c_int) -> c_int {
        untrapped(|| next(fd, path, arguments, environment, flags))
    }

    /// posix_spawn(3)
    fn posix_spawn(
        pid: *mut libc::pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void,
        arguments: Words, environment: Words,
    ) -> c_int {
        untrapped(|| next(pid, path, actions, attributes, arguments, environment))
    }

    /// posix_spawnp(3)
    fn posix_spawnp(
        pid: *mut libc::pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void,
        arguments: Words, environment: Words,
    ) -> c_int {
        untrapped(|| next(pid, file, actions, attributes, arguments, environment))
    }

    /// system(3)
    fn system(command: *const c_char) -> c_int {
        wait_for(|| untrapped(|| next(command)))
    }

    /// popen(3)
    fn popen(command: *const c_char, mode: *const c_char) -> *mut libc::FILE {
        untrapped(|| next(command, mode))
    }

    /// execl(3)
    fn execl(
        path: *const c_char, a: *const c_char, b: *const c_char, c: *const c_char, d: *const c_char,
        e: *const c_char, more: OnStack,
    ) -> c_int {
        let Some(list) = List::new(&[a, b, c, d, e], &raw const more) else { return -1 };
        execv(path, list.words.as_ptr())
    }

    /// execlp(3)
    fn execlp(
        file: *const c_char, a: *const c_char, b: *const c_char, c: *const c_char, d: *const c_char,
        e: *const c_char, more: OnStack,
    ) -> c_int {
        let Some(list) = List::new(&[a, b, c, d, e], &raw const more) else { return -1 };
        execvp(file, list.words.as_ptr())
    }

    /// execle(3): the environment follows the null pointer.
    fn execle(
        path: *const c_char, a: *const c_char, b: *const c_char, c: *const c_char, d: *const c_char,
        e: *const c_char, more: OnStack,
    ) -> c_int {
        let registers = [a, b, c, d, e];
        let Some(list) = List::new(&registers, &raw const more) else { return -1 };
        let environment = match registers.get(list.length) {
            Some(word) => *word,
            None => *(&raw const more).cast::<*const c_char>().add(list.length - registers.len()),
        };
        execve(path, list.words.as_ptr(), environment.cast())
    }

    /// _exit(2)
    fn _exit(status: c_int) -> ! {
        if timeline::is_attached() {
            stream::closes_all();
        }
        sys::sys!(libc::SYS_exit_group, status);
        unreachable!("exit_group does not return")
    }

    /// waitpid(2)
    fn waitpid(pid: libc::pid_t, status: *mut c_int, options: c_int) -> libc::pid_t {
        unhurried(pid, wait_for(|| next(pid, status, options)))
    }

    /// wait(2)
    fn wait(status: *mut c_int) -> libc::pid_t {
        wait_for(|| next(status))
    }

    /// wait3(2)
    fn wait3(status: *mut c_int, options: c_int, usage: *mut libc::rusage) -> libc::pid_t {
        wait_for(|| next(status, options, usage))
    }

    /// wait4(2)
    fn wait4(pid: libc::pid_t, status: *mut c_int, options: c_int, usage: *mut libc::rusage) -> libc::pid_t {
        unhurried(pid, wait_for(|| next(pid, status, options, usage)))
    }

    /// waitid(2)
    fn waitid(kind: libc::idtype_t, id: libc::id_t, info: *mut libc::siginfo_t, options: c_int) -> c_int {
        wait_for(|| next(kind, id, info, options))
    }

    /// syscall(2): calls that have to do with time or with execution are passed to the functions.
    fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
        by_number(number, [a, b, c, d, e, f])
    }
}

unsafe fn by_number(number: c_long, args: [usize; 6]) -> c_long {
    use crate::sleep;
    let [a, b, c, d, ..] = args;
    // SAFETY: the caller keeps the contract of the system call with this number.
    unsafe {
        let result = match number {
            libc::SYS_clock_gettime => read_clock::clock_gettime(a as _, b as _),
            libc::SYS_gettimeofday => read_clock::gettimeofday(a as _, b as _),
            libc::SYS_time => return read_clock::time(a as _),
            libc::SYS_nanosleep => sleep::nanosleep(a as _, b as _),
            libc::SYS_clock_nanosleep => match sleep::clock_nanosleep(a as _, b as _, c as _, d as _) {
                0 => 0,
                error => sys::fail(error),
            },
            libc::SYS_poll => poll::poll(a as _, b as _, c as _),
            libc::SYS_ppoll => poll::ppoll(a as _, b as _, c as _, d as _),
            libc::SYS_epoll_wait => poll::epoll_wait(a as _, b as _, c as _, d as _),
            libc::SYS_timerfd_create => timerfd::timerfd_create(a as _, b as _),
            libc::SYS_timerfd_settime => timerfd::timerfd_settime(a as _, b as _, c as _, d as _),
            libc::SYS_timerfd_gettime => timerfd::timerfd_gettime(a as _, b as _),
            libc::SYS_execve => execve(a as _, b as _, c as _),
            libc::SYS_futex => return sys::errno(crate::lock::futex(args)) as c_long,
            _ => return sys::errno(sys::call(number, args)) as c_long,
        };
        c_long::from(result)
    }
}
