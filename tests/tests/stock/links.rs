//! Cables that are pulled while stock programs use them: `verbena link`.

use std::time::{Duration, Instant};

use driver::Registers;
use fpga_regs::regs::{port, Link};
use model::attach::SegmentCard;
use tests::stock::{alone, need, wait_for, Dpdk, Pair, Program, StockNet, Testpmd, LIMIT};

use crate::dpdk::end;

/// `verbena link`, run to its end.
fn link(net: &StockNet, words: &[&str]) -> String {
    net.does(&[&["link"], words].concat())
}

/// Starts ib_write_bw on both cards of a new net, and waits until data flows.
fn write_bw(net: &StockNet, options: &[&str]) -> [Program; 2] {
    let pair = Pair::new(net, "ib_write_bw", options).start();
    let (mut server, mut client) = pair.unwrap_or_else(|error| panic!("{error}"));
    client.expect_that("nothing comes", |_| {
        assert!(!server.failed(), "{}", server.said());
        net.register(0, 0, port::RX_BYTES) >= 1 << 20
    });
    [server, client]
}

/// The transport repairs what a short pull loses.
#[test]
fn a_short_pull_is_survived() {
    let _alone = alone();
    for wire in ["fast", "exact"] {
        // On a machine that is held up, the programs may end too early.
        let again = [3, 15].into_iter().any(|seconds| sends_again_within(seconds, wire));
        assert!(again, "{wire}: what was lost is sent again");
    }
}

