//! Reading from and writing to streams: the bytes carry the time.
//!
//! All of it only matters while a timeline is attached; before, these are the C library's functions, but for timers.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use crate::next::replace;
use crate::read_clock::from_timeval;
use crate::stream::{self, Stream};
use crate::sys::{self, fail, sys};
use crate::timeline;
use crate::timerfd;
use crate::wait::{wait_one, Interrupted};
use contract::clock::{kind, NEVER};

fn is_nonblocking(fd: c_int) -> bool {
    // SAFETY: plain numbers.
    let flags = unsafe { sys!(libc::SYS_fcntl, fd, libc::F_GETFL) };
    flags < 0 || flags as c_int & libc::O_NONBLOCK != 0
}

/// The virtual deadline of a socket's SO_RCVTIMEO or SO_SNDTIMEO.
fn deadline(fd: c_int, option: c_int) -> u64 {
    let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut length = size_of::<libc::timeval>() as libc::socklen_t;
    // SAFETY: both are valid for writing.
    let result =
        unsafe { sys!(libc::SYS_getsockopt, fd, libc::SOL_SOCKET, option, &raw mut time, &raw mut length) };
    match from_timeval(&time) {
        None | Some(0) => NEVER,
        Some(_) if result != 0 => NEVER,
        Some(ps) => timeline::now().saturating_add(ps),
    }
}

/// Waits until `fd` can be read (or written) without blocking. The error is that of the call.
fn until(fd: c_int, events: i16, flags: c_int) -> Result<(), c_int> {
    let option = if events == libc::POLLIN { libc::SO_RCVTIMEO } else { libc::SO_SNDTIMEO };
    let waits = flags & libc::MSG_DONTWAIT == 0 && !is_nonblocking(fd);
    let deadline = if waits { deadline(fd, option) } else { 0 };
    match wait_one(fd, events, deadline) {
        Err(Interrupted { .. }) => Err(libc::EINTR),
        Ok(0) if waits => Err(libc::EAGAIN),
        Ok(_) => Ok(()),
    }
}

/// A read of at most `wanted` bytes by `call`.
fn receive(fd: c_int, wanted: usize, flags: c_int, call: impl FnOnce() -> isize) -> isize {
    if !timeline::is_attached() && !timerfd::is_one(fd) {
        return call();
    }
    let stream = Stream::of(fd);
    if let Err(error) = until(fd, libc::POLLIN, flags) {
        return fail(error);
    }
    let result = call();
    if let Some(stream) = stream.filter(|_| result >= 0 && wanted > 0 && flags & libc::MSG_PEEK == 0) {
        let errno = sys::get_errno();
        stream.has_received(result as usize);
        sys::set_errno(errno);
    }
    result
}

/// A read that is to fill the buffer (`MSG_WAITALL`), piece by piece: each is waited for.
unsafe fn receive_all(fd: c_int, buffer: *mut c_void, length: usize, flags: c_int) -> isize {
    let mut got = 0;
    while got < length {
        let (at, rest) = (buffer.wrapping_byte_add(got), length - got);
        let call = || {
            // SAFETY: the caller keeps the contract of recv(2), and `at` has room for `rest` bytes.
            sys::errno(unsafe { sys!(libc::SYS_recvfrom, fd, at, rest, flags & !libc::MSG_WAITALL, 0, 0) })
        };
        match receive(fd, rest, flags, call) {
            n if n > 0 => got += n as usize,
            n if got == 0 => return n,
            _ => break,
        }
    }
    got as isize
}

/// A write to anything by `call`; if that is a socket, by `sendmsg` instead, so that it never blocks
/// where the timeline does not know of it.
unsafe fn transmit(fd: c_int, message: libc::msghdr, flags: c_int, call: impl FnOnce() -> isize) -> isize {
    timeline::acted();
    if !timeline::is_attached() {
        return call();
    }
    let Some(stream) = Stream::of(fd) else { return call() };
    // SAFETY: the caller keeps the contract of sendmsg(2).
    let parts = unsafe { parts(&message) };
    let length = parts.iter().map(|part| part.iov_len).sum();
    stream.sends(length);
    if stream.is_pipe() {
        // A full pipe holds time back: its reader may well be outside of the net.
        let result = call();
        stream.has_sent(result.max(0) as usize);
        return result;
    }
    // SAFETY: as above.
    unsafe { send_parts(fd, message, parts.to_vec(), flags, &stream) }
}

