//! Ports that a program disables: `set link-down` of testpmd, and `verbena link PORT disable`.

use std::time::Duration;

use fpga_regs::regs::{port, Link, PhysState};
use tests::stock::{alone, need, wait_for, Dpdk, Pair, StockNet, Testpmd, LIMIT};

/// `verbena link`, run to its end.
fn link(net: &StockNet, words: &[&str]) -> String {
    net.does(&[&["link"], words].concat())
}

/// The states of the ports of a card, as `ibv_devinfo` says them.
fn states(net: &StockNet, card: &str) -> String {
    let said = net.run("ibv_devinfo", &["-d", card], LIMIT);
    let words = said.lines().filter_map(|line| line.trim().strip_prefix("state:"));
    words.map(|word| word.split_whitespace().next().unwrap_or_default()).collect::<Vec<_>>().join(" ")
}

/// The state of a port's cable, as its register says it.
fn phys(net: &StockNet, card: u32) -> PhysState {
    Link(net.register(card, 0, port::LINK) as u32).phys()
}

const EVENT: &str = "Port 0: link state change event";

/// Both ends have no link, as long as one is disabled: whoever looks there, and whatever is sent.
#[test]
fn dpdk_disables_its_port() {
    let _alone = alone();
    need("ibv_asyncwatch");
    let net = StockNet::new();
    let holder = net.hold(&[]);
    let mut watch = net.start("stdbuf", &["-oL", "ibv_asyncwatch", "-d", "verbena1"]);
    watch.expect("async event FD", LIMIT);
    let mut far = Testpmd::start(&net, &["net_verbena1"], &["-i"]);
    far.asks("show port info 0", "Link status: up");
    let options = ["-i", "--forward-mode=txonly", "--eth-peer=0,02:56:42:00:01:00"];
    let mut testpmd = Testpmd::start(&net, &["net_verbena0"], &options);
    // Time-outs of four seconds, seven in a row; the data outlasts what follows on a busy machine.
    let pair = Pair::new(&net, "ib_write_bw", &["-D", "20", "-u", "20"]).start();
    let (server, client) = pair.unwrap_or_else(|error| panic!("{error}"));
    wait_for("no data flow", || net.register(0, 0, port::RX_BYTES) >= 1 << 20);
    let said = testpmd.does("set link-down port 0");
    assert!(!said.contains("fail"), "{said}");
    for end in [&mut testpmd, &mut far] {
        end.expect(EVENT);
        end.asks("show port info 0", "Link status: down");
    }
    let came = || [0, 1].map(|card| net.register(card, 0, port::RX_PACKETS));
    let during = came();
    assert_eq!(link(&net, &[]), "verbena0/1 down, disabled\nverbena0/2 up\nverbena1/1 down\nverbena1/2 up\n");
    assert_eq!((phys(&net, 0), phys(&net, 1)), (PhysState::DISABLED, PhysState::POLLING));
    for card in ["verbena0", "verbena1"] {
        assert_eq!(states(&net, card), "PORT_DOWN PORT_ACTIVE", "{card}");
    }
    let lost = net.register(0, 0, port::LINK_LOST);
    testpmd.does("start");
    wait_for("nothing is counted", || net.register(0, 0, port::LINK_LOST) >= lost + 100);
    testpmd.does("stop");
    assert_eq!(came(), during, "nothing arrives");
    // Again: no change, and no event.
    testpmd.does("set link-down port 0");
    let said = testpmd.does("set link-up port 0");
    assert!(!said.contains("fail"), "{said}");
    for end in [&mut testpmd, &mut far] {
        end.expect_that("no second event", |said| said.matches(EVENT).count() == 2);
        end.asks("show port info 0", "Link status: up");
    }
    assert_eq!((phys(&net, 0), phys(&net, 1)), (PhysState::LINK_UP, PhysState::LINK_UP));
    assert_eq!(states(&net, "verbena1"), "PORT_ACTIVE PORT_ACTIVE");
    let all_more = || came().iter().zip(during).all(|(now, then)| *now > then + 10);
    wait_for("what was lost is not sent again", all_more);
    for program in [server, client] {
        program.wait(LIMIT).expect_good();
    }
    watch.expect("IBV_EVENT_PORT_ACTIVE (9), port 1", LIMIT);
    let said = watch.said();
    assert_eq!(said.matches("IBV_EVENT_PORT_ERR (10), port 1").count(), 1, "{said}");
    assert_eq!(said.matches("IBV_EVENT_").count(), 2, "{said}");
    drop(watch);
    assert_eq!(testpmd.quit().matches(EVENT).count(), 2);
    far.quit();
    net.expect_gone_after(holder);
}

