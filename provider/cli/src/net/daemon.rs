//! Background processes of the command: detached from terminal and parent.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use rustix::process::{getrlimit, setrlimit, Resource, Rlimit};

/// Starts this binary in a process group of its own, so that a terminal's signals do not reach it, and without any
/// descriptor of ours but `keep`. Its stderr is a pipe, so that an early failure can be reported.
///
/// Not in a session of its own: Linux' scheduler makes each session a group that gets its share as one (`autogroup` in
/// sched(7)). On a busy core, Linux 6.18 did not run such a new one for half a minute.
pub fn spawn(arguments: &[String], keep: Option<BorrowedFd<'_>>) -> Result<Child> {
    let keep = keep.map(|fd| fd.as_raw_fd());
    let mut command = Command::new("/proc/self/exe");
    command
        .args(arguments)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    // SAFETY: setpgid() and what drop_descriptors() calls are async-signal-safe and touch
    // no memory of the parent.
    unsafe {
        command.pre_exec(move || {
            libc::setpgid(0, 0);
            drop_descriptors(keep);
            Ok(())
        });
    }
    command.spawn().context("starting a background process")
}

/// A keeper that inherited a connection to another net would keep that alive.
fn drop_descriptors(keep: Option<RawFd>) {
    // SAFETY: only flags of this process's own descriptors are changed, and
    // only for the exec that follows.
    unsafe {
        let flag = libc::CLOSE_RANGE_CLOEXEC;
        if libc::syscall(libc::SYS_close_range, 3, u32::MAX, flag) != 0 {
            for fd in 3..1024 {
                libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
            }
        }
        if let Some(fd) = keep {
            libc::fcntl(fd, libc::F_SETFD, 0);
        }
    }
}

/// A descriptor that the starter kept open for us.
pub fn inherited(fd: RawFd) -> Result<File> {
    // SAFETY: F_GETFD only asks.
    if fd < 3 || unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        bail!("descriptor {fd} is not open");
    }
    // SAFETY: open, as just seen, and without another owner in this process.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Every program takes a descriptor: as many are allowed as may be.
pub fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Lets go of the pipe that the starter may still be reading.
pub fn close_stderr() {
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        // SAFETY: replaces descriptor 2 by another open file.
        unsafe { libc::dup2(null.as_raw_fd(), libc::STDERR_FILENO) };
    }
}

/// Gives the process to init: the program that replaces our starter must not
/// find a child that it does not know. Done by forking once more.
pub fn orphan() -> Result<()> {
    // SAFETY: called first thing in the process, which has one thread.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()).context("starting a process"),
        0 => Ok(()),
        // SAFETY: ends the first process; the child continues.
        _ => unsafe { libc::_exit(0) },
    }
}

/// Opens a file to read and write, and closes it; `None` if that takes longer than `limit`. Done by a process of
/// its own: a process that waits in the kernel for a device cannot even be killed.
pub fn try_open(path: &Path, limit: Duration) -> std::io::Result<Option<()>> {
    let until = Instant::now() + limit;
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the child calls nothing but close, open and _exit.
    let child = match unsafe { libc::fork() } {
        -1 => return Err(std::io::Error::last_os_error()),
        // SAFETY: a C string; `errno` is the child's own. An errno fits an exit status.
        0 => unsafe {
            // A reader of our output must not wait for it.
            (0..=2).for_each(|fd| {
                libc::close(fd);
            });
            let opened = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            libc::_exit(if opened < 0 { *libc::__errno_location() } else { 0 })
        },
        child => child,
    };
    loop {
        let mut status = 0;
        // SAFETY: our own child.
        match unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } {
            0 if Instant::now() > until => return Ok(None),
            0 => std::thread::sleep(Duration::from_millis(1)),
            -1 => return Err(std::io::Error::last_os_error()),
            _ if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 => return Ok(Some(())),
            _ if libc::WIFEXITED(status) => {
                return Err(std::io::Error::from_raw_os_error(libc::WEXITSTATUS(status)))
            }
            _ => return Err(std::io::Error::from(std::io::ErrorKind::Interrupted)),
        }
    }
}

/// The signals that ask a process to end, blocked in every thread that is started from now on.
pub struct EndSignals(libc::sigset_t);

impl EndSignals {
    /// Blocks SIGTERM, SIGINT and SIGHUP.
    pub fn block() -> Result<EndSignals> {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set is initialised by sigemptyset before anything reads it.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            let set = set.assume_init();
            if libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) != 0 {
                bail!("blocking signals failed");
            }
            Ok(EndSignals(set))
        }
    }

    pub fn wait(&self) -> Result<()> {
        let mut signal = 0;
        // SAFETY: both arguments are ours.
        match unsafe { libc::sigwait(&self.0, &mut signal) } {
            0 => Ok(()),
            error => Err(std::io::Error::from_raw_os_error(error)).context("waiting for a signal"),
        }
    }
}
