//! Interfaces and the network namespaces that they are in.

use std::fs;

use tests::stock::{alone, wait_for, Program, StockNet};

use super::{noted, Host, ADDRESS, LIMIT};

/// Nothing keeps the namespace of an interface but its users: it goes with them, and the interface and the net with it.
#[test]
fn an_interface_goes_with_its_namespace() {
    let _alone = alone();
    for inside in [false, true] {
        let net = StockNet::new();
        let hosts = [Host::new(), Host::new()];
        for (n, host) in hosts.iter().enumerate() {
            let port = format!("verbena{n}/1");
            let options = ["--name", "vb0", "--queues", "2"];
            match inside {
                false => host.up(&net, &port, &options),
                true => drop(host.verbena(&net, &[&["netdev", "up", &port][..], &options].concat())),
            }
        }
        let [a, b] = &hosts;
        a.pings(ADDRESS[1], &[]);
        let place = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).expect("it runs");
        let process = noted(&net, "verbena1p1").expect("a process").to_string();
        assert_ne!(place(&process), place(&b.pid), "the process keeps the namespace");
        b.place.signal(libc::SIGKILL);
        wait_for("the interface outlives its namespace", || noted(&net, "verbena1p1").is_none());
        // This waits until its process is gone.
        net.refuses(&["netdev", "down", "verbena1/1"], "has no kernel interface");
        // In another one the port has an interface again.
        let again = Host::new();
        again.up(&net, "verbena1/1", &["--name", "vb0"]);
        a.pings(ADDRESS[1], &[]);
        again.place.signal(libc::SIGKILL);
        a.place.signal(libc::SIGKILL);
        net.expect_gone();
    }
}

/// One that is moved on and renamed is followed, as one is that the kernel's users move, and not another with its name.
#[test]
fn an_interface_may_move_on() {
    let _alone = alone();
    let net = StockNet::new();
    let hosts = super::two(&net);
    let other = Host::new();
    let [a, b] = &hosts;
    b.run(&["ip", "link", "set", "vb0", "netns", &other.pid, "name", "moved"]);
    let script = "ip link add vb0 type veth peer name vb1 && ip addr add 198.18.0.2/15 dev moved && \
                  ip link set moved mtu 20000 up address 02:00:00:00:00:77";
    other.run(&["sh", "-ec", script]);
    let ping = ["ping", "-c", "1", "-W", "1", ADDRESS[1]];
    a.run(&["ip", "neigh", "flush", "dev", "vb0"]);
    wait_for("no frames to where it is", || Program::start(a.command(&ping)).wait(LIMIT).good());
    wait_for("an MTU that the card has not", || {
        other.run(&["ip", "link", "show", "moved"]).contains(" mtu 9582 ")
    });
    super::end(&net, hosts);
}
