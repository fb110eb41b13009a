//! The same faults with selective repeat: what is lost is sent again, and nothing else.

use tests::{Options, Side};

use super::injected::{adds, late_receive, options, packets_of, read, send, writes, FIVE, ONE};
use super::scene::Scene;

/// Packets that the cards keep.
const KEPT: u32 = 128;

fn packets(faults: &str, work: impl FnOnce(&Scene, &mut Side, &mut Side)) -> String {
    packets_of(KEPT, faults, options(), work)
}

#[test]
fn a_packet_of_a_request_is_lost() {
    let mut text = packets("drop write first nth=1", writes(&[FIVE]));
    text += &packets("drop write middle nth=1", writes(&[FIVE]));
    // Nothing follows that would show the loss: the timer does.
    text += &packets("drop write last nth=1", writes(&[FIVE]));
    text += &packets("drop write last nth=1", writes(&[FIVE, ONE]));
    text += &packets("drop write only nth=1", writes(&[ONE, ONE]));
    text += &packets("drop send middle nth=2", send(FIVE));
    // Two holes: the second is told of when the first is filled.
    text += &packets("drop data nth=2, drop data nth=4", writes(&[FIVE, FIVE]));
    text += &packets("drop data nth=2..4", writes(&[FIVE, FIVE]));
    // The packet that is sent again is lost: it takes the time-out, since little follows.
    text += &packets("drop psn=1 nth=1..2", writes(&[FIVE]));
    text += &packets("drop write first nth=1, drop nak nth=1", writes(&[FIVE]));
    insta::assert_snapshot!("selective_requests", text);
}

#[test]
fn an_answer_is_lost() {
    let mut text = packets("drop ack nth=1", writes(&[ONE, ONE]));
    text += &packets("drop read nth=1", read(FIVE));
    text += &packets("drop read-response first nth=1", read(FIVE));
    text += &packets("drop read-response middle nth=2", read(FIVE));
    text += &packets("drop read-response last nth=1", read(FIVE));
    text += &packets("drop read-response middle nth=1, drop read-response middle nth=3", read(FIVE));
    text += &packets("drop atomic nth=2", adds);
    text += &packets("drop atomic-response nth=2", adds);
    insta::assert_snapshot!("selective_answers", text);
}

#[test]
fn receivers_that_are_not_ready() {
    let mut text = packets("", late_receive(2));
    text += &packets("drop send first nth=2", late_receive(2));
    insta::assert_snapshot!("selective_rnr", text);
}

#[test]
fn losses_where_psns_wrap_and_what_is_not_lost() {
    let wrap = Options { psn: 0xff_fffe, ..options() };
    let mut text = packets_of(KEPT, "drop psn=0xffffff..0 nth=1..2", wrap, writes(&[FIVE]));
    text += &packets_of(KEPT, "drop read-response psn=0 nth=1", wrap, read(FIVE));
    text += &packets("reorder by=1 write first", writes(&[FIVE]));
    text += &packets("dup write middle", writes(&[FIVE]));
    insta::assert_snapshot!("selective_order", text);
}

/// A card that keeps two packets drops the others, and all that follows is sent again.
#[test]
fn more_comes_than_is_kept() {
    let text = packets_of(2, "drop write first nth=1", options(), writes(&[FIVE, FIVE]));
    insta::assert_snapshot!("selective_few", text);
}
