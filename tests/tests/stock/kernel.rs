//! The kernel beside RDMA and DPDK on the same port: `verbena port`, with ping, sockets, perftest and DPDK between two network
//! namespaces.

mod flows;
mod http;
mod listed;
mod place;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use fpga_regs::regs::port;
use tests::stock::{
    alone, free_port, need, signal, status, verbena, wait_for, wrapped, Program, StockNet, Testpmd, LIMIT,
};
use tests::{is_root, unshare};

/// Of the first ports of both cards.
const ADDRESS: [&str; 2] = ["198.18.0.1", "198.18.0.2"];
const MAC: &str = "02:56:42:00:01:00";

/// A network namespace with an interface of a port.
struct Host {
    /// It stays as long as this does.
    place: Program,
    pid: String,
}

impl Host {
    fn new() -> Host {
        need("ping");
        let script = "ip link set lo up; echo \"up: $$.\"; exec sleep 3600";
        let mut place = Program::start(unshare(&["--net", "bash", "-c", script]));
        place.expect(".\n", LIMIT);
        let said = place.said();
        let pid = said.split("up: ").nth(1).and_then(|rest| rest.split('.').next()).expect("a number");
        Host { pid: pid.to_owned(), place }
    }

    /// A command there.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        let user = fs::read_link(format!("/proc/{}/ns/user", self.pid)).expect("it runs");
        if user != fs::read_link("/proc/self/ns/user").expect("/proc") {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.args(["--net", "--target", &self.pid]).args(words);
        command
    }

    /// Runs a command there to its end.
    fn run(&self, words: &[&str]) -> String {
        Program::start(self.command(words)).wait(LIMIT).expect_good()
    }

    /// A command of `verbena` there.
    fn verbena(&self, net: &StockNet, words: &[&str]) -> String {
        Program::start(wrapped(self.command(&[]), &net.verbena(words))).wait(LIMIT).expect_good()
    }

    /// `verbena run` there, with its network.
    fn on_card(&self, net: &StockNet, words: &[&str]) -> Program {
        let launcher = net.command(&["--network", "host"], words[0], &words[1..]);
        Program::start(wrapped(self.command(&[]), &launcher))
    }

    /// `verbena port up` for it.
    fn up(&self, net: &StockNet, port: &str, options: &[&str]) {
        net.does(&[&["port", "up", port, "--netns", &self.pid][..], options].concat());
    }

    /// Packets that one of its interfaces has received.
    fn received(&self, name: &str) -> u64 {
        let all = self.run(&["cat", &format!("/proc/{}/net/dev", self.pid)]);
        let line = all.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
        let count = line.and_then(|rest| rest.split_whitespace().nth(1)?.parse().ok());
        count.unwrap_or_else(|| panic!("no {name} in {all}"))
    }

    /// Each question gets one answer, however long that takes on a busy machine.
    #[track_caller]
    fn pings(&self, to: &str, options: &[&str]) {
        let words = [&["ping", "-c", "10", "-i", "0.05", "-w", "50"][..], options, &[to]].concat();
        let said = self.run(&words);
        expect_ten_answers(&said);
    }
}

/// What `ping -c 10` has said: each question got one answer. It asks on while answers are on their way, and may hear of those, too.
#[track_caller]
pub fn expect_ten_answers(said: &str) {
    let answers = said.lines().filter_map(|line| line.split("icmp_seq=").nth(1)?.split(' ').next());
    let expected: Vec<String> = (1..=10).map(|n| n.to_string()).collect();
    assert_eq!(answers.take(10).collect::<Vec<_>>(), expected, "{said}");
    assert!(!said.contains("DUP!"), "{said}");
}

impl Drop for Host {
    /// A test that failed leaves no process: it ends with its interface.
    fn drop(&mut self) {
        let there = Path::new("/proc").join(&self.pid).exists();
        for name in ["vb0", "vb0.107"].into_iter().filter(|_| there) {
            let _ = self.command(&["ip", "link", "del", name]).output();
        }
    }
}

/// A net, and two hosts, each with the kernel on the first port of a card.
fn two() -> (StockNet, [Host; 2]) {
    let net = StockNet::alone();
    let hosts = hosts_on(&net);
    (net, hosts)
}

