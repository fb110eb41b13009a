//! The range algorithm against one that keeps every byte by itself.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::reach::ranges::{contiguous, find, insert, remove, Change, Range, PRIVATE};

/// Address to references and backing.
type Bytes = BTreeMap<u64, (u64, u64)>;

fn apply(ranges: &mut Vec<Range>, change: Change) -> Vec<Range> {
    ranges.splice(change.from..change.to, change.ranges);
    change.dropped
}

fn spread(ranges: &[Range]) -> Bytes {
    let mut bytes = Bytes::new();
    for range in ranges {
        for i in 0..range.len {
            let backing = match range.backing {
                PRIVATE => PRIVATE,
                offset => offset + i,
            };
            let before = bytes.insert(range.start + i, (range.refs, backing));
            assert_eq!(before, None, "ranges overlap");
        }
    }
    bytes
}

fn check_form(ranges: &[Range]) {
    assert!(ranges.iter().all(|range| range.len > 0 && range.refs > 0));
    for pair in ranges.windows(2) {
        assert!(pair[0].end() <= pair[1].start, "sorted");
        let joined = pair[0].backing != PRIVATE && pair[0].backing + pair[0].len == pair[1].backing
            || pair[0].backing == PRIVATE && pair[1].backing == PRIVATE;
        let one = pair[0].end() == pair[1].start && pair[0].refs == pair[1].refs && joined;
        assert!(!one, "neighbours that should be one: {pair:?}");
    }
}

/// A region: start, and pieces as length and backing kind.
fn region() -> impl Strategy<Value = (u64, Vec<(u64, u8)>)> {
    (0_u64..60, prop::collection::vec((1_u64..20, 0_u8..3), 1..4))
}

proptest! {
    #[test]
    fn as_byte_by_byte(
        steps in prop::collection::vec((region(), any::<bool>(), any::<prop::sample::Index>()), 1..40)
    ) {
        let mut ranges = Vec::new();
        let mut model = Bytes::new();
        let mut regions: Vec<(u64, u64)> = Vec::new();
        for ((start, pieces), add, which) in steps {
            if add || regions.is_empty() {
                let mut at = start;
                let mut list = Vec::new();
                for (len, kind) in pieces {
                    let backing = match kind {
                        0 => PRIVATE,
                        n => u64::from(n) * 10_000 + at,
                    };
                    list.push(Range { start: at, len, backing, refs: 1 });
                    at += len;
                }
                regions.push((start, at - start));
                let change = insert(&ranges, &list);
                let dropped = apply(&mut ranges, change);
                let mut lost = Vec::new();
                for (address, (_, backing)) in spread(&list) {
                    let entry = model.entry(address).or_insert((0, backing));
                    if entry.1 != backing && entry.1 != PRIVATE {
                        lost.push((address, entry.1));
                    }
                    *entry = (entry.0 + 1, backing);
                }
                let dropped = spread(&dropped).into_iter().map(|(at, (_, b))| (at, b));
                prop_assert_eq!(dropped.collect::<Vec<_>>(), lost);
            } else {
                let (start, len) = regions.swap_remove(which.index(regions.len()));
                let change = remove(&ranges, start, len).unwrap();
                let dropped = apply(&mut ranges, change);
                let mut lost = Vec::new();
                for address in start..start + len {
                    let entry = model.get_mut(&address).unwrap();
                    entry.0 -= 1;
                    if entry.0 == 0 {
                        let (_, backing) = model.remove(&address).unwrap();
                        if backing != PRIVATE {
                            lost.push((address, backing));
                        }
                    }
                }
                let dropped = spread(&dropped).into_iter().map(|(at, (_, b))| (at, b));
                prop_assert_eq!(dropped.collect::<Vec<_>>(), lost);
            }
            check_form(&ranges);
            prop_assert_eq!(&spread(&ranges), &model);
            for address in 0..130 {
                let found = find(&ranges, address).map(|i| ranges[i]);
                prop_assert_eq!(found.is_some(), model.contains_key(&address));
                if let Some(index) = find(&ranges, address) {
                    let whole = contiguous(&ranges, index);
                    let backing = |at: u64| match whole.backing {
                        PRIVATE => PRIVATE,
                        offset => offset.wrapping_add(at.wrapping_sub(whole.start)),
                    };
                    for at in whole.start..whole.end() {
                        prop_assert_eq!(model[&at].1, backing(at));
                    }
                    for beyond in [whole.start.wrapping_sub(1), whole.end()] {
                        let other = model.get(&beyond).map(|byte| byte.1);
                        prop_assert_ne!(other, Some(backing(beyond)));
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_not_covered_is_not_removed(start in 0_u64..40, len in 1_u64..40) {
        let ranges = [Range { start: 10, len: 10, backing: PRIVATE, refs: 1 }];
        let inside = start >= 10 && start + len <= 20;
        prop_assert_eq!(remove(&ranges, start, len).is_ok(), inside);
    }
}
