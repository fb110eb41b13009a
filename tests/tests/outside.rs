//! Ports that lead outside, by UDP: two nets that have nothing in common but the loopback interface.

#[path = "outside/bonds.rs"]
mod bonds;
#[path = "outside/captured.rs"]
mod captured;
#[path = "outside/ethernet.rs"]
mod ethernet;
#[path = "outside/groups.rs"]
mod groups;
#[path = "outside/hostile.rs"]
mod hostile;
#[path = "outside/interfaces.rs"]
mod interfaces;
#[path = "outside/unreliable.rs"]
mod unreliable;

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use driver::{Offloads, QpAttr, SendWr};
use fpga_regs::{CqeStatus, FlowContext, HashFields, QpState, QpType, WqeOpcode, HASH_KEY};
use model::attach::NetOptions;
use model::link::outside::{ask, Answer};
use model::link::{LinkOptions, Wire};
use tests::{connect, datagram, join, loopback_address, place_for, Net, Options, Peer, Side};

/// A net of one card whose first port is at an address.
fn net_at(address: Ipv4Addr) -> Net {
    let ports = vec![format!("0=udp:{address}").parse().expect("a port")];
    let link = LinkOptions { ports, ..LinkOptions::default() };
    Net::with(NetOptions { link, ..NetOptions::from(1) })
}

/// GID 0 is the socket's address.
fn options() -> Options {
    Options { gid: 0, mtu: 5, timeout: 18, ..Options::default() }
}

/// A WRITE, a SEND and a READ of so many bytes, from and to odd places.
fn exchange(x: &Side, y: &mut Side, size: usize) {
    let what = format!("mtu {}, {size} bytes", x.options.mtu);
    x.completes(x.remote(1, WqeOpcode::WRITE, &[x.sge(13, size)], y, 501));
    assert!(x.buffer[13..13 + size] == y.buffer[501..501 + size], "WRITE, {what}");
    y.recv(100, &[y.sge(1, size)]);
    x.completes(x.wr(2, WqeOpcode::SEND, &[x.sge(7, size)]));
    assert_eq!(y.expect(100).byte_len as usize, size);
    assert!(x.buffer[7..7 + size] == y.buffer[1..1 + size], "SEND, {what}");
    x.completes(x.remote(3, WqeOpcode::READ, &[x.sge(500_021, size)], y, 1));
    assert!(x.buffer[500_021..500_021 + size] == y.buffer[1..1 + size], "READ, {what}");
    y.buffer[..size + 600].fill(0);
}

/// Each reads the first half of the other's buffer into its second half, of so many bytes, at once.
fn read_each_other(x: &Side, y: &Side, size: usize) {
    let (here, there) = ([x.sge(size, size)], [y.sge(size, size)]);
    x.post(&[x.remote(1, WqeOpcode::READ, &here, y, 0)]);
    y.post(&[y.remote(2, WqeOpcode::READ, &there, x, 0)]);
    x.expect(1);
    y.expect(2);
    assert!(x.buffer[size..] == y.buffer[..size] && y.buffer[size..] == x.buffer[..size]);
}

#[test]
fn two_nets_exchange_everything_by_udp() {
    let (one, other) = (net_at(loopback_address()), net_at(loopback_address()));
    let (a, b) = (one.open(0), other.open(0));
    assert_ne!(a.gid(1, 0).unwrap(), b.gid(1, 0).unwrap());
    assert_eq!(a.gid(1, 1).unwrap(), [0; 16], "a socket's port has its address only");
    for mtu in [1, 3, 5] {
        let (mut x, mut y) = connect(&a, &b, Options { mtu, ..options() });
        x.buffer.pattern(mtu);
        for size in [0, 1, 3, 8, 255, 4096, 5001, 65_536, 300_003] {
            exchange(&x, &mut y, size);
        }
        let mut add = x.remote(5, WqeOpcode::FETCH_ADD, &[], &y, 50_000);
        let sge = [x.sge(64, 8)];
        add = SendWr { compare_add: 11, data: driver::Data::Sges(&sge), ..add };
        x.completes(add);
        assert_eq!(y.buffer[50_000..50_008], 11u64.to_le_bytes());
        for wrong in ["rx_icrc_errors", "rx_malformed", "rx_no_qp"] {
            assert_eq!((x.counter(wrong), y.counter(wrong)), (0, 0), "{wrong}");
        }
    }
    for qp_type in [QpType::UC, QpType::UD] {
        let (mut x, y) = connect(&a, &b, Options { qp_type, ..options() });
        x.buffer.pattern(9);
        let ah = x.pd.create_ah(&x.av(y.gid())).expect("an AH");
        let headers = if qp_type == QpType::UD { 40 } else { 0 };
        y.recv(9, &[y.sge(0, 2000)]);
        let sges = [x.sge(0, 333)];
        let send = x.wr(9, WqeOpcode::SEND, &sges);
        x.completes(if qp_type == QpType::UD { datagram(&ah, y.qp.qpn(), send) } else { send });
        assert_eq!(y.expect(9).byte_len as usize, headers + 333);
        assert!(x.buffer[..333] == y.buffer[headers..headers + 333]);
    }
}

