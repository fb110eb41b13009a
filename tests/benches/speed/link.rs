//! Frames by the kernel's packet sockets, on a link of this process alone: the bare way, with rings that the kernel and a process
//! share (packet(7), `Documentation/networking/packet_mmap.rst`).

use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::limits::{between_processes, set, typical, word};

/// The two ends of a cable.
pub const ENDS: [&str; 2] = ["left", "right"];
/// What a RoCE packet with 4096 bytes of payload has room in.
const MTU: u32 = 4200;
/// Of the sender's ring: frames, and bytes for each.
const SEND_FRAMES: usize = 64;
const SEND_ROOM: usize = 8192;
/// Of the receiver's ring.
const BLOCKS: usize = 16;
const BLOCK: usize = 1 << 18;

/// Makes the cable in a network that this process and its children have from now on.
pub fn make_cable() {
    // SAFETY: takes nothing.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let own_user = if user == 0 { 0 } else { libc::CLONE_NEWUSER };
    // SAFETY: the benchmark has one thread.
    let made = unsafe { libc::unshare(libc::CLONE_NEWNET | own_user) };
    assert_eq!(made, 0, "a network of its own: {}", std::io::Error::last_os_error());
    if own_user != 0 {
        for (file, text) in [
            ("setgroups", "deny".to_owned()),
            ("uid_map", format!("0 {user} 1")),
            ("gid_map", format!("0 {group} 1")),
        ] {
            fs::write(format!("/proc/self/{file}"), text).expect("the maps of a new user namespace");
        }
    }
    let [left, right] = ENDS;
    for line in [
        "link set lo up".to_owned(),
        format!("link add {left} mtu {MTU} type veth peer name {right} mtu {MTU}"),
        format!("link set {left} up"),
        format!("link set {right} up"),
    ] {
        let status = Command::new("ip").args(line.split(' ')).status().expect("`ip`, of iproute2");
        assert!(status.success(), "ip {line}");
    }
}

/// A packet socket of an interface, with one ring.
struct Socket {
    socket: OwnedFd,
    ring: *mut u8,
    bytes: usize,
}

impl Socket {
    fn new<T>(
        interface: &str,
        version: libc::c_int,
        (option, request): (libc::c_int, T),
        bytes: usize,
    ) -> Socket {
        let protocol = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: makes a descriptor, which is ours; the values are read within the calls; the ring is mapped as it was asked for.
        unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, protocol.into());
            assert!(fd >= 0, "a packet socket: {}", std::io::Error::last_os_error());
            let socket = OwnedFd::from_raw_fd(fd);
            set(&socket, (libc::SOL_PACKET, libc::PACKET_VERSION), version);
            set(&socket, (libc::SOL_PACKET, option), request);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let ring = libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd, 0);
            assert_ne!(ring, libc::MAP_FAILED, "the ring: {}", std::io::Error::last_os_error());
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            let name = std::ffi::CString::new(interface).expect("a name");
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = protocol;
            address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
            let length = size_of_val(&address) as libc::socklen_t;
            let bound = libc::bind(fd, (&raw const address).cast(), length);
            assert_eq!(bound, 0, "binding to {interface}: {}", std::io::Error::last_os_error());
            Socket { socket, ring: ring.cast(), bytes }
        }
    }

    /// The status at byte `at` of the ring, which the kernel writes too.
    fn status(&self, at: usize) -> &AtomicU32 {
        assert!(at + 4 <= self.bytes && at % 4 == 0);
        // SAFETY: aligned and inside the mapping, which lives as long.
        unsafe { AtomicU32::from_ptr(self.ring.add(at).cast()) }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // SAFETY: our mapping.
        unsafe { libc::munmap(self.ring.cast(), self.bytes) };
    }
}

/// Bytes per second of frames of `length` bytes that one process gets out of a ring, which another one puts into its own at the other
/// end of the cable.
pub fn ring_blast(length: usize) -> f64 {
    let once = || {
        let request = libc::tpacket_req {
            tp_block_size: SEND_ROOM as u32,
            tp_block_nr: SEND_FRAMES as u32,
            tp_frame_size: SEND_ROOM as u32,
            tp_frame_nr: SEND_FRAMES as u32,
        };
        let ring = (libc::PACKET_TX_RING, request);
        let from =
            Socket::new(ENDS[0], libc::tpacket_versions::TPACKET_V2 as i32, ring, SEND_FRAMES * SEND_ROOM);
        // SAFETY: zero is a value of every field.
        let mut request: libc::tpacket_req3 = unsafe { std::mem::zeroed() };
        (request.tp_block_size, request.tp_block_nr) = (BLOCK as u32, BLOCKS as u32);
        (request.tp_frame_size, request.tp_frame_nr) =
            (SEND_ROOM as u32, (BLOCK / SEND_ROOM * BLOCKS) as u32);
        request.tp_retire_blk_tov = 1;
        let ring = (libc::PACKET_RX_RING, request);
        let to = Socket::new(ENDS[1], libc::tpacket_versions::TPACKET_V3 as i32, ring, BLOCK * BLOCKS);
        between_processes(
            4096,
            |base| send(&from, length, word(base, 0)),
            |base| {
                let mut block = 0;
                receive(&to, &mut block, Duration::from_millis(50));
                let found = receive(&to, &mut block, Duration::from_millis(400));
                word(base, 0).store(1, Ordering::Relaxed);
                found * length as f64
            },
        )
    };
    typical(3, once)
}

/// Fills the ring again and again, until told to stop.
fn send(from: &Socket, length: usize, stop: &std::sync::atomic::AtomicU64) {
    // `TPACKET_ALIGN(sizeof(struct tpacket2_hdr))`; the length is its second word.
    const HEADER: usize = 32;
    for frame in 0..SEND_FRAMES {
        // SAFETY: within the frame's place; the MAC is nobody's, so the kernel at the other end ignores it.
        unsafe {
            let at = from.ring.add(frame * SEND_ROOM);
            std::ptr::write_bytes(at.add(HEADER), 2, length);
            at.add(4).cast::<u32>().write(length as u32);
        }
    }
    while stop.load(Ordering::Relaxed) == 0 {
        for frame in 0..SEND_FRAMES {
            let status = from.status(frame * SEND_ROOM);
            if status.load(Ordering::Acquire) == libc::TP_STATUS_AVAILABLE {
                status.store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
            }
        }
        // SAFETY: sends what the ring has.
        unsafe { libc::send(from.socket.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT) };
    }
}

/// Frames per second that come in that time.
fn receive(to: &Socket, block: &mut usize, time: Duration) -> f64 {
    // Of `struct tpacket_block_desc`.
    const STATUS: usize = 8;
    const COUNT: usize = 12;
    let (start, mut frames) = (Instant::now(), 0u64);
    while start.elapsed() < time {
        let at = *block * BLOCK;
        let status = to.status(at + STATUS);
        if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            std::hint::spin_loop();
            continue;
        }
        frames += u64::from(to.status(at + COUNT).load(Ordering::Relaxed));
        status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        *block = (*block + 1) % BLOCKS;
    }
    frames as f64 / start.elapsed().as_secs_f64()
}
