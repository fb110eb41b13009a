//! Ports that carry Ethernet frames: UNIX datagrams between two nets, and a peer that is a test.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fpga_regs::{FlowContext, FlowKind, QpType, WqeOpcode};
use model::attach::NetOptions;
use model::link::LinkOptions;
use tempfile::TempDir;
use tests::{connect, datagram, wait_for, Net, Options, Peer, LIMIT};

use super::{exchange, read_each_other};

/// A net of so many cards, one of which has a port outside.
pub fn net(cards: u8, port: &str) -> Net {
    let ports = vec![port.parse().expect("a port")];
    let link = LinkOptions { ports, ..LinkOptions::default() };
    Net::with(NetOptions { link, ..NetOptions::from(cards) })
}

/// Two nets that exchange frames in UNIX datagrams, by the only card of the first and the second card of the other: cards whose
/// IPv4 addresses differ.
pub fn two_nets() -> (Net, Net, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name).display().to_string();
    let one = net(1, &format!("0=dgram:{},{}", at("one"), at("other")));
    let other = net(2, &format!("1=dgram:{},{}", at("other"), at("one")));
    (one, other, directory)
}

/// A net of one card, with such a wire, that exchanges frames with a socket of the test's; that socket, which waits for so long,
/// and where the port's is.
pub fn net_and_peer(wire: LinkOptions, limit: Duration) -> (Net, UnixDatagram, PathBuf, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let [port, peer] = ["port", "peer"].map(|name| directory.path().join(name));
    let socket = UnixDatagram::bind(&peer).expect("a socket");
    socket.set_read_timeout(Some(limit)).expect("a limit");
    let ports = vec![format!("0=dgram:{},{}", port.display(), peer.display()).parse().expect("a port")];
    let link = LinkOptions { ports, ..wire };
    (Net::with(NetOptions { link, ..NetOptions::from(1) }), socket, port, directory)
}

#[test]
fn two_nets_exchange_frames_in_unix_datagrams() {
    let (one, other, _directory) = two_nets();
    let (a, b) = (one.open(0), other.open(1));
    assert_ne!(a.node_guid() >> 16, b.node_guid() >> 16, "others may meet both");
    // IPv6 and IPv4.
    for gid in [0, 1] {
        for mtu in [1, 3, 5] {
            let (mut x, mut y) = connect(&a, &b, Options { gid, mtu, timeout: 17, ..Options::default() });
            x.buffer.pattern(mtu);
            for size in [0, 1, 255, 4097, 100_003] {
                exchange(&x, &mut y, size);
            }
        }
        let (mut x, y) = connect(&a, &b, Options { gid, mtu: 5, qp_type: QpType::UD, ..Options::default() });
        x.buffer.pattern(9);
        let ah = x.pd.create_ah(&x.av(y.gid())).expect("an AH");
        y.recv(9, &[y.sge(0, 2000)]);
        x.completes(datagram(&ah, y.qp.qpn(), x.wr(9, WqeOpcode::SEND, &[x.sge(0, 333)])));
        assert_eq!(y.expect(9).byte_len, 40 + 333);
        assert!(x.buffer[..333] == y.buffer[40..373]);
    }
}

/// The answer to a large READ is sent by the thread that receives, at once and by both nets.
#[test]
fn large_reads_lose_nothing() {
    const SIZE: usize = 16 << 20;
    let (one, other, _directory) = two_nets();
    let options = Options { mtu: 5, timeout: 19, bytes: 2 * SIZE, ..Options::default() };
    let (mut x, mut y) = connect(&one.open(0), &other.open(1), options);
    x.buffer.pattern(1);
    y.buffer.pattern(2);
    read_each_other(&x, &y, SIZE);
    for peer in [&x, &y] {
        let again = ["ack_timeouts", "out_of_sequence"].map(|name| peer.counter(name));
        assert_eq!(again, [0, 0], "something was sent again");
    }
}

/// An ARP request of Linux 6.12 for 198.18.0.1, and the beginning of the answer.
fn request() -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 0x64, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend([2, 0, 0, 0, 0, 0x64, 198, 18, 0, 100, 0, 0, 0, 0, 0, 0, 198, 18, 0, 1]);
    frame
}

