//! The thread that receives, and media that go.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::*;
use crate::attach::PrivateNet;
use crate::eventually::eventually;
use crate::gid_options::GidOptions;

/// A medium that is gone: its descriptor reports that without end.
struct Gone {
    descriptor: OwnedFd,
    /// How often it was asked.
    asked: Arc<AtomicU32>,
}

impl Receiver for Gone {
    fn descriptors(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        vec![(self.descriptor.as_fd(), PollFlags::IN)]
    }

    fn receive(&mut self, _: PortId, _: &mut Arrivals) -> io::Result<bool> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Err(io::ErrorKind::NotConnected.into())
    }
}

const PORT: PortId = PortId { card: 0, port: 0 };

/// A net of one card, in this directory.
fn net(directory: &Path) -> (PrivateNet, Arc<Segment>) {
    let open = |socket: &Path| Segment::attach(socket).map(Arc::new);
    PrivateNet::start(&directory.join("net/sock"), 1, open).unwrap()
}

/// More frames than the kernel keeps for a socket that nobody reads.
#[test]
fn what_the_last_program_has_given_leaves() {
    const FRAMES: usize = 50;
    let directory = tempfile::tempdir().unwrap();
    let (_net, segment) = net(directory.path());
    let at = |name: &str| directory.path().join(name);
    let peer = UnixDatagram::bind(at("peer")).unwrap();
    let port = format!("0=dgram:{},{}", at("port").display(), at("peer").display());
    let mut ports = outside::open(&[port.parse().unwrap()], Guids::INSIDE, &GidOptions::default()).unwrap();
    let Opened { setting, descriptors, receiver, link, .. } = ports.remove(0);
    let port = Port::new(PORT, receiver, link);
    let membership = Membership::new(&*segment);
    let area = membership.net().link.outside();
    area.set(PORT, &setting, 0..1, None);
    for n in 0..FRAMES {
        let frame = [n as u8; 60];
        outside::medium::send_whole(area.port(PORT).unwrap(), &[descriptors[0].as_fd()], &frame).unwrap();
    }
    let (stop, end) = UnixStream::pair().unwrap();
    drop(end);
    let thread = {
        let segment = Arc::clone(&segment);
        std::thread::spawn(move || receive(segment, vec![port], &stop.into()))
    };
    peer.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut frame = [0; 100];
    for announced in [0x33, 0xff] {
        assert_eq!(peer.recv(&mut frame).map(|_| frame[0]).unwrap(), announced);
    }
    for n in 0..FRAMES {
        // Others say which group the port receives.
        while peer.recv(&mut frame).unwrap() != 60 {}
        assert_eq!(frame[0], n as u8);
    }
    thread.join().unwrap();
}

#[test]
fn a_medium_that_is_gone_is_not_asked_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let (_net, segment) = net(directory.path());
    let (kind, sports) = (outside::Kind::Ethernet, Vec::new());
    let setting = outside::Setting { kind, mac: [2; 6], sports, window: 1 << 16 };
    Membership::new(&*segment).net().link.outside().set(PORT, &setting, 0..1, None);
    let asked = Arc::new(AtomicU32::new(0));
    // A socket whose other end is closed.
    let (descriptor, _) = UnixStream::pair().unwrap();
    let gone = Gone { descriptor: descriptor.into(), asked: Arc::clone(&asked) };
    let port = Port::new(PORT, Box::new(gone), Some(1));
    let (stop, end) = UnixStream::pair().unwrap();
    let stop = OwnedFd::from(stop);
    let thread = {
        let segment = Arc::clone(&segment);
        std::thread::spawn(move || receive(segment, vec![port], &stop))
    };
    let often = eventually(|| asked.load(Ordering::Relaxed) >= FAILURES);
    assert!(often, "it is asked {asked:?} times only");
    // And no more.
    std::thread::sleep(Duration::from_millis(200));
    drop(end);
    thread.join().unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), FAILURES);
}

/// A medium of which nothing but news of its link comes, which is what a test says.
struct Linked {
    descriptor: OwnedFd,
    link: Arc<AtomicU32>,
}

impl Receiver for Linked {
    fn descriptors(&self) -> Vec<(BorrowedFd<'_>, PollFlags)> {
        vec![(self.descriptor.as_fd(), PollFlags::IN)]
    }

    fn receive(&mut self, _: PortId, _: &mut Arrivals) -> io::Result<bool> {
        Ok(false)
    }

    fn link(&mut self) -> Option<u64> {
        Some(u64::from(self.link.load(Ordering::Relaxed))).filter(|&link| link != 0)
    }
}

#[test]
fn a_link_is_followed_while_a_program_polls_without_end() {
    let directory = tempfile::tempdir().unwrap();
    let (_net, segment) = net(directory.path());
    let link = Arc::new(AtomicU32::new(1));
    let (descriptor, mut news) = UnixStream::pair().unwrap();
    let linked = Linked { descriptor: descriptor.into(), link: Arc::clone(&link) };
    let (kind, sports) = (outside::Kind::Udp, Vec::new());
    let setting = outside::Setting { kind, mac: [2; 6], sports, window: 1 << 16 };
    let runner = Runner::new(Membership::new(Arc::clone(&segment)));
    let area = runner.net().link.outside();
    area.set(PORT, &setting, 0..1, None);
    let (stop, end) = UnixStream::pair().unwrap();
    let stop = OwnedFd::from(stop);
    let polls = AtomicBool::new(true);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while polls.load(Ordering::Relaxed) {
                drop(area.port(PORT).unwrap().reading().begin_polling(now_ns()));
            }
        });
        let keeper = Arc::clone(&segment);
        threads.spawn(|| receive(keeper, vec![Port::new(PORT, Box::new(linked), Some(1))], &stop));
        let told = [(0, false), (2, true)].map(|(number, has_link)| {
            link.store(number, Ordering::Relaxed);
            news.write_all(b"changed").unwrap();
            eventually(|| {
                runner.control(|world, _| world.cards[0].has_link(0)).is_ok_and(|it| it == has_link)
            })
        });
        polls.store(false, Ordering::Relaxed);
        drop(end);
        assert_eq!(told, [true; 2]);
    });
}
