//! What librdmacm imports to reach its device: `open`, `fstat`, `write` and `close`, redirected in that library only.
//!
//! A copy of librdmacm that is loaded later is found when it lists the devices.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use contract::imports::Library;
use model::cm::command::{number, response_at, Command, FD_AT, OPTION_AT};
use model::cm::query::EVENT;

use super::session::{self, Look, Session};
use crate::verbs::errno::{set_errno, verbose, Errno, Result};

/// The name of the device, in any directory that holds it.
const DEVICE: &[u8] = b"/infiniband/rdma_cm";
/// Bytes of the header of a command: number, length of its structure, room for the answer.
const HEADER: usize = 8;
/// Longest value of an option that is read.
const MAX_OPTION: usize = 1 << 16;
/// Longest answer, to a question for paths.
const MAX_ROOM: usize = 1 << 12;

/// One thread patches at a time.
static PATCHING: Mutex<()> = Mutex::new(());

/// Patches each copy of librdmacm, as often as it is asked to: another copy may be where an unloaded one was.
/// `directory`: of a device of the net, in sysfs.
pub fn install(directory: Option<PathBuf>) {
    if let Some(directory) = directory {
        session::is_net_of(directory);
    }
    let _one = PATCHING.lock().unwrap_or_else(PoisonError::into_inner);
    for library in Library::called("librdmacm") {
        for (name, function) in [
            (c"open", open as *const () as usize),
            (c"fstat", fstat as *const () as usize),
            (c"write", write as *const () as usize),
            (c"close", close as *const () as usize),
        ] {
            // SAFETY: the functions have the signatures of those that they replace, and libibverbs never unloads a
            // provider.
            if let Err(why) = unsafe { library.replace_import(name, function) } {
                model::tell!("verbena: librdmacm will not work: {why}");
            }
        }
    }
}

/// What libibverbs calls instead of `opendir(3)`, whenever it looks for devices.
///
/// # Safety
/// As for `opendir(3)`.
pub unsafe extern "C" fn opendir(name: *const c_char) -> *mut libc::DIR {
    install(None);
    // SAFETY: the caller's argument.
    unsafe { libc::opendir(name) }
}

/// The function that the program's other libraries call by this name: in simulated time, the clock's. A function of
/// that name has that type.
macro_rules! others {
    ($name:literal, $type:ty, $default:expr) => {{
        let found = libc::dlsym(libc::RTLD_DEFAULT, $name.as_ptr());
        match found.is_null() {
            true => $default,
            false => std::mem::transmute::<*mut c_void, $type>(found),
        }
    }};
}

type Open = unsafe extern "C" fn(*const c_char, c_int, ...) -> c_int;
type Fstat = unsafe extern "C" fn(c_int, *mut libc::stat) -> c_int;
type Write = unsafe extern "C-unwind" fn(c_int, *const c_void, usize) -> isize;
type Close = unsafe extern "C" fn(c_int) -> c_int;

/// -1 with errno for an error, or a panic.
fn or_fail<T: From<i8>>(call: impl FnOnce() -> Result<T> + std::panic::UnwindSafe) -> T {
    std::panic::catch_unwind(call).unwrap_or(Err(Errno::EIO)).unwrap_or_else(|error| {
        set_errno(error);
        T::from(-1)
    })
}

unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the caller's path is terminated.
    if unsafe { CStr::from_ptr(path) }.to_bytes().ends_with(DEVICE) {
        return or_fail(|| session::open(flags));
    }
    // SAFETY: the caller's arguments, and the function's type.
    unsafe { others!(c"open", Open, libc::open)(path, flags, mode) }
}

unsafe extern "C" fn fstat(fd: c_int, stat: *mut libc::stat) -> c_int {
    // SAFETY: the caller's arguments.
    let result = unsafe { others!(c"fstat", Fstat, libc::fstat)(fd, stat) };
    if result == 0 && session::is_channel(fd) {
        // SAFETY: filled in just now.
        unsafe {
            (*stat).st_mode = libc::S_IFCHR | 0o666;
            // A device of the kind that misc devices are.
            (*stat).st_rdev = libc::makedev(10, 0);
        }
    }
    result
}

unsafe extern "C" fn close(fd: c_int) -> c_int {
    let channel = session::channel(fd);
    // SAFETY: the caller's argument.
    let result = unsafe { others!(c"close", Close, libc::close)(fd) };
    if channel.is_some() {
        let _ = std::panic::catch_unwind(session::look_for_closed);
    }
    result
}

/// How far a command is.
enum Step {
    /// It is done, or has failed with errno set.
    Done(isize),
    /// It waits for a byte of the channel.
    Wait,
    /// It waits for the end of the program.
    WaitForEver,
}

// As in the C library, a thread that waits in these may be cancelled, which unwinds its stack.
extern "C-unwind" {
    #[link_name = "write"]
    fn plain_write(fd: c_int, buf: *const c_void, count: usize) -> isize;
    fn read(fd: c_int, buf: *mut c_void, count: usize) -> isize;
    fn pause() -> c_int;
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}
/// `PTHREAD_CANCEL_DISABLE`.
const NO_CANCEL: c_int = 1;

