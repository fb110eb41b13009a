//! The page allocator against one page by page.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::super::extents::{Extents, Pages, MAX_EXTENTS};
use super::super::lock::Guard;
use super::Net;

fn free(guard: &Guard<'_>, owner: u16, range: Pages) -> bool {
    let extents = Extents::new(guard);
    let retired = extents.retire(owner, range);
    if retired {
        extents.remove_retired(owner, range);
    }
    retired
}

#[test]
fn first_fit_as_page_by_page() {
    let net = Net::start_with(|options| options.heap_bytes = 300 * 4096);
    let segment = net.attach();
    let steps = prop::collection::vec((1_u64..40, 1_u16..4, any::<bool>(), 0_u64..300), 1..120);
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let result = runner.run(&steps, |steps| {
        let guard = segment.lock(Duration::from_secs(1)).unwrap();
        let extents = Extents::new(&guard);
        let mut model = [0_u16; 300];
        for (pages, owner, add, at) in steps {
            if add {
                let fits = |start: usize| {
                    let range = model.get(start..start + pages as usize);
                    range.is_some_and(|range| range.iter().all(|&owner| owner == 0))
                };
                let expected = (0..300).find(|&start| fits(start));
                let got = extents.alloc(owner, pages).map(|got| got.start as usize);
                prop_assert_eq!(got, expected);
                if let Some(start) = expected {
                    model[start..start + pages as usize].fill(owner);
                }
            } else {
                // Any range, so also parts of extents and several of them.
                let end = (at + pages).min(300);
                let range = Pages { start: at, pages: end - at };
                let part = &mut model[at as usize..end as usize];
                let whole = part.iter().all(|&o| o == owner);
                if whole {
                    prop_assert!(free(&guard, owner, range));
                    part.fill(0);
                }
            }
            for (page, &owner) in model.iter().enumerate() {
                let expected = (owner != 0).then_some(owner);
                prop_assert_eq!(extents.containing(page as u64).map(|(_, owner)| owner), expected);
            }
        }
        extents.repair();
        let mut owned = [0; 4];
        model.iter().for_each(|&o| owned[usize::from(o)] += 1);
        prop_assert_eq!(&extents.usage()[1..4], &owned[1..4]);
        for owner in 1..4 {
            for range in extents.retire_all(owner) {
                extents.remove_retired(owner, range);
            }
        }
        prop_assert_eq!(extents.usage().iter().sum::<u64>(), 0);
        Ok(())
    });
    result.unwrap();
}

#[test]
fn nobody_frees_what_is_not_theirs() {
    let (_net, segment) = Net::joined();
    let guard = segment.lock(Duration::from_secs(1)).unwrap();
    let got = Extents::new(&guard).alloc(5, 10).unwrap();
    assert!(!free(&guard, 6, got));
    assert!(free(&guard, 5, got));
    assert!(!free(&guard, 5, got));
}

#[test]
fn a_full_table_refuses_politely() {
    let (_net, segment) = Net::joined();
    let guard = segment.lock(Duration::from_secs(1)).unwrap();
    let extents = Extents::new(&guard);
    for _ in 0..MAX_EXTENTS {
        extents.alloc(5, 2).unwrap();
    }
    assert_eq!(extents.alloc(5, 2), None);
    let half = Pages { start: 100, pages: 1 };
    assert!(!free(&guard, 5, half), "there is no room to split");
    let whole = Pages { start: 100, pages: 2 };
    assert!(free(&guard, 5, whole));
    assert_eq!(extents.alloc(5, 2), Some(whole));
    assert_eq!(extents.retire_all(5).len(), MAX_EXTENTS);
    extents.remove_retired(5, Pages { start: 0, pages: 1000 });
    assert_eq!(extents.usage()[5], 2 * MAX_EXTENTS as u64 - 1000);
}

#[test]
fn a_table_that_is_written_over_gives_no_page_beyond_the_heap() {
    const HEAP: u64 = 300;
    const WORDS: usize = 42;
    let net = Net::start_with(|options| options.heap_bytes = HEAP * 4096);
    let segment = net.attach();
    let word = prop_oneof![any::<u64>(), 0_u64..400, (0_u64..400, 0_u64..400).prop_map(|(a, b)| a | b << 32)];
    let steps = prop::collection::vec((1_u64..40, 0_u64..HEAP, any::<bool>()), 1..30);
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let result = runner.run(&(prop::collection::vec(word, WORDS), steps), |(words, steps)| {
        let guard = segment.lock(Duration::from_secs(1)).unwrap();
        let table = (&raw const segment.tables().extents).cast::<AtomicU64>();
        for (index, word) in words.into_iter().enumerate() {
            // SAFETY: the table begins with more words than these, all atomic.
            unsafe { (*table.add(index)).store(word, Ordering::Relaxed) };
        }
        let extents = Extents::new(&guard);
        let within = |range: &Pages| range.start <= HEAP && range.pages <= HEAP - range.start;
        for (pages, at, add) in steps {
            if add {
                prop_assert!(extents.alloc(5, pages).iter().all(within));
            } else {
                free(&guard, 5, Pages { start: at, pages: pages.min(HEAP - at) });
            }
            prop_assert!(extents.containing(at).iter().all(|(range, _)| within(range)));
        }
        prop_assert!(extents.retire_all(5).iter().all(within));
        extents.repair();
        Ok(())
    });
    result.unwrap();
}
