//! Two ports of a card that are one, while stock programs use them: `verbena lag`.

use std::time::{Duration, Instant};

use fpga_regs::regs::port;
use model::attach::LiveCapture;
use model::link::live::View;
use tests::place_for;
use tests::stock::{alone, first_row, free_port, need, wait_for, Pair, Program, StockNet, Testpmd, LIMIT};

/// Makes the ports of both cards one.
fn bond(net: &StockNet, options: &[&str]) {
    for card in ["verbena0", "verbena1"] {
        net.does(&[&["lag", card], options].concat());
    }
    wait_for_lag(net, "the bonds do not use both ports", || {
        net.does(&["lag"]).matches(" active ").count() == 4 || options.contains(&"active-backup")
    });
}

fn wait_for_lag(net: &StockNet, instead: &str, is: impl FnMut() -> bool) {
    wait_for(|| format!("{instead}: {}", net.does(&["lag"])), is);
}

/// Bytes received by the ports of the first card.
fn received(net: &StockNet) -> [u64; 2] {
    [0, 1].map(|number| net.register(0, number, port::RX_BYTES))
}

/// Waits until these ports of the first card have received a mebibyte more, or `running` gives none.
fn flows(net: &StockNet, ports: [bool; 2], mut running: impl FnMut() -> Option<()>) -> Option<()> {
    let before = received(net);
    loop {
        let now = received(net);
        if (0..2).all(|n| !ports[n] || now[n] > before[n] + (1 << 20)) {
            return Some(());
        }
        running()?;
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Several connections, of which each member has some; what one loses the other carries on, and back.
fn outlives_a_cable(launcher: &[&str], options: &[&str]) {
    let _alone = alone();
    // On a machine that is held up, the programs may end before the last step is done.
    let done = [6, 30].into_iter().any(|seconds| outlives_for(seconds, launcher, options).is_some());
    assert!(done, "no traffic by the ports that are up, within 30 s");
}

/// None if the programs may have ended before the last step.
fn outlives_for(seconds: u64, launcher: &[&str], options: &[&str]) -> Option<()> {
    let (net, _holder) = StockNet::held(launcher);
    bond(&net, options);
    // Of so many a hash leaves no port without any.
    let count = if options.contains(&"hash") { "16" } else { "4" };
    let length = seconds.to_string();
    let arguments = ["-D", &*length, "-q", count];
    let pair = Pair::new(&net, "ib_write_bw", &arguments);
    let mut programs: [_; 2] = pair.start().unwrap_or_else(|error| panic!("{error}")).into();
    let start = Instant::now();
    let mut running = || {
        programs.iter_mut().for_each(|program| assert!(!program.failed(), "{}", program.said()));
        (start.elapsed() < Duration::from_secs(seconds)).then_some(())
    };
    let backup = options.contains(&"active-backup");
    flows(&net, [true, !backup], &mut running)?;
    let said = net.does(&["lag", "verbena0"]);
    running()?;
    if !backup && count == "4" {
        assert_eq!(said.matches(" 2 QPs").count(), 2, "{said}");
    }
    net.does(&["link", "verbena0/1", "down"]);
    let lag = net.does(&["lag", "verbena1"]);
    running()?;
    assert!(lag.contains("port 1 down unused 0 QPs"), "{lag}");
    assert!(lag.contains(&format!("port 2 up active {count} QPs")), "{lag}");
    let during = received(&net)[0];
    flows(&net, [false, true], &mut running)?;
    assert_eq!(received(&net)[0], during, "nothing comes through a pulled cable");
    net.does(&["link", "verbena0/1", "up"]);
    flows(&net, [true, !backup], &mut running)?;
    programs.into_iter().for_each(|program| drop(program.wait(LIMIT).expect_good()));
    for card in 0..2 {
        for number in 0..2 {
            for register in [port::TX_BYTES, port::RX_BYTES] {
                assert!(net.register(card, number, register) > 0, "verbena{card}/{}", number + 1);
            }
        }
    }
    // What is sent is received, whichever way it went.
    let sent: u64 = (0..2).map(|number| net.register(1, number, port::TX_PACKETS)).sum();
    let received: u64 = (0..2).map(|number| net.register(0, number, port::RX_PACKETS)).sum();
    assert!(received <= sent && received > 0, "{received} of {sent}");
    Some(())
}

#[test]
fn xor_outlives_a_cable() {
    outlives_a_cable(&[], &["--mode", "xor"]);
}

#[test]
fn xor_outlives_a_cable_on_the_exact_wire() {
    outlives_a_cable(&["--wire", "exact"], &["--mode", "xor"]);
}

#[test]
fn a_hash_outlives_a_cable() {
    outlives_a_cable(&[], &["--mode", "xor", "--select", "hash"]);
}

#[test]
fn a_backup_takes_over() {
    outlives_a_cable(&[], &["--mode", "active-backup"]);
}

#[test]
fn lacp_outlives_a_cable() {
    outlives_a_cable(&[], &["--mode", "802.3ad"]);
}

/// Programs that check each byte, with a cable pulled and plugged in again and again.
#[test]
fn data_is_right_whichever_way_it_goes() {
    let _alone = alone();
    need("ibv_rc_pingpong");
    for wire in ["fast", "exact"] {
        let (net, _holder) = StockNet::held(&["--wire", wire]);
        bond(&net, &["--mode", "xor"]);
        let pair = Pair::new(&net, "ibv_rc_pingpong", &["-c", "-g", "1", "-s", "70000", "-n", "3000"]);
        let (mut server, mut client) = pair.start().unwrap_or_else(|error| panic!("{error}"));
        while !(server.has_ended() && client.has_ended()) {
            for number in ["verbena0/1", "verbena0/2"] {
                for to in ["down", "up"] {
                    net.does(&["link", number, to]);
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
        for program in [server, client] {
            let said = program.wait(LIMIT).expect_good();
            assert!(!said.contains("invalid data"), "{wire}: {said}");
        }
    }
}

/// Connections by address go over the bond, too, while one of its cables is pulled. Programs see one port.
#[test]
fn connections_by_address_go_over_a_bond() {
    need("rping");
    let (net, _holder) = StockNet::held_alone(&[]);
    bond(&net, &["--mode", "xor"]);
    let info = net.run("ibv_devinfo", &["-d", "verbena0"], LIMIT);
    assert!(info.contains("phys_port_cnt:\t\t\t1\n"), "{info}");
    net.does(&["link", "verbena0/1", "down"]);
    let info = net.run("ibv_devinfo", &["-d", "verbena0"], LIMIT);
    assert!(info.contains("PORT_ACTIVE"), "{info}");
    let server = net.start("rping", &["-s", "-a", "198.18.0.1", "-C", "100", "-V"]);
    // Before the server listens it is refused.
    wait_for_lag(&net, "no connection", || {
        net.start("rping", &["-c", "-a", "198.18.0.1", "-C", "100", "-V"]).wait(LIMIT).good()
    });
    server.wait(LIMIT).expect_good();
    assert_eq!(received(&net)[0], 0, "all came by the other cable");
    // With both cables pulled the port has no link.
    net.does(&["link", "verbena0/2", "down"]);
    let info = net.run("ibv_devinfo", &["-d", "verbena1"], LIMIT);
    assert!(info.contains("PORT_DOWN"), "{info}");
}

/// The other end need not be a bond. A net of three cards is a switch: LACP has no partner there, and one port is used.
#[test]
fn the_other_end_may_have_two_ports() {
    let (net, _holder) = StockNet::held_alone(&["--cards", "3"]);
    net.does(&["lag", "verbena0", "--mode", "802.3ad"]);
    net.does(&["lag", "verbena2", "--mode", "xor"]);
    wait_for_lag(&net, "no port on its own", || {
        net.does(&["lag", "verbena0"]).contains("port 1 up active 0 QPs, no partner")
    });
    for arguments in [&["-n", "500", "-q", "2"][..], &["-n", "500", "-q", "2", "-c", "UD"]] {
        for devices in [["verbena0", "verbena1"], ["verbena1", "verbena2"], ["verbena2", "verbena0"]] {
            let mut pair = Pair::new(&net, "ib_send_bw", arguments);
            pair.devices = devices;
            if let Err(error) = pair.run() {
                panic!("{error}");
            }
        }
    }
    assert_eq!(received(&net)[1], 0, "the port that is left out");
    assert!(net.register(2, 1, port::TX_PACKETS) > 0, "a bond sends by both ports to whomever");
}

/// DPDK's bonding on ports of the second card, with a queue of its own for LACP; the bond is the port after them.
fn dpdk_bond(net: &StockNet, members: &[&str]) -> Testpmd {
    let slaves: String = members.iter().map(|member| format!(",slave={member}")).collect();
    let (bond, port) = (format!("net_bonding0,mode=4{slaves}"), members.len());
    let ports = format!("--portlist={port}");
    let options = ["-i", &ports, "--forward-mode=rxonly"];
    let mut end = Testpmd::start(net, &[members, &[&*bond]].concat(), &options);
    end.expect("testpmd>");
    end.does(&format!("port stop {port}"));
    end.does(&format!("set bonding lacp dedicated_queues {port} enable\nport start {port}\nstart"));
    end
}

/// The other end is DPDK's bonding: both know each other, and both cables are in use.
#[test]
fn dpdk_is_a_partner() {
    let (net, _holder) = StockNet::held_alone(&[]);
    net.does(&["lag", "verbena0", "--mode", "802.3ad"]);
    let mut end = dpdk_bond(&net, &["net_verbena1", "net_verbena1p2"]);
    let lacp = "ACTIVE AGGREGATION SYNCHRONIZATION COLLECTING DISTRIBUTING";
    end.asks("show bonding lacp info 2", lacp);
    end.asks("show bonding lacp info 2", "system mac address: 02:56:42:00:00:00");
    end.asks("show bonding config 2", "Active Slaves (2)");
    wait_for_lag(&net, "not both ports have the partner", || {
        let said = net.does(&["lag", "verbena0"]);
        said.matches("active 0 QPs, partner 02:56:42:00:01:00").count() == 2
    });
    net.does(&["link", "verbena0/1", "down"]);
    end.asks("show bonding config 2", "Active Slaves (1): [1]");
    net.does(&["link", "verbena0/1", "up"]);
    end.asks("show bonding config 2", "Active Slaves (2)");
    end.quit();
}

/// The receives of DPDK's one port are missing whichever cable a frame comes by: it asks nobody to wait, and counts what is lost.
#[test]
fn dpdk_has_the_flow_control_and_the_losses_of_both_cables() {
    const FRAMES: usize = 300;
    let (net, _holder) = StockNet::held_alone(&[]);
    net.does(&["lag", "verbena1", "--mode", "xor"]);
    wait_for_lag(&net, "no bond", || net.does(&["lag", "verbena1"]).matches(" active ").count() == 2);
    let (_directory, file) = place_for("frames.pcap");
    let frame = [&[2, 0x56, 0x42, 0, 1, 0, 2, 9, 9, 9, 9, 9, 0x88, 0xb5][..], &[7; 100]].concat();
    crate::pcap::write(&file, &vec![frame; FRAMES]);
    let reader = format!("net_pcap0,rx_pcap={}", file.display());
    // It has 256 receives, and takes nothing until it is told to.
    let mut receiver = Testpmd::start(&net, &["net_verbena1"], &["-i", "--rxd=256"]);
    receiver.does("set flow_ctrl rx on tx off 0 0 0 0 mac_ctrl_frame_fwd off autoneg off 0\nset fwd rxonly");
    for (n, cable) in ["net_verbena0p2", "net_verbena0"].into_iter().enumerate() {
        let mut sender = Testpmd::start(&net, &[&reader, cable], &["-i"]);
        sender.types("start");
        sender.asks("show port stats 1", &format!("TX-packets: {FRAMES} "));
        receiver.asks("show port stats 0", &format!("RX-missed: {} ", (n + 1) * FRAMES - 256));
        sender.quit();
    }
    for number in [0, 1] {
        assert_eq!(net.register(1, number, port::TX_PAUSE), 0, "nobody is asked to wait");
    }
    receiver.quit();
}

/// Port 1 finds no partner and is used on its own; port 2, which is left out, finds one, and replaces it.
#[test]
fn a_port_that_is_left_out_negotiates() {
    let (net, _holder) = StockNet::held_alone(&[]);
    net.does(&["lag", "verbena0", "--mode", "802.3ad"]);
    wait_for_lag(&net, "no port on its own", || {
        net.does(&["lag", "verbena0"]).contains("port 1 up active 0 QPs, no partner")
    });
    let mut end = dpdk_bond(&net, &["net_verbena1p2"]);
    end.asks("show bonding config 1", "Active Slaves (1): [0]");
    wait_for_lag(&net, "the port with a partner is not used", || {
        let said = net.does(&["lag", "verbena0"]);
        said.contains("port 1 up unused")
            && said.contains("port 2 up active 0 QPs, partner 02:56:42:00:01:01")
    });
    end.quit();
}

/// Wireshark's decoder reads what two bonds say to each other, and finds nothing wrong in it.
#[test]
#[ignore = "the long form of the checks"]
fn tshark_reads_what_bonds_say() {
    let _alone = alone();
    need("tshark");
    for wire in ["fast", "exact"] {
        let (net, _holder) = StockNet::held(&["--wire", wire]);
        let (_directory, path) = place_for("lacp.pcap");
        let file = path.to_str().expect("a name");
        let mut capture = Program::start(net.verbena(&["capture", "-w", file]));
        capture.expect("Ctrl-C ends it", LIMIT);
        bond(&net, &["--mode", "802.3ad"]);
        let fields = ["frame.len", "eth.dst", "lacp.actor.sysid", "lacp.actor.port", "lacp.actor.state"];
        let fields = fields.iter().chain(&["lacp.partner.sysid", "_ws.malformed", "_ws.expert.severity"]);
        let mut words = vec!["-r", file, "-T", "fields", "-E", "separator=,"];
        fields.for_each(|field| words.extend(["-e", field]));
        let read = || {
            let said = std::process::Command::new("tshark").args(&words).output().expect("tshark runs");
            String::from_utf8(said.stdout).expect("text")
        };
        // All bits but `defaulted` and `expired`: what each port says at last.
        let lines = [(0, 1, 1), (0, 2, 1), (1, 1, 0), (1, 2, 0)].map(|(system, number, partner)| {
            format!(
                "124,01:80:c2:00:00:02,02:56:42:00:0{system}:00,{number},0x3f,02:56:42:00:0{partner}:00,,\n"
            )
        });
        // A file that is being written may end in the midst of a packet: what is before that is read.
        let all_in = |said: String| lines.iter().all(|line| said.contains(line));
        wait_for(|| format!("{wire}: not all of {lines:?} in\n{}", read()), || all_in(read()));
        capture.signal(libc::SIGINT);
        capture.wait(LIMIT).expect_good();
        let said = read();
        for line in &lines {
            assert!(said.contains(line), "{wire}: no {line} in\n{said}");
        }
        assert!(said.lines().all(|line| line.ends_with(",,")), "{wire}: {said}");
    }
}

/// In simulated time perftest prints what both cables give, the same in every run.
#[test]
fn simulated_time_shows_what_two_cables_give() {
    let _alone = alone();
    let run = |options: &[&str], count| {
        let (net, _holder) = StockNet::held(&["--clock", "virtual", "--card", "cx4lx"]);
        if !options.is_empty() {
            bond(&net, options);
        }
        let arguments = ["-n", "200", "-q", count];
        let pair = Pair::new(&net, "ib_write_bw", &arguments);
        let said = pair.run().unwrap_or_else(|error| panic!("{options:?}: {error}")).client.said;
        (first_row(&said)[3], said, received(&net))
    };
    let (one, ..) = run(&[], "4");
    let (backup, _, received) = run(&["--mode", "active-backup"], "4");
    assert!((backup / one - 1.0).abs() < 0.01, "{backup} MiB/s by one of two, {one} by one");
    assert_eq!(received[1], 0, "the backup");
    // A hash gives one port some more of the connections than the other.
    let hash = ["--mode", "xor", "--select", "hash"];
    for (options, count, least) in [(&hash[..2], "4", 1.8), (&hash[..], "16", 1.5)] {
        let (both, said, received) = run(options, count);
        assert!(both > least * one && both < 2.01 * one, "{options:?}: {both} MiB/s by both, {one} by one");
        assert!(received.iter().all(|&bytes| bytes > 10 << 20), "{options:?}: {received:?}");
        assert_eq!(said, run(options, count).1, "{options:?}");
    }
}

/// A cable is pulled and plugged in again in the middle of simulated time.
#[test]
fn xor_outlives_a_cable_in_simulated_time() {
    let (net, _holder) = StockNet::held_alone(&["--clock", "virtual", "--card", "cx4lx"]);
    bond(&net, &["--mode", "xor"]);
    let pair = Pair::new(&net, "ib_write_bw", &["-D", "3", "-q", "4"]);
    let (server, client) = pair.start().unwrap_or_else(|error| panic!("{error}"));
    // What leaves by each port, of more frames than a card holds; a capture costs no simulated time.
    let leaves = || {
        let view = View { port: None, qpn: None, snaplen: 64 };
        let capture = LiveCapture::begin(&net.socket(), &view).expect("a capture");
        let (mut by, start) = ([0; 2], Instant::now());
        while by.iter().sum::<u32>() < 5000 {
            assert!(start.elapsed() < LIMIT, "no frames: {}", client.said());
            capture.take(|seen, _| by[usize::from(seen.from.port)] += 1).expect("a ring");
            std::thread::sleep(Duration::from_millis(1));
        }
        by
    };
    assert!(leaves().iter().all(|&frames| frames > 1000));
    net.does(&["link", "verbena0/1", "down"]);
    assert_eq!(leaves()[0], 0, "by a pulled cable");
    net.does(&["link", "verbena0/1", "up"]);
    assert!(leaves().iter().all(|&frames| frames > 1000));
    for program in [server, client] {
        program.wait(LIMIT).expect_good();
    }
    assert!(net.register(1, 0, port::LINK_LOST) > 0 && net.register(1, 0, port::RETRANSMITS) > 0);
}

#[test]
fn what_cannot_be_is_refused() {
    let net = StockNet::new();
    net.refuses(&["lag"], "is not running");
    let (net, _holder) = StockNet::held(&["--clock", "virtual"]);
    net.refuses(&["lag", "verbena0", "--mode", "802.3ad"], "use --mode xor");
    let (net, _holder) = StockNet::held(&[]);
    assert_eq!(net.does(&["lag"]), "verbena0 off\nverbena1 off\n");
    net.refuses(&["lag", "verbena2", "--mode", "xor"], "there is no verbena2");
    net.refuses(&["lag", "mlx5_0", "--mode", "xor"], "the cards of a net are verbena0");
    net.refuses(
        &["lag", "verbena0", "--mode", "balance-alb"],
        "possible values: 802.3ad, active-backup, xor",
    );
    // Programs that have queue pairs have ports.
    let port = free_port().to_string();
    let words = ["-oL", "ibv_rc_pingpong", "-d", "verbena0", "-g", "1", "-p", &port];
    let mut server = net.start("stdbuf", &words);
    server.expect("local address", LIMIT);
    net.refuses(&["lag", "verbena0", "--mode", "xor"], "end them first");
    drop(server);
    wait_for_lag(&net, "a queue pair stays", || {
        Program::start(net.verbena(&["lag", "verbena0", "--mode", "xor"])).wait(LIMIT).good()
    });
    let said = net.does(&["lag", "verbena0"]);
    assert_eq!(said, "verbena0 xor, affinity\n  port 1 up active 0 QPs\n  port 2 up active 0 QPs\n");
    net.does(&["lag", "verbena0", "--off"]);
    assert_eq!(net.does(&["lag", "verbena0"]), "verbena0 off\n");
    let info = net.run("ibv_devinfo", &["-d", "verbena0"], LIMIT);
    assert!(info.contains("phys_port_cnt:\t\t\t2\n"), "{info}");
}
