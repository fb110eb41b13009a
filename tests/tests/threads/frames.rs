//! Ethernet frames beside each other and beside messages.

use driver::Flow;
use fpga_regs::{FlowContext, QpType};
use model::segment::{Entry, Segment};
use std::sync::atomic::Ordering::SeqCst;
use tests::TestCard;

use super::*;

const EACH: u64 = 3000;
/// Frames on their way.
const UNDER_WAY: u64 = 16;
/// Bytes of a frame, and from one in a buffer to the next.
const FRAME: usize = 200;
const STRIDE: usize = 256;

fn raw() -> Options {
    Options { qp_type: QpType::RAW_PACKET, ..options() }
}

/// A multicast address for each pair.
fn group(pair: u8) -> [u8; 6] {
    [1, 0x50, 0x56, 0x19, 0x20, pair]
}

fn takes(y: &Side, dmac: [u8; 6]) -> Flow<TestCard> {
    let rule = FlowContext::new().with_port(1).with_dmac(dmac).with_dmac_mask([0xff; 6]);
    y.qp.create_flow(&rule).expect("a rule")
}

/// Sends a frame with a number, which is that of its work request, too.
fn send(x: &mut Side, dmac: [u8; 6], n: u64) {
    let at = (n % UNDER_WAY) as usize * STRIDE;
    x.buffer[at..at + 6].copy_from_slice(&dmac);
    x.buffer[at + 6..at + 14].copy_from_slice(&[2, 9, 9, 9, 9, 9, 0x88, 0xb5]);
    x.buffer[at + 14..at + 22].copy_from_slice(&n.to_be_bytes());
    x.post(&[x.wr(n, WqeOpcode::RAW_ETH, &[x.sge(at, FRAME)])]);
}

fn receive(y: &Side, n: u64) {
    y.recv(n, &[y.sge((n % UNDER_WAY) as usize * STRIDE, STRIDE)]);
}

/// Takes the frame with a number.
fn take(y: &Side, n: u64) {
    assert_eq!(y.expect(n).byte_len as usize, FRAME);
    let at = (n % UNDER_WAY) as usize * STRIDE;
    assert_eq!(y.buffer[at + 14..at + 22], n.to_be_bytes(), "frames come in order, each once");
}

#[test]
fn senders_with_receivers_of_their_own_and_one_in_common() {
    let (_net, a, b) = Net::new(2).both();
    std::thread::scope(|threads| {
        for pair in 0..3u8 {
            let (a, b) = if pair % 2 == 0 { (&a, &b) } else { (&b, &a) };
            threads.spawn(move || {
                let (mut x, y) = connect(a, b, raw());
                // Each of them gets the frames to this address too, but its own.
                let _flows = [takes(&y, group(pair)), takes(&y, group(pair + 100))];
                (0..UNDER_WAY).for_each(|n| receive(&y, n));
                for n in 0..EACH {
                    send(&mut x, group(pair + if n % 7 == 0 { 100 } else { 0 }), n);
                    x.expect(n);
                    take(&y, n);
                    receive(&y, n + UNDER_WAY);
                }
            });
        }
        threads.spawn(|| {
            let (x, y) = connect(&a, &b, options());
            for n in 0..EACH {
                x.completes(x.remote(n, WqeOpcode::WRITE, &[x.sge(0, 64)], &y, 0));
            }
        });
        // What hangs together is found out again and again.
        threads.spawn(|| (0..40).for_each(|_| drop(connect(&a, &b, raw()))));
    });
}

#[test]
fn all_senders_to_one_receiver() {
    const SENDERS: u64 = 4;
    let (_net, a, b) = Net::new(2).both();
    let y = Peer::new(&b, Options { cqes: 4096, ..raw() });
    y.init();
    y.rtr(0, [0; 16], 0);
    let _flow = takes(&y, group(0));
    let came = Once::new((SENDERS * EACH) as usize);
    // A frame is sent when there is a receive for it, which no other frame takes: this thread may be off its core for longer
    // than frames wait.
    let free = AtomicU64::new(UNDER_WAY);
    (0..UNDER_WAY).for_each(|n| receive(&y, n));
    std::thread::scope(|threads| {
        for sender in 0..SENDERS {
            let (a, b, free) = (&a, &b, &free);
            threads.spawn(move || {
                let (mut x, _other) = connect(if sender % 2 == 0 { a } else { b }, a, raw());
                let take = || free.fetch_update(SeqCst, SeqCst, |free| free.checked_sub(1)).is_ok();
                for n in sender * EACH..(sender + 1) * EACH {
                    let begin = Instant::now();
                    while !take() {
                        assert!(begin.elapsed() < PATIENCE, "there is no receive for frame {n}");
                        // The receiver has its turn.
                        std::thread::sleep(Duration::from_micros(10));
                    }
                    send(&mut x, group(0), n);
                    x.expect(n);
                }
            });
        }
        for n in 0..SENDERS * EACH {
            let wc = y.expect(n);
            assert_eq!(wc.byte_len as usize, FRAME);
            let at = (n % UNDER_WAY) as usize * STRIDE;
            let number = y.buffer[at + 14..at + 22].try_into().expect("eight bytes");
            came.happened(u64::from_be_bytes(number));
            receive(&y, n + UNDER_WAY);
            free.fetch_add(1, SeqCst);
        }
    });
    assert!(came.done());
}

/// A thread stays within an island of other queue pairs.
#[test]
fn frames_need_no_other_island() {
    let net = Net::new(2);
    let (mut x, y) = net.pair(raw());
    let _flow = takes(&y, group(0));
    let segment = Segment::attach(&net.socket()).expect("one more member");
    (0..UNDER_WAY).for_each(|n| receive(&y, n));
    // They find out what hangs together.
    send(&mut x, group(0), 0);
    x.expect(0);
    take(&y, 0);
    let other = segment.lock(PATIENCE).expect("all the cards").new_island(0);
    let Entry::Entered(_within) = segment.enter(other) else { panic!("nobody else is in it") };
    for n in 1..UNDER_WAY {
        send(&mut x, group(0), n);
        x.expect(n);
        take(&y, n);
    }
}