fn hosts_on(net: &StockNet) -> [Host; 2] {
    let hosts = [Host::new(), Host::new()];
    for (n, host) in hosts.iter().enumerate() {
        host.up(net, &format!("verbena{n}/1"), &["--kernel", "vb0"]);
    }
    hosts
}

/// The process of a port's interface, by the name of its note.
fn noted(net: &StockNet, port: &str) -> Option<u32> {
    let file = net.socket().with_file_name(format!("{}.{port}.kernel", net.name()));
    fs::read_to_string(file).expect("its note").split(' ').next().and_then(|pid| pid.parse().ok())
}

/// The interfaces go, and with them the net.
fn end(net: &StockNet, hosts: [Host; 2]) {
    for (n, host) in hosts.iter().enumerate() {
        let errors = host.run(&["nstat", "-az", "TcpInCsumErrors", "UdpInCsumErrors", "IpExtInCsumErrors"]);
        let wrong = errors
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1))
            .find(|count| count.parse().is_ok_and(|count: u64| count != 0));
        assert_eq!(wrong, None, "{errors}");
        net.does(&["port", "down", &format!("verbena{n}/1")]);
        let left = host.run(&["ip", "-br", "link"]);
        assert!(!left.contains("vb0"), "{left}");
    }
    net.expect_gone();
}

const SERVER: &str = "
import hashlib, socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
server = socket.create_server((sys.argv[1], 5000), family=family)
print('listens', flush=True)
connection, _ = server.accept()
digest, length = hashlib.sha256(), 0
while part := connection.recv(1 << 16):
    digest.update(part)
    length += len(part)
print(length, digest.hexdigest(), flush=True)
";
const CLIENT: &str = "
import hashlib, random, socket, sys
data = random.Random(7).randbytes(int(sys.argv[2]))
with socket.create_connection((sys.argv[1], 5000)) as connection:
    if len(sys.argv) > 3:
        # A header of options for the destination behind that of IPv6, with nothing in it.
        connection.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_DSTOPTS, bytes([0, 0, 1, 4, 0, 0, 0, 0]))
    connection.sendall(data)
print(len(data), hashlib.sha256(data).hexdigest())
";

#[test]
fn two_hosts_talk_through_their_ports() {
    need("nstat");
    let (net, hosts) = two();
    let [a, b] = &hosts;
    a.pings(ADDRESS[1], &[]);
    b.pings(ADDRESS[0], &["-s", "1472", "-M", "do"]);
    a.pings("fe80::56:42ff:fe00:100%vb0", &[]);
    let ipv6 = ["::", "fe80::56:42ff:fe00:100%vb0"];
    let ipv4 = [ADDRESS[1]; 2];
    for (mtu, [own, to], options) in
        [("1500", ipv4, &[][..]), ("9000", ipv4, &[]), ("1500", ipv6, &[]), ("1500", ipv6, &["options"])]
    {
        let (cut, merged) = (net.register(0, 0, port::TX_SEGMENTED), b.received("vb0"));
        hosts.iter().for_each(|host| drop(host.run(&["ip", "link", "set", "vb0", "mtu", mtu])));
        let mut server = Program::start(b.command(&["python3", "-c", SERVER, own]));
        server.expect("listens\n", LIMIT);
        let sent = a.run(&[&["python3", "-c", CLIENT, to, "8000003"], options].concat());
        let came = server.wait(LIMIT).said;
        assert!(came.ends_with(&sent) && sent.starts_with("8000003 "), "{to}, MTU {mtu}: {sent} {came}");
        let cut = net.register(0, 0, port::TX_SEGMENTED) - cut;
        // What is sent as single segments, as after a loss, is not cut.
        let expected = 8_000_003 / mtu.parse::<u64>().expect("a number");
        assert!(cut >= expected / 2, "the card has cut {cut} frames of some {expected}, MTU {mtu}");
        // The kernel counts what it is given. What has options comes frame by frame.
        let merged = b.received("vb0") - merged;
        assert!(
            merged < cut * 3 / 4 || !options.is_empty(),
            "{cut} frames came to the kernel as {merged}, to {to}, MTU {mtu}"
        );
    }
    hosts.iter().for_each(|host| drop(host.run(&["ip", "link", "set", "vb0", "mtu", "9000"])));
    a.pings(ADDRESS[1], &["-s", "8972", "-M", "do"]);
    // It has a carrier when the port has a link.
    net.does(&["link", "verbena0/1", "down"]);
    let both = |state| hosts.iter().all(|host| host.run(&["ip", "link", "show", "vb0"]).contains(state));
    wait_for("a carrier without a link", || both("NO-CARRIER"));
    net.does(&["link", "verbena0/1", "up"]);
    wait_for("no carrier", || both("state UP"));
    a.pings(ADDRESS[1], &[]);
    end(&net, hosts);
}

