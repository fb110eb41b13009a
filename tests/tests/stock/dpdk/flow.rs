//! Flow rules (`rte_flow`), as testpmd makes them.

use std::collections::BTreeMap;

use super::*;

/// The second card's first port, which receives, and an address that nobody has.
const PORT: [u8; 6] = [2, 0x56, 0x42, 0, 1, 0];
const NOBODY: [u8; 6] = [2, 0, 0, 0, 0, 0x77];

const CUSTOMER: [u8; 2] = [0x81, 0];

fn ethernet(to: [u8; 6], rest: &[u8]) -> Vec<u8> {
    [&to[..], &[2, 9, 9, 9, 9, 9], rest].concat()
}

fn ipv4(protocol: u8, to_port: u16) -> Vec<u8> {
    let port = to_port.to_be_bytes();
    let ip = [8, 0, 0x45, 0, 0, 40, 0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    [&ip[..], &[0x30, 0x39, port[0], port[1]], &[0; 16]].concat()
}

fn ipv6(from: u8) -> Vec<u8> {
    let mut ip = [&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 59, 64][..], &[0xfd; 32]].concat();
    ip[25] = from;
    ip
}

/// Frames that differ in what rules ask for, with a name. Each has a length of its own, by which it is found again.
pub(super) fn batch() -> Vec<(String, Vec<u8>)> {
    let tagged = |vid: u8| [&CUSTOMER[..], &[0, vid], &ipv4(17, 4000)].concat();
    let some = [
        ("udp 4000", ethernet(PORT, &ipv4(17, 4000))),
        ("udp 4001", ethernet(PORT, &ipv4(17, 4001))),
        ("tcp 80", ethernet(PORT, &ipv4(6, 80))),
        ("tcp 4000", ethernet(PORT, &ipv4(6, 4000))),
        ("vlan 5", ethernet(PORT, &tagged(5))),
        ("vlan 6", ethernet(PORT, &tagged(6))),
        ("type 88b5", ethernet(PORT, &[0x88, 0xb5])),
        ("type 88b6", ethernet(PORT, &[0x88, 0xb6])),
        ("nobody's", ethernet(NOBODY, &[0x88, 0xb6])),
    ];
    let named = some.into_iter().map(|(name, frame)| (name.to_owned(), frame));
    let many = (0..12).map(|from| (format!("ipv6 {from}"), ethernet(PORT, &ipv6(from))));
    let long = |(n, (name, mut frame)): (usize, (String, Vec<u8>))| {
        frame.resize(80 + n, 0);
        (name, frame)
    };
    named.chain(many).enumerate().map(long).collect()
}

/// A testpmd that prints each frame that it receives at the second card's first port, which has four queues and gives all to
/// the first of them, unless a rule says otherwise.
pub(super) fn receiver(net: &StockNet, options: &[&str]) -> Testpmd {
    let all = ["-i", "--rxq=4", "--txq=4", "--disable-rss", "--forward-mode=rxonly"];
    let mut receiver = Testpmd::start(net, &["net_verbena1"], &[&all, options].concat());
    receiver.does("set promisc 0 off\nset verbose 1\nstart");
    receiver
}

/// What a verbose testpmd says of each frame of the batch, by its name.
fn lines(said: &str) -> BTreeMap<String, &str> {
    let names: Vec<_> = batch().into_iter().map(|(name, _)| name).collect();
    let line = |frame| {
        let line: &str = str::lines(frame).next()?;
        let length: usize = line.split(' ').next()?.parse().ok()?;
        Some((names.get(length.checked_sub(80)?)?.clone(), line))
    };
    said.split("length=").skip(1).filter_map(line).collect()
}

/// What sends the batch.
pub(super) fn sender(net: &StockNet) -> Sender {
    let frames: Vec<_> = batch().into_iter().map(|(_, frame)| frame).collect();
    Sender::of(net, &frames)
}