#[test]
fn a_peer_may_send_anything() {
    let (net, socket, port, _directory) = net_and_peer(LinkOptions::default(), Duration::from_millis(100));
    let card = net.open(0);
    let answered = || {
        let until = Instant::now() + LIMIT;
        let mut frame = [0; 5000];
        loop {
            socket.send_to(&request(), &port).expect("the port's socket");
            if socket.recv(&mut frame).is_ok_and(|len| len >= 42 && frame[..6] == [2, 0, 0, 0, 0, 0x64]) {
                let mac: [u8; 6] = frame[6..12].try_into().unwrap();
                assert_eq!((&mac[..3], &frame[20..22]), (&[2, 0x56, 0x42][..], &[0, 2][..]), "an ARP answer");
                assert_eq!((&frame[22..28], &frame[28..32]), (&mac[..], &[198, 18, 0, 1][..]));
                return mac;
            }
            assert!(Instant::now() < until, "no answer");
        }
    };
    let mac = answered();
    // All who ask get the same one: whoever makes frames of the port's, and whoever has it from the link-local address.
    assert_eq!(card.query_port(1).expect("a port").mac, mac);
    let [a, b, c, d, e, f] = mac;
    assert_eq!(card.gid(1, 0).expect("a GID")[8..], [a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
    let inside = card.query_port(2).expect("a port").mac;
    assert_eq!(inside, [2, 0x56, 0x42, 0, 0, 1], "of one that leads nowhere else");
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize
    };
    // Noise behind headers that are good up to some point.
    let begins: [&[u8]; 4] =
        [&[], &[8, 0, 0x45, 0], &[8, 6, 0, 1, 8, 0, 6, 4, 0], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 58, 255]];
    for n in 0..3000 {
        let mut frame = if n % 2 == 0 { mac.to_vec() } else { vec![0xff; 6] };
        frame.extend([2, 0, 0, 0, 0, 0x64]);
        frame.extend(begins[n % 4]);
        frame.extend((0..random() % 200).map(|_| 0u8));
        frame.iter_mut().skip(14 + begins[n % 4].len()).for_each(|byte| *byte = random() as u8);
        frame.truncate(random() % (frame.len() + 1));
        socket.send_to(&frame, &port).expect("the port's socket");
    }
    assert_eq!(answered(), mac);
}

/// What is longer than any frame of Ethernet or shorter than its header is none, whoever asks for all, with their check sequences.
/// The peer need not pad frames, and the port does.
#[test]
fn no_frame_is_longer_than_the_longest_or_shorter_than_the_shortest() {
    let (net, socket, port, _directory) = net_and_peer(LinkOptions::default(), LIMIT);
    let card = net.open(0);
    let options = Options { qp_type: QpType::RAW_PACKET, bytes: 1 << 17, ..Options::default() };
    let y = Peer::tuned(&card, options, None, |init| init.offloads.scatter_fcs = true);
    y.init();
    y.rtr(0, [0; 16], 0);
    let everything = FlowContext::new().with_port(1).with_kind(FlowKind::ALL_DEFAULT);
    let _flow = y.qp.create_flow(&everything).expect("a rule");
    for (n, length) in [9601, 0, 9600, 1, 13, 30_000, 14, 60].into_iter().enumerate() {
        y.recv(n as u64, &[y.sge(n << 14, 1 << 14)]);
        let mut frame = vec![0xff; length.max(14)];
        frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 0x64, 0x88, 0xb5]);
        socket.send_to(&frame[..length], &port).expect("the port's socket");
    }
    let came = [0, 1, 2].map(|n| y.expect(n).byte_len);
    assert_eq!(came, [9604, 64, 64], "with their check sequences");
    assert!(y.buffer[1 << 14..][14..60] == [0; 46], "padding");
    assert_eq!(y.counter("rx_malformed"), 5);
}

/// What leaves the card and then does not get further.
#[test]
fn frames_for_a_peer_that_is_not_there_are_counted() {
    const FRAMES: u64 = 5;
    let directory = tempfile::tempdir().expect("a directory");
    let [port, nobody] = ["port", "nobody"].map(|name| directory.path().join(name));
    let net = net(1, &format!("0=dgram:{},{}", port.display(), nobody.display()));
    let card = net.open(0);
    let x = Peer::new(&card, Options { qp_type: QpType::RAW_PACKET, ..Options::default() });
    x.ready();
    for n in 0..FRAMES {
        x.completes(x.wr(n, WqeOpcode::RAW_ETH, &[x.sge(0, 60)]));
    }
    wait_for("not all are counted", || x.counter("tx_discards") == FRAMES);
    assert_eq!(x.counter("tx_packets"), FRAMES, "they have left the card");
}

#[test]
fn sockets_that_cannot_be_are_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(at("file"), "a user's").expect("a file");
    let refused = |text: &str| {
        let link = LinkOptions { ports: vec![text.parse().expect("a port")], ..LinkOptions::default() };
        let options = NetOptions { link, ..NetOptions::from(1) };
        let socket = directory.path().join("net/sock");
        model::attach::run_keeper(&socket, options).expect_err("refused").to_string()
    };
    for medium in ["dgram", "stream"] {
        let path = |path: &str| if medium == "dgram" { format!("{path},/tmp/none") } else { path.to_owned() };
        let error = refused(&format!("0={medium}:{}", path(&at("file"))));
        assert!(error.contains("is there already"), "{error}");
        let error = refused(&format!("0={medium}:{}", path(&at("none/socket"))));
        assert!(error.contains("its directory is missing"), "{error}");
    }
    let error = refused("0=packet:none0");
    assert!(error.contains("there is no interface none0 here"), "{error}");
    let error = refused("0=tap:lo");
    assert!(error.contains("lo is no TAP interface, or has several queues: use `packet:lo`"), "{error}");
    assert_eq!(std::fs::read_to_string(at("file")).expect("the file"), "a user's");
    // What a process left behind that was killed is no obstacle.
    drop(UnixDatagram::bind(at("left")).expect("a socket"));
    drop(net(1, &format!("0=dgram:{},{}", at("left"), at("peer"))));
    assert!(!directory.path().join("left").exists());
}