/// To a TAP the kernel allows more than a card has. Nothing would pass at such an MTU.
#[test]
fn an_interface_keeps_to_the_mtu_of_the_card() {
    let (net, hosts) = two();
    for host in &hosts {
        host.run(&["ip", "link", "set", "vb0", "mtu", "20000"]);
        wait_for("an MTU that the card has not", || {
            host.run(&["ip", "link", "show", "vb0"]).contains(" mtu 9582 ")
        });
    }
    let [a, b] = &hosts;
    a.pings(ADDRESS[1], &["-s", "9554", "-M", "do"]);
    b.pings(ADDRESS[0], &["-s", "12000"]);
    end(&net, hosts);
}

/// How often the threads of an interface's queues have slept, by their names.
fn sleeps(net: &StockNet, port: &str) -> BTreeMap<String, u64> {
    let words = format!("kernel-port\0{port}\0--net={}\0", net.name());
    let processes = fs::read_dir("/proc").expect("/proc").flatten().map(|entry| entry.path());
    let process = processes
        .filter(|path| fs::read_to_string(path.join("cmdline")).is_ok_and(|line| line.contains(&words)))
        .collect::<Vec<_>>();
    let [process] = &process[..] else { panic!("not one process of {port}: {process:?}") };
    let tasks = fs::read_dir(process.join("task")).expect("its threads").flatten();
    let task = |entry: fs::DirEntry| {
        let name = fs::read_to_string(entry.path().join("comm")).expect("a thread");
        (name.trim().to_owned(), status(entry.path(), "voluntary_ctxt_switches").expect("a number"))
    };
    tasks.map(task).collect()
}

/// Connections are spread over the queues of an interface, and each one's frames stay in order.
#[test]
fn connections_are_spread_over_queues() {
    need("curl");
    let net = StockNet::alone();
    let hosts = [Host::new(), Host::new()];
    net.refuses(&["port", "up", "verbena0/1", "--kernel", "vb0", "--queues", "17"], "not in 1..=16");
    for (n, host) in hosts.iter().enumerate() {
        host.up(&net, &format!("verbena{n}/1"), &["--kernel", "vb0", "--queues", "3"]);
    }
    let [a, b] = &hosts;
    assert!(a.run(&["ip", "-d", "link", "show", "vb0"]).contains("multi_queue numqueues 3 "));
    a.pings(ADDRESS[1], &[]);
    let directory = tempfile::tempdir().expect("a directory");
    let data: Vec<u8> = (0..300_000u32).flat_map(|n| n.wrapping_mul(n).to_le_bytes()).collect();
    fs::write(directory.path().join("data"), &data).expect("a file");
    let place = directory.path().to_str().expect("a path");
    let words = ["python3", "-u", "-m", "http.server", "-b", ADDRESS[1], "-d", place, "8000"];
    let mut server = Program::start(b.command(&words));
    server.expect("Serving HTTP", LIMIT);
    let before = ["verbena0/1", "verbena1/1"].map(|port| sleeps(&net, port));
    let url = format!("http://{}:8000/data", ADDRESS[1]);
    // Each a connection, from a port of its own.
    for n in 0..12 {
        let to = directory.path().join(format!("{n}"));
        a.run(&["curl", "-sS", "-o", to.to_str().expect("a path"), &url]);
        assert!(fs::read(&to).expect("what came") == data, "connection {n} has brought other data");
    }
    for (port, before) in ["verbena0/1", "verbena1/1"].into_iter().zip(before) {
        let after = sleeps(&net, port);
        for direction in ["rx", "tx"] {
            let worked = (0..3).filter(|n| {
                let name = format!("{direction}-{n}");
                after[&name] - before[&name] >= 3
            });
            // That all twelve take one of three is as good as impossible.
            assert!(worked.count() >= 2, "{port}, {direction}: {before:?}, then {after:?}");
        }
    }
    drop(server);
    end(&net, hosts);
}