/// Nets whose cards keep so many packets out of order, or none, and that lose frames.
#[test]
fn selective_repeat_and_go_back_n_understand_each_other() {
    for (one, other) in [(64, 0), (0, 64), (64, 64), (2, 0)] {
        let net = |reorder: u32, seed: u32| {
            let ports = vec![format!("0=udp:{}", loopback_address()).parse().expect("a port")];
            let faults = format!("loss=0.02,dup=0.01,seed={seed}").parse().expect("faults");
            let link = LinkOptions { ports, faults, wire: Wire::Exact, ..LinkOptions::default() };
            Net::with(NetOptions { link, reorder, ..NetOptions::from(1) })
        };
        let (one, other) = (net(one, 1), net(other, 2));
        let (a, b) = (one.open(0), other.open(0));
        // Each in turn is the requester.
        for (from, to) in [(&a, &b), (&b, &a)] {
            let (mut x, mut y) = connect(from, to, Options { timeout: 15, ..options() });
            let size = 300_003;
            for round in 0..10 {
                x.buffer.pattern(round);
                let (sges, word) = ([x.sge(13, size)], [x.sge(500_000, 8)]);
                let write = x.remote(1, WqeOpcode::WRITE, &sges, &y, 501);
                let add = x.remote(2, WqeOpcode::FETCH_ADD, &word, &y, 400_000);
                let before = u64::from_le_bytes(y.buffer[400_000..400_008].try_into().expect("8 bytes"));
                y.recv(9, &[y.sge(1, size + 501)]);
                x.post(&[write, SendWr { compare_add: 11, ..add }]);
                (1..=2).for_each(|n| _ = x.expect(n));
                assert!(x.buffer[13..13 + size] == y.buffer[501..501 + size], "WRITE, round {round}");
                let after = u64::from_le_bytes(y.buffer[400_000..400_008].try_into().expect("8 bytes"));
                assert_eq!(after, before.wrapping_add(11), "once");
                x.completes(x.wr(3, WqeOpcode::SEND, &sges));
                assert_eq!(y.expect(9).byte_len as usize, size);
                assert!(x.buffer[13..13 + size] == y.buffer[1..1 + size], "SEND, round {round}");
                y.buffer.pattern(100 + round);
                let (read, rest) = ([x.sge(0, size)], [x.sge(size, 5)]);
                let reads = [(4, &read, 7), (5, &rest, 7 + size)]
                    .map(|(n, to, at)| x.remote(n, WqeOpcode::READ, to, &y, at));
                x.post(&reads);
                (4..=5).for_each(|n| _ = x.expect(n));
                assert!(x.buffer[..size + 5] == y.buffer[7..size + 12], "READ, round {round}");
            }
            assert_ne!(x.counter("retransmits"), 0, "something was lost");
        }
    }
}

#[test]
fn many_messages_under_way_arrive_in_order() {
    let (one, other) = (net_at(loopback_address()), net_at(loopback_address()));
    let (mut x, y) = connect(&one.open(0), &other.open(0), options());
    x.buffer.pattern(1);
    // More than fits the window at a time.
    for round in 0..20u64 {
        let sges = [x.sge(round as usize, 1 << 19)];
        let write = |n: u64| x.remote(n, WqeOpcode::WRITE, &sges, &y, 0);
        x.post(&[write(1), write(2), write(3), write(4)]);
        (1..=4).for_each(|n| _ = x.expect(n));
        assert!(x.buffer[round as usize..][..1 << 19] == y.buffer[..1 << 19], "round {round}");
    }
    let sges = [x.sge(0, 8)];
    for _ in 0..200 {
        let writes: Vec<_> = (0..50).map(|n| x.remote(n, WqeOpcode::WRITE, &sges, &y, 8)).collect();
        x.post(&writes);
        (0..50).for_each(|n| _ = x.expect(n));
    }
    // A receiver that is not ready is waited for.
    x.post(&[x.wr(7, WqeOpcode::SEND, &[x.sge(0, 100)])]);
    std::thread::sleep(std::time::Duration::from_millis(20));
    y.recv(8, &[y.sge(0, 100)]);
    x.expect(7);
    y.expect(8);
}