/// Nothing here may be unwound but this function, which has nothing to clean up: a thread is cancelled only where it waits.
unsafe extern "C-unwind" fn write(fd: c_int, buf: *const c_void, count: usize) -> isize {
    let mut before = 0;
    // SAFETY: one writable number.
    unsafe { pthread_setcancelstate(NO_CANCEL, &mut before) };
    let Some(channel) = session::channel(fd) else {
        // SAFETY: the caller's arguments.
        unsafe {
            pthread_setcancelstate(before, &mut before);
            return others!(c"write", Write, plain_write)(fd, buf, count);
        }
    };
    loop {
        let step = step((fd, channel), buf, count);
        let (mut off, mut byte) = (0, 0u8);
        // SAFETY: writable numbers, and a byte. A signal ends or restarts the waits as it does the kernel's GET_EVENT.
        unsafe {
            pthread_setcancelstate(before, &mut off);
            let got = match step {
                Step::Done(result) => return result,
                Step::Wait => read(fd, (&raw mut byte).cast(), 1),
                Step::WaitForEver => return pause() as isize,
            };
            let error = Errno::last();
            if got < 0 && session::channel(fd) == Some(channel) {
                set_errno(error);
                return got;
            }
            pthread_setcancelstate(NO_CANCEL, &mut off);
        }
    }
}

/// A command as librdmacm gives it, until it waits.
fn step((fd, channel): (c_int, u16), buf: *const c_void, count: usize) -> Step {
    let execute = || {
        // A child of `fork` has other credentials than the one that opened the file, to which the kernel looks.
        let session = session::current().ok_or(Errno(libc::EACCES))?;
        let mut bytes = vec![0; count.min(HEADER + usize::from(u16::MAX))];
        read_memory(buf as u64, &mut bytes)?;
        match execute(&session, (fd, channel), &bytes) {
            Ok(None) => Ok(Step::Done(count as isize)),
            Ok(Some(wait)) => Ok(wait),
            Err(error) => {
                if verbose() && error.0 != libc::EAGAIN {
                    let why = std::io::Error::from_raw_os_error(error.0);
                    model::tell!("verbena: command {} of librdmacm: {why}", bytes.first().unwrap_or(&0));
                }
                Err(error)
            }
        }
    };
    std::panic::catch_unwind(execute).unwrap_or(Err(Errno::EIO)).unwrap_or_else(|error| {
        set_errno(error);
        Step::Done(-1)
    })
}

/// A command as librdmacm writes it; `None`: it is done.
fn execute(session: &Session, (fd, channel): (c_int, u16), bytes: &[u8]) -> Result<Option<Step>> {
    let (header, rest) = bytes.split_first_chunk::<HEADER>().ok_or(Errno::EINVAL)?;
    let [a, b, c, d, e, f, g, h] = *header;
    let (number, len) = (u32::from_ne_bytes([a, b, c, d]), u16::from_ne_bytes([e, f]));
    let room = usize::from(u16::from_ne_bytes([g, h])).min(MAX_ROOM);
    let input = rest.get(..len.into()).ok_or(Errno::EINVAL)?;
    let word = |at: usize| {
        let bytes = input.get(at..at + 8).and_then(|bytes| bytes.first_chunk()).ok_or(Errno::EINVAL);
        bytes.map(|bytes| u64::from_ne_bytes(*bytes))
    };
    let mut option = Vec::new();
    let (mut from, mut of) = (None, vec![(fd, channel)]);
    match number {
        number::SET_OPTION => {
            let (at, length) = OPTION_AT;
            // The length is the upper half of the word before it.
            let wanted = (word(length - 4)? >> 32) as usize;
            Errno::EINVAL.when(wanted > MAX_OPTION)?;
            option.resize(wanted, 0);
            read_memory(word(at)?, &mut option)?;
        }
        number::MIGRATE_ID => {
            let old = (word(FD_AT - 4)? >> 32) as c_int;
            from = session::channel(old);
            of.extend(from.map(|from| (old, from)));
        }
        _ => {}
    }
    let command = Command { number, input, room, option: &option, from };
    if number == number::GET_EVENT {
        // An event that cannot be handed over stays.
        write_memory(word(response_at(number))?, &[0; EVENT][..room.min(EVENT)])?;
    }
    let answer = match number {
        number::GET_EVENT => match session.look(fd, channel, &command)? {
            Look::Found(answer) => answer,
            Look::Nothing => return Ok(Some(Step::Wait)),
            Look::Closed => return Ok(Some(Step::WaitForEver)),
        },
        number::DESTROY_ID | number::LEAVE | number::MIGRATE_ID => {
            session.removing(&of, channel, &command)?
        }
        _ => session.command(channel, &command)?,
    };
    if !answer.is_empty() {
        write_memory(word(response_at(number))?, &answer)?;
    }
    Ok(None)
}

/// A part of this process's memory, as the kernel sees it: a wrong address is an error.
fn parts(bytes: *mut u8, address: u64, len: usize) -> [libc::iovec; 2] {
    [bytes, address as *mut u8].map(|base| libc::iovec { iov_base: base.cast(), iov_len: len })
}

fn read_memory(address: u64, to: &mut [u8]) -> Result<()> {
    let [local, remote] = parts(to.as_mut_ptr(), address, to.len());
    // SAFETY: `local` is writable; the kernel checks `remote`.
    let moved = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    Errno(libc::EFAULT).when(moved != to.len() as isize)
}

fn write_memory(address: u64, from: &[u8]) -> Result<()> {
    let [local, remote] = parts(from.as_ptr().cast_mut(), address, from.len());
    // SAFETY: `local` is readable; the kernel checks `remote`.
    let moved = unsafe { libc::process_vm_writev(libc::getpid(), &local, 1, &remote, 1, 0) };
    Errno(libc::EFAULT).when(moved != from.len() as isize)
}