const SERVICE_TAGGED: &str = "
import socket, sys
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
port.bind(('vb0', 0))
for n in range(50):
    port.send(bytes.fromhex(sys.argv[1] + '020909090909' + '88a8006b' + '88b5') + bytes(60))
";

/// Frames of a VLAN come to its interface alone.
#[test]
fn a_vlan_has_an_interface_of_its_own() {
    let (net, hosts) = two();
    for (n, host) in hosts.iter().enumerate() {
        let port = format!("verbena{n}/1");
        host.up(&net, &port, &["--kernel", "vb0.107", "--vlan", "107", "--mtu", "9000"]);
        host.run(&["ip", "addr", "add", &format!("192.0.2.{}/24", n + 1), "dev", "vb0.107"]);
    }
    let [a, b] = &hosts;
    a.pings("192.0.2.2", &["-s", "8972", "-M", "do"]);
    a.pings(ADDRESS[1], &[]);
    let before = b.received("vb0");
    a.pings("192.0.2.2", &["-s", "100"]);
    assert!(b.received("vb0") - before < 10, "tagged frames came untagged");
    // A tag of 802.1ad with the same number is none of the VLAN's.
    let before = b.received("vb0");
    a.run(&["python3", "-c", SERVICE_TAGGED, &MAC.replace(':', "")]);
    wait_for("the other kind of tag", || b.received("vb0") >= before + 50);
    for n in 0..2 {
        net.does(&["port", "down", &format!("verbena{n}/1"), "--vlan", "107"]);
    }
    end(&net, hosts);
}

/// Frames to the MAC of an interface come to it, others only where it is promiscuous; both may change.
#[test]
fn frames_come_to_the_macs_that_the_kernel_wants() {
    let (net, hosts) = two();
    let [a, b] = &hosts;
    let neighbour = |mac: &str| {
        a.run(&["ip", "neigh", "replace", "198.18.0.77", "lladdr", mac, "dev", "vb0"]);
    };
    // Of 200 frames to a MAC, those that have come to the other host.
    let come = |mac: &str| {
        neighbour(mac);
        let before = b.received("vb0");
        let lost = ["ping", "-c", "200", "-i", "0.002", "-W", "1", "198.18.0.77"];
        assert!(Program::start(a.command(&lost)).wait(LIMIT).said.contains("100% packet loss"));
        // What comes later than these has come.
        a.pings(ADDRESS[1], &[]);
        b.received("vb0") - before
    };
    let (other, another) = ("02:00:00:00:00:77", "02:00:00:00:00:78");
    assert!(come(other) < 200);
    b.run(&["ip", "link", "set", "vb0", "promisc", "on"]);
    wait_for("no frames to other MACs", || come(other) >= 200);
    b.run(&["ip", "link", "set", "vb0", "promisc", "off"]);
    wait_for("frames to other MACs come still", || come(other) < 200);
    b.run(&["ip", "link", "set", "vb0", "address", other]);
    a.run(&["ip", "neigh", "flush", "dev", "vb0"]);
    wait_for("no frames to the new MAC", || come(other) >= 200);
    assert!(come(another) < 200 && come(MAC) < 200);
    // An interface on top of it, with a MAC of its own, in another namespace: it is not told of what that wants.
    let container = Host::new();
    let on_top = ["ip", "link", "add", "mv0", "link", "vb0", "netns", &container.pid, "type", "macvlan"];
    b.run(&[&on_top[..], &["mode", "bridge"]].concat());
    container.run(&["ip", "addr", "add", "198.18.0.79/15", "dev", "mv0"]);
    container.run(&["ip", "link", "set", "mv0", "up"]);
    let ping = ["ping", "-c", "1", "-W", "1", ADDRESS[0]];
    wait_for("no frames to what is on top", || Program::start(container.command(&ping)).wait(LIMIT).good());
    container.run(&["ip", "link", "del", "mv0"]);
    // A bridge has a MAC of its own.
    let script = format!(
        "ip link add br0 address {another} type bridge && ip link set vb0 master br0 && ip addr flush dev vb0 && \
         ip addr add {}/15 dev br0 && ip link set br0 up",
        ADDRESS[1]
    );
    b.run(&["sh", "-ec", &script]);
    a.run(&["ip", "neigh", "flush", "dev", "vb0"]);
    let ping = ["ping", "-c", "1", "-W", "1", ADDRESS[1]];
    wait_for("no frames to the bridge", || Program::start(a.command(&ping)).wait(LIMIT).good());
    a.pings(ADDRESS[1], &[]);
    b.pings(ADDRESS[0], &[]);
    end(&net, hosts);
}

