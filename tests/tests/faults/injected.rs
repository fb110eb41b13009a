//! A fault of each kind, and the exact packets that follow.
//!
//! The time and the order of each packet are part of the snapshots: simulated time is the same in every run.

use fpga_regs::{CqeStatus, QpState, WqeOpcode};
use tests::{Options, Side};

use super::scene::Scene;

/// Five packets of 1024 bytes, the last of them shorter.
pub const FIVE: usize = 4500;
/// One packet.
pub const ONE: usize = 500;
/// Where the peer's words for atomics are.
const WORD: usize = 100_000;

pub fn options() -> Options {
    // The time-out is 4.096 us * 2^4.
    Options { mtu: 3, psn: 0, timeout: 4, ..Options::default() }
}

/// Runs `work` between two connected queue pairs with these faults; gives the packets.
fn packets(faults: &str, work: impl FnOnce(&Scene, &mut Side, &mut Side)) -> String {
    packets_of(0, faults, options(), work)
}

/// The same between cards that keep so many packets out of order.
pub fn packets_of(
    reorder: u32,
    faults: &str,
    options: Options,
    work: impl FnOnce(&Scene, &mut Side, &mut Side),
) -> String {
    packets_in(Scene::new(reorder, faults, true), options, work)
}

fn packets_in(scene: Scene, options: Options, work: impl FnOnce(&Scene, &mut Side, &mut Side)) -> String {
    let (mut x, mut y) = scene.connect(options);
    x.buffer.pattern(1);
    y.buffer.pattern(2);
    work(&scene, &mut x, &mut y);
    assert!(x.poll().is_none() && y.poll().is_none(), "{}: a completion too many", scene.options);
    drop((x, y));
    scene.transcript() + "\n"
}

/// WRITEs of these sizes, posted together.
pub fn writes<'a>(sizes: &'a [usize]) -> impl FnOnce(&Scene, &mut Side, &mut Side) + 'a {
    move |_, x, y| {
        for (n, &size) in sizes.iter().enumerate() {
            x.post(&[x.remote(n as u64, WqeOpcode::WRITE, &[x.sge(n * 8192, size)], y, n * 8192)]);
        }
        for (n, &size) in sizes.iter().enumerate() {
            x.expect(n as u64);
            let part = n * 8192..n * 8192 + size;
            // The peer's card has them; a moment later its memory does.
            let there = || x.buffer[part.clone()] == y.buffer[part.clone()];
            for _ in (0..100).take_while(|_| !there()) {
                assert!(y.poll().is_none(), "WRITE {n}: nobody waits for it");
            }
            assert!(there(), "WRITE {n}: the bytes");
        }
    }
}

pub fn send(size: usize) -> impl FnOnce(&Scene, &mut Side, &mut Side) {
    move |_, x, y| {
        y.recv(7, &[y.sge(0, size)]);
        x.completes(x.wr(1, WqeOpcode::SEND, &[x.sge(0, size)]));
        assert_eq!(y.expect(7).byte_len as usize, size);
        assert!(x.buffer[..size] == y.buffer[..size], "SEND: the bytes");
    }
}

pub fn read(size: usize) -> impl FnOnce(&Scene, &mut Side, &mut Side) {
    move |_, x, y| {
        x.completes(x.remote(1, WqeOpcode::READ, &[x.sge(0, size)], y, 0));
        assert!(x.buffer[..size] == y.buffer[..size], "READ: the bytes");
    }
}

/// Three atomics, each of which must happen once.
pub fn adds(_: &Scene, x: &mut Side, y: &mut Side) {
    let before = u64::from_le_bytes(y.buffer[WORD..WORD + 8].try_into().expect("8 bytes"));
    for n in 0..3 {
        let sge = [x.sge(n * 8, 8)];
        let mut add = x.remote(n as u64, WqeOpcode::FETCH_ADD, &sge, y, WORD);
        add.compare_add = 10 + n as u64;
        x.post(&[add]);
    }
    for (n, sum) in [0, 10, 21].into_iter().enumerate() {
        x.expect(n as u64);
        assert_eq!(x.buffer[n * 8..n * 8 + 8], before.wrapping_add(sum).to_le_bytes(), "what was there");
    }
    assert_eq!(y.buffer[WORD..WORD + 8], before.wrapping_add(33).to_le_bytes(), "each was done once");
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
    text += &packets("drop send only nth=1", send(ONE));
    text += &packets("drop data nth=3", writes(&[ONE, FIVE, ONE]));
    insta::assert_snapshot!("requests", text);
}

#[test]
fn an_answer_is_lost() {
    let mut text = packets("drop ack nth=1", writes(&[ONE]));
    // A later one says the same.
    text += &packets("drop ack nth=1", writes(&[ONE, ONE]));
    text += &packets("drop read nth=1", read(FIVE));
    text += &packets("drop read-response first nth=1", read(FIVE));
    text += &packets("drop read-response middle nth=2", read(FIVE));
    text += &packets("drop read-response last nth=1", read(FIVE));
    text += &packets("drop read-response only nth=1", read(ONE));
    text += &packets("drop atomic nth=2", adds);
    text += &packets("drop atomic-response nth=2", adds);
    text += &packets("drop write first nth=1, drop nak nth=1", writes(&[FIVE]));
    insta::assert_snapshot!("answers", text);
}

