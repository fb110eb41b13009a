//! A port whose medium is a list.

use std::collections::BTreeSet;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, Timespec};

use super::super::batch::Batch;
use super::super::given::{ask, give};
use super::super::stream;
use super::*;
use crate::address::Guids;
use crate::wire::arp::ETHERTYPE_ARP;
use crate::wire::ndp::Discovery;
use crate::wire::path::ipv4_to_gid;
use crate::wire::{Arp, BthOpcode, Ethernet, Headers, Network};

/// Waits for so many seconds at most until one of these tells that there is something to do.
pub fn expect_ready(all: Vec<(BorrowedFd<'_>, PollFlags)>, seconds: i64, instead: &str) {
    let mut entries: Vec<_> =
        all.into_iter().map(|(descriptor, flags)| PollFd::from_borrowed_fd(descriptor, flags)).collect();
    let limit = Timespec { tv_sec: seconds, tv_nsec: 0 };
    assert_ne!(poll(&mut entries, Some(&limit)), Ok(0), "{instead}");
}

pub const PORT: PortId = PortId { card: 0, port: 0 };
/// Bytes of payload in each frame.
const PAYLOAD: usize = 4096;

/// A medium: what becomes of frames that are sent, and what comes.
pub struct Scripted<S, R>(S, R);

impl<S, R> Wire for Scripted<S, R>
where
    S: FnMut(&[u8]) -> io::Result<()> + Send,
    R: FnMut(&mut [u8]) -> io::Result<Option<usize>> + Send,
{
    fn descriptors(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        Vec::new()
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        (self.0)(frame)
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        (self.1)(into)
    }
}

/// A port of such a medium.
pub fn port<S, R>(send: S, receive: R) -> Opened
where
    Scripted<S, R>: Wire + 'static,
{
    let host = Host::own((PORT, Guids::INSIDE), 4096);
    connect(PORT, host, Box::new(Scripted(send, receive))).expect("a port")
}

/// Nothing comes.
pub fn nothing(_: &mut [u8]) -> io::Result<Option<usize>> {
    Ok(None)
}

/// A port that notes the packets that are sent, and its notes.
fn noting() -> (Opened, Arc<Mutex<Vec<u32>>>) {
    let list = Arc::new(Mutex::new(Vec::new()));
    let sent = Arc::clone(&list);
    let note = move |frame: &[u8]| {
        // The announcements are none.
        list.lock().unwrap().extend(frame::decode(frame).map(|frame| frame.headers.bth.psn));
        Ok(())
    };
    (port(note, nothing), sent)
}

/// Receives all that has come.
pub fn receive_all(opened: &mut Opened, arrivals: &mut Arrivals) {
    while opened.receiver.receive(PORT, arrivals).expect("no error") {}
}

/// Eight frames to a group, whose Ethernet address nobody has to be asked for.
fn batch(first: u32) -> Batch {
    let (from, to) = (ipv4_to_gid([198, 18, 0, 1]), ipv4_to_gid([239, 0, 0, 1]));
    let path = Path { network: Network::from_gids(&from, &to, 0, 0, 1), ..Path::default() };
    let mut batch = Batch::default();
    for psn in first..first + 8 {
        let mut headers = Headers::default();
        (headers.bth.opcode, headers.bth.psn) = (BthOpcode::UD_SEND_ONLY, psn);
        let mut bytes = [0; LONGEST_FRAME];
        let len = frame::encode(&path, &headers, &[5; PAYLOAD], &mut bytes).expect("a frame");
        let copy = |to: &mut [u8]| {
            to.copy_from_slice(&bytes[..len]);
            Ok::<_, ()>(())
        };
        batch.make((PORT, &path, len), copy).unwrap();
    }
    batch
}

/// As when a READ is answered, by the thread that would have to read the other end.
#[test]
fn the_thread_that_sends_may_be_the_one_that_is_sent_to() {
    /// More than the socket has room for.
    const MANY: u32 = 4096;
    let (mut opened, sent) = noting();
    let there = opened.descriptors[0].try_clone().expect("a descriptor");
    let begin = Instant::now();
    for first in (0..MANY).step_by(8) {
        give(&[there.as_fd()], &batch(first)).expect("there is room");
    }
    assert!(begin.elapsed() < Duration::from_secs(5), "it waited for itself");
    let mut arrivals = Arrivals::default();
    for first in (MANY..2 * MANY).step_by(8) {
        receive_all(&mut opened, &mut arrivals);
        give(&[there.as_fd()], &batch(first)).expect("there is room");
    }
    opened.receiver.forward();
    assert!(*sent.lock().unwrap() == Vec::from_iter(0..2 * MANY), "all of them, in order");
    assert_eq!(arrivals.dropped().count(), 0);
}

#[test]
fn what_is_given_without_end_is_lost_in_the_end() {
    let (opened, _) = noting();
    let there = opened.descriptors[0].as_fd();
    let batch = batch(0);
    let bytes: usize = batch.frames().map(<[u8]>::len).sum();
    let given = (0..).take_while(|_| give(&[there], &batch).is_ok()).count();
    assert!((WAITING..WAITING + 2 * ROOM + (1 << 20)).contains(&(given * bytes)), "{given} batches");
}

/// Whether a frame tells of a group of IPv6 that the port receives: the first header behind that of IPv6 is of hop-by-hop options,
/// for MLD.
pub fn is_membership(frame: &[u8]) -> bool {
    frame[12..14] == [0x86, 0xdd] && frame[20] == 0 && frame[54] == 58
}

/// Whoever connects to a stream hears whose the port's addresses are, unasked.
#[test]
fn each_peer_is_told_of_the_addresses() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("port");
    let (wire, host) = stream::open((PORT, Guids::INSIDE), &path).expect("a socket");
    let (mac, own) = (host.mac, host.gids.iter().map(|own| own.gid).collect::<Vec<_>>());
    let mut opened = open(PORT, host, wire).expect("a port");
    for before in 0..2 {
        let mut peer = UnixStream::connect(&path).expect("the port listens");
        peer.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
        let mut arrivals = Arrivals::default();
        // The second one takes the place of the first in one turn, and is told in the next.
        for _ in 0..=before {
            opened.receiver.link();
            expect_ready(opened.receiver.descriptors(), 20, "nothing tells of a peer");
            receive_all(&mut opened, &mut arrivals);
            opened.receiver.link();
        }
        let mut told = Vec::new();
        // And of the groups in which it is asked for them, at times again.
        let mut groups = 0;
        while told.len() < own.len() || groups == 0 {
            let mut length = [0; 4];
            peer.read_exact(&mut length).expect("a length");
            let mut frame = vec![0; u32::from_be_bytes(length) as usize];
            peer.read_exact(&mut frame).expect("a frame");
            let (ethernet, packet) = Ethernet::decode(&frame).expect("a frame");
            if is_membership(&frame) {
                groups += 1;
                continue;
            }
            let arp = packet.first_chunk().and_then(Arp::decode);
            let (ip, by, group) = match (arp, Discovery::decode(packet)) {
                (Some(arp), _) if ethernet.ethertype == ETHERTYPE_ARP => {
                    assert_eq!(arp.target, arp.sender);
                    (ipv4_to_gid(arp.sender), arp.sender_mac, [0xff; 6])
                }
                (_, Some(it)) => {
                    assert!(it.overrides && !it.request, "{it:?}");
                    (it.target, it.mac.expect("an address"), [0x33, 0x33, 0, 0, 0, 1])
                }
                it => panic!("{it:?} is no announcement"),
            };
            assert_eq!((by, ethernet.src, ethernet.dst), (mac, mac, group));
            told.push(ip);
        }
        assert_eq!(told, own);
        peer.set_nonblocking(true).expect("a socket");
        assert!(!opened.receiver.receive(PORT, &mut arrivals).expect("no error"));
        let mut frame = [0; 4 + 86];
        let again = peer.read(&mut frame).map_err(|error| error.kind());
        assert!(again == Err(io::ErrorKind::WouldBlock) || is_membership(&frame[4..]), "once: {frame:x?}");
    }
}