const ECHO: &str = "
import socket, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((sys.argv[1], 4000))
print('bound', flush=True)
while True:
    data, sender = server.recvfrom(2000)
    server.sendto(data, sender)
";
/// Asks when it reads a line; answers how many answers there were.
const ASK: &str = "
import socket, sys
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.connect((sys.argv[1], 4000))
for round, line in enumerate(sys.stdin):
    for n in range(8):
        client.send(b'%d %d' % (round, n))
    client.settimeout(20 if line.strip() == 'answered' else 0)
    answers = 0
    try:
        while answers < 8:
            answers += client.recv(100).startswith(b'%d ' % round)
    except OSError:
        pass
    print('round', round, 'answers', answers, flush=True)
";
/// A program on the card whose rule for a UDP port comes and goes.
const NATIVE: &str = "
import sys
import pyverbs.enums as e
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.flow import Flow, FlowAttr
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.spec import EthSpec, Ipv4ExtSpec, TcpUdpSpec
from pyverbs.wr import SGE, RecvWR
context = Context(name='verbena1')
pd, cq = PD(context), CQ(context, 256)
memory = MR(pd, 2048 * 64, e.IBV_ACCESS_LOCAL_WRITE)
cap = QPCap(max_send_wr=1, max_recv_wr=64)
qp = QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RAW_PACKET, scq=cq, rcq=cq, cap=cap), QPAttr(port_num=1))
for n in range(64):
    qp.post_recv(RecvWR(num_sge=1, sg=[SGE(memory.buf + 2048 * n, 2048, memory.lkey)], wr_id=n))
taken = 0
print('ready', flush=True)
for line in sys.stdin:
    if line.strip() == 'take':
        rule = FlowAttr(num_of_specs=3, port=1)
        rule.specs.append(EthSpec(dst_mac=sys.argv[1]))
        rule.specs.append(Ipv4ExtSpec(dst_ip=sys.argv[2]))
        rule.specs.append(TcpUdpSpec(e.IBV_FLOW_SPEC_UDP, dst_port=4000))
        flow = Flow(qp, rule)
        print('takes', flush=True)
    elif line.strip() == 'release':
        flow.close()
        print('releases', flush=True)
    else:
        while taken < 8:
            count, completions = cq.poll(8)
            for completion in completions:
                data = memory.read(completion.byte_len, 2048 * completion.wr_id)
                taken += data[42:].startswith(b'1 ')
        print('taken', taken, flush=True)
";

/// A program that reads lines.
fn typed(command: Command) -> (Program, UnixStream) {
    let (input, keyboard) = UnixStream::pair().expect("a socket");
    (Program::start_reading(command, OwnedFd::from(input).into()), keyboard)
}

/// Types lines.
fn types(keyboard: &mut UnixStream, lines: &str) {
    keyboard.write_all(format!("{lines}\n").as_bytes()).expect("it reads");
}

