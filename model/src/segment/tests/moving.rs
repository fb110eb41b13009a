//! Buffers keep their content whatever happens to them.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use memmap2::{MmapOptions, MmapRaw};

use super::super::moving::maps::{each_mapping, Mapping};
use super::super::{Backing, Segment, SegmentError};
use super::{backing, is_pattern, patterned, usage_of, Buffer, Net};

const MIB: usize = 1 << 20;

fn mapping_of(address: u64) -> Mapping {
    let mut found = Mapping::default();
    each_mapping(address, |mapping| {
        found = *mapping;
        false
    })
    .unwrap();
    assert!(found.start <= address);
    found
}

/// What this thread has used of a processor: other tests run beside.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn bytes_used(segment: &Segment) -> u64 {
    usage_of(segment, segment.member()).unwrap()
}

#[test]
fn there_and_back() {
    let net = Net::start();
    let (a, b) = (net.attach(), net.attach());
    let buffer = Buffer::filled(MIB, 3);
    let iova = a.map(buffer.ptr, buffer.len, true).unwrap();
    assert_eq!(iova, buffer.iova());
    assert!(buffer.is_pattern(3));
    let Some((Backing::Extent(offset), contiguous)) = backing(&a, iova) else {
        panic!("not moved");
    };
    assert_eq!(contiguous, MIB as u64);
    // Both sides see one memory.
    let there = b.ptr_at(offset);
    // SAFETY: the extent is the buffer.
    unsafe {
        there.add(5000).write_volatile(0x77);
        assert_eq!(buffer.bytes()[5000], 0x77);
        buffer.bytes()[6000] = 0x66;
        assert_eq!(there.add(6000).read_volatile(), 0x66);
    }
    buffer.bytes()[5000] = super::pattern(5000, 3);
    buffer.bytes()[6000] = super::pattern(6000, 3);
    a.unmap(buffer.ptr, buffer.len).unwrap();
    assert!(buffer.is_pattern(3));
    let mapping = mapping_of(iova);
    assert!(mapping.inode == 0 && mapping.private_writable);
    assert_eq!(backing(&a, iova), None);
    assert_eq!(bytes_used(&a), 0);
    assert!(matches!(a.unmap(buffer.ptr, buffer.len), Err(SegmentError::NotMapped(_))));
}

#[test]
fn edges_stay_and_are_reached_all_the_same() {
    let (_net, a) = Net::joined();
    let buffer = Buffer::filled(5 * 4096, 4);
    let start = buffer.ptr.wrapping_add(100);
    a.map(start, 4 * 4096, true).unwrap();
    assert_eq!(backing(&a, start as u64), Some((Backing::Private, 4096 - 100)));
    let inside = backing(&a, buffer.iova() + 4096);
    assert!(matches!(inside, Some((Backing::Extent(_), 12_288))));
    assert_eq!(backing(&a, buffer.iova() + 4 * 4096), Some((Backing::Private, 100)));
    let mut copy = vec![0; 4 * 4096];
    let guard = a.lock(Duration::from_secs(1)).unwrap();
    guard.read(a.member(), start as u64, &mut copy).unwrap();
    assert_eq!(copy, buffer.bytes()[100..100 + 4 * 4096]);
    let reversed: Vec<u8> = copy.iter().rev().copied().collect();
    guard.write(a.member(), start as u64, &reversed).unwrap();
    drop(guard);
    assert_eq!(reversed, buffer.bytes()[100..100 + 4 * 4096]);
    a.unmap(start, 4 * 4096).unwrap();
    assert_eq!(reversed, buffer.bytes()[100..100 + 4 * 4096]);
}

#[test]
fn memory_of_other_kinds_stays() {
    let (_net, a) = Net::joined();
    let stack = [7_u8; 5 * 4096];
    let iova = a.map(stack.as_ptr().cast_mut(), stack.len(), true).unwrap();
    assert_eq!(backing(&a, iova), Some((Backing::Private, stack.len() as u64)));
    a.unmap(stack.as_ptr().cast_mut(), stack.len()).unwrap();
    // A file.
    let file = tempfile::tempfile().unwrap();
    file.set_len(8192).unwrap();
    let shared = MmapRaw::map_raw(&file).unwrap();
    // SAFETY: nobody else has the file.
    let read_only = unsafe { MmapOptions::new().map_copy_read_only(&file) }.unwrap();
    let at = read_only.as_ptr().cast_mut();
    let iova = a.map(shared.as_mut_ptr(), 8192, true).unwrap();
    assert_eq!(backing(&a, iova), Some((Backing::Private, 8192)));
    assert!(matches!(a.map(at, 8192, true), Err(SegmentError::BadAddress(_))));
    a.map(at, 8192, false).unwrap();
    // Nothing at all.
    assert!(matches!(a.map(64 as *mut u8, 10, false), Err(SegmentError::BadAddress(_))));
    let hole = Buffer::new(3 * 4096);
    // SAFETY: a page of our own mapping.
    unsafe { libc::munmap(hole.ptr.add(4096).cast(), 4096) };
    assert!(matches!(a.map(hole.ptr, hole.len, false), Err(SegmentError::BadAddress(_))));
    assert_eq!(a.map(hole.ptr, 0, true).unwrap(), hole.iova());
    a.unmap(hole.ptr, 0).unwrap();
    hole.end_without(4096..8192);
}

