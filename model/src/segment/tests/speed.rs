//! How long things take. The limits are wide, since test machines are busy and
//! tests are not optimised; run with `--release --nocapture` for figures.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::{Buffer, Net};

fn per_round(rounds: u32, mut round: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..7 {
        let begin = Instant::now();
        for _ in 0..rounds {
            round();
        }
        best = best.min(begin.elapsed().as_nanos() as f64 / f64::from(rounds));
    }
    best
}

#[test]
fn hot_paths() {
    let (_net, a) = Net::joined();
    let me = a.member();
    let buffers: Vec<Buffer> = (0..4).map(|n| Buffer::filled(1 << 20, n)).collect();
    for buffer in &buffers {
        a.map(buffer.ptr, buffer.len, true).unwrap();
    }
    let lock = per_round(100_000, || drop(black_box(a.try_lock()).unwrap()));
    let guard = a.lock(Duration::from_secs(1)).unwrap();
    let (src, dst) = (buffers[0].iova(), buffers[1].iova());
    let resolve = per_round(100_000, || {
        black_box(guard.resolve(me, black_box(src) + 512));
    });
    let copy8 = per_round(100_000, || {
        guard.copy((me, black_box(dst)), (me, src), 8).unwrap();
    });
    let copy4k = per_round(10_000, || {
        guard.copy((me, black_box(dst)), (me, src), 4096).unwrap();
    });
    drop(guard);
    println!("lock {lock:.1} ns, resolve {resolve:.2} ns, copy 8 B {copy8:.1} ns, 4 KiB {copy4k:.0} ns");
    if !cfg!(debug_assertions) {
        assert!(lock < 100.0 && resolve < 20.0);
    }
}

#[test]
fn registration() {
    let (_net, a) = Net::joined();
    for len in [4096, 64 << 10, 1 << 20, 64 << 20] {
        let buffer = Buffer::filled(len, 1);
        let rounds = if len > 1 << 20 { 1 } else { 20 };
        let (mut map, mut unmap) = (Duration::MAX, Duration::MAX);
        for _ in 0..rounds {
            let begin = Instant::now();
            a.map(buffer.ptr, len, true).unwrap();
            map = map.min(begin.elapsed());
            let begin = Instant::now();
            a.unmap(buffer.ptr, len).unwrap();
            unmap = unmap.min(begin.elapsed());
        }
        println!("{} KiB: map {map:?}, unmap {unmap:?}", len >> 10);
        assert!(buffer.is_pattern(1));
    }
}