#[test]
fn time_outs_back_to_back() {
    let mut text = packets("drop write nth=1..4", writes(&[ONE]));
    text += &packets_of(0, "drop write", Options { retry_cnt: 2, ..options() }, |scene, x, y| {
        x.post(&[x.remote(1, WqeOpcode::WRITE, &[x.sge(0, ONE)], y, 0)]);
        assert_eq!(x.wait().status, CqeStatus::RETRY_EXC_ERR);
        assert_eq!(scene.counter("ACK_TIMEOUTS"), 3);
        assert_eq!(x.qp.query().expect("the QP").state, QpState::ERR);
    });
    text += &packets("down=0s..200us", writes(&[ONE, ONE]));
    insta::assert_snapshot!("time_outs", text);
}

/// A receive that comes after `storm` NAKs.
pub fn late_receive(storm: u64) -> impl FnOnce(&Scene, &mut Side, &mut Side) {
    move |scene, x, y| {
        x.post(&[x.wr(1, WqeOpcode::SEND, &[x.sge(0, FIVE)]), x.wr(2, WqeOpcode::SEND, &[x.sge(8192, ONE)])]);
        while scene.counter("RNR_NAK") < storm {
            assert!(x.poll().is_none(), "nothing has arrived yet");
        }
        y.recv(1, &[y.sge(0, FIVE)]);
        y.recv(2, &[y.sge(8192, ONE)]);
        for n in 1..=2 {
            x.expect(n);
            y.expect(n);
        }
        assert!(
            x.buffer[..FIVE] == y.buffer[..FIVE] && x.buffer[8192..8192 + ONE] == y.buffer[8192..8192 + ONE]
        );
    }
}

#[test]
fn receivers_that_are_not_ready() {
    let mut text = packets("", late_receive(4));
    text += &packets("drop rnr nth=1", late_receive(2));
    insta::assert_snapshot!("rnr", text);
}

#[test]
fn losses_where_psns_wrap() {
    let wrap = Options { psn: 0xff_fffe, ..options() };
    let mut text = packets_of(0, "drop psn=0xffffff..0 nth=1..2", wrap, writes(&[FIVE]));
    text += &packets_of(0, "drop read-response psn=0 nth=1", wrap, read(FIVE));
    text += &packets_of(0, "drop ack psn=1 nth=1", wrap, writes(&[ONE, ONE, ONE, ONE]));
    insta::assert_snapshot!("psn_wrap", text);
}

#[test]
fn what_is_not_lost() {
    let mut text = packets("dup write only nth=1", writes(&[ONE, ONE]));
    text += &packets("dup atomic nth=2", adds);
    text += &packets("dup read", read(FIVE));
    text += &packets("reorder by=1 write first", writes(&[FIVE]));
    text += &packets("corrupt write middle nth=2", |scene, x, y| {
        writes(&[FIVE])(scene, x, y);
        assert_eq!(scene.counter("RX_ICRC_ERRORS") + scene.counter("RX_MALFORMED"), 1);
    });
    // Later than the time-out.
    text += &packets("delay by=100us ack nth=1", writes(&[ONE]));
    text += &packets("mark write", |scene, x, y| {
        writes(&[FIVE])(scene, x, y);
        assert_eq!(scene.counter("RX_ECN_MARKED"), 5);
    });
    insta::assert_snapshot!("not_lost", text);
}

/// Two WRITEs, one after the other, between cards with congestion control, as one of them sees them; and how many
/// notifications they must have counted as sent, and as received.
fn notified(cc: &str, card: u8, faults: &str, counts: [u64; 2]) -> String {
    packets_in(Scene::congested(cc, card, faults), options(), |scene, x, y| {
        writes(&[FIVE])(scene, x, y);
        x.buffer.pattern(3);
        writes(&[FIVE])(scene, x, y);
        assert_eq!(["TX_CNP", "RX_CNP"].map(|name| scene.counter(name)), counts, "{faults}");
    })
}

#[test]
fn a_congestion_notification_is_lost() {
    // Without a loss it comes to the sender of the data, whose second WRITE takes twice the time.
    let mut text = notified("dcqcn", 0, "mark data nth=2", [1, 1]);
    // The receiver sees the mark and notifies the sender, which sees nothing and goes on as fast as before.
    for card in [1, 0] {
        text += &notified("dcqcn", card, "mark data nth=2, drop cnp nth=1", [1, 0]);
    }
    // A mark that comes 1 us after the first makes another one, which is not lost.
    text += &notified("dcqcn,cnp=1us", 1, "mark data nth=2..5, drop cnp nth=1", [2, 1]);
    insta::assert_snapshot!("notifications", text);
}

/// The longest delay that can be said ends later than time does: the frame is as good as lost.
#[test]
fn a_delay_may_be_as_long_as_can_be_said() {
    packets("delay by=18446744s write only nth=1", writes(&[ONE]));
}