/// A thread that writes all the time finds every one of its writes, whether the
/// pages are on their way there or back.
#[test]
fn a_concurrent_writer_loses_nothing() {
    let (_net, a) = Net::joined();
    let buffer = Buffer::new(2 * MIB);
    let words = buffer.len / 8;
    let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let base = buffer.iova();
    let (stop_seen, rounds_done) = (stop.clone(), rounds.clone());
    let writer = std::thread::spawn(move || {
        // SAFETY: the buffer outlives the thread; only this thread writes it.
        let word = |i: usize| unsafe { &*((base as usize + i * 8) as *const AtomicU64) };
        let mut round = 0;
        while !stop_seen.load(Ordering::Relaxed) {
            round += 1;
            // Not in order, so that some pages are new while others move.
            for i in (0..words).step_by(61).chain((0..words).step_by(509)) {
                let before = word(i).fetch_add(1, Ordering::Relaxed);
                let expected = if i % 61 == 0 && i % 509 == 0 {
                    2 * (round - 1)..=2 * (round - 1) + 1
                } else {
                    round - 1..=round - 1
                };
                assert!(expected.contains(&before), "word {i}: {before}, round {round}");
            }
            rounds_done.store(round, Ordering::Relaxed);
        }
        round
    });
    let begin = Instant::now();
    let mut moves = 0;
    while begin.elapsed() < Duration::from_millis(1500) || moves < 20 {
        a.map(buffer.ptr, buffer.len, true).unwrap();
        assert!(matches!(backing(&a, base), Some((Backing::Extent(_), _))));
        a.unmap(buffer.ptr, buffer.len).unwrap();
        moves += 1;
    }
    stop.store(true, Ordering::Relaxed);
    let round = writer.join().expect("no write was lost");
    assert!(round > 1, "the writer ran");
    assert_eq!(rounds.load(Ordering::Relaxed), round);
}

/// Memory of the allocator: which keeps using the same pages meanwhile.
#[test]
fn the_allocator_does_not_mind() {
    let (_net, a) = Net::joined();
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    for n in 0..200_usize {
        let len = 1000 + n * 977 % 60_000;
        blocks.push(patterned(len, n as u8));
        let block = blocks.last().unwrap();
        a.map(block.as_ptr().cast_mut(), block.len(), true).unwrap();
        if n % 3 == 0 {
            let n = n / 2;
            assert!(is_pattern(&blocks[n], n as u8), "block {n}");
        }
    }
    let zeroes = vec![0_u8; 300_000];
    assert!(zeroes.iter().all(|&byte| byte == 0));
    for (n, block) in blocks.iter().enumerate().rev() {
        a.unmap(block.as_ptr().cast_mut(), block.len()).unwrap();
        assert!(is_pattern(block, n as u8), "block {n}");
    }
    assert_eq!(bytes_used(&a), 0);
}

#[test]
fn huge_pages_move_too() {
    let (_net, a) = Net::joined();
    let buffer = Buffer::new(8 * MIB);
    // SAFETY: advice about our own memory.
    unsafe { libc::madvise(buffer.ptr.cast(), buffer.len, libc::MADV_HUGEPAGE) };
    buffer.fill(12);
    let start = buffer.ptr.wrapping_add(MIB + 4096 + 5);
    a.map(start, 5 * MIB, true).unwrap();
    assert!(buffer.is_pattern(12));
    a.unmap(start, 5 * MIB).unwrap();
    assert!(buffer.is_pattern(12));
}

#[test]
fn a_sparse_giant_costs_little() {
    let (_net, a) = Net::joined();
    let buffer = Buffer::new(8 << 30);
    let touched = [0_usize, 1 << 20, (3 << 30) + 4096, (8 << 30) - 1];
    for (n, &at) in touched.iter().enumerate() {
        buffer.bytes()[at] = n as u8 + 1;
    }
    let begin = processor_time();
    a.map(buffer.ptr, buffer.len, true).unwrap();
    let mapped = processor_time() - begin;
    assert!(matches!(
        backing(&a, buffer.iova()),
        Some((Backing::Extent(_), len)) if len == 8 << 30
    ));
    for (n, &at) in touched.iter().enumerate() {
        assert_eq!(buffer.bytes()[at], n as u8 + 1);
    }
    buffer.bytes()[5 << 30] = 99;
    let begin = processor_time();
    a.unmap(buffer.ptr, buffer.len).unwrap();
    let unmapped = processor_time() - begin;
    for (n, &at) in touched.iter().enumerate() {
        assert_eq!(buffer.bytes()[at], n as u8 + 1);
    }
    assert_eq!(buffer.bytes()[5 << 30], 99);
    println!("8 GiB: map {mapped:?}, unmap {unmapped:?}");
    assert!(mapped < Duration::from_secs(1), "{mapped:?}");
    assert!(unmapped < Duration::from_secs(1), "{unmapped:?}");
}

