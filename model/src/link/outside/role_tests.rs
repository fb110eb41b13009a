//! The roles of a port, alone and beside the other one of its card.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::super::given::ask;
use super::tests::{is_membership, nothing, port, receive_all, PORT};
use super::*;
use crate::address::Guids;
use crate::wire::path::ipv4_to_gid;
use crate::wire::{Arp, Ethernet};

/// A medium that tests look at, and that refuses what they say.
#[derive(Default)]
struct Looked {
    refuses: bool,
    refuses_mac: bool,
    mac: Option<[u8; 6]>,
    comes: Option<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

impl Wire for Arc<Mutex<Looked>> {
    fn descriptors(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        Vec::new()
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        let looked = &mut *lock(self);
        if looked.refuses {
            return Err(io::ErrorKind::NetworkDown.into());
        }
        looked.sent.push(frame.to_vec());
        Ok(())
    }

    fn set_mac(&mut self, mac: [u8; 6]) -> io::Result<()> {
        let looked = &mut *lock(self);
        if looked.refuses_mac {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        looked.mac = Some(mac);
        Ok(())
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(frame) = lock(self).comes.take() else { return Ok(None) };
        into[..frame.len()].copy_from_slice(&frame);
        Ok(Some(frame.len()))
    }
}

/// The second port of a card with such a medium, and who the first one is.
fn second(looked: Looked) -> (Opened, Arc<Mutex<Looked>>, SharedStation) {
    let looked = Arc::new(Mutex::new(looked));
    let id = PortId { port: 1, ..PORT };
    let host = Host::own((id, Guids::INSIDE), 4096);
    let opened = connect(id, host, Box::new(Arc::clone(&looked))).expect("a port");
    let first = port(|_: &[u8]| Ok(()), nothing).receiver.station().expect("a station");
    (opened, looked, first)
}

/// The sources of the frames that were sent since this was called last.
fn sources(looked: &Mutex<Looked>) -> BTreeSet<[u8; 6]> {
    std::mem::take(&mut lock(looked).sent).iter().map(|frame| frame[6..12].try_into().unwrap()).collect()
}

/// What it could not say before is not said later.
#[test]
fn a_port_that_stands_by_announces_nothing() {
    let (mut opened, looked, first) = second(Looked { refuses: true, ..Looked::default() });
    opened.receiver.set_role(Role::Standby, Some(&first)).expect("a role");
    lock(&looked).refuses = false;
    let (begin, mut arrivals) = (Instant::now(), Arrivals::default());
    while begin.elapsed() < Duration::from_nanos(RETRY + RETRY / 4) {
        receive_all(&mut opened, &mut arrivals);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(sources(&looked), BTreeSet::new());
}

/// A member leaves the groups of the host that it was before; of a role that the medium refuses nothing is to be seen.
#[test]
fn a_role_is_taken_as_a_whole_or_tried_again() {
    let (mut opened, looked, first) = second(Looked { refuses_mac: true, ..Looked::default() });
    let (own, bond) = (opened.setting.mac, lock(&first).mac);
    let mut arrivals = Arrivals::default();
    assert_eq!(sources(&looked), BTreeSet::from([own]));
    opened.receiver.set_role(Role::Active, Some(&first)).expect_err("it is refused");
    receive_all(&mut opened, &mut arrivals);
    assert!(!sources(&looked).contains(&bond));
    lock(&looked).refuses_mac = false;
    opened.receiver.set_role(Role::Active, Some(&first)).expect("a role");
    assert_eq!(lock(&looked).mac, Some(bond));
    // MLD: Done.
    let left = lock(&looked).sent.iter().filter(|frame| is_membership(frame) && frame[62] == 132).count();
    assert!(left == 1 && sources(&looked).contains(&own), "{left}");
    receive_all(&mut opened, &mut arrivals);
    assert_eq!(sources(&looked), BTreeSet::from([bond]));
}

/// Nobody finds it meanwhile, and it looks for nobody; then it says that it is there, and asks.
#[test]
fn a_port_without_a_link_is_silent() {
    let (mut opened, looked, _) = second(Looked::default());
    let (own, mac) = (opened.gids[1], opened.setting.mac);
    let mut arrivals = Arrivals::default();
    sources(&looked);
    let mut question = [&[0xff; 6][..], &[2; 6], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &[2; 6]].concat();
    question.extend([198, 18, 0, 9, 0, 0, 0, 0, 0, 0, 198, 18, 1, 1]);
    for (role, says) in [(Role::Down, false), (Role::Alone, true)] {
        opened.receiver.set_role(role, None).expect("a role");
        ask(&[opened.descriptors[0].as_fd()], &own, &ipv4_to_gid([198, 18, 0, 8])).expect("there is room");
        lock(&looked).comes = Some(question.clone());
        receive_all(&mut opened, &mut arrivals);
        let sent = lock(&looked).sent.clone();
        assert_eq!(sources(&looked), BTreeSet::from_iter(says.then_some(mac)), "{role:?}");
        let arp = |sent: &Vec<u8>| Ethernet::decode(sent)?.1.first_chunk().and_then(Arp::decode);
        let said = |of: [u8; 4], request| {
            sent.iter().filter_map(arp).any(|arp| arp.request == request && arp.target == of)
        };
        let [announced, answered, asked] =
            [said([198, 18, 1, 1], true), said([198, 18, 0, 9], false), said([198, 18, 0, 8], true)];
        assert_eq!([announced, answered, asked], [says; 3], "{role:?}");
    }
}