unsafe fn parts(message: &libc::msghdr) -> &[libc::iovec] {
    if message.msg_iovlen == 0 {
        return &[];
    }
    // SAFETY: the caller keeps the contract of sendmsg(2).
    unsafe { std::slice::from_raw_parts(message.msg_iov, message.msg_iovlen) }
}

unsafe fn send_parts(
    fd: c_int,
    mut message: libc::msghdr,
    mut parts: Vec<libc::iovec>,
    flags: c_int,
    stream: &Stream,
) -> isize {
    let waits = flags & libc::MSG_DONTWAIT == 0 && !is_nonblocking(fd);
    let mut total = 0;
    loop {
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = parts.len() as _;
        // SAFETY: the caller's message with the parts that are left of it.
        let sent = unsafe { sys!(libc::SYS_sendmsg, fd, &raw const message, flags | libc::MSG_DONTWAIT) };
        let error = if sent == -(libc::EAGAIN as isize) && waits {
            until(fd, libc::POLLOUT, flags).err()
        } else if sent < 0 {
            Some(-sent as c_int)
        } else {
            stream.has_sent(sent as usize);
            total += sent;
            // What came along goes with the first byte only.
            (message.msg_control, message.msg_controllen) = (std::ptr::null_mut(), 0);
            skip(&mut parts, sent as usize);
            if parts.is_empty() || !waits {
                return total;
            }
            None
        };
        match error {
            Some(_) if total > 0 => return total,
            Some(error) => return fail(error),
            None => {}
        }
    }
}

/// Takes the first `bytes` off.
fn skip(parts: &mut Vec<libc::iovec>, mut bytes: usize) {
    parts.retain_mut(|part| {
        let taken = bytes.min(part.iov_len);
        bytes -= taken;
        part.iov_base = part.iov_base.wrapping_byte_add(taken);
        part.iov_len -= taken;
        part.iov_len > 0
    });
}

/// A message of one part.
fn message(part: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: all zero is a valid message.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = part;
    message.msg_iovlen = 1;
    message
}

unsafe fn accept_by(fd: c_int, flags: c_int, call: impl FnOnce() -> c_int) -> c_int {
    let accepted = receive(fd, 1, flags, || call() as isize) as c_int;
    if accepted >= 0 {
        stream::opened(accepted);
    }
    accepted
}