/// Sends the batch, and waits until so many have come. Gives the queue of each that came, by its name.
pub(super) fn sent(sender: &mut Sender, receiver: &mut Testpmd, count: usize) -> BTreeMap<String, usize> {
    let before = receiver.said().len();
    sender.sends();
    let found = |said: &str| {
        let queue = |(name, line): (String, &str)| {
            Some((name, line.split("Receive queue=0x").nth(1)?.get(..1)?.parse().ok()?))
        };
        lines(said.get(before..).unwrap_or_default())
            .into_iter()
            .filter_map(queue)
            .collect::<BTreeMap<_, _>>()
    };
    receiver.expect_that("not all came", |said| found(said).len() >= count);
    found(&receiver.said())
}

/// The queues of frames, without those of IPv6.
fn without_ipv6(mut came: BTreeMap<String, usize>) -> Vec<(String, usize)> {
    came.retain(|name, _| !name.starts_with("ipv6"));
    came.into_iter().collect()
}

fn named(list: &[(&str, usize)]) -> Vec<(String, usize)> {
    let list: BTreeMap<_, _> = list.iter().map(|&(name, queue)| (name.to_owned(), queue)).collect();
    list.into_iter().collect()
}

pub(super) fn counter(receiver: &mut Testpmd, name: &str) -> u64 {
    last(&receiver.does("show port xstats 0"), name)
}

/// Rules of each kind of header and action, in one batch of frames; then without some of them, and without any.
#[test]
pub fn rules_choose_the_queue_of_a_frame() {
    let net = StockNet::alone();
    let (mut sender, mut receiver) = (sender(&net), receiver(&net, &[]));
    let rules = [
        "priority 1 ingress pattern eth / ipv4 / udp / end actions queue index 1 / end",
        "ingress pattern eth / ipv4 / udp dst is 4000 / end actions queue index 2 / end",
        "ingress pattern eth / ipv4 dst is 10.0.0.2 / tcp dst is 80 / end actions drop / end",
        "ingress pattern eth / vlan vid is 5 / end actions queue index 3 / end",
        "ingress pattern eth type is 0x88b5 / end actions queue index 1 / end",
        "ingress pattern eth dst is 02:00:00:00:00:77 / end actions queue index 2 / end",
        "ingress pattern eth / ipv6 / end actions rss queues 1 2 3 end / end",
    ];
    for (n, rule) in rules.iter().enumerate() {
        let created = format!("Flow rule #{n} created");
        let lines = format!("flow validate 0 {rule}\nflow create 0 {rule}");
        receiver.does_saying(&lines, &["Flow rule validated", &created]);
    }
    receiver.does_saying("flow list 0", &["ETH IPV4 TCP => DROP", "ETH IPV6 => RSS"]);

    // One is dropped. The tag is before the UDP: both rules match, and either may have it (rte_flow(3)).
    let all = batch().len();
    let came = sent(&mut sender, &mut receiver, all - 1);
    let spread: Vec<usize> =
        came.iter().filter(|(name, _)| name.starts_with("ipv6")).map(|(_, &queue)| queue).collect();
    assert_eq!(spread.len(), 12);
    assert!([1, 2, 3].iter().all(|queue| spread.contains(queue)) && !spread.contains(&0), "{spread:?}");
    let rest = [("tcp 4000", 0), ("type 88b6", 0)];
    let with_all = [("udp 4000", 2), ("udp 4001", 1), ("vlan 6", 2), ("type 88b5", 1), ("nobody's", 2)];
    let mut got = without_ipv6(came);
    let tagged = got.iter().position(|(name, _)| name == "vlan 5").map(|at| got.remove(at).1);
    assert!(matches!(tagged, Some(2 | 3)), "{tagged:?}");
    assert_eq!(got, named(&[&rest[..], &with_all].concat()));
    assert_eq!(counter(&mut receiver, "rx_rule_drop"), 1);

    // The rule of worse priority has what the other leaves.
    receiver.does_saying("flow destroy 0 rule 1", &["Flow rule #1 destroyed"]);
    let with_fewer =
        [("udp 4000", 1), ("udp 4001", 1), ("vlan 5", 3), ("vlan 6", 1), ("type 88b5", 1), ("nobody's", 2)];
    let came = sent(&mut sender, &mut receiver, all - 1);
    assert_eq!(without_ipv6(came), named(&[&rest[..], &with_fewer].concat()));
    assert_eq!(counter(&mut receiver, "rx_rule_drop"), 2);

    receiver.does("flow flush 0");
    let came = sent(&mut sender, &mut receiver, all - 1);
    assert!(came.values().all(|&queue| queue == 0) && !came.contains_key("nobody's"), "{came:?}");
    assert_eq!(counter(&mut receiver, "rx_rule_drop"), 2);
    end(&net, [sender.testpmd, receiver]);
}