#[test]
fn dpdk_24_11_disables_its_port() {
    Dpdk::of_debian_13(dpdk_disables_its_port);
}

/// The setting is the port's: whoever sets it last has said how it is, even if that program is dead.
#[test]
fn who_disabled_a_port_may_die() {
    let _alone = alone();
    let net = StockNet::new();
    let holder = net.hold(&[]);
    let [mut one, mut other] = ["net_verbena0"; 2].map(|port| Testpmd::start(&net, &[port], &["-i"]));
    for testpmd in [&mut one, &mut other] {
        testpmd.does("set link-down port 0");
    }
    other.does("set link-up port 0");
    one.asks("show port info 0", "Link status: up");
    assert_eq!(link(&net, &["verbena0/1"]), "verbena0/1 up\n");
    one.does("set link-down port 0");
    drop(one);
    other.asks("show port info 0", "Link status: down");
    // Nor does it come up by being started again, or opened.
    other.does("port stop 0\nport start 0");
    other.asks("show port info 0", "Link status: down");
    other.quit();
    assert_eq!(states(&net, "verbena1"), "PORT_DOWN PORT_ACTIVE");
    let mut next = Testpmd::start(&net, &["net_verbena0"], &["-i", "--no-lsc-interrupt"]);
    next.asks("show port info 0", "Link status: down");
    let said = next.does("set link-up port 0\nshow port info 0");
    assert!(said.contains("Link status: up"), "{said}");
    assert_eq!(states(&net, "verbena1"), "PORT_ACTIVE PORT_ACTIVE");
    next.quit();
    net.expect_gone_after(holder);
}

/// A port has a link once its cable is plugged in and both ends are enabled, in either order, by either clock.
#[test]
fn cable_and_ends_are_all_needed() {
    let net = |options: &[&str]| {
        let (net, holder) = StockNet::held(options);
        let is = |words: &[&str], expected: [&str; 2]| {
            let said = link(&net, words);
            let (stated, states) = (link(&net, &[]), expected.map(|state| format!("/1 {state}\n")));
            for (card, state) in states.iter().enumerate() {
                assert!(stated.contains(&format!("verbena{card}{state}")), "{words:?} {options:?}: {stated}");
            }
            said
        };
        is(&["verbena0/1", "disable"], ["down, disabled", "down"]);
        is(&["verbena1/1", "down"], ["down, disabled", "down"]);
        let said = is(&["verbena0/1", "enable"], ["down", "down"]);
        assert!(said.contains("enabled, and down still: its cable is pulled"), "{said}");
        is(&["verbena1/1", "up"], ["up", "up"]);
        is(&["verbena1/1", "disable"], ["down", "down, disabled"]);
        is(&["verbena0/1", "disable"], ["down, disabled", "down, disabled"]);
        is(&["verbena1/1", "down"], ["down, disabled", "down, disabled"]);
        let said = is(&["verbena0/1", "up"], ["down, disabled", "down, disabled"]);
        assert!(said.contains("verbena0/1 is plugged in, and down still: it is disabled"), "{said}");
        let said = is(&["verbena0/1", "enable"], ["down", "down, disabled"]);
        assert!(said.contains("the port at the other end is disabled"), "{said}");
        is(&["verbena1/1", "enable"], ["up", "up"]);
        net.expect_gone_after(holder);
    };
    net(&[]);
    net(&["--clock", "virtual"]);
}

/// One card's two ports are the ends of a cable. The ports of more than two cards are at a switch, whose other ports do not notice.
#[test]
fn nets_of_other_sizes() {
    for (cards, down) in [("1", 2), ("3", 1)] {
        let (net, holder) = StockNet::held(&["--cards", cards]);
        link(&net, &["verbena0/1", "disable"]);
        let said = link(&net, &[]);
        assert_eq!(said.matches("down").count(), down, "{said}");
        assert!(said.contains("verbena0/1 down, disabled"), "{said}");
        link(&net, &["verbena0/1", "enable"]);
        assert!(!link(&net, &[]).contains("down"));
        net.expect_gone_after(holder);
    }
}

