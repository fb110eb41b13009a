//! Programs that start others. A trapping time stamp counter is inherited by what a thread
//! executes, and the dynamic loader reads the counter before this library is there: so it is
//! switched off for the time of the call.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_long, c_void};

use crate::next::{next, replace};
use crate::sys;
use crate::wait::wait_for;
use crate::{poll, stream, timeline, tsc};

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

/// A look whether a child has ended (`WNOHANG`) that finds it running: the child's time is another one, and
/// gets a moment of the machine's, or a program that looks again and again until a virtual time-out would
/// be through before the child has begun.
fn unhurried(found: libc::pid_t) -> libc::pid_t {
    if found == 0 {
        let moment = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        // SAFETY: the time is valid for the call, the rest is not asked for.
        unsafe { sys::sys!(libc::SYS_nanosleep, &raw const moment, 0) };
    }
    found
}

type Words = *const *const c_char;

/// How many arguments execl(3) and its kind take.
const MAX_ARGUMENTS: usize = 1024;

/// The arguments of a variadic call that are not in registers: they lie on the caller's stack.
#[repr(C)]
pub struct OnStack([*const c_char; MAX_ARGUMENTS]);

/// The arguments of an execl(3) up to its null pointer, that included.
struct List {
    words: [*const c_char; MAX_ARGUMENTS],
    length: usize,
}

impl List {
    /// # Safety
    /// `stack` lies where the caller of a variadic function has put the arguments after the first six,
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
        untrapped(|| next!(fn execve(path: *const c_char, arguments: Words, environment: Words) -> c_int))
    }

    /// execv(3)
    fn execv(path: *const c_char, arguments: Words) -> c_int {
        untrapped(|| next!(fn execv(path: *const c_char, arguments: Words) -> c_int))
    }

    /// execvp(3)
    fn execvp(file: *const c_char, arguments: Words) -> c_int {
        untrapped(|| next!(fn execvp(file: *const c_char, arguments: Words) -> c_int))
    }

    /// execvpe(3)
    fn execvpe(file: *const c_char, arguments: Words, environment: Words) -> c_int {
        untrapped(|| next!(fn execvpe(file: *const c_char, arguments: Words, environment: Words) -> c_int))
    }

    /// fexecve(3)
    fn fexecve(fd: c_int, arguments: Words, environment: Words) -> c_int {
        untrapped(|| next!(fn fexecve(fd: c_int, arguments: Words, environment: Words) -> c_int))
    }

    /// execveat(2)
    fn execveat(fd: c_int, path: *const c_char, arguments: Words, environment: Words, flags: c_int) -> c_int {
        untrapped(|| next!(fn execveat(
            fd: c_int, path: *const c_char, arguments: Words, environment: Words, flags: c_int,
        ) -> c_int))
    }

    /// posix_spawn(3)
    fn posix_spawn(
        pid: *mut libc::pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void,
        arguments: Words, environment: Words,
    ) -> c_int {
        untrapped(|| next!(fn posix_spawn(
            pid: *mut libc::pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void,
            arguments: Words, environment: Words,
        ) -> c_int))
    }

    /// posix_spawnp(3)
    fn posix_spawnp(
        pid: *mut libc::pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void,
        arguments: Words, environment: Words,
    ) -> c_int {
        untrapped(|| next!(fn posix_spawnp(
            pid: *mut libc::pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void,
            arguments: Words, environment: Words,
        ) -> c_int))
    }

    /// system(3)
    fn system(command: *const c_char) -> c_int {
        wait_for(|| untrapped(|| next!(fn system(command: *const c_char) -> c_int)))
    }

    /// popen(3)
    fn popen(command: *const c_char, mode: *const c_char) -> *mut libc::FILE {
        untrapped(|| next!(fn popen(command: *const c_char, mode: *const c_char) -> *mut libc::FILE))
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
        unhurried(wait_for(|| next!(fn waitpid(pid: libc::pid_t, status: *mut c_int, options: c_int) -> libc::pid_t)))
    }

    /// wait(2)
    fn wait(status: *mut c_int) -> libc::pid_t {
        wait_for(|| next!(fn wait(status: *mut c_int) -> libc::pid_t))
    }

    /// wait3(2)
    fn wait3(status: *mut c_int, options: c_int, usage: *mut libc::rusage) -> libc::pid_t {
        wait_for(|| next!(fn wait3(status: *mut c_int, options: c_int, usage: *mut libc::rusage) -> libc::pid_t))
    }

    /// wait4(2)
    fn wait4(pid: libc::pid_t, status: *mut c_int, options: c_int, usage: *mut libc::rusage) -> libc::pid_t {
        unhurried(wait_for(|| next!(fn wait4(
            pid: libc::pid_t, status: *mut c_int, options: c_int, usage: *mut libc::rusage,
        ) -> libc::pid_t)))
    }

    /// waitid(2)
    fn waitid(kind: libc::idtype_t, id: libc::id_t, info: *mut libc::siginfo_t, options: c_int) -> c_int {
        wait_for(|| next!(fn waitid(
            kind: libc::idtype_t, id: libc::id_t, info: *mut libc::siginfo_t, options: c_int,
        ) -> c_int))
    }

    /// syscall(2): those calls that have to do with time or with execution go the way of the functions.
    fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
        by_number(number, [a, b, c, d, e, f])
    }
}

unsafe fn by_number(number: c_long, args: [usize; 6]) -> c_long {
    use crate::{read_clock, sleep};
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
                error => {
                    sys::set_errno(error);
                    -1
                }
            },
            libc::SYS_poll => poll::poll(a as _, b as _, c as _),
            libc::SYS_ppoll => poll::ppoll(a as _, b as _, c as _, d as _),
            libc::SYS_epoll_wait => poll::epoll_wait(a as _, b as _, c as _, d as _),
            libc::SYS_execve => execve(a as _, b as _, c as _),
            libc::SYS_futex => return sys::errno(crate::lock::futex(args)) as c_long,
            _ => return sys::errno(sys::call(number, args)) as c_long,
        };
        c_long::from(result)
    }
}