/// A port of UDP that a program on the card asks for is its own as long as its rule is there.
#[test]
fn rules_take_ports_from_the_kernel_and_give_them_back() {
    let (net, hosts) = two();
    let [a, b] = &hosts;
    let mut echo = Program::start(b.command(&["python3", "-c", ECHO, ADDRESS[1]]));
    echo.expect("bound", LIMIT);
    let (mut ask, mut question) = typed(a.command(&["python3", "-c", ASK, ADDRESS[1]]));
    let words = ["-c", NATIVE, MAC, ADDRESS[1]];
    let (mut native, mut command) = typed(net.command(&[], "/usr/bin/python3", &words));
    native.expect("ready", LIMIT);
    types(&mut question, "answered");
    ask.expect("round 0 answers 8\n", LIMIT);
    types(&mut command, "take");
    native.expect("takes", LIMIT);
    types(&mut question, "silent");
    types(&mut command, "count");
    native.expect("taken 8\n", LIMIT);
    ask.expect("round 1 answers 0\n", LIMIT);
    // The rest is the kernel's all the time.
    a.pings(ADDRESS[1], &[]);
    types(&mut command, "release");
    native.expect("releases", LIMIT);
    types(&mut question, "answered");
    ask.expect("round 2 answers 8\n", LIMIT);
    drop((native, ask, echo));
    end(&net, hosts);
}

/// TCP and RDMA at one address: perftest shakes hands through the port that it measures.
#[test]
fn rdma_and_the_kernel_share_a_port_and_an_address() {
    need("ib_write_bw");
    let (net, hosts) = two();
    let [a, b] = &hosts;
    let number = free_port();
    let words = ["ib_write_bw", "-F", "-D", "3", "-p", &number.to_string(), "-d"].map(str::to_owned);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut server = b.on_card(&net, &[&words[..], &["verbena1"]].concat());
    server.expect_listening(number);
    let before = net.register(1, 0, port::RX_BYTES);
    let client = a.on_card(&net, &[&words[..], &["verbena0", ADDRESS[1]]].concat());
    wait_for("no data comes", || net.register(1, 0, port::RX_BYTES) > before + (1 << 20));
    a.pings(ADDRESS[1], &[]);
    for program in [client, server] {
        program.wait(LIMIT).expect_good();
    }
    end(&net, hosts);
}

/// A DPDK program has frames to its own address, the kernel those to the port's; both hear ARP.
#[test]
fn dpdk_forwards_beside_the_kernel() {
    let (net, hosts) = two();
    let testpmd = |device: &str, address: &str, options: &[&str], says: &str| {
        let mut testpmd = Testpmd::start(&net, &[device], &[&["-i"], options].concat());
        testpmd.types(&format!("set promisc 0 off\nmac_addr set 0 {address}\nstart"));
        testpmd.expect(says);
        testpmd
    };
    let swaps = "macswap packet forwarding - ports=1";
    let mut receiver = testpmd("net_verbena1", "02:00:00:00:00:99", &["--forward-mode=macswap"], swaps);
    let peer = ["--forward-mode=txonly", "--eth-peer=0,02:00:00:00:00:99"];
    let sender = testpmd("net_verbena0", "02:00:00:00:00:98", &peer, "txonly packet forwarding - ports=1");
    let [a, b] = &hosts;
    a.pings(ADDRESS[1], &[]);
    b.pings(ADDRESS[0], &[]);
    wait_for("DPDK gets no frames", || {
        let said = receiver.does("show port stats 0");
        let received = said.rsplit("RX-packets: ").next().unwrap_or_default();
        received.split_whitespace().next().and_then(|n| n.parse().ok()).is_some_and(|count: u64| count > 1000)
    });
    sender.quit();
    receiver.quit();
    end(&net, hosts);
}

