//! A sender that is nobody's peer: whatever it sends, connections and their memory stay as they are.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use driver::{AttrMask, QpAttr};
use fpga_regs::{Access, CqeStatus, WqeOpcode};
use model::wire::{frame, Aeth, Bth, BthOpcode, Headers, Network, Path, Reth};
use tests::{loopback_address, wait_for, Options, Peer, Random};

use super::{net_at, options, pair};

const ROCE: u16 = 4791;

fn gid(ip: Ipv4Addr) -> [u8; 16] {
    ip.to_ipv6_mapped().octets()
}

/// Headers of a packet for a queue pair.
fn headers(opcode: u8, dest_qp: u32) -> Headers {
    let bth = Bth { opcode: BthOpcode(opcode), pkey: 0xffff, dest_qp, ..Bth::default() };
    Headers { bth, ..Headers::default() }
}

/// A datagram that a RoCE sender at `from` could send: a right ICRC, whatever the headers say.
fn datagram(from: [u8; 16], to: [u8; 16], sport: u16, headers: &Headers, payload: &[u8]) -> Vec<u8> {
    numbered(0, from, to, sport, headers, payload)
}

/// The same with a number for the IP header, which the ICRC covers.
fn numbered(id: u16, from: [u8; 16], to: [u8; 16], sport: u16, headers: &Headers, payload: &[u8]) -> Vec<u8> {
    let mut network = Network::from_gids(&from, &to, 0, 0, 64);
    network.set_id(id);
    let path = Path { network, udp_sport: sport, ..Path::default() };
    let mut bytes = vec![0; 9000];
    let length = frame::encode(&path, headers, payload, &mut bytes).expect("a frame");
    bytes[14 + 20 + 8..length].to_vec()
}

#[test]
fn a_stranger_touches_nothing() {
    let (here, there, away) = (loopback_address(), loopback_address(), loopback_address());
    let (one, other) = (net_at(here), net_at(there));
    let [mut x, y] = pair([&one, &other], options());
    x.buffer.pattern(3);
    x.completes(x.remote(1, WqeOpcode::WRITE, &[x.sge(0, 3000)], &y, 0));
    let stranger = UdpSocket::bind((away, 0)).expect("a socket");
    let target = (there, ROCE);
    let sport = stranger.local_addr().unwrap().port();
    let mut headers = headers(WRITE, y.qp.qpn());
    headers.bth.ack_request = true;
    headers.reth = Reth { virtual_address: y.buffer.addr(0), rkey: y.mr.rkey(), dma_length: 64 };
    let send = |headers: &Headers, payload: &[u8]| {
        let bytes = datagram(gid(away), gid(there), sport, headers, payload);
        stranger.send_to(&bytes, target).expect("sent");
    };
    // The right queue pair and key, at every PSN that could be the next: but of another address.
    for psn in 0..64 {
        headers.bth.psn = x.options.psn.wrapping_add(psn) & 0xff_ffff;
        send(&headers, &[0xee; 64]);
    }
    // An acknowledgement of everything, and a refusal.
    for syndrome in [0x1f, 0x60] {
        headers.bth.opcode = BthOpcode(0x11);
        headers.aeth = Aeth { syndrome: model::wire::Syndrome(syndrome), msn: 0 };
        send(&headers, &[]);
    }
    // Another partition, and queue pairs that do not exist.
    headers.bth.pkey = 0x1234;
    send(&headers, &[]);
    headers.bth.pkey = 0xffff;
    for qpn in 2..200 {
        headers.bth.dest_qp = qpn << 8;
        send(&headers, &[]);
    }
    // A datagram for the general services' queue pair, which anybody may send to, of more than a packet has.
    headers.bth.opcode = BthOpcode(0x64);
    headers.bth.dest_qp = 1;
    send(&headers, &[1; 8000]);
    wait_for("a packet that is too long is not counted", || y.counter("rx_malformed") > 0);
    assert_eq!(y.counter("rx_pkey_errors"), 1, "of another partition, sent before");
    // Anything: noise, and good packets with some bytes changed.
    let mut numbers = Random(0x5eed);
    for _ in 0..3000 {
        let mut bytes = vec![0; (numbers.next() % 200) as usize];
        bytes.iter_mut().for_each(|byte| *byte = numbers.next() as u8);
        stranger.send_to(&bytes, target).expect("sent");
        headers.bth.opcode = BthOpcode(numbers.next() as u8);
        headers.bth.dest_qp = y.qp.qpn();
        headers.bth.psn = numbers.next() as u32 & 0xff_ffff;
        if !headers.bth.opcode.is_known() {
            continue;
        }
        let payload = if headers.bth.opcode.has_payload() { &[7; 32][..] } else { &[] };
        let mut bytes = datagram(gid(away), gid(there), sport, &headers, payload);
        if numbers.next() % 2 == 0 {
            let at = numbers.next() as usize % bytes.len();
            bytes[at] ^= 1 << (numbers.next() % 8);
        }
        stranger.send_to(&bytes, target).expect("sent");
    }
    // What was there is there, and the connection works.
    for n in 0..50 {
        x.completes(x.remote(n, WqeOpcode::WRITE, &[x.sge(0, 5000)], &y, 10_000));
    }
    assert!(x.buffer[..3000] == y.buffer[..3000] && x.buffer[..5000] == y.buffer[10_000..15_000]);
    assert!(y.counter("rx_no_qp") > 200, "strangers, and queue pairs that do not exist");
    assert!(y.counter("rx_malformed") > 0 && y.counter("rx_icrc_errors") > 1000);
}

