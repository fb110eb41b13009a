//! DPDK takes single flows of a port by rules, and the kernel has the rest, at the same address.

use std::path::Path;

use super::*;
use tests::stock::peers;

/// Two hosts, and between their ports as many datagrams as two programs can forward to each other: each asks for these
/// alone, and has them.
fn beside(check: impl FnOnce(&[Host; 2])) {
    let (net, hosts) = two();
    let forwards = |device: &str, mode: &str| {
        let mut testpmd = Testpmd::start(&net, &[device], &["-i", "--flow-isolate-all", mode]);
        testpmd.expect("testpmd>");
        let rule =
            "flow create 0 ingress pattern eth / ipv4 / udp dst is 1001 / end actions queue index 0 / end";
        testpmd.does_saying(&format!("{rule}\nstart"), &["Flow rule #0 created"]);
        testpmd
    };
    let back = forwards("net_verbena1", "--forward-mode=macswap");
    // Which makes datagrams and receives what comes back.
    let forth = forwards("net_verbena0", "--forward-mode=flowgen");
    let comes = |card: u32| {
        let before = net.register(card, 0, port::RX_PACKETS);
        wait_for("DPDK gets no frames", || net.register(card, 0, port::RX_PACKETS) > before + 10_000);
    };
    comes(1);
    comes(0);
    check(&hosts);
    comes(1);
    comes(0);
    let packets = |said: String| -> u64 {
        let all = said.rsplit("RX-packets: ").next().unwrap_or_default();
        all.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
    };
    assert!(packets(forth.quit()) > 10_000);
    assert!(packets(back.quit()) > 10_000);
    end(&net, hosts);
}

/// Joins a group, and says how long the first datagram is that comes.
const RECEIVE: &str = "
import socket, sys
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.bind(('', 1001))
join = socket.inet_aton('239.1.2.3') + socket.inet_aton(sys.argv[1])
own.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, join)
print('bound', flush=True)
print('received', len(own.recv(65536)))";

const SEND: &str = "
import socket, sys
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(sys.argv[1]))
for to, length in [(sys.argv[2], 1000), ('239.1.2.3', 1001), (sys.argv[2], 8000)]:
    own.sendto(bytes(length), (to, 1001))";

/// A rule for a port has all whole datagrams for it, also those of a group that the kernel has joined. Of a datagram in
/// fragments only the first has ports: nobody would have it whole if the rule took that one, so the kernel gets all.
#[test]
fn a_flow_is_of_whole_datagrams() {
    let (net, hosts) = two();
    let [a, b] = &hosts;
    let mut testpmd = Testpmd::start(&net, &["net_verbena1"], &["-i", "--flow-isolate-all"]);
    testpmd.expect("testpmd>");
    let rule = "flow create 0 ingress pattern eth / ipv4 / udp dst is 1001 / end actions drop / end";
    testpmd.does_saying(rule, &["Flow rule #0 created"]);
    let mut server = Program::start(b.command(&["python3", "-c", RECEIVE, ADDRESS[1]]));
    server.expect("bound", LIMIT);
    a.run(&["python3", "-c", SEND, ADDRESS[0], ADDRESS[1]]);
    let said = server.wait(LIMIT).expect_good();
    assert!(said.contains("received 8000"), "{said}");
    testpmd.quit();
    end(&net, hosts);
}

#[test]
fn ping_beside_flows_that_dpdk_takes() {
    beside(|[a, b]| {
        a.pings(ADDRESS[1], &[]);
        b.pings(ADDRESS[0], &["-s", "1472", "-M", "do"]);
    });
}

/// TCP with jumbo frames; at the end of the test no checksum was wrong.
#[test]
#[ignore = "the long form of the checks"]
fn iperf3_beside_flows_that_dpdk_takes() {
    need("iperf3");
    beside(|hosts| {
        hosts.iter().for_each(|host| drop(host.run(&["ip", "link", "set", "vb0", "mtu", "9000"])));
        let [a, b] = hosts;
        for options in [&[][..], &["--reverse"]] {
            let mut server = Program::start(b.command(&["iperf3", "-s", "-1", "--forceflush"]));
            server.expect("Server listening", LIMIT);
            let said = a.run(&[&["iperf3", "-c", ADDRESS[1], "-n", "20M"], options].concat());
            assert!(said.contains("iperf Done."), "{said}");
            server.wait(LIMIT).expect_good();
        }
    });
}

/// Makes a key without a passphrase; gives its file.
fn key(directory: &Path, name: &str) -> String {
    let file = directory.join(name).display().to_string();
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &file]).status();
    assert!(made.is_ok_and(|status| status.success()), "ssh-keygen");
    file
}

/// A server with a key and a port of its own. It wants to be root, and a user `sshd` in the list of users.
const SERVE: &str = "
    directory=$1 root=$2 address=$3
    { cat /etc/passwd; echo sshd:x:65534:65534::/run/sshd:/usr/sbin/nologin; } >\"$directory/passwd\"
    mount --bind \"$directory/passwd\" /etc/passwd
    mount -t tmpfs none /run
    mkdir -m 755 /run/sshd
    LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu exec \"$root/usr/sbin/sshd\" -D -e -f /dev/null \
        -h \"$directory/host\" -o ListenAddress=$address -p 2222 -o PidFile=none -o UsePAM=no -o StrictModes=no \
        -o AuthorizedKeysFile=\"$directory/user.pub\"";

#[test]
#[ignore = "the long form of the checks"]
fn ssh_beside_flows_that_dpdk_takes() {
    need("ssh");
    let directory = tempfile::tempdir().expect("a directory");
    let (host, user) = (key(directory.path(), "host"), key(directory.path(), "user"));
    let known = directory.path().join("known").display().to_string();
    let public = fs::read_to_string(format!("{host}.pub")).expect("its public key");
    fs::write(&known, format!("[{}]:2222 {public}", ADDRESS[1])).expect("a file");
    beside(|[a, b]| {
        let place = directory.path().to_str().expect("a path");
        let root = peers().to_str().expect("a path");
        let words = ["unshare", "--mount", "sh", "-ec", SERVE, "sh", place, root, ADDRESS[1]];
        let mut server = Program::start(b.command(&words));
        server.expect("Server listening on", LIMIT);
        let knows = format!("UserKnownHostsFile={known}");
        let words =
            ["ssh", "-F", "/dev/null", "-i", &user, "-p", "2222", "-o", &knows, "-o", "BatchMode=yes"];
        let address = format!("root@{}", ADDRESS[1]);
        let ended = Program::start(a.command(&[&words[..], &[&address, "true"]].concat())).wait(LIMIT);
        assert!(ended.good(), "{ended}\nthe server said: {}", server.said());
        let said = a.run(&[&words[..], &[&address, "echo $((6 * 7))"]].concat());
        assert!(said.ends_with("42\n"), "{said}");
    });
}
