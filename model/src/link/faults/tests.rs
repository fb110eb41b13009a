//! The fate of frames.

use super::*;
use crate::packet::PortId;
use crate::plain::zeroed;

const A: PortId = PortId { card: 0, port: 0 };
const B: PortId = PortId { card: 1, port: 0 };

fn area(text: &str) -> FaultArea {
    let area: FaultArea = zeroed();
    area.init(&text.parse().unwrap_or_else(|error| panic!("{text}: {error}")));
    area
}

fn fate(area: &FaultArea, len: usize) -> Fate {
    area.fate(&Look { from: A, to: B, at: Time(0), frame: &vec![0; len] })
}

#[test]
fn rates_are_met() {
    for text in [
        "loss=0.1,dup=0.02,reorder=0.05,corrupt=0.01,seed=3",
        "drop p=0.1, dup p=0.02, reorder by=8 p=0.05, corrupt p=0.01, seed=3",
    ] {
        let area = area(text);
        let fates: Vec<Fate> = (0..100_000).map(|_| fate(&area, 100)).collect();
        let share = |what: fn(&Fate) -> bool| fates.iter().filter(|f| what(f)).count();
        assert!((9_500..10_500).contains(&share(|f| f.lost)));
        assert!((1_800..2_200).contains(&share(|f| f.twice)));
        assert!((4_700..5_300).contains(&share(|f| f.passed_by != 0)));
        assert!((850..1_150).contains(&share(|f| f.changes.any())));
        assert!(fates.iter().all(|f| f.passed_by <= MOST_PASSED));
        let mut bits = fates.iter().flat_map(|f| f.changes.flipped);
        assert!(bits.all(|bit| bit == 0 || (112..800).contains(&bit)));
    }
}

/// Draws of the same seed are what they always were.
#[test]
fn the_seed_decides() {
    let draw = |seed| {
        let area = area(&format!("loss=0.5,corrupt=0.5,drop p=0.5,seed={seed}"));
        (0..100).map(|_| fate(&area, 1000)).collect::<Vec<_>>()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    let lost = |text: &str| {
        let area = area(text);
        (0..64).map(|_| fate(&area, 100).lost).collect::<Vec<_>>()
    };
    assert_eq!(lost("drop p=0.3,seed=5"), lost("drop p=0.3,mark p=0.5,dup=0.5,seed=5"));
}

#[test]
fn arrivals_of_a_frame() {
    let arrivals = |lost, twice| {
        let fate = Fate { lost, twice, passed_by: 3, ..Fate::default() };
        fate.arrivals().collect::<Vec<_>>()
    };
    assert_eq!(arrivals(false, false), [3]);
    assert_eq!(arrivals(false, true), [0, 3]);
    assert_eq!(arrivals(true, true), [0]);
    assert!(arrivals(true, false).is_empty());
}

#[test]
fn always_and_never() {
    let always = area("loss=1,dup=1,reorder=1,corrupt=1");
    let never = area("seed=9");
    for _ in 0..100 {
        let all = fate(&always, 60);
        assert!(all.lost && all.twice && all.passed_by != 0 && all.changes.any());
        assert_eq!(fate(&never, 60), Fate::default());
    }
}

/// A frame that is damaged is one that its receiver does not take, wherever the bits are.
#[test]
fn damage_is_found() {
    use crate::wire::{frame, Bth, BthOpcode, Headers, Ipv6, Network, Path};
    let area = area("corrupt=1");
    let bth = Bth { opcode: BthOpcode(0x11), ..Bth::default() };
    let headers = Headers { bth, ..Headers::default() };
    let v4 = Network::V4(Ipv4 { ttl: 64, src: [198, 18, 0, 1], ..Ipv4::default() });
    for network in [v4, Network::V6(Ipv6 { hop_limit: 64, ..Ipv6::default() })] {
        let mut bytes = vec![0; 200];
        let path = Path { network, vlan: Some(5), ..Path::default() };
        let len = frame::encode(&path, &headers, &[], &mut bytes).unwrap();
        bytes.truncate(len);
        assert!(frames::decode(&bytes).is_ok());
        for _ in 0..3000 {
            let mut damaged = bytes.clone();
            let look = Look { from: A, to: B, at: Time(0), frame: &bytes };
            area.fate(&look).changes.apply(&mut damaged);
            assert!(frames::decode(&damaged).is_err(), "{damaged:02x?} of {bytes:02x?}");
        }
    }
}

/// Which of the frames 1 to 20 are lost.
fn lost(text: &str) -> Vec<u64> {
    let area = area(text);
    (1..=20).filter(|_| fate(&area, 60).lost).collect()
}

#[test]
fn frames_are_chosen_by_their_number() {
    let area = area("drop nth=3, drop every=5, drop nth=12..14 every=13, drop nth=19..");
    let lost: Vec<u64> = (1..=20).filter(|_| fate(&area, 60).lost).collect();
    assert_eq!(lost, [3, 5, 10, 13, 15, 19, 20]);
    assert!(self::lost("drop nth=21").is_empty());
}

#[test]
fn frames_are_chosen_by_their_way_and_time() {
    let at = |text: &str, from: PortId, to: PortId, at: &str| {
        area(text).fate(&Look { from, to, at: at.parse().unwrap(), frame: &[0; 60] }).lost
    };
    let port = |card, port| PortId { card, port };
    assert!(at("drop from=verbena0", A, B, "0s") && !at("drop from=verbena0", B, A, "0s"));
    assert!(at("drop to=verbena1:2", A, port(1, 1), "0s") && !at("drop to=verbena1:2", A, B, "0s"));
    assert!(at("drop to=verbena1", A, PortId::ALL, "0s"), "a multicast");
    for (when, is) in [("1.9ms", false), ("2ms", true), ("4.999999999ms", true), ("5ms", false)] {
        assert_eq!(at("down=2ms..5ms", A, B, when), is, "{when}");
    }
    assert!(at("drop at=2ms..", A, B, "1000s"));
}

#[test]
fn times_and_frames_are_what_rules_say() {
    let area = area("delay by=20us nth=1,delay by=3us nth=1..2,reorder by=4 nth=2,reorder nth=3");
    let found: Vec<_> = (0..4).map(|_| fate(&area, 60)).map(|f| (f.late.0, f.passed_by)).collect();
    assert_eq!(found, [(20_000_000, 0), (3_000_000, 4), (0, 1), (0, 0)]);
    assert_eq!(fate(&self::area("delay by=100000s"), 60).late, LATEST, "a day");
}
