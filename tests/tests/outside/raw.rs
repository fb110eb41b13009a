//! Ports that carry Ethernet frames: UNIX datagrams between two nets, a peer that is a test, TAP interfaces on a bridge.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fpga_regs::{FlowContext, FlowKind, QpType, WqeOpcode};
use model::attach::NetOptions;
use model::link::LinkOptions;
use tests::stock::{need, verbena, Ended, Program};
use tests::{connect, is_root, Net, Options, Peer};

use super::counter;

pub const LIMIT: Duration = Duration::from_secs(60);

/// A net of so many cards, one of which has a port outside.
pub fn net(cards: u8, port: &str) -> Net {
    let ports = vec![port.parse().expect("a port")];
    let link = LinkOptions { ports, ..LinkOptions::default() };
    Net::with(NetOptions { link, ..NetOptions::from(cards) })
}

#[test]
fn two_nets_exchange_frames_in_unix_datagrams() {
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name).display().to_string();
    // Different cards, whose IPv4 addresses differ.
    let one = net(1, &format!("0=dgram:{},{}", at("one"), at("other")));
    let other = net(2, &format!("1=dgram:{},{}", at("other"), at("one")));
    let (a, b) = (one.open(0), other.open(1));
    assert_ne!(a.node_guid() >> 16, b.node_guid() >> 16, "others may meet both");
    // IPv6 and IPv4.
    for gid in [0, 1] {
        for mtu in [1, 3, 5] {
            let (mut x, mut y) = connect(&a, &b, Options { gid, mtu, timeout: 17, ..Options::default() });
            x.buffer.pattern(mtu);
            for size in [0, 1, 255, 4097, 100_003] {
                x.post(&[x.remote(1, WqeOpcode::WRITE, &[x.sge(13, size)], &y, 501)]);
                x.expect(1);
                assert!(
                    x.buffer[13..13 + size] == y.buffer[501..501 + size],
                    "WRITE, mtu {mtu}, {size} bytes"
                );
                y.recv(100, &[y.sge(1, size)]);
                x.post(&[x.wr(2, WqeOpcode::SEND, &[x.sge(7, size)])]);
                x.expect(2);
                assert_eq!(y.expect(100).byte_len as usize, size);
                assert!(x.buffer[7..7 + size] == y.buffer[1..1 + size], "SEND, mtu {mtu}, {size} bytes");
                x.post(&[x.remote(3, WqeOpcode::READ, &[x.sge(500_021, size)], &y, 1)]);
                x.expect(3);
                let read = &x.buffer[500_021..500_021 + size];
                assert!(*read == y.buffer[1..1 + size], "READ, mtu {mtu}, {size} bytes");
                y.buffer[..size + 600].fill(0);
            }
        }
        let (mut x, y) = connect(&a, &b, Options { gid, mtu: 5, qp_type: QpType::UD, ..Options::default() });
        x.buffer.pattern(9);
        let ah = x.pd.create_ah(&x.av(y.gid())).expect("an AH");
        y.recv(9, &[y.sge(0, 2000)]);
        let sges = [x.sge(0, 333)];
        let mut send = x.wr(9, WqeOpcode::SEND, &sges);
        (send.ah, send.remote_qpn, send.remote_qkey) = (Some(&ah), y.qp.qpn(), tests::QKEY);
        x.post(&[send]);
        x.expect(9);
        assert_eq!(y.expect(9).byte_len, 40 + 333);
        assert!(x.buffer[..333] == y.buffer[40..373]);
    }
}