/// Whatever becomes of the process, the interface goes with it, frames are counted as those that nobody takes, and the next
/// one can begin.
#[test]
fn a_killed_process_takes_its_interface_along() {
    let (net, hosts) = two();
    let [a, b] = &hosts;
    a.pings(ADDRESS[1], &[]);
    let pid = noted(&net, "verbena1p1").expect("a process id");
    signal(pid, libc::SIGKILL);
    wait_for("the interface stays", || !b.run(&["ip", "-br", "link"]).contains("vb0"));
    let before = net.register(1, 0, port::RX_NO_RULE);
    wait_for("what nobody takes is not counted", || {
        let ping = ["ping", "-c", "3", "-i", "0.2", "-W", "1", ADDRESS[1]];
        let lost = Program::start(a.command(&ping)).wait(LIMIT);
        assert!(lost.said.contains("100% packet loss"), "{}", lost.said);
        net.register(1, 0, port::RX_NO_RULE) > before
    });
    let list = net.does(&["port"]);
    assert!(
        list.contains(&format!("verbena1/1 vb0 failed: its process {pid} ended without an error message")),
        "{list}"
    );
    net.refuses(&["port", "down", "verbena1/1"], "has no kernel interface");
    b.up(&net, "verbena1/1", &["--kernel", "vb0"]);
    a.pings(ADDRESS[1], &[]);
    // An interface that is deleted ends its process.
    a.run(&["ip", "link", "del", "vb0"]);
    wait_for("its process stays", || {
        let down = Program::start(net.verbena(&["port", "down", "verbena0/1"])).wait(LIMIT);
        down.said.contains("has no kernel interface")
    });
    a.up(&net, "verbena0/1", &["--kernel", "vb0"]);
    end(&net, hosts);
}