/// Messages that wait for others to leave with are sent by an acknowledgement, whether the sender polls or not.
#[test]
fn messages_leave_while_nobody_polls() {
    const MANY: u64 = 50;
    let (one, other) = (net_at(loopback_address()), net_at(loopback_address()));
    // Without a time-out, which would have them sent, too.
    let options = Options { timeout: 0, bytes: 4 << 20, ..options() };
    let (mut x, y) = connect(&one.open(0), &other.open(0), options);
    x.buffer.pattern(1);
    // Little waits, much does not, and a READ has what is before it sent.
    for (size, last) in
        [(8, WqeOpcode::SEND), (1000, WqeOpcode::SEND), (40_000, WqeOpcode::SEND), (8, WqeOpcode::READ)]
    {
        (0..MANY).for_each(|n| y.recv(n, &[y.sge(n as usize * size, size)]));
        for n in 0..MANY {
            x.post(&[x.wr(n, WqeOpcode::SEND, &[x.sge(n as usize * size, size)])]);
        }
        if last == WqeOpcode::READ {
            x.post(&[x.remote(MANY, last, &[x.sge(MANY as usize * size, size)], &y, 0)]);
        }
        (0..MANY).for_each(|n| _ = y.expect(n));
        assert!(x.buffer[..MANY as usize * size] == y.buffer[..MANY as usize * size], "{size} bytes");
        (0..MANY).for_each(|n| _ = x.expect(n));
        if last == WqeOpcode::READ {
            x.expect(MANY);
            assert!(x.buffer[MANY as usize * size..][..size] == y.buffer[..size]);
        }
    }
}

#[test]
fn long_reads_lose_nothing() {
    /// More than a socket has room for, while its keeper answers the other's READ.
    const SIZE: usize = 64 << 20;
    let (one, other) = (net_at(loopback_address()), net_at(loopback_address()));
    let (a, b) = (one.open(0), other.open(0));
    // A single request at a time, and several.
    for rd_atomic in [1, 4] {
        let options = Options { bytes: 2 * SIZE, timeout: 20, rd_atomic, ..options() };
        let (mut x, mut y) = connect(&a, &b, options);
        for (peer, seed) in [(&mut x, rd_atomic), (&mut y, 100)] {
            let chunks = peer.buffer.chunks_mut(1000).enumerate();
            chunks.for_each(|(n, chunk)| chunk.fill((n as u8).wrapping_mul(3).wrapping_add(seed)));
        }
        read_each_other(&x, &y, SIZE);
        let again = [&x, &y].map(|peer| peer.counter("retransmits"));
        assert_eq!(again, [0, 0], "something was asked for again");
    }
}

#[test]
fn where_nobody_is_retries_run_out() {
    let (one, nobody) = (net_at(loopback_address()), loopback_address());
    let a = one.open(0);
    let options = Options { timeout: 10, retry_cnt: 2, ..options() };
    let x = Peer::new(&a, options);
    x.init();
    x.rtr(0x0001_0011, nobody.to_ipv6_mapped().octets(), 0);
    x.rts();
    x.post(&[x.remote(1, WqeOpcode::WRITE, &[x.sge(0, 100)], &x, 0)]);
    assert_eq!(x.wait().status, CqeStatus::RETRY_EXC_ERR);
    // Within the port nothing leaves the card.
    let (x, y) = connect(&a, &a, options);
    x.completes(x.remote(1, WqeOpcode::WRITE, &[x.sge(0, 100)], &y, 0));
}

