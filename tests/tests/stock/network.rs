//! The network of a net: what `ip` and stock programs see of the cards' interfaces and addresses.

use std::fs::read_link;
use std::net::{IpAddr, Ipv6Addr};

use tests::stock::{compile_c, need, wait_for, words, Pair, StockNet, LIMIT};

fn shell(net: &StockNet, script: &str) -> String {
    net.run("sh", &["-ec", script], LIMIT)
}

#[test]
fn a_port_has_an_interface_with_its_addresses() {
    need("ip");
    for net in [StockNet::new(), StockNet::unprivileged()] {
        let said = shell(&net, "ip -o link show verbena1p2; ip -o addr show verbena1p2; ip -o addr show lo");
        for part in ["LOWER_UP", "02:56:42:00:01:01", "198.18.1.2/24", "127.0.0.1/8"] {
            assert!(said.contains(part), "no {part} in:\n{said}");
        }
        // TCP to a card's address never leaves this machine.
        for address in ["198.18.0.1", "198.18.1.2"] {
            let route = shell(&net, &format!("ip route get {address}"));
            assert!(route.starts_with("local "), "{route}");
        }
        net.expect_gone();
    }
}

#[test]
fn sysfs_names_the_interfaces() {
    let net = StockNet::new();
    let said = shell(
        &net,
        "cd /sys/class/infiniband/verbena1; ls device/net; cat ports/2/gid_attrs/ndevs/0 ports/2/gid_attrs/ndevs/1; \
         cat device/net/verbena1p2/address; ls /sys/class/net; ! cat ports/2/gid_attrs/ndevs/15",
    );
    let expected = "verbena1p1\nverbena1p2\nverbena1p2\nverbena1p2\n02:56:42:00:01:01\n\
                    lo\nverbena0p1\nverbena0p2\nverbena1p1\nverbena1p2\n";
    assert!(said.contains(expected) && said.contains("Invalid argument"), "{said}");
    net.expect_gone();
}

/// The three lookups that programs and scripts make between addresses, interfaces and cards agree: what `show_gids` reads, what
/// `ibdev2netdev` prints, and librdmacm's.
#[test]
fn addresses_interfaces_and_cards_find_each_other() {
    need("ip");
    let (net, _holder) = StockNet::held(&[]);
    // As `show_gids` of other vendors walks through sysfs: card, port, index, GID, interface, type.
    let walk =
        "for card in /sys/class/infiniband/*; do for port in $card/ports/*; do for gid in $port/gids/*; do \
                i=${gid##*/}; grep -q '[1-9a-f]' $gid || continue; \
                echo ${card##*/} ${port##*/} $(cat $gid $port/gid_attrs/ndevs/$i $port/gid_attrs/types/$i); \
                done; done; done";
    let walk = shell(&net, walk);
    let mut found = Vec::new();
    for line in walk.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [card, port, gid, interface, "RoCE", "v2"] = words[..] else { panic!("{line}") };
        let gid: Ipv6Addr = gid.parse().expect("a GID");
        let address = gid.to_ipv4_mapped().map_or(IpAddr::V6(gid), IpAddr::V4).to_string();
        found.push((address, interface.to_owned(), card.to_owned(), port.to_owned()));
    }
    // The interfaces have these addresses and no others.
    let addresses = shell(&net, "ip -o addr show scope global; ip -o addr show scope link");
    let mut expected: Vec<(String, String)> = Vec::new();
    for line in addresses.lines().filter(|line| line.contains("verbena")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        expected.push((words[3].split('/').next().expect("an address").to_owned(), words[1].to_owned()));
    }
    let mut pairs: Vec<_> =
        found.iter().map(|(address, interface, ..)| (address.clone(), interface.clone())).collect();
    pairs.sort();
    expected.sort();
    assert_eq!(pairs, expected, "{walk}{addresses}");
    assert_eq!(pairs.len(), 8, "{walk}");
    // As `ibdev2netdev` does: from the card to its interfaces, and their states.
    let interfaces = "for card in /sys/class/infiniband/*; do for dev in $card/device/net/*; do \
                      echo ${card##*/} ${dev##*/} $(cat /sys/class/net/${dev##*/}/operstate); done; done";
    let interfaces = shell(&net, interfaces);
    for (_, interface, card, port) in &found {
        assert_eq!(*interface, format!("{card}p{port}"));
        assert!(interfaces.lines().any(|line| line == format!("{card} {interface} up")), "{interfaces}");
    }
    assert_eq!(interfaces.lines().count(), 4, "{interfaces}");
    // librdmacm: an address is of that card and port, and who listens there reaches itself by them.
    let manager = compile_c("manager");
    let addresses: Vec<&str> = found.iter().map(|(address, ..)| address.as_str()).collect();
    let said = net.run(&manager, &[&["owner"], &addresses[..]].concat(), LIMIT);
    let owners = found.iter().map(|(address, _, card, port)| {
        format!("{address}: {card} port {port}\nto itself: {card} port {port}\n")
    });
    assert_eq!(said, owners.collect::<String>());
    // And stock programs meet at each.
    for address in addresses {
        let mut server = net.start("rping", &["-s", "-a", address, "-C", "2", "-V"]);
        net.expect_listener(&mut server, 7174);
        net.run("rping", &["-c", "-a", address, "-C", "2", "-V"], LIMIT);
        server.wait(LIMIT).expect_good();
    }
}

