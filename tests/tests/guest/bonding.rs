//! The bonding and VLAN drivers of Linux at the other end of a card's ports, which lead to the guest's network interfaces.

use std::path::Path;
use std::time::Instant;

use fpga_regs::regs::port;
use tests::stock::{free_port, wait_for, wait_until_listening, Program, StockNet, Testpmd};

use super::*;

/// IEEE 802.3ad over both interfaces.
const BOND: &str = "modprobe bonding mode=802.3ad lacp_rate=fast miimon=100 && \
    echo +eth0 >/sys/class/net/bond0/bonding/slaves && echo +eth1 >/sys/class/net/bond0/bonding/slaves && \
    ip link set bond0 up";
/// A VLAN over that.
const VLAN: &str = "modprobe 8021q && ip link add link bond0 name bond0.107 type vlan id 107 && ip addr add 192.0.2.1/24 dev bond0.107 && ip link set bond0.107 up";

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

/// Whether Linux says that so many ports have this partner, and that both ends of each receive and send by it: until then
/// frames that one end sends by a port are lost at the other.
fn agree(said: &str, partner: &str, ports: usize) -> bool {
    // Synchronized, collecting and distributing (IEEE 802.1AX-2014, 6.4.2.3).
    const ALL: u8 = 0x38;
    let states = said.lines().filter_map(|line| line.trim().strip_prefix("port state: ")?.parse::<u8>().ok());
    said.contains(&format!("Partner Mac Address: {partner}"))
        && said.contains(&format!("Number of ports: {ports}"))
        && states.filter(|state| state & ALL == ALL).count() == 2 * ports
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

/// A net whose two ports of the first card lead to two interfaces of a guest with these options.
fn two_links(directory: &Path) -> (StockNet, Program, Options) {
    let (net, mut options) = (StockNet::new(), Options::default());
    let mut ports = Vec::new();
    for n in 0..2 {
        let socket = directory.join(n.to_string()).display().to_string();
        ports.extend(["--port".to_owned(), format!("0.{}=stream:{socket}", n + 1)]);
        let netdev = format!("stream,id=n{n},server=off,addr.type=unix,addr.path={socket},reconnect-ms=200");
        // Linux aggregates links of a known speed alone.
        let device = format!(
            "virtio-net-pci,netdev=n{n},mac=02:00:00:00:01:0{n},speed=10000,duplex=full,host_mtu=4200"
        );
        options.arguments.extend(["-netdev".into(), netdev, "-device".into(), device]);
    }
    let holder = net.hold(&ports.iter().map(String::as_str).collect::<Vec<_>>());
    (net, holder, options)
}

/// Linux and DPDK agree by LACP, and tagged frames go through the bond, also when one of its links carries nothing.
#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn bonding_agrees_with_dpdk() {
    let directory = tempfile::tempdir().expect("a directory");
    let (net, holder, options) = two_links(directory.path());
    let devices =
        ["net_verbena0", "net_verbena0p2", "net_bonding0,mode=4,slave=net_verbena0,slave=net_verbena0p2"];
    let mut host = Testpmd::start(&net, &devices, &["-i", "--portlist=2", "--forward-mode=icmpecho"]);
    host.expect("testpmd>");
    let said = host.does(
        "port stop 2\nset bonding lacp dedicated_queues 2 enable\nport start 2\nstart\nshow port info 2",
    );
    let mac = said.rsplit("MAC address: ").next().and_then(|rest| rest.get(..17)).expect("an address");
    let mac = mac.to_lowercase();

    let mut guest = Machine::boot(&[(CARD, "guest-card")], &options);
    guest.good(BOND, SHORT);
    guest.good(VLAN, SHORT);
    waits_for(&mut guest, "they do not agree", |said| agree(said, &mac, 2));
    host.asks("show bonding config 2", "Active Slaves (2)");
    pings(&mut guest);
    // What is outside is not told, but LACP finds out.
    for port in ["verbena0/1", "verbena0/2"] {
        net.does(&["link", port, "down"]);
        waits_for(&mut guest, "a link that carries nothing is used", |said| agree(said, &mac, 1));
        pings(&mut guest);
        net.does(&["link", port, "up"]);
        waits_for(&mut guest, "they do not agree again", |said| agree(said, &mac, 2));
        host.asks("show bonding config 2", "Active Slaves (2)");
    }
    pings(&mut guest);
    drop(guest);
    host.quit();
    net.expect_gone_after(holder);
}

