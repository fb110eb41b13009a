use tempfile::TempDir;

use super::*;
use crate::attach::{NetOptions, PrivateNet};
use crate::eventually::eventually;
use crate::profile::Profile;

const VIEW: View = View { port: None, qpn: None, snaplen: 100 };
const LIMIT: Duration = Duration::from_secs(20);

/// A net of two cards, and the directory that it is in.
fn start(clock: Option<Profile>) -> (TempDir, PrivateNet, Segment) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("net/sock");
    let options = NetOptions { clock, ..NetOptions::from(2) };
    let (net, segment) = PrivateNet::start(&socket, options, Segment::attach).unwrap();
    (directory, net, segment)
}

fn clocks() -> [Option<Profile>; 2] {
    [None, Some(Profile::load("f10a").unwrap().profile)]
}

/// Whatever packets do while nobody looks at them, they do again afterwards.
#[test]
fn the_net_is_as_before_when_captures_end() {
    for clock in clocks() {
        let (_directory, net, member) = start(clock);
        let area = &crate::net::Membership::new(&member);
        let mode = || area.net().link.mode();
        let before = mode();
        let first = LiveCapture::begin(net.socket(), &VIEW).unwrap();
        assert!(mode().is_observed() && mode().makes_frames());
        assert_eq!(first.ports().len(), 4);
        let others: Vec<_> = (0..3).map(|_| LiveCapture::begin(net.socket(), &VIEW).unwrap()).collect();
        let error = LiveCapture::begin(net.socket(), &VIEW).err().expect("too many");
        assert!(error.to_string().contains("4 captures already"), "{error}");
        drop(first);
        let again = LiveCapture::begin(net.socket(), &VIEW).unwrap();
        drop(others);
        assert!(mode().is_observed());
        drop(again);
        assert_eq!(mode(), before);
    }
}

/// Its memory is given back, and so is what its process held when it was killed.
#[test]
fn the_keeper_ends_the_capture_of_a_process_that_is_gone() {
    for clock in clocks() {
        let (_directory, net, member) = start(clock);
        let net_area = &crate::net::Membership::new(&member);
        let link = &net_area.net().link;
        let before = link.mode();
        let watcher = Segment::watch(net.socket()).unwrap();
        // What is done with the lock of a net that nobody uses.
        let index = link.begin_live(watcher.member(), &VIEW).unwrap();
        let way = (PortId { card: 0, port: 0 }, PortId { card: 1, port: 0 });
        link.live().put(&Seen::new(way, false, [0; 2], 1), &[1; 90]);
        drop(watcher);
        assert!(eventually(|| link.mode() == before), "the keeper does not end it");
        let mut found = Vec::new();
        let _ = link.live().take(index, &mut |seen, bytes| found.push((seen.at, bytes.to_vec())));
        assert!(
            found.iter().all(|(at, bytes)| *at == 0 && bytes.is_empty()),
            "its frames are gone: {found:?}"
        );
    }
}

/// A capture looks on: it is told of the end of a net, and does not put it off.
#[test]
fn a_net_does_not_stay_for_a_capture() {
    for clock in clocks() {
        let (_directory, net, member) = start(clock);
        let capture = LiveCapture::begin(net.socket(), &VIEW).unwrap();
        assert!(!capture.net_ends_within(Duration::from_millis(1)));
        drop(member);
        drop(net);
        assert!(capture.net_ends_within(LIMIT));
        // What came last is still there.
        capture.take(|_, _| ()).unwrap();
    }
}

#[test]
fn ports_that_are_none_are_refused() {
    let (_directory, net, _member) = start(None);
    for (port, why) in
        [(PortId { card: 2, port: 0 }, "has 2 cards"), (PortId { card: 0, port: 2 }, "no port 3")]
    {
        let error =
            LiveCapture::begin(net.socket(), &View { port: Some(port), ..VIEW }).err().expect("no port");
        assert!(error.to_string().contains(why), "{error}");
    }
}
