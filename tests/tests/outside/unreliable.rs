//! Datagrams and unreliable connections of ports that carry Ethernet frames.

use std::net::Ipv4Addr;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};

use driver::Device;
use fpga_regs::{QpType, WqeOpcode};
use model::link::{LinkOptions, Wire};
use tests::{connect, datagram, Options, Peer, TestCard, LIMIT};

use super::ethernet::{net_and_peer, two_nets};

/// A group, as a GID.
const GROUP: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 224, 1, 2, 3];

/// After which a reader looks whether the net has ended.
const PAUSE: Duration = Duration::from_millis(100);

/// A queue pair for datagrams, by IPv4.
fn datagrams(card: &Arc<Device<TestCard>>) -> Peer<TestCard> {
    let peer = Peer::new(card, Options { qp_type: QpType::UD, gid: 1, ..Options::default() });
    peer.ready();
    peer
}

/// No answer tells an unreliable queue pair to go on: what was posted leaves all the same, and so it does within the card.
#[test]
fn all_that_unreliable_queue_pairs_post_is_sent() {
    const MESSAGES: u64 = 64;
    let (one, other, _directory) = two_nets();
    let (a, b) = (one.open(0), other.open(1));
    for (to, qp_type, size) in
        [(&b, QpType::UC, 1 << 17), (&b, QpType::UD, 4000), (&a, QpType::UC, 1 << 17), (&a, QpType::UD, 4000)]
    {
        let (x, y) = connect(&a, to, Options { qp_type, mtu: 5, depth: 128, ..Options::default() });
        let ah = x.pd.create_ah(&x.av(y.gid())).expect("an AH");
        let sges = [x.sge(0, size)];
        let posts: Vec<_> = (0..MESSAGES)
            .map(|n| match qp_type {
                QpType::UD => datagram(&ah, y.qp.qpn(), x.wr(n, WqeOpcode::SEND, &sges)),
                _ => x.remote(n, WqeOpcode::WRITE, &sges, &y, 0),
            })
            .collect();
        x.post(&posts);
        (0..MESSAGES).for_each(|n| _ = x.expect(n));
    }
}

/// No switch sends a datagram for a group back to the port that it came from: members there get their copies at once.
#[test]
fn groups_have_members_on_the_port_itself() {
    let (net, socket, _, _directory) = net_and_peer(LinkOptions::default(), LIMIT);
    let card = net.open(0);
    let members: Vec<_> = (0..3)
        .map(|_| {
            let member = datagrams(&card);
            member.qp.attach_mcast(&GROUP).expect("joined");
            member.recv(7, &[member.sge(0, 2000)]);
            member
        })
        .collect();
    let x = &members[0];
    let ah = x.pd.create_ah(&x.av(GROUP)).expect("an AH");
    let sges = [x.sge(5000, 333)];
    let mut send = datagram(&ah, 0xff_ffff, x.wr(9, WqeOpcode::SEND, &sges));
    x.post(&[send]);
    let mut own = [x.wait(), x.wait()].map(|wc| wc.wr_id);
    own.sort_unstable();
    assert_eq!(own, [7, 9], "a sender that is a member hears itself");
    for member in &members[1..] {
        assert_eq!(member.expect(7).byte_len, 40 + 333);
        member.quiet();
    }
    // Among others, as of neighbour discovery.
    let mut frame = [0; 5000];
    while socket.recv(&mut frame).expect("the datagram leaves") <= 333
        || frame[..6] != [0x01, 0x00, 0x5e, 1, 2, 3]
    {}
    // To the group's address, but to nobody's number among its members.
    members.iter().for_each(|member| member.recv(8, &[member.sge(0, 2000)]));
    send.remote_qpn = members[1].qp.qpn();
    x.completes(send);
    members.iter().for_each(|member| member.quiet());
}

/// Tries a case until all messages leave, at most three times. It says how many did, and how long the net took to end, which
/// waits for a second at most: a try does not count in which the keeper or the neighbour may not have run for most of that.
fn all_leave(messages: u64, attempt: impl Fn() -> (u64, Duration)) {
    for n in 1..=3 {
        let (came, took) = attempt();
        if came == messages {
            return;
        }
        let again = n < 3 && took > Duration::from_millis(800);
        assert!(again, "try {n} of three: {came} of {messages} left, and the net ended within {took:?}");
    }
}