/// False if nothing was sent again while the programs certainly ran.
fn sends_again_within(seconds: u64, wire: &str) -> bool {
    let (net, holder) = StockNet::held(&["--wire", wire]);
    let start = Instant::now();
    // Time-outs of a second, eight in a row: on a busy machine the pull takes longer than it is meant to.
    let programs = write_bw(&net, &["-D", &seconds.to_string(), "-u", "18"]);
    link(&net, &["verbena0/1", "down"]);
    let during = net.register(0, 0, port::RX_BYTES);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(net.register(0, 0, port::RX_BYTES), during, "{wire}: nothing comes through a pulled cable");
    link(&net, &["verbena0/1", "up"]);
    while net.register(1, 0, port::RETRANSMITS) == 0 {
        if start.elapsed() > Duration::from_secs(seconds) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(net.register(1, 0, port::LINK_LOST) > 0, "{wire}: what was lost is counted");
    for program in programs {
        let ended = program.wait(LIMIT);
        assert!(ended.good(), "{wire}: {ended}");
    }
    net.expect_gone_after(holder);
    true
}

/// In simulated time, too. tests/simulated_lag.rs has what is lost.
#[test]
fn a_pull_in_simulated_time() {
    let (net, holder) = StockNet::held(&["--clock", "virtual"]);
    let state = || net.run("ibv_devinfo", &["-d", "verbena0", "-i", "1"], LIMIT);
    link(&net, &["verbena1/1", "down"]);
    for name in ["verbena0/1", "verbena0:1", "0.1"] {
        assert_eq!(link(&net, &[name]), "verbena0/1 down\n");
    }
    assert!(state().contains("PORT_DOWN"));
    link(&net, &["verbena0/1", "up"]);
    assert!(state().contains("PORT_ACTIVE"));
    net.expect_gone_after(holder);
}

/// What is not acknowledged for all retries ends as on a card.
#[test]
fn a_long_pull_ends_in_retry_exceeded() {
    let net = StockNet::alone();
    let [server, client] = write_bw(&net, &["-D", "20", "-u", "10"]);
    link(&net, &["verbena1/1", "down"]);
    client.wait(LIMIT).expect_refusal("Failed status 12");
    net.expect_gone_after(server);
}

/// Everything that programs ask says the same; with two cards, at both ends.
#[test]
fn programs_see_the_state_and_its_changes() {
    need("ibv_asyncwatch");
    let net = StockNet::new();
    let mut watches: Vec<_> = ["verbena0", "verbena1"]
        .into_iter()
        .map(|device| net.start("stdbuf", &["-oL", "ibv_asyncwatch", "-d", device]))
        .collect();
    watches.iter_mut().for_each(|watch| watch.expect("async event FD", LIMIT));
    let script =
        "cd /sys/class/infiniband; for card in verbena0 verbena1; do for port in 1 2; do cd $card/ports/$port
        echo $card $port $(cat state phys_state counters/link_downed); cd ../../..; done; done
        ibv_devinfo -d verbena1 | grep state:";
    let seen = |net: &StockNet| {
        let said = net.run("sh", &["-ec", script], LIMIT);
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let up = |card, port, downs: u32| format!("verbena{card} {port} 4: ACTIVE 5: LinkUp {downs} ");
    let down = |card, port| format!("verbena{card} {port} 1: DOWN 3: Disabled 1 ");
    assert!(link(&net, &[]).contains("verbena1/2 up"));
    assert!(link(&net, &["verbena0/2", "down"]).is_empty());
    assert_eq!(link(&net, &["verbena1/2"]), "verbena1/2 down\n");
    let expected = up(0, 1, 0) + &down(0, 2) + &up(1, 1, 0) + &down(1, 2);
    assert_eq!(seen(&net), expected + "state: PORT_ACTIVE (4) state: PORT_DOWN (1)");
    // Again: no change, and no event.
    link(&net, &["verbena0/2", "down"]);
    link(&net, &["verbena1/2", "up"]);
    let expected = up(0, 1, 0) + &up(0, 2, 1) + &up(1, 1, 0) + &up(1, 2, 1);
    assert_eq!(seen(&net), expected + "state: PORT_ACTIVE (4) state: PORT_ACTIVE (4)");
    for mut watch in watches {
        watch.expect("IBV_EVENT_PORT_ACTIVE (9), port 2", LIMIT);
        let said = watch.said();
        assert_eq!(said.matches("IBV_EVENT_PORT_ERR (10), port 2").count(), 1, "{said}");
        assert_eq!(said.matches("IBV_EVENT_").count(), 2, "{said}");
    }
    net.expect_gone();
}

/// A net of more cards is a switch, whose other ports do not notice.
#[test]
fn a_switch_takes_down_one_port() {
    let (net, _holder) = StockNet::held(&["--cards", "3"]);
    link(&net, &["verbena1/1", "down"]);
    let said = link(&net, &[]);
    assert_eq!(said.matches("down").count(), 1, "{said}");
    assert!(said.contains("verbena1/1 down"), "{said}");
}

#[test]
fn links_that_are_none_are_refused() {
    let net = StockNet::new();
    let refused = |words: &[&str], why: &str| net.refuses(&[&["link"], words].concat(), why);
    refused(&["verbena0/1", "down"], "is not running");
    let _holder = net.hold(&[]);
    refused(&["verbena2/1", "down"], "there is no verbena2");
    refused(&["verbena0/3", "down"], "there is no port 3");
    refused(&["verbena0/3"], "it has verbena0/1, verbena0/2");
    for none in ["mlx5_0/1", "verbena0"] {
        refused(&[none, "down"], "a port is verbena0/1");
    }
    refused(&["verbena0/1", "sideways"], "possible values: up, down");
}

/// DPDK sees the state too, by an event where it asks for one, and frames that are sent meanwhile are lost and counted.
#[test]
fn dpdk_sees_the_link() {
    let net = StockNet::alone();
    let options = ["-i", "--forward-mode=txonly", "--eth-peer=0,02:56:42:00:01:00"];
    let mut silent = Testpmd::start(&net, &["net_verbena0"], &["-i", "--no-lsc-interrupt"]);
    silent.asks("show port info 0", "Link status: up");
    let mut testpmd = Testpmd::start(&net, &["net_verbena0"], &options);
    testpmd.asks("show port info 0", "Link status: up");
    link(&net, &["verbena0/1", "down"]);
    let event = "Port 0: link state change event";
    testpmd.expect(event);
    for testpmd in [&mut testpmd, &mut silent] {
        testpmd.asks("show port info 0", "Link status: down");
    }
    testpmd.types("start");
    wait_for("nothing is counted", || net.register(0, 0, port::LINK_LOST) >= 100);
    assert_eq!(net.register(1, 0, port::RX_NO_RULE), 0, "nothing arrives");
    link(&net, &["verbena0/1", "up"]);
    wait_for("nothing arrives", || net.register(1, 0, port::RX_NO_RULE) >= 100);
    testpmd.expect_that("no second event", |said| said.matches(event).count() == 2);
    // A port that is started again tells of what comes then, and not of what was.
    testpmd.does("stop\nport stop 0");
    link(&net, &["verbena0/1", "down"]);
    testpmd.does("port start 0");
    testpmd.asks("show port info 0", "Link status: down");
    assert_eq!(testpmd.said().matches(event).count(), 2, "{}", testpmd.said());
    link(&net, &["verbena0/1", "up"]);
    testpmd
        .expect_that("no event of the port that was started again", |said| said.matches(event).count() == 3);
    testpmd.quit();
    assert_eq!(silent.quit().matches(event).count(), 0);
    net.expect_gone();
}

#[test]
fn dpdk_24_11_sees_the_link() {
    Dpdk::of_debian_13(dpdk_sees_the_link);
}

/// On each card DPDK's own bonding (IEEE 802.3ad) of both ports, not yet started.
fn bonds(net: &StockNet, mode: &str) -> [Testpmd; 2] {
    let member = net.dpdk().bond()[0];
    [0, 1].map(|card| {
        let members = [format!("net_verbena{card}"), format!("net_verbena{card}p2")];
        let bond = format!("net_bonding0,mode=4,{member}={},{member}={}", members[0], members[1]);
        let devices = [&*members[0], &members[1], &bond];
        let mut end = Testpmd::start(net, &devices, &["-i", "--portlist=2", mode]);
        end.expect("testpmd>");
        end
    })
}

/// Waits until both say that LACP has negotiated with the other one, and that all members are active.
fn negotiate(net: &StockNet, ends: &mut [Testpmd; 2]) {
    let [_, members_word, ask_members, ask_lacp] = net.dpdk().bond();
    for (end, partner) in ends.iter_mut().zip([1, 0]) {
        end.asks(ask_lacp, "ACTIVE AGGREGATION SYNCHRONIZATION COLLECTING DISTRIBUTING");
        end.asks(ask_lacp, &format!("system mac address: 02:56:42:00:0{partner}:00"));
        end.asks(ask_members, &format!("Active {members_word} (2): [0 1]"));
    }
}

/// With queues of their own for LACP, to which DPDK's bonding steers it by rules of `rte_flow`, programs that only receive
/// negotiate, too.
#[test]
fn bonds_negotiate_by_queues_of_their_own() {
    let net = StockNet::alone();
    let mut ends = bonds(&net, "--forward-mode=rxonly");
    for end in &mut ends {
        end.does("port stop 2");
        let said = end.does("set bonding lacp dedicated_queues 2 enable\nport start 2\nstart");
        assert!(!said.contains("rror") && !said.contains("ailed"), "{said}");
    }
    negotiate(&net, &mut ends);
    end(&net, ends);
}

#[test]
fn bonds_of_dpdk_24_11_negotiate_by_queues_of_their_own() {
    Dpdk::of_debian_13(bonds_negotiate_by_queues_of_their_own);
}

/// LACP negotiates, and when the cable is pulled that has the traffic, the other has it.
#[test]
fn bonds_negotiate_and_outlive_a_cable() {
    let net = StockNet::alone();
    let [_, members_word, ask_members, _] = net.dpdk().bond();
    // It receives and sends all the time, as LACP needs.
    let mut ends = bonds(&net, "--forward-mode=flowgen");
    ends.iter_mut().for_each(|end| end.types("start"));
    negotiate(&net, &mut ends);
    let active = |end: &mut Testpmd, members: &str| {
        end.asks(ask_members, &format!("Active {members_word} {members}"));
    };
    // Which cable has the traffic follows from addresses.
    let card = SegmentCard::open(&net.socket(), 0).expect("a card");
    let sent = |member: u32| card.read64(port::base(member) + port::TX_PACKETS);
    let before = [sent(0), sent(1)];
    wait_for("nothing is sent", || (0..2).any(|member| sent(member) > before[member as usize] + 10_000));
    let busy = u32::from(sent(1) - before[1] > sent(0) - before[0]);
    let (other, lost) = (sent(1 - busy), card.read64(port::base(busy) + port::LINK_LOST));
    let pulled = Program::start(net.verbena(&["link", &format!("verbena0/{}", busy + 1), "down"]));
    wait_for("the cable is not pulled", || !Link(card.read32(port::base(busy) + port::LINK)).up());
    let start = Instant::now();
    wait_for("the other cable has no traffic", || sent(1 - busy) > other + 1000);
    let took = start.elapsed().as_millis();
    println!(
        "the traffic went on after {took} ms, {} frames were lost",
        card.read64(port::base(busy) + port::LINK_LOST) - lost
    );
    pulled.wait(LIMIT).expect_good();
    ends.iter_mut().for_each(|end| active(end, &format!("(1): [{}]", 1 - busy)));
    let arrived = net.register(1, 1 - busy, port::RX_PACKETS);
    wait_for("nothing arrives by it", || net.register(1, 1 - busy, port::RX_PACKETS) > arrived + 1000);
    link(&net, &[&format!("verbena1/{}", busy + 1), "up"]);
    ends.iter_mut().for_each(|end| active(end, "(2)"));
    drop(card);
    end(&net, ends);
}

#[test]
fn bonds_of_dpdk_24_11_negotiate_and_outlive_a_cable() {
    Dpdk::of_debian_13(bonds_negotiate_and_outlive_a_cable);
}
