use super::*;
use crate::zeroed::Zeroed;

const A: PortId = PortId { card: 0, port: 0 };
const B: PortId = PortId { card: 1, port: 1 };
const ALL_OF_IT: View = View { port: None, qpn: None, snaplen: 65_535 };

fn live() -> Zeroed<Live> {
    Zeroed::new().unwrap()
}

fn seen(way: (PortId, PortId), received: bool) -> Seen {
    Seen::new(way, received, [17, 18], 5_000_000_000)
}

fn taken(live: &Live, index: usize) -> Vec<(Seen, Vec<u8>)> {
    let mut all = Vec::new();
    live.take(index, &mut |seen, frame| all.push((*seen, frame.to_vec()))).unwrap();
    all
}

/// A frame of this length that no other one is like.
fn frame(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (n * 31 + at) as u8).collect()
}

#[test]
fn frames_are_taken_as_they_were_put() {
    let live = live();
    let index = live.begin(3, &View { snaplen: 100, ..ALL_OF_IT }, true).unwrap();
    let lengths = [0, 1, 7, 8, 9, 99, 100, 101, LONGEST_FRAME];
    for (n, len) in lengths.into_iter().enumerate() {
        live.put(&seen((A, B), false), &frame(n, len));
    }
    let all = taken(&live, index);
    assert_eq!(all.len(), lengths.len());
    for (n, ((found, bytes), len)) in all.into_iter().zip(lengths).enumerate() {
        assert_eq!(found, Seen { length: len as u32, ..seen((A, B), false) });
        assert_eq!(bytes, frame(n, len)[..len.min(100)]);
    }
    assert!(taken(&live, index).is_empty());
}

#[test]
fn a_full_ring_counts_what_it_does_not_take() {
    let live = live();
    let index = live.begin(3, &ALL_OF_IT, true).unwrap();
    let bytes = frame(1, LONGEST_FRAME);
    let fit = WORDS / (HEAD + LONGEST_FRAME as u64 / 8);
    // The ring is filled again and again, from each place in it.
    for round in 1..4 {
        (0..fit + 5).for_each(|_| live.put(&seen((A, B), false), &bytes));
        assert_eq!(live.dropped(index), 5 * round);
        let all = taken(&live, index);
        assert_eq!(all.len() as u64, fit);
        assert!(all.iter().all(|(_, found)| *found == bytes));
        live.put(&seen((A, B), false), &bytes[..1]);
        assert_eq!(taken(&live, index).len(), 1);
    }
}

#[test]
fn a_capture_sees_what_its_view_says() {
    let (other, outside) = (PortId { card: 1, port: 0 }, PortId::NOBODY);
    let ways = [(A, B), (B, A), (A, A), (B, other), (A, PortId::ALL), (A, outside), (outside, A)];
    let sees = |port| {
        let live = live();
        live.begin(3, &View { port, ..ALL_OF_IT }, true).unwrap();
        ways.map(|way| (live.sees(way, false), live.sees(way, true)))
    };
    let (sent, received, not) = ((true, false), (false, true), (false, false));
    assert_eq!(sees(None), [sent, sent, sent, sent, sent, sent, received]);
    assert_eq!(sees(Some(A)), [sent, received, sent, not, sent, sent, received]);
    assert_eq!(sees(Some(B)), [received, sent, not, sent, received, not, not]);
    assert_eq!(sees(Some(other)), [not, not, not, received, received, not, not]);
    let live = live();
    let views = [17, 18, 19].map(|qpn| View { qpn: Some(qpn), ..ALL_OF_IT });
    let indices = views.map(|view| live.begin(3, &view, true).unwrap());
    live.put(&seen((A, B), false), &[1]);
    assert_eq!(indices.map(|index| taken(&live, index).len()), [1, 1, 0]);
}

#[test]
fn bytes_that_are_no_frames_are_found() {
    let live = live();
    let index = live.begin(3, &ALL_OF_IT, true).unwrap();
    let ring = &live.rings[index];
    for (word, value) in [(1, u64::MAX), (1, 200), (1, LONGEST_FRAME as u64 + 1)] {
        [&ring.head, &ring.tail].into_iter().for_each(|word| word.store(0, Ordering::Relaxed));
        live.put(&seen((A, B), false), &[1; 60]);
        ring.words.0[word].store(value, Ordering::Relaxed);
        assert_eq!(live.take(index, &mut |_, _| ()), Err(Damaged));
    }
    for (head, tail) in [(WORDS + 1, 0), (0, 1), (2, 0)] {
        ring.head.store(head, Ordering::Relaxed);
        ring.tail.store(tail, Ordering::Relaxed);
        assert_eq!(live.take(index, &mut |_, _| ()), Err(Damaged), "{head} {tail}");
        // Who runs the cards is not concerned.
        live.put(&seen((A, B), false), &[1; 60]);
    }
}