/// A medium that refuses frames, such as an interface that is down, hears the addresses and the questions once it takes them.
#[test]
fn a_medium_that_refuses_is_told_later() {
    // Whether it takes frames, and the addresses that those are about.
    let state = Arc::new(Mutex::new((false, BTreeSet::new())));
    let told = Arc::clone(&state);
    let send = move |frame: &[u8]| {
        let (takes, targets) = &mut *told.lock().unwrap();
        let (_, packet) = Ethernet::decode(frame).expect("a frame");
        if is_membership(frame) {
            return takes.then_some(()).ok_or(io::ErrorKind::NetworkDown.into());
        }
        let arp = packet.first_chunk().and_then(Arp::decode).map(|arp| ipv4_to_gid(arp.target));
        let target = Discovery::decode(packet).map(|it| it.target).or(arp).expect("an address");
        takes.then(|| _ = targets.insert(target)).ok_or(io::ErrorKind::NetworkDown.into())
    };
    let mut opened = port(send, nothing);
    let (own, absent) = (opened.gids[1], ipv4_to_gid([198, 18, 0, 9]));
    ask(&[opened.descriptors[0].as_fd()], &own, &absent).expect("there is room");
    let mut arrivals = Arrivals::default();
    receive_all(&mut opened, &mut arrivals);
    assert!(state.lock().unwrap().1.is_empty());
    state.lock().unwrap().0 = true;
    let expected = BTreeSet::from([opened.gids[0].gid, own.gid, absent]);
    let begin = Instant::now();
    while state.lock().unwrap().1 != expected {
        assert!(begin.elapsed() < Duration::from_secs(20), "only {:?}", state.lock().unwrap().1);
        expect_ready(opened.receiver.descriptors(), 20, "nothing is due");
        opened.receiver.receive(PORT, &mut arrivals).expect("no error");
    }
}