#[test]
fn programs_shake_hands_by_the_addresses_of_the_cards() {
    need("ib_write_lat");
    for clock in ["wall", "virtual"] {
        for host in ["198.18.0.1", "198.18.1.2", "127.0.0.1"] {
            let net = StockNet::new();
            let mut pair = Pair::new(&net, "ib_write_lat", &["-s", "8", "-n", "20"]);
            let launcher = ["--clock", clock];
            (pair.launcher, pair.host) = (&launcher, host);
            pair.run().unwrap_or_else(|error| panic!("{} {host}: {error}", pair.line()));
            net.expect_gone();
        }
    }
}

#[test]
fn a_net_has_one_network_and_each_its_own() {
    let (net, other) = (StockNet::new(), StockNet::new());
    let of = |net: &StockNet| net.run("readlink", &["/proc/self/ns/net"], LIMIT);
    let mut holder = net.start("sh", &["-c", "readlink /proc/self/ns/net; exec sleep 1000"]);
    holder.expect("]", LIMIT);
    assert_eq!(of(&net), holder.said());
    assert_ne!(of(&other), holder.said());
    // A launcher on the network finds the same one.
    let command = net.command(&[], "readlink", &["/proc/self/ns/net"]);
    let words = words(&command);
    assert_eq!(net.run(words[0], &words[1..], LIMIT), holder.said());
}

#[test]
fn the_hosts_network_is_there_for_those_who_ask() {
    for net in [StockNet::new(), StockNet::unprivileged()] {
        let mut command = net.command(&["--network", "host"], "sh", &[]);
        // Without --quiet.
        command
            .arg("-c")
            .arg("readlink /proc/self/ns/net; cat /sys/class/infiniband/verbena0/ports/1/gids/1");
        let ended = tests::stock::Program::start(command).wait(LIMIT);
        let ours = read_link("/proc/self/ns/net").expect("the link");
        assert!(ended.said.contains(&*ours.to_string_lossy()), "{}", ended.said);
        assert!(ended.said.contains("ffff:c612:0001"), "{}", ended.said);
        net.expect_gone();
    }
}

/// It cannot leave the network in which it was started.
#[test]
fn a_launcher_on_the_nets_network_stays_there() {
    for net in [StockNet::new(), StockNet::unprivileged()] {
        let (verbena, name) = (tests::stock::verbena().display(), net.name());
        let inner = format!("{verbena} run --net {name} --network host -- readlink /proc/self/ns/net");
        let said = shell(&net, &format!("readlink /proc/self/ns/net; {inner}"));
        assert!(said.contains("the net's network, in which it was started"), "{said}");
        let networks: Vec<_> = said.lines().filter(|line| line.starts_with("net:[")).collect();
        assert!(networks.len() == 2 && networks[0] == networks[1], "{said}");
        assert!(!said.contains("the host's network"), "{said}");
        net.expect_gone();
    }
}