/// RoCE over that, by rxe; its address, and the one for the TCP of perftest.
const RXE: &str = "for module in crc32_generic rdma_rxe rdma_ucm; do modprobe $module || exit 1; done; \
    ip addr add 198.18.0.100/24 dev bond0 && rdma link add rxe0 type rxe netdev bond0 && \
    ip addr add 10.0.2.15/24 dev eth2 && ip link set eth2 up";

/// Linux and the card's own LACP agree; perftest by Linux rxe goes over both links, and over the one that is left.
#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn bonding_agrees_with_the_card() {
    let directory = tempfile::tempdir().expect("a directory");
    let (net, holder, mut options) = two_links(directory.path());
    net.does(&["lag", "verbena0", "--mode", "802.3ad"]);
    let tcp = ["-netdev", "user,id=tcp", "-device", "virtio-net-pci,netdev=tcp"];
    options.arguments.extend(tcp.map(String::from));
    let mut guest = Machine::boot(&[(CARD, "guest-card")], &options);
    guest.good(BOND, SHORT);
    let both_agree = |guest: &mut Machine, ports| {
        waits_for(guest, &format!("not {ports} ports"), |said| agree(said, "02:56:42:", ports));
        let agreed = || {
            let said = net.does(&["lag", "verbena0"]);
            said.lines()
                .filter(|line| line.contains("up active") && line.contains("GSCD--, partner ATGSCD--"))
                .count()
        };
        wait_for(|| format!("not {ports} ports: {}", net.does(&["lag"])), || agreed() == ports);
    };
    both_agree(&mut guest, 2);
    assert_eq!(
        net.does(&["lag", "verbena0"]).matches("partner 02:00:00:00:01:00 port").count(),
        2,
        "one system"
    );

    guest.good(RXE, SHORT);
    let port_number = free_port();
    let number = port_number.to_string();
    let server = ["-d", "verbena0", "-x", "1", "-p", &number, "-q", "4", "-u", "18", "-D", "20"];
    let mut server = net.start("ib_write_bw", &server);
    assert!(wait_until_listening(&mut server, port_number, LONG), "{}", server.said());
    guest.good(
        &format!(
            "cd /sys/class/infiniband/rxe0/ports/1/gids; gid=$(grep -l ffff:c612:0064 *); cd /; \
             (ib_write_bw -d rxe0 -x $gid -p {number} -q 4 -u 18 -D 20 10.0.2.2 >/tmp/client 2>&1; \
             echo ended $? >>/tmp/client) &"
        ),
        SHORT,
    );
    // A queue pair's acknowledgements leave by its port, whichever its requests came by.
    let passed = |number, register| net.register(0, number, register);
    let flows = |number, register| {
        let before = passed(number, register);
        wait_for(
            || format!("nothing by port {}: {}", number + 1, net.does(&["lag"])),
            || passed(number, register) > before + 100,
        );
    };
    (0..2).for_each(|number| flows(number, port::TX_PACKETS));
    net.does(&["link", "verbena0/1", "down"]);
    // It is not told, but LACP finds out.
    both_agree(&mut guest, 1);
    [port::TX_PACKETS, port::RX_PACKETS].into_iter().for_each(|register| flows(1, register));
    net.does(&["link", "verbena0/1", "up"]);
    both_agree(&mut guest, 2);
    flows(0, port::TX_PACKETS);
    server.wait(LONG).expect_good();
    guest.good("for i in $(seq 300); do grep -q ended /tmp/client && break; sleep 0.1; done; grep 'ended 0' /tmp/client || { cat /tmp/client; false; }", LONG);
    drop(guest);
    net.expect_gone_after(holder);
}
