//! Cables that are pulled while stock programs use them: `verbena link`.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use driver::Registers;
use fpga_regs::regs::port;
use model::attach::SegmentCard;
use tests::stock::{need, Pair, Program, StockNet};

const LIMIT: Duration = Duration::from_secs(60);

/// Spinning programs fill two cores: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// `verbena link`, run to its end.
fn link(net: &StockNet, words: &[&str]) -> String {
    let command = net.verbena(&[&["link"], words].concat());
    let ended = Program::start(command).wait(LIMIT);
    assert!(ended.good(), "link {words:?}: {}: {}", ended.how(), ended.said);
    ended.said
}

/// A register of the first port of a card.
fn register(net: &StockNet, card: u32, offset: u32) -> u64 {
    SegmentCard::open(&net.socket(), card).expect("a card").read64(port::base(0) + offset)
}

/// Starts ib_write_bw on both cards, and waits until data flows.
fn write_bw(net: &StockNet, options: &[&str]) -> [Program; 2] {
    let (server, client) =
        Pair::new(net, "ib_write_bw", options).start().unwrap_or_else(|error| panic!("{error}"));
    let start = Instant::now();
    let before = register(net, 0, port::RX_BYTES);
    while register(net, 0, port::RX_BYTES) < before + (1 << 20) {
        assert!(start.elapsed() < LIMIT, "nothing comes: {}", client.said());
        std::thread::sleep(Duration::from_millis(5));
    }
    [server, client]
}

/// The transport repairs what a short pull loses.
#[test]
fn a_short_pull_is_survived() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for wire in ["fast", "exact"] {
        let net = StockNet::new();
        let mut holder =
            Program::start(net.command(&["--wire", wire], "sh", &["-c", "echo up; exec sleep 1000"]));
        holder.expect("up", LIMIT);
        let programs = write_bw(&net, &["-D", "3"]);
        link(&net, &["verbena0/1", "down"]);
        let during = register(&net, 0, port::RX_BYTES);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(register(&net, 0, port::RX_BYTES), during, "{wire}: nothing comes through a pulled cable");
        link(&net, &["verbena0/1", "up"]);
        for program in programs {
            let line = program.line().to_owned();
            let ended = program.wait(LIMIT);
            assert!(ended.good(), "{wire}: `{line}`: {}: {}", ended.how(), ended.said);
        }
        assert!(register(&net, 1, port::LINK_LOST) > 0, "{wire}: what was lost is counted");
        assert!(register(&net, 1, port::RETRANSMITS) > 0, "{wire}: it was sent again");
        drop(holder);
        net.expect_gone();
    }
}

/// What is not acknowledged for all retries ends as on a card.
#[test]
fn a_long_pull_ends_in_retry_exceeded() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let net = StockNet::new();
    let [server, client] = write_bw(&net, &["-D", "20", "-u", "10"]);
    link(&net, &["verbena1/1", "down"]);
    let ended = client.wait(LIMIT);
    assert!(!ended.good() && ended.said.contains("Failed status 12"), "{}: {}", ended.how(), ended.said);
    drop(server);
    net.expect_gone();
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
    let net = StockNet::new();
    let mut holder =
        Program::start(net.command(&["--cards", "3"], "sh", &["-c", "echo up; exec sleep 1000"]));
    holder.expect("up", LIMIT);
    link(&net, &["verbena1/1", "down"]);
    let said = link(&net, &[]);
    assert_eq!(said.matches("down").count(), 1, "{said}");
    assert!(said.contains("verbena1/1 down"), "{said}");
}

#[test]
fn links_that_are_none_are_refused() {
    let net = StockNet::new();
    let refused = |words: &[&str], why: &str| {
        let ended = Program::start(net.verbena(&[&["link"], words].concat())).wait(LIMIT);
        assert!(!ended.good() && ended.said.contains(why), "{words:?}: {}", ended.said);
    };
    refused(&["verbena0/1", "down"], "is not running");
    let mut holder =
        Program::start(net.command(&["--clock", "virtual"], "sh", &["-c", "echo up; exec sleep 1000"]));
    holder.expect("up", LIMIT);
    refused(&["verbena0/1", "down"], "--fault down=2ms..5ms");
    drop(holder);
    net.expect_gone();
    let mut holder = net.start("sh", &["-c", "echo up; exec sleep 1000"]);
    holder.expect("up", LIMIT);
    refused(&["verbena2/1", "down"], "there is no card 2");
    refused(&["verbena0/3", "down"], "there is no port 3");
    refused(&["verbena0/3"], "it has verbena0/1, verbena0/2");
    refused(&["mlx5_0/1", "down"], "as in verbena0/1");
    refused(&["verbena0/1", "sideways"], "possible values: up, down");
}

/// DPDK sees the state too, and frames that are sent meanwhile are lost and counted.
#[test]
fn dpdk_sees_the_link() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    need("dpdk-testpmd");
    let net = StockNet::new();
    let prefix = format!("verbena-test-{}-link", std::process::id());
    let words =
        ["-oL", "dpdk-testpmd", "--no-huge", "-m", "64", "-l", "0,1", "--file-prefix", &prefix, "--vdev"];
    let rest =
        ["net_verbena0", "--", "--no-mlockall", "--total-num-mbufs=2048", "-i", "--forward-mode=txonly"];
    let words = [&words[..], &rest, &["--eth-peer=0,02:56:42:00:01:00"]].concat();
    let (input, mut keyboard) = UnixStream::pair().expect("a socket");
    let mut testpmd = Program::start_reading(net.command(&[], "stdbuf", &words), OwnedFd::from(input).into());
    let mut types = |line: &str| keyboard.write_all(format!("{line}\n").as_bytes()).expect("it reads");
    types("show port info 0");
    testpmd.expect("Link status: up", LIMIT);
    link(&net, &["verbena0/1", "down"]);
    types("show port info 0");
    testpmd.expect("Link status: down", LIMIT);
    types("start");
    let start = Instant::now();
    while register(&net, 0, port::LINK_LOST) < 100 {
        assert!(start.elapsed() < LIMIT, "nothing is counted: {}", testpmd.said());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(register(&net, 1, port::RX_NO_RULE), 0, "nothing arrives");
    link(&net, &["verbena0/1", "up"]);
    while register(&net, 1, port::RX_NO_RULE) < 100 {
        assert!(start.elapsed() < LIMIT, "nothing arrives: {}", testpmd.said());
        std::thread::sleep(Duration::from_millis(5));
    }
    types("stop\nquit");
    let ended = testpmd.wait(LIMIT);
    let _ = std::fs::remove_dir_all(std::path::Path::new("/var/run/dpdk").join(prefix));
    assert!(ended.good(), "{}: {}", ended.how(), ended.said);
    net.expect_gone();
}