/// The answer to a large READ is sent by the thread that receives, at once and by both nets.
#[test]
fn large_reads_lose_nothing() {
    const SIZE: usize = 16 << 20;
    let directory = tempfile::tempdir().expect("a directory");
    let at = |name: &str| directory.path().join(name).display().to_string();
    let one = net(1, &format!("0=dgram:{},{}", at("one"), at("other")));
    let other = net(2, &format!("1=dgram:{},{}", at("other"), at("one")));
    let options = Options { mtu: 5, timeout: 19, bytes: 2 * SIZE, ..Options::default() };
    let (mut x, mut y) = connect(&one.open(0), &other.open(1), options);
    x.buffer.pattern(1);
    y.buffer.pattern(2);
    let (here, there) = ([x.sge(SIZE, SIZE)], [y.sge(SIZE, SIZE)]);
    x.post(&[x.remote(1, WqeOpcode::READ, &here, &y, 0)]);
    y.post(&[y.remote(2, WqeOpcode::READ, &there, &x, 0)]);
    x.expect(1);
    y.expect(2);
    assert!(x.buffer[SIZE..] == y.buffer[..SIZE] && y.buffer[SIZE..] == x.buffer[..SIZE]);
    for peer in [&x, &y] {
        let again = ["ack_timeouts", "out_of_sequence"].map(|name| counter(peer, name));
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
    let directory = tempfile::tempdir().expect("a directory");
    let [port, peer] = ["port", "peer"].map(|name| directory.path().join(name));
    let socket = UnixDatagram::bind(&peer).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a limit");
    let net = net(1, &format!("0=dgram:{},{}", port.display(), peer.display()));
    let _card = net.open(0);
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

/// Frames that are longer than any of Ethernet's are no frames, whoever asks for them with their check sequences.
#[test]
fn no_frame_is_longer_than_the_longest() {
    let directory = tempfile::tempdir().expect("a directory");
    let [port, peer] = ["port", "peer"].map(|name| directory.path().join(name));
    let socket = UnixDatagram::bind(&peer).expect("a socket");
    let net = net(1, &format!("0=dgram:{},{}", port.display(), peer.display()));
    let card = net.open(0);
    let options = Options { qp_type: QpType::RAW_PACKET, bytes: 1 << 16, ..Options::default() };
    let y = Peer::tuned(&card, options, None, |init| init.offloads.scatter_fcs = true);
    y.init();
    y.rtr(0, [0; 16], 0);
    let everything = FlowContext::new().with_port(1).with_kind(FlowKind::ALL_DEFAULT);
    let _flow = y.qp.create_flow(&everything).expect("a rule");
    for (n, length) in [9601, 9600, 30_000, 60].into_iter().enumerate() {
        y.recv(n as u64, &[y.sge(0, 1 << 16)]);
        let mut frame = vec![0xff; length];
        frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 0x64, 0x88, 0xb5]);
        socket.send_to(&frame, &port).expect("the port's socket");
    }
    let came = [0, 1].map(|n| y.expect(n).byte_len);
    assert_eq!(came, [9604, 64], "with their check sequences");
    assert_eq!(counter(&y, "rx_malformed"), 2);
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

/// Two nets on two TAP interfaces of a bridge of the kernel, in a network of the test's own; each byte is compared.
#[test]
fn tap_interfaces_on_a_bridge() {
    need("ibv_rc_pingpong");
    let directory = tempfile::tempdir().expect("a directory");
    let script = r#"
        set -e
        ip link set lo up
        ip link add bridge type bridge
        for tap in tap0 tap1; do
            ip tuntap add "$tap" mode tap
            ip link set "$tap" mtu 4200 master bridge up
        done
        ip link set bridge up
        run() { "$VERBENA" run -q --net "$1" --port "$2" -- $PINGPONG -d "$3" -g 1 -c -n 100 -p 18515 $4; }
        run one 0=tap:tap0 verbena0 >one 2>&1 &
        for i in $(seq 300); do
            grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6 && break
            sleep 0.1
        done
        run other 1=tap:tap1 verbena1 127.0.0.1 || { cat one; false; }
        wait $! || { cat one; false; }
        cat one
    "#;
    let said = in_own_network(script, directory.path(), 2 * LIMIT);
    assert_eq!(said.matches("100 iters in").count(), 2, "{said}");
}

/// Two network namespaces, this one and that of `on_two`, with an interface each at the ends of one cable; waits for who listens for
/// the TCP of perftest's programs.
const TWO_KERNELS: &str = r#"
    set -e
    unshare --net sleep 1000 &
    two=$!
    trap 'kill $two' EXIT
    until [ "$(readlink /proc/$two/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
    ip link add eth0 mtu 4200 type veth peer name eth0 mtu 4200 netns $two
    on_two() { nsenter --target $two --net "$@"; }
    for side in '' on_two; do
        number=1; [ -z "$side" ] || number=2
        $side ip link set lo up
        $side ip addr add 192.0.2.$number/24 dev eth0
        $side ip link set eth0 up
    done
    listens() {
        for i in $(seq 300); do
            grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6 && return
            sleep 0.1
        done
        cat out; false
    }
"#;

/// Two nets, each on the link of an interface of its own network namespace, which the kernels use too: they carry perftest's TCP.
/// An interface goes down for a moment, which costs some packets.
#[test]
fn packet_sockets_beside_two_kernels() {
    need("ibv_rc_pingpong");
    let directory = tempfile::tempdir().expect("a directory");
    let script = r#"
        one() { "$VERBENA" run -q --net one --port 0=packet:eth0 --gid 0=10.107.0.1,vlan=107 -- "$@"; }
        two() { on_two "$VERBENA" run -q --net two --port 1=packet:eth0 --gid 1=10.107.0.2,vlan=107 -- "$@"; }
        # The last one is in a VLAN.
        for gid in 0 1 2; do
            one $PINGPONG -d verbena0 -g $gid -c -n 200 -s 20000 -p 18515 >out 2>&1 &
            listens
            two $PINGPONG -d verbena1 -g $gid -c -n 200 -s 20000 -p 18515 192.0.2.1 || { cat out; false; }
            wait $! || { cat out; false; }
            cat out
        done
        # The GID of the VLAN is of that, and not of a provider's VLAN (802.1ad) of its number.
        one sleep 1000 &
        held=$!
        for kind in 8100 88a8; do
            on_two python3 -c "$ASK" $kind
        done
        kill $held
        one ib_write_bw -d verbena0 -u 18 -D 10 -s 20000 >out 2>&1 &
        listens
        two ib_write_bw -d verbena1 -u 18 -D 10 -s 20000 192.0.2.1 >other 2>&1 &
        client=$!
        # Not while both still begin, by TCP: once packets flow.
        sent() { awk '$1 == "eth0:" { print $11 }' /proc/net/dev; }
        before=$(sent)
        for i in $(seq 600); do
            [ $(($(sent) - before)) -lt 500 ] || break
            sleep 0.1
        done
        [ $(($(sent) - before)) -ge 500 ] || { cat out other; false; }
        ip link set eth0 down
        sleep 0.2
        ip link set eth0 up
        wait $client || { cat out other; false; }
        echo "a pause is survived"
    "#;
    let said = in_own_network(&[TWO_KERNELS, script].concat(), directory.path(), 3 * LIMIT);
    assert_eq!(said.matches("200 iters in").count(), 6, "{said}");
    assert!(said.contains("8100: an answer\n88a8: silence\n"), "{said}");
    assert!(said.contains("a pause is survived"), "{said}");
}

/// Of packets that the other side's kernel sends at once, the interface at the end of a cable between namespaces gives one message: it is
/// cut, as that of a real network would be.
#[test]
fn packet_sockets_get_frames_though_the_interface_does_not_cut() {
    need("ibv_rc_pingpong");
    let directory = tempfile::tempdir().expect("a directory");
    let script = r#"
        one() { "$VERBENA" run -q --net one --port 0=udp:192.0.2.1 -- "$@"; }
        two() { on_two "$VERBENA" run -q --net two --port 1=packet:eth0 --gid 1=192.0.2.22 -- "$@"; }
        one $PINGPONG -d verbena0 -g 0 -c -n 200 -s 60000 -p 18515 >out 2>&1 &
        listens
        two $PINGPONG -d verbena1 -g 2 -c -n 200 -s 60000 -p 18515 192.0.2.1 || { cat out; false; }
        wait $! || { cat out; false; }
        cat out
    "#;
    let said = in_own_network(&[TWO_KERNELS, script].concat(), directory.path(), 2 * LIMIT);
    assert_eq!(said.matches("200 iters in").count(), 2, "{said}");
}

/// Asks for 10.107.0.1 in VLAN 107, by a tag of the EtherType that is its argument: for long in the customers' VLAN, where there
/// is an answer, and for two seconds in that of a provider.
const ASK: &str = "
import socket, struct, sys, time
tag = int(sys.argv[1], 16)
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
link.bind(('eth0', 0))
link.settimeout(0.1)
mac = link.getsockname()[4]
request = struct.pack('!HHBBH6s4s6s4s', 1, 0x800, 6, 4, 1, mac, bytes([10, 107, 0, 9]), bytes(6), bytes([10, 107, 0, 1]))
request = b'\\xff' * 6 + mac + struct.pack('!HHH', tag, 107, 0x806) + request
end = time.monotonic() + (60 if tag == 0x8100 else 2)
said = 'silence'
while said == 'silence' and time.monotonic() < end:
    link.send(request)
    try:
        came = link.recv(2000)
        # The kernel takes the tag out.
        if came[12:14] == b'\\x08\\x06' and came[21] == 2 and came[28:32] == bytes([10, 107, 0, 1]):
            said = 'an answer'
    except TimeoutError:
        pass
print(f'{tag:x}: {said}')
";

/// What a pingpong says when the other end did not run for half a second (IBV_WC_RETRY_EXC_ERR). The other end waits on.
const BUSY: &str = "transport retry counter exceeded";
const PINGPONG: &str = "timeout 40 ibv_rc_pingpong";

/// Runs a script of bash in a network namespace of its own, as root there. What it says; it has to end well within `limit`, once
/// of three times if the machine is busy.
fn in_own_network(script: &str, directory: &Path, limit: Duration) -> String {
    let mut n = 0;
    loop {
        n += 1;
        let own = directory.join(n.to_string());
        std::fs::create_dir(&own).expect("a directory");
        let ended = attempt(script, &own, limit);
        if ended.good() {
            return ended.said;
        }
        let again = n < 3 && ended.said.contains(BUSY);
        assert!(again, "attempt {n} of three: {}; it said:\n{}", ended.how(), ended.said);
    }
}

fn attempt(script: &str, directory: &Path, limit: Duration) -> Ended {
    let mut command = Command::new("unshare");
    // As root without a user namespace, which not every system allows.
    if !is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.args(["--net", "bash", "-c", script]).current_dir(directory);
    command
        .env("VERBENA", verbena())
        .env("ASK", ASK)
        .env("PINGPONG", PINGPONG)
        .env("XDG_RUNTIME_DIR", directory);
    Program::start(command).wait(limit)
}