/// Rules tell how many tags a frame has: none, some, more than one.
#[test]
pub fn rules_know_frames_by_their_tags() {
    let net = StockNet::alone();
    let mut receiver = receiver(&net, &[]);
    for rule in [
        "ingress pattern eth has_vlan is 0 / end actions queue index 1 / end",
        "ingress pattern eth has_vlan is 1 / vlan has_more_vlan is 1 / end actions queue index 2 / end",
        "priority 1 ingress pattern eth has_vlan is 1 / end actions queue index 3 / end",
    ] {
        receiver.does_saying(&format!("flow create 0 {rule}"), &["created"]);
    }
    let tagged = |tags: usize| {
        let tags = [&CUSTOMER[..], &[0, 5]].concat().repeat(tags);
        let mut frame = ethernet(PORT, &[tags, ipv4(17, 4000)].concat());
        frame.resize(80, 0);
        frame
    };
    let frames: Vec<_> = [0, 1, 1, 2, 2, 2].map(tagged).into();
    let mut sender = Sender::of(&net, &frames);
    sender.sends();
    receiver.asks("show port stats 0", &format!("RX-packets: {} ", frames.len()));
    let queues = ["rx_q1_packets", "rx_q2_packets", "rx_q3_packets"].map(|name| counter(&mut receiver, name));
    assert_eq!(queues, [1, 3, 2]);
    end(&net, [sender.testpmd, receiver]);
}

/// Frames come with the mark of their rule, and rules count what they take, also what they drop.
#[test]
pub fn rules_mark_and_count_frames() {
    let net = StockNet::alone();
    let (mut sender, mut receiver) = (sender(&net), receiver(&net, &[]));
    for rule in [
        "pattern eth / ipv4 / udp / end actions mark id 3054 / count / rss queues 0 2 end / end",
        "pattern eth / ipv4 / tcp / end actions count / drop / end",
        "pattern eth / ipv6 / end actions queue index 1 / mark id 7 / end",
    ] {
        receiver.does_saying(&format!("flow create 0 ingress {rule}"), &["created"]);
    }
    // TCP does not come, nor what is nobody's.
    sent(&mut sender, &mut receiver, batch().len() - 3);
    let said = receiver.said();
    let mark = |line: &'_ str| {
        line.split("FDIR matched ID=").nth(1).and_then(|mark| mark.split(' ').next()).map(str::to_owned)
    };
    let marks: BTreeMap<_, _> = lines(&said).into_iter().map(|(name, line)| (name, mark(line))).collect();
    let marked = |mark: &str| -> Vec<_> {
        let has = marks.iter().filter(|(_, has)| has.as_deref() == Some(mark));
        has.map(|(name, _)| name.as_str()).collect()
    };
    assert_eq!(marked("0xbee"), ["udp 4000", "udp 4001", "vlan 5", "vlan 6"], "{marks:?}");
    assert!(
        marked("0x7").len() == 12 && marked("0x7").iter().all(|name| name.starts_with("ipv6")),
        "{marks:?}"
    );
    assert_eq!(marks.values().filter(|mark| mark.is_none()).count(), 2, "{marks:?}");

    let query = |receiver: &mut Testpmd, rule: u32| {
        let said = receiver.does(&format!("flow query 0 {rule} count"));
        (last(&said, "hits"), last(&said, "bytes"))
    };
    // Of lengths from 80 on, in the order of the batch.
    assert_eq!(query(&mut receiver, 0), (4, 80 + 81 + 84 + 85));
    assert_eq!(query(&mut receiver, 1), (2, 82 + 83));
    receiver.does_saying("flow query 0 2 count", &["it needs the action count"]);
    sent(&mut sender, &mut receiver, batch().len() - 3);
    assert_eq!(query(&mut receiver, 0), (8, 2 * 330));
    assert_eq!(query(&mut receiver, 1), (4, 2 * 165));
    end(&net, [sender.testpmd, receiver]);
}

