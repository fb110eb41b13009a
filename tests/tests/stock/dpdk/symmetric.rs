//! Rules that hash both directions of a flow alike.

use super::flow::receiver;
use super::*;

/// Flows, each with a frame in either direction.
const FLOWS: usize = 16;

/// The frame of a flow, whose addresses and ports differ from those of other flows. There and back differ in their length.
fn frame(flow: usize, back: bool) -> Vec<u8> {
    let n = flow as u8;
    let (mut from, mut to) = ([10, 0, n, 1], [10, 77, 3, n * 5]);
    let (mut from_port, mut to_port) = ([0x30, n * 7], [0x11, 0x5b]);
    if back {
        std::mem::swap(&mut from, &mut to);
        std::mem::swap(&mut from_port, &mut to_port);
    }
    let ethernet = [2, 0x56, 0x42, 0, 1, 0, 2, 9, 9, 9, 9, 9, 8, 0];
    let ip = [0x45, 0, 0, 40, 0, 1, 0, 0, 64, 17, 0, 0];
    let mut frame = [&ethernet[..], &ip, &from, &to, &from_port, &to_port].concat();
    frame.resize(length(flow, back), 0);
    frame
}

fn length(flow: usize, back: bool) -> usize {
    100 + flow + if back { 100 } else { 0 }
}

/// Queue and hash of a frame of this length, as a verbose testpmd says them.
fn place(said: &str, length: usize) -> Option<(String, String)> {
    let line = said.rsplit_once(&format!("length={length} "))?.1.lines().next()?;
    let word = |name: &str| Some(line.split(name).nth(1)?.split_whitespace().next()?.to_owned());
    Some((word("Receive queue=")?, word("RSS hash=")?))
}

/// The queues of the flows, and how many of these have both directions in the same, with the same hash.
fn spread(said: &str) -> (Vec<String>, usize) {
    let places = |back| (0..FLOWS).filter_map(move |flow| place(said, length(flow, back)));
    let there: Vec<_> = places(false).collect();
    let same = there.iter().zip(places(true)).filter(|(there, back)| *there == back).count();
    let mut queues: Vec<_> = there.into_iter().map(|(queue, _)| queue).collect();
    queues.sort();
    queues.dedup();
    (queues, same)
}

#[test]
pub fn both_directions_of_a_flow_come_to_one_queue() {
    let net = StockNet::alone();
    let mut receiver = receiver(&net, &[]);
    let frames: Vec<_> = (0..FLOWS).flat_map(|flow| [frame(flow, false), frame(flow, true)]).collect();
    let mut sender = Sender::of(&net, &frames);
    let mut came = 0;
    // Whether both directions are to be the same, and the hash. The key of the last is one that repeats.
    for (alike, hash) in [
        (false, "toeplitz".to_owned()),
        (true, "symmetric_toeplitz".to_owned()),
        (true, format!("symmetric_toeplitz key {}", "3c71".repeat(20))),
    ] {
        let rule = format!("pattern eth / ipv4 / udp / end actions rss func {hash} types ipv4-udp end");
        receiver.does_saying(&format!("flow create 0 ingress {rule} queues 0 1 2 3 end / end"), &["created"]);
        let before = receiver.said().len();
        sender.sends();
        came += frames.len();
        receiver.asks("show port stats 0", &format!("RX-packets: {came} "));
        let told = |said: &str| said[before..].matches("Receive queue=").count();
        receiver.expect_that("not all are told", |said| told(said) >= frames.len());
        receiver.does("flow flush 0");
        let said = receiver.said()[before..].to_owned();
        let (queues, same) = spread(&said);
        assert!(queues.len() > 1, "{hash}: all in {queues:?}: {said}");
        assert_eq!(same == FLOWS, alike, "{hash}: {same} of {FLOWS}: {said}");
    }
    let rule = "pattern eth / ipv4 / udp / end actions rss func";
    let key: String = (0..40).map(|n| format!("{n:02x}")).collect();
    for (hash, why) in [
        (format!("symmetric_toeplitz key {key}"), "a key that repeats its first two bytes only"),
        ("simple_xor".to_owned(), "the card's hash function is Toeplitz"),
    ] {
        receiver.does_saying(&format!("flow create 0 ingress {rule} {hash} queues 0 1 end / end"), &[why]);
    }
    end(&net, [sender.testpmd, receiver]);
}
