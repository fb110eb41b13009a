//! `fork` with moved buffers.
#![allow(unsafe_code)]

use std::path::Path;
use std::time::Duration;

use super::super::{LockError, Segment, SegmentError};
use super::child::{tell, wait, Other};
use super::{eventually, Buffer, Net};

/// Runs `body` in a forked child and returns its exit code.
fn in_fork(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child only does what the tests of this file do: no threads,
    // little memory, and it leaves by _exit.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(body()),
            pid => {
                assert!(pid > 0);
                let mut status = 0;
                assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
                assert!(libc::WIFEXITED(status), "status {status:#x}");
                libc::WEXITSTATUS(status)
            }
        }
    }
}

#[test]
fn parent_and_child_have_their_own_copies() {
    let (_net, a) = Net::joined();
    let buffer = Buffer::filled(300 * 4096, 5);
    let start = buffer.ptr.wrapping_add(24);
    let len = buffer.len - 4096;
    a.map(start, len, true).unwrap();
    let ready = Buffer::new(4096);
    let code = in_fork(|| {
        if !buffer.is_pattern(5) {
            return 1;
        }
        buffer.bytes().fill(0xee);
        if !a.is_detached() || a.try_lock().is_some() {
            return 2;
        }
        if !matches!(a.lock(Duration::ZERO), Err(LockError::Detached)) {
            return 3;
        }
        let refused = |result| matches!(result, Err(SegmentError::Lock(LockError::Detached)));
        if !refused(a.map(start, len, true).map(drop)) || !refused(a.unmap(start, len)) {
            return 4;
        }
        // SAFETY: the world's place is still mapped.
        if unsafe { a.world_ptr().read() } != 0 {
            return 5;
        }
        ready.bytes()[0] = 1;
        0
    });
    assert_eq!(code, 0);
    assert!(buffer.is_pattern(5), "the child wrote into our buffer");
    assert_eq!(ready.bytes()[0], 0);
    // The parent's registration works on.
    let guard = a.lock(Duration::from_secs(1)).unwrap();
    guard.write(a.member(), start as u64, &[1, 2, 3]).unwrap();
    drop(guard);
    assert_eq!(buffer.bytes()[24..27], [1, 2, 3]);
    a.unmap(start, len).unwrap();
    assert_eq!(buffer.bytes()[24..27], [1, 2, 3]);
}

#[test]
fn the_child_sees_the_moment_of_the_fork() {
    let (_net, a) = Net::joined();
    let buffer = Buffer::filled(64 << 20, 6);
    a.map(buffer.ptr, buffer.len, true).unwrap();
    // SAFETY: as in `in_fork`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let code = i32::from(!buffer.is_pattern(6));
        // SAFETY: the child ends.
        unsafe { libc::_exit(code) };
    }
    // The parent continues at once, as programs do.
    buffer.bytes().fill(0);
    let mut status = 0;
    // SAFETY: our child.
    unsafe { libc::waitpid(pid, &mut status, 0) };
    assert_eq!(status, 0);
}

#[test]
fn a_child_can_attach_again() {
    let (net, a) = Net::joined();
    let socket = net.socket();
    let mine = a.member();
    let code = in_fork(|| match Segment::attach(&socket) {
        Ok(new) if new.member() != mine && new.alloc(4096).is_ok() => 0,
        Ok(_) => 1,
        Err(_) => 2,
    });
    assert_eq!(code, 0);
}

/// Child: forks a process that lives on, and ends.
pub(super) fn fork_and_live(socket: &Path) {
    let segment = Segment::attach(socket).unwrap();
    let buffer = Buffer::filled(1 << 20, 3);
    segment.map(buffer.ptr, buffer.len, true).unwrap();
    // SAFETY: the child only sleeps.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        std::thread::sleep(Duration::from_secs(20));
        // SAFETY: the child ends.
        unsafe { libc::_exit(0) };
    }
    tell(&[segment.member().into(), pid as u64]);
    wait();
}

#[test]
fn a_surviving_child_does_not_keep_its_parent_alive() {
    let (net, a) = Net::joined();
    let mut other = Other::start("fork_and_live", &net.socket());
    let told = other.hear();
    other.kill();
    assert_eq!(net.gone.recv_timeout(Duration::from_secs(60)), Ok(told[0] as u16));
    assert!(eventually(|| a.pid_of(told[0] as u16).is_none()));
    // SAFETY: the process that the role left behind.
    unsafe { libc::kill(told[1] as libc::pid_t, libc::SIGKILL) };
}

#[test]
fn forks_while_others_register_neither_hang_nor_lose() {
    let (_net, a) = Net::joined();
    let fixed = Buffer::filled(8 * 4096, 2);
    a.map(fixed.ptr, fixed.len, true).unwrap();
    let registering = {
        let a = a.clone();
        std::thread::spawn(move || {
            let buffer = Buffer::filled(16 * 4096, 7);
            for _ in 0..300 {
                a.map(buffer.ptr, buffer.len, true).unwrap();
                assert!(buffer.is_pattern(7));
                a.unmap(buffer.ptr, buffer.len).unwrap();
                assert!(buffer.is_pattern(7));
            }
        })
    };
    for _ in 0..40 {
        assert_eq!(in_fork(|| i32::from(!fixed.is_pattern(2))), 0);
    }
    registering.join().unwrap();
    assert!(fixed.is_pattern(2));
}