/// An isolated port has the frames of its rules only, from its start on, or from a command on.
#[test]
pub fn isolated_ports_get_what_rules_name() {
    let _alone = alone();
    for option in [&["--flow-isolate-all"][..], &[]] {
        let net = StockNet::new();
        let (mut sender, mut receiver) = (sender(&net), receiver(&net, option));
        if option.is_empty() {
            receiver.does_saying("flow isolate 0 1", &["is now restricted"]);
        }
        receiver.does("flow create 0 ingress pattern eth / ipv4 / tcp / end actions queue index 3 / end");
        let came = sent(&mut sender, &mut receiver, 2);
        assert_eq!(without_ipv6(came), named(&[("tcp 80", 3), ("tcp 4000", 3)]));
        assert_eq!(counter(&mut receiver, "rx_no_rule"), batch().len() as u64 - 2);
        receiver.does_saying("flow isolate 0 0", &["is not restricted anymore"]);
        let came = sent(&mut sender, &mut receiver, batch().len() - 1);
        assert_eq!(came.len(), batch().len() - 1, "{came:?}");
        end(&net, [sender.testpmd, receiver]);
    }
}

/// What the card cannot do is refused, with what is wrong.
#[test]
pub fn rules_that_the_card_cannot_keep_are_refused() {
    let net = StockNet::alone();
    let mut testpmd = receiver(&net, &[]);
    let to_0 = "end actions queue index 0 / end";
    for (rule, why) in [
        (format!("egress pattern eth / {to_0}"), "use ingress: Operation not supported"),
        (format!("transfer pattern eth / {to_0}"), "no embedded switch"),
        (format!("pattern eth / {to_0}"), "use ingress"),
        (format!("group 3 ingress pattern eth / {to_0}"), "there is group 0 only"),
        (format!("priority 255 ingress pattern eth / {to_0}"), "priorities are 0 to 254"),
        (
            format!("ingress pattern eth / ipv4 / sctp / {to_0}"),
            "looks at eth, vlan, ipv4, ipv6, udp and tcp",
        ),
        (format!("ingress pattern eth / ipv4 / ipv4 / {to_0}"), "one of each"),
        (format!("ingress pattern eth / vlan / vlan / {to_0}"), "one of each"),
        (format!("ingress pattern eth / udp / {to_0}"), "of which IP version?"),
        (format!("ingress pattern eth / ipv4 proto is 6 / udp / {to_0}"), "names another protocol"),
        (format!("ingress pattern eth / ipv4 fragment_offset is 5 / {to_0}"), "leave it out of the mask"),
        (
            format!("ingress pattern eth / ipv4 src spec 10.0.0.1 src last 10.0.0.9 / {to_0}"),
            "the card has no ranges: use a mask",
        ),
        ("ingress pattern eth / end actions end".into(), "an action is missing"),
        ("ingress pattern eth / end actions queue index 4 / end".into(), "there is no such receive queue"),
        (
            "ingress pattern eth / end actions rss queues 0 4 end / end".into(),
            "there is no such receive queue",
        ),
        ("ingress pattern eth / end actions rss queues end / end".into(), "1 to 512 queues"),
        ("ingress pattern eth / end actions rss level 2 queues 0 end / end".into(), "outermost headers"),
        ("ingress pattern eth / end actions rss types ipv4-sctp end queues 0 end / end".into(), "hash"),
        ("ingress pattern eth / end actions queue index 0 / drop / end".into(), "give one action"),
        ("ingress pattern eth / end actions flag / queue index 0 / end".into(), "drop, mark and count"),
        ("ingress pattern eth / end actions mark id 1 / end".into(), "an action is missing"),
        ("ingress pattern eth / end actions count / end".into(), "an action is missing"),
    ] {
        for command in ["validate", "create"] {
            testpmd.does_saying(&format!("flow {command} 0 {rule}"), &["Caught PMD error type", why]);
        }
    }
    let said = testpmd.does("flow list 0");
    assert!(!said.contains("=>"), "none is made: {said}");
    end(&net, [testpmd]);
}