replace! {
    /// read(2)
    fn read(fd: c_int, buffer: *mut c_void, n: usize) -> isize {
        receive(fd, n, 0, || next(fd, buffer, n))
    }

    /// read(2) as `_FORTIFY_SOURCE` calls it
    fn __read_chk(fd: c_int, buffer: *mut c_void, n: usize, size: usize) -> isize {
        if size < n {
            libc::abort();
        }
        read(fd, buffer, n)
    }

    /// readv(2)
    fn readv(fd: c_int, parts: *const libc::iovec, n: c_int) -> isize {
        receive(fd, 1, 0, || next(fd, parts, n))
    }

    /// recv(2)
    fn recv(fd: c_int, buffer: *mut c_void, n: usize, flags: c_int) -> isize {
        if flags & libc::MSG_WAITALL != 0 && timeline::is_attached() {
            return receive_all(fd, buffer, n, flags);
        }
        receive(fd, n, flags, || next(fd, buffer, n, flags))
    }

    /// recv(2) as `_FORTIFY_SOURCE` calls it
    fn __recv_chk(fd: c_int, buffer: *mut c_void, n: usize, size: usize, flags: c_int) -> isize {
        if size < n {
            libc::abort();
        }
        recv(fd, buffer, n, flags)
    }

    /// recvfrom(2)
    fn recvfrom(
        fd: c_int, buffer: *mut c_void, n: usize, flags: c_int,
        address: *mut libc::sockaddr, length: *mut libc::socklen_t,
    ) -> isize {
        receive(fd, n, flags, || next(fd, buffer, n, flags, address, length))
    }

    /// recvfrom(2) as `_FORTIFY_SOURCE` calls it
    fn __recvfrom_chk(
        fd: c_int, buffer: *mut c_void, n: usize, size: usize, flags: c_int,
        address: *mut libc::sockaddr, length: *mut libc::socklen_t,
    ) -> isize {
        if size < n {
            libc::abort();
        }
        recvfrom(fd, buffer, n, flags, address, length)
    }

    /// recvmsg(2)
    fn recvmsg(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> isize {
        receive(fd, 1, flags, || next(fd, message, flags))
    }

    /// write(2)
    fn write(fd: c_int, buffer: *const c_void, n: usize) -> isize {
        let mut part = libc::iovec { iov_base: buffer.cast_mut(), iov_len: n };
        transmit(fd, message(&mut part), 0, || next(fd, buffer, n))
    }

    /// writev(2)
    fn writev(fd: c_int, parts: *const libc::iovec, n: c_int) -> isize {
        let mut message = message(&mut libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 });
        message.msg_iov = parts.cast_mut();
        message.msg_iovlen = n.max(0) as _;
        transmit(fd, message, 0, || next(fd, parts, n))
    }

    /// send(2)
    fn send(fd: c_int, buffer: *const c_void, n: usize, flags: c_int) -> isize {
        sendto(fd, buffer, n, flags, std::ptr::null(), 0)
    }

    /// sendto(2)
    fn sendto(
        fd: c_int, buffer: *const c_void, n: usize, flags: c_int,
        address: *const libc::sockaddr, length: libc::socklen_t,
    ) -> isize {
        let mut part = libc::iovec { iov_base: buffer.cast_mut(), iov_len: n };
        let mut message = message(&mut part);
        message.msg_name = address.cast_mut().cast();
        message.msg_namelen = length;
        reach_datagram(&message);
        transmit(fd, message, flags, || next(fd, buffer, n, flags, address, length))
    }

    /// sendmsg(2)
    fn sendmsg(fd: c_int, message: *const libc::msghdr, flags: c_int) -> isize {
        reach_datagram(&*message);
        transmit(fd, *message, flags, || next(fd, message, flags))
    }

    /// accept(2)
    fn accept(fd: c_int, address: *mut libc::sockaddr, length: *mut libc::socklen_t) -> c_int {
        accept_by(fd, 0, || next(fd, address, length))
    }

    /// accept4(2)
    fn accept4(fd: c_int, address: *mut libc::sockaddr, length: *mut libc::socklen_t, flags: c_int) -> c_int {
        accept_by(fd, 0, || next(fd, address, length, flags))
    }

    /// connect(2)
    fn connect(fd: c_int, address: *const libc::sockaddr, length: libc::socklen_t) -> c_int {
        timeline::acted();
        if timeline::is_attached() && !address.is_null() {
            stream::name(fd);
            if let Some(listener) = stream::target(kind::LISTEN, address, length) {
                stream::reach(&listener);
            }
        }
        next(fd, address, length)
    }

    /// socket(2)
    fn socket(domain: c_int, ty: c_int, protocol: c_int) -> c_int {
        let fd = next(domain, ty, protocol);
        if fd >= 0 {
            stream::opened(fd);
        }
        fd
    }

    /// socketpair(2)
    fn socketpair(domain: c_int, ty: c_int, protocol: c_int, fds: *mut [c_int; 2]) -> c_int {
        let result = next(domain, ty, protocol, fds);
        if result == 0 {
            stream::pair(*fds);
        }
        result
    }

    /// shutdown(2)
    fn shutdown(fd: c_int, how: c_int) -> c_int {
        if timeline::is_attached() && how != libc::SHUT_RD {
            if let Some(stream) = Stream::of(fd) {
                stream.ends();
            }
        }
        next(fd, how)
    }

    /// close(2)
    fn close(fd: c_int) -> c_int {
        timerfd::closes(fd);
        if timeline::is_attached() {
            stream::closes(fd);
        }
        next(fd)
    }
}

/// A datagram to an address of its own.
unsafe fn reach_datagram(message: &libc::msghdr) {
    if timeline::is_attached() && !message.msg_name.is_null() && message.msg_namelen >= 2 {
        // SAFETY: the caller keeps the contract of sendmsg(2).
        let target = unsafe { stream::target(kind::DATAGRAM, message.msg_name.cast(), message.msg_namelen) };
        if let Some(target) = target {
            stream::reach(&target);
        }
    }
}