#[test]
fn a_net_that_goes_away_is_missed_and_found_again() {
    let (here, there) = (loopback_address(), loopback_address());
    let one = net_at(here);
    let a = one.open(0);
    let options = Options { timeout: 17, retry_cnt: 2, ..options() };
    for _ in 0..2 {
        let other = net_at(there);
        let (x, y) = connect(&a, &other.open(0), options);
        x.completes(x.remote(1, WqeOpcode::WRITE, &[x.sge(0, 100)], &y, 0));
        let gone = (y.buffer.addr(0), y.mr.rkey());
        drop((y, other));
        let sges = [x.sge(0, 100)];
        let write = SendWr { remote_addr: gone.0, rkey: gone.1, ..x.wr(2, WqeOpcode::WRITE, &sges) };
        x.post(&[write]);
        assert_eq!(x.wait().status, CqeStatus::RETRY_EXC_ERR);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |text: &str| {
        let ports = vec![text.parse().expect("a port")];
        let link = LinkOptions { ports, ..LinkOptions::default() };
        let (_directory, socket) = place_for("net/sock");
        let options = NetOptions { link, ..NetOptions::from(1) };
        model::attach::run_keeper(&socket, options).expect_err("refused").to_string()
    };
    let error = refused("0=udp:192.0.2.1");
    assert!(error.contains("192.0.2.1 is no address of this machine"), "{error}");
    let taken = loopback_address();
    let _net = net_at(taken);
    let error = refused(&format!("0=udp:{taken}"));
    assert!(error.contains("is in use: another net has this address"), "{error}");
}

/// What was collected is sent with the answer to what was sent before. What is posted after that leaves at once, as ever: its
/// program need not poll.
#[test]
fn a_message_after_collected_ones_waits_for_no_poll() {
    let (one, other) = (net_at(loopback_address()), net_at(loopback_address()));
    let (a, b) = (one.open(0), other.open(0));
    let (x, y) = connect(&a, &b, Options { depth: 64, ..options() });
    let sges = [x.sge(0, 8)];
    for _ in 0..8 {
        (0..7).for_each(|n| y.recv(n, &[y.sge(0, 8)]));
        // The first one is on its way while the others are posted.
        (0..6).for_each(|n| x.post(&[x.wr(n, WqeOpcode::SEND, &sges)]));
        (0..6).for_each(|n| _ = y.expect(n));
        // The answers are there before the first poll, which finds all.
        std::thread::sleep(Duration::from_millis(50));
        (0..6).for_each(|n| _ = x.expect(n));
        x.post(&[x.wr(6, WqeOpcode::SEND, &sges)]);
        y.expect(6);
        x.expect(6);
    }
}

/// Whole frames stay in the net: nobody may wait for those of such a port.
#[test]
fn raw_packets_are_refused() {
    let net = net_at(loopback_address());
    let card = net.open(0);
    let unsupported = |result: driver::Result<()>| {
        assert_eq!(result.expect_err("of a port outside").errno(), libc::EOPNOTSUPP);
    };
    let raw = Peer::new(&card, Options { qp_type: QpType::RAW_PACKET, ..options() });
    let to_init = |port| {
        let attr = QpAttr { state: QpState::INIT, port, ..Default::default() };
        raw.qp.step(&attr)
    };
    unsupported(to_init(1));
    to_init(2).expect("a port of the net");
    let wq = raw.pd.create_wq(&raw.cq, (1, 1), Offloads::default()).expect("a work queue");
    let table = card.create_table(std::slice::from_ref(&wq)).expect("a table");
    let spread = raw.pd.create_hash_qp(&table, HashFields::ALL, &[1; HASH_KEY]).expect("a queue pair");
    for qp in [&raw.qp, &spread] {
        unsupported(qp.create_flow(&FlowContext::new().with_port(1)).map(drop));
        qp.create_flow(&FlowContext::new().with_port(2)).map(drop).expect("a port of the net");
    }
}

#[test]
fn a_port_answers_who_asks_for_it() {
    let (here, there) = (loopback_address(), loopback_address());
    let asked = |to: Ipv4Addr| ask(here.into(), to.into()).expect("an answer or none");
    let net = net_at(there);
    assert_eq!(asked(there), Answer::Right);
    drop(net);
    assert_eq!(asked(there), Answer::Nobody);
    // Somebody who listens, and answers with what came, as something on the way might have left it.
    let socket = UdpSocket::bind((there, 4791)).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a limit");
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(asked(there), Answer::Changed));
        let mut packet = [0; 2000];
        let length = socket.recv(&mut packet).expect("the question");
        packet[40] ^= 1;
        socket.send_to(&packet[..length], (here, 4791)).expect("sent");
    });
    assert_eq!(asked(there), Answer::Silence);
    // A port of a net has it.
    let _net = net_at(here);
    let error = ask(here.into(), there.into()).expect_err("taken");
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse, "{error}");
}

/// Two QPs of different nets, connected.
fn pair(nets: [&Net; 2], options: Options) -> [Side; 2] {
    let [x, y] = nets.map(|net| Peer::new(&net.open(0), options));
    join(&x, &y);
    [x, y]
}