#[test]
fn what_the_program_did_meanwhile_is_respected() {
    let (_net, a) = Net::joined();
    // The program unmaps its buffer while it is registered.
    let buffer = Buffer::filled(16 * 4096, 5);
    a.map(buffer.ptr, buffer.len, true).unwrap();
    // Half of it; a quarter is replaced.
    // SAFETY: our own mapping.
    unsafe { libc::munmap(buffer.ptr.cast(), 8 * 4096) };
    let (new, old) = (8 * 4096..12 * 4096, 12 * 4096..16 * 4096);
    buffer.replace(new.clone());
    buffer.bytes()[new.clone()].fill(0x11);
    a.unmap(buffer.ptr, buffer.len).unwrap();
    assert!(buffer.bytes()[new].iter().all(|&byte| byte == 0x11));
    assert!(buffer.bytes()[old.clone()] == patterned(buffer.len, 5)[old]);
    assert_eq!(bytes_used(&a), 0);
    buffer.end_without(0..8 * 4096);
    // It moves it elsewhere (realloc does that).
    let buffer = Buffer::filled(4 * 4096, 6);
    a.map(buffer.ptr, buffer.len, true).unwrap();
    // SAFETY: our mapping, to an address of the kernel's choice.
    let moved = unsafe {
        let target = Buffer::new(4 * 4096);
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let to = libc::mremap(buffer.ptr.cast(), buffer.len, buffer.len, flags, target.ptr);
        assert_eq!(to, target.ptr.cast());
        target
    };
    a.unmap(buffer.ptr, buffer.len).unwrap();
    let all = 0..buffer.len;
    buffer.end_without(all);
    assert!(moved.is_pattern(6));
    assert_eq!(mapping_of(moved.iova()).inode, 0);
    assert_eq!(bytes_used(&a), 0);
}

#[test]
fn new_memory_at_an_old_address_is_registered_again() {
    let (_net, a) = Net::joined();
    let buffer = Buffer::filled(4 * 4096, 7);
    a.map(buffer.ptr, buffer.len, true).unwrap();
    buffer.replace(0..buffer.len);
    buffer.bytes().fill(0x22);
    a.map(buffer.ptr, buffer.len, true).unwrap();
    assert_eq!(bytes_used(&a), 4 * 4096, "the old pages are free");
    let mut seen = [0; 4 * 4096];
    let guard = a.lock(Duration::from_secs(1)).unwrap();
    guard.read(a.member(), buffer.iova(), &mut seen).unwrap();
    drop(guard);
    assert!(seen.iter().all(|&byte| byte == 0x22));
    a.unmap(buffer.ptr, buffer.len).unwrap();
    a.unmap(buffer.ptr, buffer.len).unwrap();
    assert!(buffer.bytes().iter().all(|&byte| byte == 0x22));
    assert_eq!(bytes_used(&a), 0);
}

#[test]
fn a_full_heap_means_foreign() {
    let net = Net::start_with(|options| options.heap_bytes = 4 * 4096);
    let a = net.attach();
    let buffer = Buffer::filled(5 * 4096, 8);
    a.map(buffer.ptr, buffer.len, true).unwrap();
    assert_eq!(backing(&a, buffer.iova()), Some((Backing::Private, 5 * 4096)));
    a.unmap(buffer.ptr, buffer.len).unwrap();
    assert!(buffer.is_pattern(8));
}

#[test]
fn leaving_brings_buffers_home() {
    let (net, a) = Net::joined();
    let buffer = Buffer::filled(MIB, 9);
    let heap = vec![0x33_u8; 3 * MIB];
    a.map(buffer.ptr, buffer.len, true).unwrap();
    a.map(heap.as_ptr().cast_mut(), heap.len(), true).unwrap();
    drop(a);
    net.finish();
    assert!(buffer.is_pattern(9));
    assert!(heap.iter().all(|&byte| byte == 0x33));
    assert_eq!(mapping_of(buffer.iova()).inode, 0);
}

#[test]
fn memory_of_the_segment_can_be_registered() {
    let net = Net::start();
    let (a, b) = (net.attach(), net.attach());
    let area = a.alloc(3 * 4096).unwrap();
    let (ptr, offset) = (area.ptr, area.offset);
    a.map(ptr, area.len, true).unwrap();
    a.free(area).unwrap();
    assert_eq!(bytes_used(&a), 3 * 4096, "still registered");
    assert_eq!(backing(&a, ptr as u64), Some((Backing::Extent(offset), 3 * 4096)));
    a.unmap(ptr, 3 * 4096).unwrap();
    assert_eq!(bytes_used(&a), 0);
    let theirs = b.alloc(4096).unwrap();
    let reached = a.ptr_at(theirs.offset);
    assert!(a.map(reached, 4096, true).is_err(), "another's memory");
    assert!(a.map(a.world_ptr(), 4096, true).is_err(), "the cards");
}
