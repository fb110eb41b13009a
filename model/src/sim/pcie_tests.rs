use proptest::prelude::*;

use super::*;
use crate::profile::Rate;

const NS: u64 = 1000;

/// PCIe 3.0 x8 as in the SIGCOMM paper, with enough in flight that only the link bounds it.
fn gen3x8() -> Profile {
    let pcie = Pcie {
        gen: 3,
        lanes: 8,
        pcie_bps: Rate::new(57_880_000_000),
        mps: 256,
        mrrs: 512,
        rcb: 64,
        mwr_overhead: 24,
        mrd_overhead: 24,
        cpld_overhead: 20,
        mmio_ps: 150 * NS,
        read_ps: 500 * NS,
        write_ps: 250 * NS,
        reads_outstanding: 128,
        posted_header_credits: 256,
        posted_data_credits: 4096,
        credit_return_ps: 200 * NS,
        msix_ps: 0,
    };
    Profile { pcie, ..Profile::default() }
}

#[derive(Clone, Copy)]
enum Kind {
    Write,
    Read,
    Both,
}

/// Gb/s of payload (each way) of operations of `size`, back to back, without start and end.
fn throughput(kind: Kind, size: u32) -> f64 {
    const COUNT: u64 = 20_000;
    const SKIP: u64 = 2_000;
    let profile = gen3x8();
    let mut bus = Bus::default();
    let (mut began, mut ended) = (0, 0);
    for n in 0..COUNT {
        // Asked for as soon as the link can take it: what a card does that keeps its queues full.
        let now = bus.up;
        let mut end = 0;
        if !matches!(kind, Kind::Write) {
            end = bus.read(now, size, &profile).last;
        }
        if !matches!(kind, Kind::Read) {
            end = end.max(bus.write(now, size, &profile));
        }
        if n == SKIP - 1 {
            began = end;
        }
        ended = end;
    }
    (COUNT - SKIP) as f64 * f64::from(size) * 8000.0 / (ended - began) as f64
}

#[test]
fn the_published_table_of_dma_bandwidth() {
    let table = [
        (Kind::Write, [42.10, 48.75, 52.92, 52.92, 52.92, 52.92]),
        (Kind::Read, [44.10, 50.06, 53.69, 53.69, 53.69, 53.69]),
        (Kind::Both, [33.08, 42.10, 48.75, 50.75, 50.75, 50.75]),
    ];
    for (row, (kind, published)) in table.into_iter().enumerate() {
        for (size, published) in [64, 128, 256, 512, 1024, 4096].into_iter().zip(published) {
            let modelled = throughput(kind, size);
            let off = (modelled / published - 1.0).abs();
            assert!(off < 0.01, "row {row}, {size} B: {modelled:.2} Gb/s instead of {published}");
        }
    }
}

#[test]
fn a_single_read_and_write() {
    let (mut bus, p) = (Bus::default(), gen3x8());
    let link = |bytes| p.pcie.pcie_bps.time(bytes);
    let read = bus.read(1000, 64, &p);
    assert_eq!(read, Read { first: 1000 + link(24) + 500 * NS + link(84), last: read.first });
    let (mut bus, p) = (Bus::default(), gen3x8());
    let read = bus.read(0, 300, &p);
    assert_eq!(read.first, link(24) + 500 * NS + link(84));
    assert_eq!(read.last, link(24) + 500 * NS + link(300 + 2 * 20));
    let (mut bus, p) = (Bus::default(), gen3x8());
    assert_eq!(bus.write(7, 64, &p), 7 + link(88) + 250 * NS);
    // Nothing is a header.
    assert_eq!(bus.write(NS * 1000, 0, &p), NS * 1000 + link(24) + 250 * NS);
    assert_eq!(bus.mmio(NS * 1000, 8, &p), NS * 1000 + link(32) + 150 * NS);
}

#[test]
fn tags_bound_the_reads_under_way() {
    let mut p = gen3x8();
    p.pcie.reads_outstanding = 4;
    let mut bus = Bus::default();
    let first: Vec<u64> = (0..12).map(|_| bus.read(0, 64, &p).last).collect();
    for n in 4..12 {
        assert!(first[n] >= first[n - 4] + 500 * NS, "read {n} does not wait for a tag: {first:?}");
    }
    // Four reads of 64 bytes for each round trip.
    let round = p.pcie.pcie_bps.time(24) + p.pcie.read_ps + p.pcie.pcie_bps.time(84);
    assert_eq!(first[8], 3 * round);
    // Reads that wait for tags hold back neither writes nor stores.
    let idle = Bus::default().write(0, 64, &p);
    assert!(bus.write(0, 64, &p) <= idle + 12 * p.pcie.pcie_bps.time(24) + 1);
    assert!(bus.mmio(0, 8, &p) < 200 * NS);
}