/// Counts datagrams to an address, until all have come or the net has ended.
fn come(socket: &UnixDatagram, to: [u8; 6], messages: u64, ended: &AtomicBool) -> u64 {
    let mut frame = [0; 5000];
    let mut came = 0;
    while came < messages {
        // Before the look: what has left by then is seen.
        let over = ended.load(Ordering::SeqCst);
        match socket.recv(&mut frame) {
            Ok(len) => came += u64::from(frame[..6] == to && len > 100),
            Err(_) if over => break,
            Err(_) => {}
        }
    }
    came
}

/// Frames that a fault delays leave one after another, though their sender and the net have ended; of those that are due at nearly
/// the same time none is left behind.
#[test]
fn what_is_late_leaves_after_the_net_has_ended() {
    const MESSAGES: u64 = 200;
    all_leave(MESSAGES, || late(MESSAGES));
}

fn late(messages: u64) -> (u64, Duration) {
    let faults = "delay by=500ms".parse().expect("faults");
    let wire = LinkOptions { wire: Wire::Exact, faults, ..LinkOptions::default() };
    let (net, socket, _, _directory) = net_and_peer(wire, PAUSE);
    let x = datagrams(&net.open(0));
    let ah = x.pd.create_ah(&x.av(GROUP)).expect("an AH");
    let ended = Arc::new(AtomicBool::new(false));
    let seen = ended.clone();
    let reader = std::thread::spawn(move || come(&socket, [0x01, 0x00, 0x5e, 1, 2, 3], messages, &seen));
    for n in 0..messages {
        x.completes(datagram(&ah, 0xff_ffff, x.wr(n, WqeOpcode::SEND, &[x.sge(5000, 333)])));
        let next = Instant::now() + Duration::from_micros(n % 100);
        while Instant::now() < next {}
    }
    let start = Instant::now();
    drop((ah, x, net));
    let took = start.elapsed();
    ended.store(true, Ordering::SeqCst);
    (reader.join().expect("it counts"), took)
}

/// The first datagrams to a neighbour wait until it has said where it is, and leave then, though their sender has ended.
#[test]
fn what_waits_for_a_neighbour_leaves_after_the_net_has_ended() {
    const MESSAGES: u64 = 8;
    all_leave(MESSAGES, || waiting(MESSAGES));
}

fn waiting(messages: u64) -> (u64, Duration) {
    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x63];
    let (net, socket, port, _directory) = net_and_peer(LinkOptions::default(), PAUSE);
    let x = datagrams(&net.open(0));
    let to = [198, 18, 99, 99];
    let ah = x.pd.create_ah(&x.av(Ipv4Addr::from(to).to_ipv6_mapped().octets())).expect("an AH");
    let ended = Arc::new(AtomicBool::new(false));
    let seen = ended.clone();
    let (begins, begun) = mpsc::channel();
    let neighbour = std::thread::spawn(move || {
        let mut frame = [0; 5000];
        // An ARP request (RFC 826), which is answered when the other net has begun to end.
        let asks = |frame: &[u8]| frame[12..14] == [8, 6] && frame[20..22] == [0, 1] && frame[38..42] == to;
        let until = Instant::now() + LIMIT;
        while !asks(&frame) {
            assert!(Instant::now() < until, "nobody asks for the neighbour");
            let _ = socket.recv(&mut frame);
        }
        begun.recv().expect("the net ends");
        std::thread::sleep(Duration::from_millis(30));
        let (asks, address): ([u8; 6], [u8; 4]) =
            (frame[6..12].try_into().unwrap(), frame[28..32].try_into().unwrap());
        let kind = [8, 6, 0, 1, 8, 0, 6, 4, 0, 2];
        let answer = [&asks[..], &MAC, &kind, &MAC, &to, &asks, &address].concat();
        // The net may have waited for its second, if the machine was busy.
        let _ = socket.send_to(&answer, &port);
        come(&socket, MAC, messages, &seen)
    });
    let sges = [x.sge(0, 100)];
    for n in 0..messages {
        x.completes(datagram(&ah, 0x77, x.wr(n, WqeOpcode::SEND, &sges)));
    }
    drop((ah, x));
    // The net waits only now that its last program has ended, whatever the time since the question.
    begins.send(()).expect("the neighbour has been asked for");
    let start = Instant::now();
    drop(net);
    let took = start.elapsed();
    ended.store(true, Ordering::SeqCst);
    (neighbour.join().expect("it counts"), took)
}
