//! The bonding and VLAN drivers of Linux at the other end of a card's ports, which lead to the guest's network interfaces.

use std::time::Instant;

use tests::stock::{StockNet, Testpmd};

use super::*;

/// IEEE 802.3ad over both interfaces, and a VLAN over that.
const BOND: &str = "modprobe bonding mode=802.3ad lacp_rate=fast miimon=100 && modprobe 8021q && \
    echo +eth0 >/sys/class/net/bond0/bonding/slaves && echo +eth1 >/sys/class/net/bond0/bonding/slaves && \
    ip link set bond0 up && ip link add link bond0 name bond0.107 type vlan id 107 && \
    ip addr add 192.0.2.1/24 dev bond0.107 && ip link set bond0.107 up";

/// Asks in the guest again and again.
fn waits_for(guest: &mut Machine, what: &str, is: impl Fn(&str) -> bool) {
    let start = Instant::now();
    loop {
        let said = guest.good("cat /proc/net/bonding/bond0", SHORT);
        if is(&said) {
            return;
        }
        assert!(start.elapsed() < LONG, "{what}: {said}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Waits for a first answer, and then has one for each question.
fn pings(guest: &mut Machine) {
    let start = Instant::now();
    while guest.run("ping -c 1 -W 2 192.0.2.2", SHORT).status != 0 {
        assert!(start.elapsed() < LONG, "no answer");
    }
    let said = guest.good("ping -c 5 -w 60 192.0.2.2", LONG);
    assert!(said.contains("5 packets received") && !said.contains("DUP!"), "{said}");
}

/// Linux and DPDK agree by LACP, and tagged frames go through the bond, also when one of its links carries nothing.
#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn bonding_agrees_with_dpdk() {
    let directory = tempfile::tempdir().expect("a directory");
    let sockets = ["0", "1"].map(|name| directory.path().join(name).display().to_string());
    let net = StockNet::new();
    let media: Vec<String> =
        (1..).zip(&sockets).map(|(n, socket)| format!("0.{n}=stream:{socket}")).collect();
    let options: Vec<&str> = media.iter().flat_map(|medium| ["--port", medium]).collect();
    let holder = net.hold(&options);
    let devices =
        ["net_verbena0", "net_verbena0p2", "net_bonding0,mode=4,slave=net_verbena0,slave=net_verbena0p2"];
    let mut host = Testpmd::start(&net, &devices, &["-i", "--portlist=2", "--forward-mode=icmpecho"]);
    host.expect("testpmd>");
    let said = host.does(
        "port stop 2\nset bonding lacp dedicated_queues 2 enable\nport start 2\nstart\nshow port info 2",
    );
    let mac = said.rsplit("MAC address: ").next().and_then(|rest| rest.get(..17)).expect("an address");
    let mac = mac.to_lowercase();

    let mut options = Options::default();
    for (n, socket) in sockets.iter().enumerate() {
        let netdev = format!("stream,id=n{n},server=off,addr.type=unix,addr.path={socket},reconnect-ms=200");
        // Linux aggregates links of a known speed alone.
        let device = format!("virtio-net-pci,netdev=n{n},mac=02:00:00:00:01:0{n},speed=10000,duplex=full");
        options.arguments.extend(["-netdev".into(), netdev, "-device".into(), device]);
    }
    let mut guest = Machine::boot(&[(CARD, "guest-card")], &options);
    guest.good(BOND, SHORT);
    let partner = format!("Partner Mac Address: {mac}");
    waits_for(&mut guest, "they do not agree", |said| {
        said.contains(&partner) && said.contains("Number of ports: 2")
    });
    host.asks("show bonding config 2", "Active Slaves (2)");
    pings(&mut guest);
    // What is outside is not told, but LACP finds out.
    for port in ["verbena0/1", "verbena0/2"] {
        net.does(&["link", port, "down"]);
        waits_for(&mut guest, "a link that carries nothing is used", |said| {
            said.contains(&partner) && said.contains("Number of ports: 1")
        });
        pings(&mut guest);
        net.does(&["link", port, "up"]);
        waits_for(&mut guest, "they do not agree again", |said| {
            said.contains(&partner) && said.contains("Number of ports: 2")
        });
        host.asks("show bonding config 2", "Active Slaves (2)");
    }
    pings(&mut guest);
    drop(guest);
    host.quit();
    net.expect_gone_after(holder);
}