#[test]
fn writes_wait_for_header_credits() {
    let mut p = gen3x8();
    p.pcie.posted_header_credits = 2;
    let mut bus = Bus::default();
    let seen: Vec<u64> = (0..6).map(|_| bus.write(0, 64, &p)).collect();
    let link = p.pcie.pcie_bps.time(88);
    assert_eq!(seen[1] - seen[0], link);
    assert_eq!(seen[2] - seen[0], 200 * NS + link);
    assert_eq!(seen[4] - seen[0], 2 * (200 * NS + link));
    // What waits for credits holds everything back.
    assert!(bus.read(0, 64, &p).last > seen[5] - p.pcie.write_ps + p.pcie.read_ps);
}

#[test]
fn writes_wait_for_data_credits() {
    let mut p = gen3x8();
    p.pcie.posted_data_credits = 32; // 512 bytes: two TLPs of 256
    let mut bus = Bus::default();
    let link = p.pcie.pcie_bps.time(280);
    let seen = bus.write(0, 1024, &p);
    assert_eq!(seen, link + 200 * NS + 2 * link + p.pcie.write_ps);
    // Credits that came back long ago count.
    assert_eq!(bus.write(seen + 1000 * NS, 512, &p), seen + 1000 * NS + 2 * link + p.pcie.write_ps);
}

#[test]
fn stores_are_in_order_and_take_their_share() {
    let (mut bus, p) = (Bus::default(), gen3x8());
    let mut alone = Bus::default();
    let undisturbed = alone.read(0, 512, &p).last;
    bus.read(0, 64, &p);
    let stores: Vec<u64> = (0..8).map(|_| bus.mmio(0, 64, &p)).collect();
    assert!(stores.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(bus.read(0, 512, &p).last > undisturbed + 8 * p.pcie.pcie_bps.time(88));
}

proptest! {
    /// Whatever is asked for: writes become visible in order and not before their time, completions come in
    /// the order of the requests, and no rate is beaten.
    #[test]
    fn order_and_bounds(
        work in proptest::collection::vec((any::<bool>(), 0u32..5000, 0u64..300_000), 1..300),
        tags in 1u32..64, headers in 1u32..32, data in 16u32..256,
    ) {
        let mut p = gen3x8();
        p.pcie.reads_outstanding = tags;
        p.pcie.posted_header_credits = headers;
        p.pcie.posted_data_credits = data;
        let mut bus = Bus::default();
        let (mut now, mut seen, mut answered) = (0, 0, 0);
        let mut under_way: Vec<u64> = Vec::new();
        for (is_write, bytes, pause) in work {
            now += pause;
            let shortest = p.pcie.pcie_bps.time(bytes.into());
            if is_write {
                let visible = bus.write(now, bytes, &p);
                prop_assert!(visible >= seen && visible >= now + shortest + p.pcie.write_ps);
                seen = visible;
            } else {
                let read = bus.read(now, bytes, &p);
                prop_assert!(read.first <= read.last && read.first >= now + p.pcie.read_ps);
                prop_assert!(read.last >= answered && read.last >= now + shortest + p.pcie.read_ps);
                answered = read.last;
                // No more reads of one request are outstanding than there are tags.
                if bytes <= p.pcie.mrrs {
                    let began = read.last - p.pcie.read_ps;
                    under_way.push(began);
                    let older = under_way.len().checked_sub(1 + tags as usize);
                    prop_assert!(older.is_none_or(|n| read.last >= under_way[n] + 2 * p.pcie.read_ps));
                }
            }
        }
    }
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "the bus is asked at 5 ps, and was at 7 ps")]
fn nothing_is_asked_for_ahead() {
    let (mut bus, p) = (Bus::default(), gen3x8());
    bus.read(7, 64, &p);
    bus.write(5, 64, &p);
}

#[test]
fn a_write_that_waits_for_its_translation_keeps_the_next_writes_but_no_read() {
    let (mut bus, p) = (Bus::default(), gen3x8());
    let link = p.pcie.pcie_bps.time(88);
    assert_eq!(bus.write_known(0, 700 * NS, 64, &p), 700 * NS + link + 250 * NS);
    assert_eq!(bus.write(1, 64, &p), 700 * NS + link + 250 * NS);
    let mut alone = Bus::default();
    alone.write(0, 64, &p);
    alone.write(1, 64, &p);
    assert_eq!(bus.read(2, 64, &p), alone.read(2, 64, &p));
}
