//! Registrations of one buffer that overlap in any way, with real pages.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::super::{Backing, Segment};
use super::{usage_of, Buffer, Net};

const PAGE: usize = 4096;
const LEN: usize = 10 * PAGE;

#[test]
fn any_overlaps_any_order() {
    let net = Net::start();
    let hold = Segment::hold(&net.socket()).unwrap();
    // Ends on and beside page borders.
    let point = (0_usize..=10, -2_isize..=2)
        .prop_map(|(page, off)| (page * PAGE).saturating_add_signed(off * 8).min(LEN));
    let step = (point.clone(), point, any::<bool>(), any::<prop::sample::Index>());
    let mut runner = TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
    let result = runner.run(&prop::collection::vec(step, 1..24), |steps| {
        let segment = net.attach();
        let me = segment.member();
        let buffer = Buffer::filled(LEN, 1);
        let mut truth: Vec<u8> = buffer.bytes().to_vec();
        let mut regions: Vec<(usize, usize)> = Vec::new();
        let mut fill = 0_u8;
        for (x, y, add, which) in steps {
            let (start, len) = (x.min(y), x.abs_diff(y));
            if add {
                segment.map(buffer.ptr.wrapping_add(start), len, true).unwrap();
                regions.push((start, len));
            } else if !regions.is_empty() {
                let (start, len) = regions.swap_remove(which.index(regions.len()));
                segment.unmap(buffer.ptr.wrapping_add(start), len).unwrap();
            }
            let guard = segment.lock(Duration::from_secs(1)).unwrap();
            // The card writes to every region, the program to every page.
            for &(start, len) in &regions {
                fill = fill.wrapping_add(1);
                let at = buffer.iova() + start as u64;
                guard.write(me, at, &vec![fill; len]).unwrap();
                truth[start..start + len].fill(fill);
            }
            for page in (0..LEN).step_by(PAGE) {
                buffer.bytes()[page + 100] = !fill;
                truth[page + 100] = !fill;
            }
            let mut pages_in_segment = 0;
            for page in (0..LEN).step_by(PAGE) {
                let whole = regions.iter().any(|&(start, len)| start <= page && page + PAGE <= start + len);
                if whole {
                    let found = guard.resolve(me, buffer.iova() + page as u64);
                    prop_assert!(matches!(found, Some((Backing::Extent(_), n)) if n >= PAGE as u64));
                    pages_in_segment += 1;
                }
            }
            for at in (0..LEN).step_by(8) {
                let covered = regions.iter().any(|&(s, l)| s <= at && at < s + l);
                let found = guard.resolve(me, buffer.iova() + at as u64);
                prop_assert_eq!(found.is_some(), covered);
            }
            let mut read = vec![0; LEN];
            for &(start, len) in &regions {
                let at = buffer.iova() + start as u64;
                guard.read(me, at, &mut read[start..start + len]).unwrap();
                prop_assert_eq!(&read[start..start + len], &truth[start..start + len]);
            }
            drop(guard);
            prop_assert_eq!(&*buffer.bytes(), &truth[..]);
            let used = usage_of(&segment, me).unwrap() / PAGE as u64;
            prop_assert!(used >= pages_in_segment && used <= 10);
            if regions.is_empty() {
                prop_assert_eq!(used, 0);
            }
        }
        for (start, len) in regions {
            segment.unmap(buffer.ptr.wrapping_add(start), len).unwrap();
        }
        prop_assert_eq!(&*buffer.bytes(), &truth[..]);
        prop_assert_eq!(usage_of(&segment, me).unwrap(), 0);
        Ok(())
    });
    drop(hold);
    result.unwrap();
}