#[test]
fn what_cannot_be_is_refused() {
    let net = StockNet::new();
    let host = Host::new();
    let up = |words: &[&'static str], why: &str| net.refuses(&[&["port", "up"], words].concat(), why);
    host.up(&net, "verbena0/1", &["--kernel", "vb0"]);
    up(
        &["verbena0/1", "--kernel", "vb1"],
        "has the interface vb0 already; `verbena port down verbena0/1 --net",
    );
    up(&["verbena2/1", "--kernel", "vb1"], "has the ports verbena0/1 to verbena1/2, not verbena2/1");
    up(&["verbena0/3", "--kernel", "vb1"], "not verbena0/3");
    up(&["mlx5_0/1", "--kernel", "vb1"], "a port is verbena0/1");
    up(&["verbena0/2", "--kernel", "longer-than-fifteen"], "1 to 15");
    up(&["verbena0/2", "--kernel", "vb1", "--vlan", "4095"], "1..=4094");
    up(&["verbena0/2", "--kernel", "vb1", "--netns", "no-such"], "`ip netns list`");
    up(&["verbena0/2", "--kernel", "vb1", "--netns", "999999999"], "process 999999999");
    net.refuses(
        &["port", "up", "verbena0/2", "--kernel", "vb0", "--netns", &host.pid],
        "another program has it",
    );
    net.refuses(&["port", "up", "verbena0/2", "--kernel", "lo", "--netns", &host.pid], "take another name");
    host.run(&["ip", "tuntap", "add", "many", "mode", "tap", "multi_queue"]);
    host.run(&["ip", "tuntap", "add", "single", "mode", "tap"]);
    let there = ["port", "up", "verbena0/2", "--netns", &host.pid, "--kernel"];
    net.refuses(&[&there[..], &["many"]].concat(), "give --queues 2 or more");
    net.refuses(&[&there[..], &["single", "--queues", "2"]].concat(), "leave out --queues");
    let inside =
        net.command(&[], verbena(), &["port", "up", "verbena0/2", "--kernel", "vb1", "--net", net.name()]);
    Program::start(inside).wait(LIMIT).expect_refusal("--netns NAME");
    // No note is left of what never was.
    net.refuses(&["port", "down", "verbena0/1", "--vlan", "9"], "VLAN 9 of net");
    assert!(!net.socket().with_file_name(format!("{}.verbena0p1.9.kernel", net.name())).exists());
    net.does(&["port", "down", "verbena0/1"]);
    net.expect_gone();
    net.refuses(&["port", "down", "verbena0/1"], "is not running");
    for (options, why) in
        [(["--port", "0=udp:127.0.0.1"], "outside of the net"), (["--clock", "virtual"], "simulated time")]
    {
        let (net, holder) = StockNet::held(&options);
        net.refuses(&["port", "up", "verbena0/1", "--kernel", "vb1"], why);
        net.expect_gone_after(holder);
    }
}

/// Errors of the system say what to do.
#[test]
fn a_system_without_tap_or_rights_is_told() {
    let net = StockNet::new();
    let unshare =
        unshare(&["--mount", "--net", "sh", "-c", "mount -t tmpfs none /dev/net && exec \"$0\" \"$@\""]);
    let up = net.verbena(&["port", "up", "verbena0/1", "--kernel", "vb1"]);
    Program::start(wrapped(unshare, &up)).wait(LIMIT).expect_refusal("there is no /dev/net/tun");
    net.expect_gone();
    let net = StockNet::unprivileged();
    let own = net.command(&[], "true", &[]).get_program().to_owned();
    let words = ["port", "up", "verbena0/1", "--kernel", "vb1", "--net", net.name()];
    Program::start(net.command(&["--network", "host"], &own, &words)).wait(LIMIT).expect_refusal("root");
    net.expect_gone();
}

/// In a network namespace whose user namespace has root, or only the user, who is no root outside.
#[test]
fn an_ordinary_user_has_interfaces_too() {
    for (map, has_runtime) in [("--map-root-user", false), ("--map-current-user", true)] {
        let net = StockNet::unprivileged();
        let mut unshare = net.user("unshare");
        unshare.args(["--user", map, "--net", "sh", "-c", "echo there; exec sleep 3600"]);
        let mut place = Program::start(unshare);
        place.expect("there", LIMIT);
        let pid = place.pid().to_string();
        let user = |process: &str| fs::metadata(format!("/proc/{process}")).expect("it runs").uid();
        let owner = user(&pid);
        let ran = |words: &[&str]| {
            let mut command = net.verbena(&[&["port"], words].concat());
            if !has_runtime {
                command.env_remove("XDG_RUNTIME_DIR");
            }
            let ended = Program::start(command).wait(LIMIT);
            assert!(ended.good(), "{map}: {ended}");
        };
        ran(&["up", "verbena0/1", "--kernel", "vb0", "--netns", &pid]);
        let interfaces = fs::read_to_string(format!("/proc/{pid}/net/dev")).expect("it runs");
        assert!(interfaces.contains("vb0:"), "{interfaces}");
        ran(&["down", "verbena0/1"]);
        net.expect_gone();
        ran(&["up", "verbena0/1", "--kernel", "vb0", "--netns", &pid]);
        net.expect_gone_after(place);
        // That of a user who only tests.
        if owner != user("self") {
            let _ = fs::remove_dir_all(format!("/tmp/verbena-{owner}"));
        }
    }
}

/// What root has made and set up for somebody without privilege serves, and stays.
#[test]
fn an_ordinary_user_has_interfaces_that_root_made() {
    let _alone = alone();
    let net = StockNet::unprivileged();
    let _holder = net.hold(&[]);
    let hosts = [Host::new(), Host::new()];
    // Where no other user can be had, root of the namespace without its privileges.
    let (user, without_privilege): (_, &[&str]) = match is_root() {
        true => ("12345", &["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups"]),
        false => ("0", &["setpriv", "--bounding-set=-all", "--inh-caps=-all"]),
    };
    for (n, host) in hosts.iter().enumerate() {
        host.run(&["ip", "tuntap", "add", "vb0", "mode", "tap", "user", user]);
        host.run(&["ip", "addr", "add", &format!("{}/15", ADDRESS[n]), "dev", "vb0"]);
        host.run(&["ip", "link", "set", "vb0", "up"]);
        let up = net.verbena(&["port", "up", &format!("verbena{n}/1"), "--kernel", "vb0"]);
        let mut command = wrapped(host.command(without_privilege), &up);
        command.current_dir("/");
        Program::start(command).wait(LIMIT).expect_good();
    }
    hosts[0].pings(ADDRESS[1], &[]);
    for (n, host) in hosts.iter().enumerate() {
        net.does(&["port", "down", &format!("verbena{n}/1")]);
        assert!(host.run(&["ip", "addr", "show", "vb0"]).contains(ADDRESS[n]));
    }
}
