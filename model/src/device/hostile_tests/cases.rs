//! Steps that the checks once took for a mistake of the card. They are written out: a seed of proptest is another case as
//! soon as the strategy is another one.

use super::surroundings::{ALL, FOREIGN, LOCAL, REGION};
use super::{play, Raw, Step, FIRST};
use crate::wire::{psn, Operation};
use Operation::{CompareSwap, Send, Write};

const START: u32 = 0xff_fffc;
/// The first packet of a WRITE to the region that is open.
const RAW: Raw = Raw {
    operation: Write,
    transport: None,
    flags: [false; 6],
    ahead: 0,
    count: 1,
    tail: 0,
    length: 2,
    key: 2,
    at: 0,
    dma_len: 0,
    syndrome: 0,
    msn: 0,
    extra: 3,
    number: 1,
};
const LAST: [bool; 6] = [false, true, false, false, false, false];

/// Plays a case: PSNs that a queue pair took, bytes of payload that are in memory then, atomics of the last step.
fn taken(n: usize, reorder: u32, steps: Vec<Step>) -> (i32, usize, u32) {
    let mut card = play(START, ALL, reorder, steps);
    let regions = &card.env.memory[LOCAL as usize..(FOREIGN + REGION) as usize];
    let written = regions.iter().filter(|&&byte| byte == 0xaa).count();
    let took = psn::diff(card.card.qps[FIRST + n].resp.epsn, START);
    let atomics = card.env.atomics;
    card.end();
    (took, written, atomics)
}

/// It came too early, and comes again when its first half was taken: the other half goes on with the message that there
/// is, not with what the train itself says.
#[test]
fn half_of_a_train_is_new() {
    let early = Raw { ahead: 1, count: 2, ..RAW };
    let first = Raw { count: 2, dma_len: 768, ..RAW };
    let steps = vec![Step::Packet(0, early), Step::Packet(0, first), Step::Again(0, 1)];
    assert_eq!(taken(0, 0, steps), (3, 768, 0));
}

/// Of UC, which waits for nothing, a packet from before is as good as any.
#[test]
fn a_packet_from_before_begins_a_message_of_uc() {
    let before = Raw { ahead: -1, dma_len: 256, ..RAW };
    assert_eq!(taken(2, 0, vec![Step::Packet(2, before)]), (0, 256, 0));
}

/// The packet that was missing is a WRITE, with which the atomic is done that was kept.
#[test]
fn a_kept_atomic_is_done_with_a_write() {
    let kept = Raw { operation: CompareSwap, ahead: 1, length: 0, extra: 0, number: 0, ..RAW };
    let missing = Raw { flags: LAST, length: 3, extra: 2, ..RAW };
    let steps = vec![Step::Packet(1, kept), Step::Packet(1, missing)];
    assert_eq!(taken(1, 3, steps), (2, 1, 1));
}

/// What is acknowledged is the packet that asked for it, not the one behind it that was kept.
#[test]
fn an_acknowledgement_is_of_a_packet_before_a_kept_one() {
    let first = Raw { dma_len: 513, ..RAW };
    let rest = Raw { flags: LAST, count: 2, number: 0, ..RAW };
    let kept = Raw { operation: Send, ahead: 1, ..RAW };
    let flags = [true, true, true, false, false, false];
    let asks = Raw { operation: Send, flags, length: 0, number: 0, ..RAW };
    let packet = |raw| Step::Packet(1, raw);
    let receive = || Step::Receive(1);
    let steps = vec![packet(first), receive(), receive(), packet(rest), packet(kept), packet(asks)];
    assert_eq!(taken(1, 3, steps), (5, 769, 0));
}
