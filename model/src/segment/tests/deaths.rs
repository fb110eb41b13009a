//! Members that are killed.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::super::page::MAX_MEMBERS;
use super::super::{Segment, ALL};
use super::child::{tell, wait, Other};
use super::{eventually, usage_of, Buffer, Net};

/// Child: owns memory, holds the lock, and waits to be killed.
pub(super) fn die_with_lock(socket: &Path) {
    let segment = Segment::attach(socket).unwrap();
    let buffer = Buffer::filled(1 << 20, 1);
    segment.map(buffer.ptr, buffer.len, true).unwrap();
    segment.alloc(1 << 20).unwrap();
    let guard = segment.lock(Duration::from_secs(1)).unwrap();
    tell(&[segment.member().into(), buffer.iova()]);
    wait();
    drop(guard);
}

#[test]
fn a_killed_holder_loses_lock_and_memory() {
    let (net, a) = Net::joined();
    let mut other = Other::start("die_with_lock", &net.socket());
    let told = other.hear();
    let (member, iova) = (told[0] as u16, told[1]);
    assert_eq!(a.pid_of(member), Some(other.pid()));
    assert!(a.try_lock().is_none());
    let generation = a.control(ALL).generation.load(Ordering::Relaxed);
    other.kill();
    let begin = Instant::now();
    let guard = a.lock(Duration::from_secs(60)).unwrap();
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert!(guard.recovered());
    assert!(
        a.control(ALL).generation.load(Ordering::Relaxed) > generation,
        "what was found out before goes with the dead holder"
    );
    drop(guard);
    // Each holder is told until one has repaired the cards.
    let guard = a.lock(Duration::from_secs(5)).unwrap();
    assert!(guard.recovered());
    guard.recovery_done();
    drop(guard);
    assert_eq!(net.gone.recv_timeout(Duration::from_secs(60)), Ok(member));
    assert!(eventually(|| usage_of(&a, member).is_none()));
    let guard = a.lock(Duration::from_secs(5)).unwrap();
    assert!(!guard.recovered());
    assert_eq!(guard.resolve(member, iova), None);
    drop(guard);
    // Its pages are free again, and empty.
    let area = a.alloc(2 << 20).unwrap();
    // SAFETY: the area is ours.
    let bytes = unsafe { std::slice::from_raw_parts(area.ptr, area.len) };
    assert!(bytes.iter().all(|&byte| byte == 0));
    drop(a);
    net.finish();
}

/// Child: changes the tables without pause until it is killed.
pub(super) fn keep_allocating(socket: &Path) {
    let segment = Segment::attach(socket).unwrap();
    let buffer = Buffer::filled(1 << 20, 1);
    tell(&[]);
    let (mut areas, mut regions) = (VecDeque::new(), VecDeque::new());
    for n in 1_usize.. {
        areas.push_back(segment.alloc((n * 7919 % 5 + 1) * 4096).unwrap());
        if areas.len() > 40 {
            let area = areas.remove(n * 31 % 40).unwrap();
            segment.free(area).unwrap();
        }
        let start = buffer.ptr.wrapping_add(n * 8 % 9000);
        segment.map(start, 20_000, true).unwrap();
        regions.push_back(start);
        if regions.len() > 20 {
            let start = regions.remove(n * 13 % 20).unwrap();
            segment.unmap(start, 20_000).unwrap();
        }
    }
}

#[test]
fn deaths_at_any_moment_leave_the_tables_whole() {
    let (net, a) = Net::joined();
    let mine = a.alloc(3 * 4096).unwrap();
    // SAFETY: the area is ours.
    unsafe { mine.ptr.write_bytes(0x5a, mine.len) };
    for round in 0..12 {
        let mut other = Other::start("die_changing_extents", &net.socket());
        other.hear();
        std::thread::sleep(Duration::from_micros(2000 + round * 777));
        other.kill();
        let guard = a.lock(Duration::from_secs(5)).unwrap();
        guard.recovery_done();
        drop(guard);
        let used = |member: &u16| usage_of(&a, *member).is_some();
        let alone = || (0..MAX_MEMBERS as u16).filter(used).count() == 2;
        assert!(eventually(alone), "the dead one's index is free again");
        let fresh = a.alloc(64 * 4096).unwrap();
        // SAFETY: the areas are ours.
        unsafe {
            let bytes = std::slice::from_raw_parts(fresh.ptr, fresh.len);
            assert!(bytes.iter().all(|&byte| byte == 0));
            fresh.ptr.write_bytes(0xff, fresh.len);
            let bytes = std::slice::from_raw_parts(mine.ptr, mine.len);
            assert!(bytes.iter().all(|&byte| byte == 0x5a));
        }
        a.free(fresh).unwrap();
    }
    assert_eq!(usage_of(&a, a.member()).unwrap(), 3 * 4096);
}