/// An interface that is deleted while it is down: the thread does not run all the time.
#[test]
fn a_medium_that_refuses_and_is_gone_is_tried_at_times() {
    let down = |_: &[u8]| Err(io::ErrorKind::NetworkDown.into());
    let mut opened = port(down, |_: &mut [u8]| Err(io::ErrorKind::NotConnected.into()));
    let (begin, mut turns) = (Instant::now(), 0);
    while begin.elapsed() < Duration::from_millis(2500) {
        expect_ready(opened.receiver.descriptors(), 5, "it is not tried again");
        opened.receiver.receive(PORT, &mut Arrivals::default()).expect_err("it is gone");
        turns += 1;
    }
    assert!(turns <= 3, "{turns} turns");
}

/// An address is told of when its neighbour has answered, and at once when it is known, even if it was asked for while
/// frames were forwarded.
#[test]
fn a_question_is_answered() {
    // What comes: an ARP answer, once.
    let came = Arc::new(Mutex::new(None::<Vec<u8>>));
    let comes = Arc::clone(&came);
    let receive = move |into: &mut [u8]| {
        let Some(frame) = comes.lock().unwrap().take() else { return Ok(None) };
        into[..frame.len()].copy_from_slice(&frame);
        Ok(Some(frame.len()))
    };
    let mut opened = port(|_: &[u8]| Ok(()), receive);
    let (own, mac) = (opened.gids[1], opened.setting.mac);
    let there = opened.descriptors[0].try_clone().expect("a descriptor");
    let ip = ipv4_to_gid([198, 18, 0, 9]);
    let mut arrivals = Arrivals::default();
    let mut found = |opened: &mut Opened| {
        arrivals.clear(false);
        receive_all(opened, &mut arrivals);
        std::mem::take(&mut arrivals.found)
    };
    ask(&[there.as_fd()], &own, &ip).expect("there is room");
    assert_eq!(found(&mut opened), [[0; 16]; 0]);
    let mut answer =
        [&mac[..], &[2; 6], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], &[2; 6], &[198, 18, 0, 9], &mac].concat();
    answer.extend([198, 18, 0, 1]);
    *came.lock().unwrap() = Some(answer);
    assert_eq!(found(&mut opened), [ip]);
    assert_eq!(found(&mut opened), [[0; 16]; 0], "once");
    ask(&[there.as_fd()], &own, &ip).expect("there is room");
    opened.receiver.forward();
    assert_eq!(found(&mut opened), [ip]);
}

/// As a real MAC has them: what is shorter than its header is no frame, and senders pad what is shorter than the least length.
/// QEMU and TAP interfaces do not.
#[test]
fn short_frames_are_padded_or_dropped() {
    let lengths = [0, 1, 13, 14, 42, 59, 60, 61];
    let mut left = lengths.into_iter();
    let receive = move |into: &mut [u8]| {
        // Of what was there before nothing is to be seen.
        into.fill(0xee);
        let next = left.next();
        next.into_iter().for_each(|len| into[..len].fill(7));
        Ok(next)
    };
    let mut opened = port(|_: &[u8]| Ok(()), receive);
    let mut arrivals = Arrivals::default();
    arrivals.clear(true);
    receive_all(&mut opened, &mut arrivals);
    let padded = |&len: &usize| [vec![7; len], vec![0; 60_usize.saturating_sub(len)]].concat();
    let expected: Vec<_> = lengths[3..].iter().map(padded).collect();
    assert_eq!(arrivals.whole().collect::<Vec<_>>(), expected);
    assert_eq!(arrivals.came().map(|(bytes, _)| bytes).collect::<Vec<_>>(), expected);
    assert_eq!(arrivals.dropped().collect::<Vec<_>>(), [(Drop::Malformed, 3)]);
}