/// A rule that is there already is refused, however often.
#[test]
pub fn rules_that_repeat_are_refused() {
    let net = StockNet::alone();
    let rule = |queue| {
        format!("flow create 0 ingress pattern eth / ipv4 / udp dst is 7 / end actions queue index {queue} / end\n")
    };
    let lines = rule(0).repeat(10_000) + &rule(1) + "flow list 0\nflow flush 0\n" + &rule(1);
    let said = Testpmd::doing(&net, &["net_verbena0"], &["--rxq=2", "--txq=2"], &lines);
    let count = |text: &str| said.matches(text).count();
    assert_eq!(count("there is a rule for these frames already: destroy it first: File exists"), 10_000);
    assert_eq!(count("ETH IPV4 UDP => QUEUE"), 1);
    assert_eq!(count("Flow rule #0 created"), 2, "again after the flush");
    net.expect_gone();
}

/// `dpdk-test-flow-perf` with one port, run to its end, and what it says.
fn perf(net: &StockNet, options: &[&str]) -> String {
    let program = net.dpdk().program("dpdk-test-flow-perf");
    let prefix = format!("verbena-test-{}-perf", std::process::id());
    let mut words: Vec<&str> = program[1..].iter().map(String::as_str).collect();
    words.extend(["--no-huge", "-m", "192", "-l", "0,1", "--file-prefix", &prefix, "--vdev", "net_verbena1"]);
    words.extend(["--"].iter().chain(options));
    // Ten thousand rules of each kind, beside programs that poll.
    let ended = Program::start(net.command(&[], &program[0], &words)).wait(3 * LIMIT);
    let _ = fs::remove_dir_all(Path::new("/var/run/dpdk").join(prefix));
    assert!(ended.status.is_some(), "{ended}");
    ended.said
}

/// DPDK's own program makes and ends ten thousand rules of a kind, each with other addresses, and is told when the card has no
/// more room.
#[test]
pub fn ten_thousand_rules_are_made_and_ended() {
    let net = StockNet::alone();
    let many = |kind: &[&'static str]| {
        let all = ["--ingress", "--rules-count=10000", "--rules-batch=10000", "--deletion-rate"];
        [&all[..], kind].concat()
    };
    for kind in [
        &["--ether", "--ipv4", "--udp", "--queue"][..],
        &["--ether", "--vlan", "--ipv4", "--drop"],
        &["--ipv6", "--tcp", "--rss"],
        &["--ipv4", "--udp", "--mark", "--count", "--queue"],
    ] {
        let said = perf(&net, &many(kind));
        for text in ["The time for creating 10000 rules", "The time for deleting 10000 rules", "Bye ..."] {
            assert!(said.contains(text), "{kind:?}: no {text:?}: {said}");
        }
        let rate = said.lines().find(|line| line.contains("Rules insertion rate")).unwrap_or_default();
        println!("{kind:?}: {rate}");
    }
    let said = perf(&net, &["--ingress", "--ipv4", "--drop", "--rules-count=20000", "--rules-batch=10000"]);
    assert!(said.contains("the card has no room for more rules"), "{said}");
    let said = perf(
        &net,
        &["--ingress", "--ipv4", "--udp", "--flag", "--queue", "--rules-count=10000", "--rules-batch=10000"],
    );
    assert!(said.contains("actions are queue, rss, drop, mark and count"), "{said}");
    net.expect_gone();
}