/// Also after a kill of everything.
#[test]
fn nothing_is_left_of_a_network() {
    let net = StockNet::new();
    let mut holder = net.start("sh", &["-c", "readlink /proc/self/ns/net; exec sleep 1000"]);
    holder.expect("]", LIMIT);
    let network = holder.said().trim().to_owned();
    let in_use = || {
        let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
        let is = |link| read_link(link).is_ok_and(|name| name.to_string_lossy() == network);
        let mut held = processes.flat_map(|process| {
            let descriptors = std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
            descriptors.map(|entry| entry.path()).chain([process.path().join("ns/net")]).collect::<Vec<_>>()
        });
        held.any(is)
    };
    assert!(in_use());
    net.signal_keeper(libc::SIGKILL);
    holder.signal(libc::SIGKILL);
    drop(holder);
    wait_for(|| format!("{network} is still in use"), || !in_use());
    // The next program of that name gets a network again.
    assert_ne!(net.run("readlink", &["/proc/self/ns/net"], LIMIT).trim(), "");
}

/// On a net with these options, and by an ordinary user.
fn addresses_become_gids(net: &StockNet, launcher: &[&str]) {
    let table = "cd /sys/class/infiniband/verbena1/ports/1; cat gids/2 gid_attrs/types/2 gid_attrs/ndevs/2";
    let run = |script: &str| {
        let ended = tests::stock::Program::start(net.command(launcher, "sh", &["-c", script])).wait(LIMIT);
        ended.said
    };
    // A program that sees the table before the address exists, and later.
    // A read that never ends: a sleep ends at once in simulated time.
    let wait = "mkfifo $VERBENA_SOCKET.pipe; exec cat <>$VERBENA_SOCKET.pipe";
    let watcher =
        format!("{table}; until grep 0a01 gids/2; do sleep 0.01; done; {table}; echo found; {wait}");
    let mut watcher = tests::stock::Program::start(net.command(launcher, "sh", &["-c", &watcher]));
    watcher.expect("Invalid argument", LIMIT);
    assert!(!watcher.said().contains("found"), "{}", watcher.said());
    let said =
        run("ip addr add 10.1.2.4/24 dev verbena0p1 && ip addr add 10.1.2.3/24 dev verbena1p1 && echo added");
    assert!(said.contains("added"), "{said}");
    watcher.expect("found", LIMIT);
    let gid = "0000:0000:0000:0000:0000:ffff:0a01:0203\nRoCE v2\nverbena1p1\nfound";
    assert!(watcher.said().contains(gid), "{}", watcher.said());
    let mut pair = Pair::new(net, "ibv_rc_pingpong", &["-g", "2", "-n", "20"]);
    (pair.launcher, pair.host) = (launcher, "10.1.2.4");
    let both = pair.good();
    assert!(both.client.said.contains("GID ::ffff:10.1.2.3"), "{}", both.report());
    // Without the wait for an answer that nobody will give.
    let said = run(
        "ip addr del 10.1.2.3/24 dev verbena1p1 && ip addr add fd00::7/64 dev verbena1p1 nodad && echo done",
    );
    assert!(said.contains("done"), "{said}");
    wait_for(|| run(table), || run(table).contains("fd00:0000:0000:0000:0000:0000:0000:0007"));
}

#[test]
fn gids_follow_the_addresses_of_the_interfaces() {
    need("ibv_rc_pingpong");
    for (net, clock) in
        [(StockNet::new(), "wall"), (StockNet::unprivileged(), "wall"), (StockNet::new(), "virtual")]
    {
        addresses_become_gids(&net, &["--clock", clock]);
        net.expect_gone();
    }
}

/// As the kernel tells programs, also those that have nothing but the device open.
#[test]
fn programs_are_told_of_gids_that_change() {
    let gids = compile_c("gids");
    for net in [StockNet::new(), StockNet::unprivileged()] {
        let mut watchers = [net.start(&gids, &[]), net.start(&gids, &["poll"])];
        watchers.iter_mut().for_each(|watcher| watcher.expect("ready", LIMIT));
        shell(&net, "ip addr add 10.1.2.3/24 dev verbena0p2; ip addr add 10.1.2.4/24 dev verbena1p1");
        watchers.iter_mut().for_each(|watcher| watcher.expect("10.1.2.3", LIMIT));
        shell(&net, "ip addr del 10.1.2.3/24 dev verbena0p2");
        for watcher in &mut watchers {
            watcher.expect("2: ::\n", LIMIT);
            // One for each, and none of the other card's.
            let said = watcher.said();
            let told = "ready\nGID table change, port 2: ::ffff:10.1.2.3\nGID table change, port 2: ::\n";
            assert_eq!(said.replace('\r', ""), told);
        }
        net.expect_gone_after(watchers);
    }
}