/// Ports that are one are disabled together.
#[test]
fn a_bond_is_disabled_as_one() {
    let (net, holder) = StockNet::held(&[]);
    net.does(&["lag", "verbena0", "--mode", "xor"]);
    link(&net, &["verbena0/1", "disable"]);
    assert_eq!(states(&net, "verbena0"), "PORT_DOWN");
    assert_eq!(states(&net, "verbena1"), "PORT_DOWN PORT_DOWN");
    link(&net, &["verbena0/1", "enable"]);
    assert_eq!(states(&net, "verbena0"), "PORT_ACTIVE");
    assert_eq!(states(&net, "verbena1"), "PORT_ACTIVE PORT_ACTIVE");
    net.expect_gone_after(holder);
}

/// In simulated time programs see the same.
#[test]
fn dpdk_disables_its_port_in_simulated_time() {
    let (net, holder) = StockNet::held_alone(&["--clock", "virtual"]);
    let mut far = Testpmd::start(&net, &["net_verbena1"], &["-i"]);
    far.asks("show port info 0", "Link status: up");
    let options = ["-i", "--forward-mode=txonly", "--eth-peer=0,02:56:42:00:01:00"];
    let mut testpmd = Testpmd::start(&net, &["net_verbena0"], &options);
    testpmd.does("set link-down port 0");
    for end in [&mut testpmd, &mut far] {
        end.expect(EVENT);
        end.asks("show port info 0", "Link status: down");
    }
    let came = net.register(1, 0, port::RX_PACKETS);
    testpmd.does("start");
    wait_for("nothing is counted", || net.register(0, 0, port::LINK_LOST) >= 100);
    assert_eq!(net.register(1, 0, port::RX_PACKETS), came, "nothing arrives");
    testpmd.does("set link-up port 0");
    far.asks("show port info 0", "Link status: up");
    wait_for("nothing arrives", || net.register(1, 0, port::RX_PACKETS) >= came + 100);
    testpmd.quit();
    far.quit();
    net.expect_gone_after(holder);
}

/// A port that leads outside loses what it sends and what comes; the net at the other end is not told.
#[test]
fn a_port_outside_is_disabled() {
    let _alone = alone();
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let port = |own: &str, other: &str| format!("0=dgram:{},{}", path(own), path(other));
    let (one, held_one) = StockNet::held(&["--port", &port("one", "two")]);
    let (two, held_two) = StockNet::held(&["--port", &port("two", "one")]);
    wait_for("no link", || [&one, &two].iter().all(|net| link(net, &["verbena0/1"]).contains(" up")));
    let options = ["-i", "--forward-mode=txonly", "--eth-peer=0,02:56:42:00:77:00"];
    let mut sender = Testpmd::start(&one, &["net_verbena0"], &options);
    let mut far = Testpmd::start(&two, &["net_verbena0"], &options);
    sender.does("set link-down port 0");
    sender.asks("show port info 0", "Link status: down");
    far.asks("show port info 0", "Link status: up");
    let came = two.register(0, 0, port::RX_PACKETS);
    sender.does("start");
    wait_for("nothing is counted", || one.register(0, 0, port::LINK_LOST) >= 100);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(two.register(0, 0, port::RX_PACKETS), came, "nothing arrives");
    sender.does("stop");
    let [lost, came] = [port::LINK_LOST, port::RX_PACKETS].map(|register| one.register(0, 0, register));
    far.does("start");
    wait_for("nothing that comes is counted", || one.register(0, 0, port::LINK_LOST) >= lost + 100);
    assert_eq!(one.register(0, 0, port::RX_PACKETS), came, "nothing comes");
    sender.does("set link-up port 0");
    wait_for("nothing comes", || one.register(0, 0, port::RX_PACKETS) >= came + 100);
    far.quit();
    sender.quit();
    one.expect_gone_after(held_one);
    two.expect_gone_after(held_two);
}