/// A congestion notification of the peer's address is one, and of another is not (RoCEv2 annex A17.9.3).
#[test]
fn notifications_come_from_the_peer() {
    let (here, there, away) = (loopback_address(), loopback_address(), loopback_address());
    let (one, other) = (net_at(here), net_at(there));
    let [_x, y] = pair([&one, &other], options());
    let headers = headers(BthOpcode::CNP.0, y.qp.qpn());
    for (from, name) in [(away, "rx_no_qp"), (here, "rx_cnp")] {
        let before = y.counter(name);
        let socket = UdpSocket::bind((from, 0)).expect("a socket");
        let sport = socket.local_addr().unwrap().port();
        socket.send_to(&datagram(gid(from), gid(there), sport, &headers, &[]), (there, ROCE)).expect("sent");
        wait_for(|| format!("{name} does not count it"), || y.counter(name) > before);
    }
    assert_eq!(y.counter("rx_cnp"), 1);
}

/// A peer refuses the rest of a READ by the PSN of its request, as Linux rxe does, after a part of the answer.
#[test]
fn the_rest_of_a_read_is_refused() {
    let (here, there) = (loopback_address(), loopback_address());
    let net = net_at(here);
    let peer = UdpSocket::bind((there, ROCE)).expect("a socket");
    peer.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    let x = Peer::new(&net.open(0), Options { mtu: 5, ..options() });
    x.init();
    x.rtr(0x77, gid(there), 0);
    x.rts();
    let sge = [x.sge(0, 10_000)];
    let mut read = x.wr(5, WqeOpcode::READ, &sge);
    (read.remote_addr, read.rkey) = (0x1000, 0x1234);
    x.post(&[read]);
    let mut request = [0; 5000];
    peer.recv(&mut request).expect("the request");
    assert_eq!(request[0], READ);
    for (opcode, syndrome, payload) in [(READ_FIRST, 0, &[7; 4096][..]), (ACKNOWLEDGE, 0x62, &[])] {
        let mut headers = headers(opcode, x.qp.qpn());
        headers.bth.psn = x.options.psn;
        headers.aeth = Aeth { syndrome: model::wire::Syndrome(syndrome), msn: 1 };
        let bytes = datagram(gid(there), gid(here), ROCE, &headers, payload);
        peer.send_to(&bytes, (here, ROCE)).expect("sent");
    }
    x.expect_status(5, CqeStatus::REM_ACCESS_ERR);
    assert!(x.buffer[..4096].iter().all(|&byte| byte == 7), "what was answered is there");
}

/// RC opcodes.
const READ_FIRST: u8 = 0x0d;
const ACKNOWLEDGE: u8 = 0x11;
const READ: u8 = 0x0c;
const WRITE: u8 = 0x0a;

/// What is sent by one call is so many datagrams of this length, which leave together.
#[allow(unsafe_code)]
fn together(socket: &UdpSocket, length: usize) {
    let length = length as i32;
    let size = std::mem::size_of_val(&length) as u32;
    // SAFETY: the option is an int.
    let set = unsafe {
        let at = std::ptr::from_ref(&length).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, at, size)
    };
    assert_eq!(set, 0, "UDP_SEGMENT: {}", std::io::Error::last_os_error());
}

/// A peer that asks for much at once has it, and others have the cards in between. What it may not read any more it may not
/// ask for again either.
#[test]
fn a_peer_asks_for_much() {
    const READS: u32 = 48;
    const LENGTH: u32 = 16 << 20;
    let (here, there) = (loopback_address(), loopback_address());
    let (one, other) = (net_at(here), net_at(there));
    let options = Options { bytes: LENGTH as usize, mtu: 5, ..options() };
    let [x, y] = pair([&one, &other], options);
    let socket = UdpSocket::bind((here, 0)).expect("a socket");
    let sport = socket.local_addr().unwrap().port();
    let packets = LENGTH / 4096;
    let request = |opcode: u8, n: u32, id: u16| {
        let mut headers = headers(opcode, y.qp.qpn());
        headers.bth.ack_request = true;
        headers.bth.psn = x.options.psn.wrapping_add(n * packets) & 0xff_ffff;
        headers.reth = Reth { virtual_address: y.buffer.addr(0), rkey: y.mr.rkey(), dma_length: LENGTH };
        numbered(id, gid(here), gid(there), sport, &headers, &[])
    };
    let send = |bytes: &[u8]| assert!(socket.send_to(bytes, (there, ROCE)).expect("sent") == bytes.len());
    let sent = || y.counter("tx_packets");
    let before = sent();
    let all = u64::from(READS * packets);
    // They leave as one and come as one; the kernel numbers them.
    together(&socket, request(READ, 0, 0).len());
    send(&(0..READS).flat_map(|n| request(READ, n, n as u16)).collect::<Vec<_>>());
    let until = Instant::now() + Duration::from_secs(100);
    let mut seen = vec![before];
    while seen[seen.len() - 1] < before + all {
        assert!(Instant::now() < until, "{:?} of {all} packets of the answers", seen.last());
        y.device.alloc_pd().expect("the card answers");
        seen.push(sent());
    }
    seen.dedup();
    // Fewer than might be: who looks may not run for a while. In one go there would be three at most.
    assert!(seen.len() > 4, "others had the cards {} times", seen.len());
    // The last one again, with and without the right.
    for (access, more) in [(Access::REMOTE_READ, u64::from(packets)), (Access(0), 0)] {
        y.qp.modify(&QpAttr { access, ..QpAttr::default() }, AttrMask::ACCESS_FLAGS).expect("other rights");
        let before = sent();
        send(&request(READ, READS - 1, 0));
        // One that was received before gets an acknowledgement: it says that the other was looked at.
        send(&request(WRITE, 0, 0));
        wait_for("the answer is not repeated", || sent() > before + more);
        assert_eq!(sent(), before + more + 1, "{access:?}");
    }
}
