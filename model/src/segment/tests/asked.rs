//! Memory of a served card's client that only its server can reach, by messages.

use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::super::reach::ask::Ask;
use super::super::reach::ranges::Place;
use super::super::{DmaFault, Segment};
use super::{patterned, Net};

const IOVA: u64 = 0x1000_0000;
const LEN: usize = 100_000;

/// A client's memory, which refuses everything beyond its end.
struct Client(Mutex<Vec<u8>>);

impl Ask for Client {
    fn read(&self, iova: u64, to: &mut [u8]) -> bool {
        let (bytes, at) = (self.0.lock().unwrap(), (iova - IOVA) as usize);
        bytes.get(at..at + to.len()).is_some_and(|from| {
            to.copy_from_slice(from);
            true
        })
    }

    fn write(&self, iova: u64, from: &[u8]) -> bool {
        let (mut bytes, at) = (self.0.lock().unwrap(), (iova - IOVA) as usize);
        bytes.get_mut(at..at + from.len()).is_some_and(|to| {
            to.copy_from_slice(from);
            true
        })
    }
}

/// A client that says when it was asked and answers when it is told.
struct Slow {
    asked: Mutex<Sender<()>>,
    answer: Mutex<Receiver<()>>,
}

impl Ask for Slow {
    fn read(&self, _: u64, to: &mut [u8]) -> bool {
        self.asked.lock().unwrap().send(()).unwrap();
        let told = self.answer.lock().unwrap().recv();
        to.fill(7);
        told.is_ok()
    }

    fn write(&self, _: u64, _: &[u8]) -> bool {
        false
    }
}

/// A server and another member, and what the server's map leaves to messages.
fn served(net: &Net, ask: Arc<dyn Ask>) -> (Arc<Segment>, Arc<Segment>) {
    let (server, other) = (net.attach(), net.attach());
    server.answer_with(ask);
    server.map_at(IOVA, 4 * LEN as u64, Place::asked(IOVA, true, true).unwrap()).unwrap();
    (server, other)
}

#[test]
fn the_server_and_other_members_reach_it() {
    let net = Net::start();
    let client = Arc::new(Client(Mutex::new(vec![0; LEN])));
    let (server, other) = served(&net, client.clone());
    for (seed, segment) in [(1, &server), (2, &other)] {
        let guard = segment.lock(Duration::from_secs(5)).unwrap();
        let bytes = patterned(LEN, seed);
        guard.write(server.member(), IOVA, &bytes).unwrap();
        assert!(*client.0.lock().unwrap() == bytes);
        for (at, len) in [(0, LEN), (5, 32 * 1024), (77, 32 * 1024 + 1), (LEN - 1, 1)] {
            let mut read = vec![0; len];
            guard.read(server.member(), IOVA + at as u64, &mut read).unwrap();
            assert!(read == bytes[at..at + len], "{len} bytes at {at}");
        }
        // What the client refuses.
        let beyond = guard.write(server.member(), IOVA + LEN as u64 - 1, &[1, 2]);
        assert!(matches!(beyond, Err(DmaFault::Unreachable { errno: libc::EIO, .. })), "{beyond:?}");
    }
    let member = server.member();
    drop(server);
    let guard = other.lock(Duration::from_secs(5)).unwrap();
    assert!(guard.read(member, IOVA, &mut [0]).is_err(), "the server has ended");
}

#[test]
fn a_client_that_does_not_answer_is_given_up_and_may_answer_later() {
    let net = Net::start();
    let ((asked, was_asked), (tell, answer)) = (channel(), channel());
    let (server, other) = served(&net, Arc::new(Slow { asked: asked.into(), answer: answer.into() }));
    let guard = other.lock(Duration::from_secs(5)).unwrap();
    let begin = Instant::now();
    let mut byte = [0];
    let refused = guard.read(server.member(), IOVA, &mut byte);
    assert!(matches!(refused, Err(DmaFault::Unreachable { errno: libc::ETIMEDOUT, .. })), "{refused:?}");
    assert!(begin.elapsed() < Duration::from_secs(10));
    was_asked.recv().unwrap();
    // The late answer, then one in time: the first is not taken for the second.
    tell.send(()).unwrap();
    tell.send(()).unwrap();
    guard.read(server.member(), IOVA, &mut byte).unwrap();
    was_asked.recv().unwrap();
    assert_eq!(byte, [7]);
}
