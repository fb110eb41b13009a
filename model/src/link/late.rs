//! Frames that are held back; and those that a fault delays by the wall clock.
//!
//! The latter wait in the segment, as their sender may end before they arrive. The first run of the cards after its time
//! delivers a frame; the keeper's timer sees to it that there is one.

use std::sync::atomic::{AtomicU64, AtomicU8, Ordering::Relaxed};

use super::frames::LONGEST_FRAME;
use crate::packet::PortId;
use crate::plain::Plain;

/// An end of a frame's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Where it leaves.
    Sender,
    /// Where it arrives.
    Receiver,
}

/// A frame that others pass, or that is late.
pub(super) struct Held {
    /// It arrives once this many frames have been carried; in the segment, at this time (ns).
    pub due: u64,
    /// How long (ns) it waits in the segment after that; 0: not at all, or it has.
    pub late: u64,
    pub way: Way,
    /// The queue pair that sent it, if it is no packet but a whole frame.
    pub sender: Option<(u16, u16)>,
    /// The numbers of the queue pairs at its ends.
    pub qpns: [u32; 2],
    /// It is to be recorded at this end, not delivered.
    pub record: Option<End>,
    /// Some of its bits are not those that were sent.
    pub damaged: bool,
    pub bytes: Vec<u8>,
}

/// The port that a frame leaves, and the one that it is for.
pub(super) type Way = (PortId, PortId);

/// Frames that wait at a time, at most.
const PLACES: usize = 1024;

/// See the module. Zero: none waits. Only with all the cards, but for [`soonest`](Self::soonest).
#[derive(Plain)]
#[repr(C)]
pub(super) struct LateArea {
    soonest: AtomicU64,
    /// Frames so far: those of the same time keep their order.
    count: AtomicU64,
    heads: [Head; PLACES],
    bytes: [[AtomicU8; LONGEST_FRAME]; PLACES],
}

/// What is known of a frame beside its bytes.
#[derive(Plain)]
#[repr(C)]
struct Head {
    /// When it is due (ns); 0: a free place.
    due: AtomicU64,
    number: AtomicU64,
    /// The ports that it is from and for, and what it is.
    way: AtomicU64,
    qpns: AtomicU64,
    /// The queue pair that sent it, and its length.
    sender: AtomicU64,
}

/// What a frame is, in `way` from bit 56 on.
const DAMAGED: u64 = 1 << 56;
const SENT: u64 = 1 << 57;
const RECEIVED: u64 = 1 << 58;
const WHOLE: u64 = 1 << 59;

fn port_bits(port: PortId) -> u64 {
    u64::from(port.card) << 8 | u64::from(port.port)
}

fn port(bits: u64) -> PortId {
    PortId { card: (bits >> 8) as u16, port: bits as u8 }
}

impl LateArea {
    /// When the first frame is due (ns, by the machine's clock).
    pub fn soonest(&self) -> Option<u64> {
        Some(self.soonest.load(Relaxed)).filter(|&at| at != 0)
    }

    /// Keeps a frame until it is due. False: there is no place for it.
    pub fn put(&self, held: &Held) -> bool {
        let free = self.heads.iter().zip(&self.bytes).find(|(head, _)| head.due.load(Relaxed) == 0);
        let Some((head, place)) = free.filter(|(_, place)| held.bytes.len() <= place.len()) else {
            return false;
        };
        place.iter().zip(&held.bytes).for_each(|(to, &from)| to.store(from, Relaxed));
        let (card, qp) = held.sender.unwrap_or_default();
        let kind = [
            (held.damaged, DAMAGED),
            (held.record == Some(End::Sender), SENT),
            (held.record == Some(End::Receiver), RECEIVED),
            (held.sender.is_some(), WHOLE),
        ];
        let kind: u64 = kind.into_iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum();
        head.number.store(self.count.fetch_add(1, Relaxed), Relaxed);
        head.way.store(port_bits(held.way.0) | port_bits(held.way.1) << 24 | kind, Relaxed);
        head.qpns.store(u64::from(held.qpns[0]) | u64::from(held.qpns[1]) << 32, Relaxed);
        let sender = u64::from(card) | u64::from(qp) << 16 | (held.bytes.len() as u64) << 32;
        head.sender.store(sender, Relaxed);
        // A process may die here: what is said to be due too soon is only looked for.
        let due = held.due.max(1);
        self.soonest.store(self.soonest().map_or(due, |soonest| soonest.min(due)), Relaxed);
        head.due.store(due, Relaxed);
        true
    }

    /// Takes the first of the frames that are due at a time (ns), which is asked for only if one is held.
    pub fn take(&self, now: impl FnOnce() -> u64) -> Option<Held> {
        let soonest = self.soonest()?;
        let now = now();
        if soonest > now {
            return None;
        }
        let used = self.heads.iter().enumerate().filter(|(_, head)| head.due.load(Relaxed) != 0);
        let mut first = [(u64::MAX, 0, 0); 2];
        for (place, head) in used {
            let this = (head.due.load(Relaxed), head.number.load(Relaxed), place);
            if this < first[0] {
                first = [this, first[0]];
            } else {
                first[1] = first[1].min(this);
            }
        }
        let [(due, _, place), (next, ..)] = first;
        let taken = due <= now;
        let soonest = if taken { next } else { due };
        let held = taken.then(|| self.held(place));
        if taken {
            self.heads[place].due.store(0, Relaxed);
        }
        self.soonest.store(if soonest == u64::MAX { 0 } else { soonest }, Relaxed);
        held
    }

    fn held(&self, place: usize) -> Held {
        let Head { due, way, qpns, sender, .. } = &self.heads[place];
        let [due, way, qpns, sender] = [due, way, qpns, sender].map(|word| word.load(Relaxed));
        let is = |bit: u64| way & bit != 0;
        let ends = [(SENT, End::Sender), (RECEIVED, End::Receiver)];
        let bytes = self.bytes[place].iter().take((sender >> 32) as usize);
        Held {
            due,
            late: 0,
            way: (port(way & 0xff_ffff), port(way >> 24 & 0xff_ffff)),
            sender: is(WHOLE).then_some((sender as u16, (sender >> 16) as u16)),
            qpns: [qpns as u32, (qpns >> 32) as u32],
            record: ends.into_iter().find(|(bit, _)| is(*bit)).map(|(_, end)| end),
            damaged: is(DAMAGED),
            bytes: bytes.map(|byte| byte.load(Relaxed)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zeroed::Zeroed;

    fn area() -> Zeroed<LateArea> {
        Zeroed::new().unwrap()
    }

    fn held(due: u64, byte: u8) -> Held {
        Held {
            due,
            late: 0,
            way: (PortId { card: 3, port: 1 }, PortId::ALL),
            sender: (byte == 9).then_some((2, 7)),
            qpns: [u32::MAX - 1, 5],
            record: (byte == 8).then_some(End::Receiver),
            damaged: byte == 7,
            bytes: vec![byte; usize::from(byte) * 100],
        }
    }

    fn bytes(held: Option<Held>) -> Option<u8> {
        held.map(|held| held.bytes[0])
    }

    #[test]
    fn frames_come_when_they_are_due() {
        let area = area();
        assert!(area.soonest().is_none() && area.take(|| u64::MAX).is_none());
        for (due, byte) in [(30, 1), (10, 2), (20, 3), (10, 4)] {
            assert!(area.put(&held(due, byte)));
        }
        assert_eq!((area.soonest(), bytes(area.take(|| 9))), (Some(10), None));
        assert_eq!([(); 3].map(|()| bytes(area.take(|| 10))), [Some(2), Some(4), None]);
        assert_eq!(area.soonest(), Some(20));
        assert!(area.put(&held(15, 5)));
        assert_eq!([(); 4].map(|()| bytes(area.take(|| 40))), [Some(5), Some(3), Some(1), None]);
        assert_eq!(area.soonest(), None);
    }

    #[test]
    fn they_are_as_they_were() {
        let area = area();
        for byte in 1..10 {
            area.put(&held(1, byte));
            let (before, after) = (held(1, byte), area.take(|| 1).unwrap());
            assert_eq!((after.way, after.sender, after.qpns), (before.way, before.sender, before.qpns));
            assert_eq!((after.record, after.damaged), (before.record, before.damaged));
            assert_eq!(after.bytes, before.bytes);
        }
    }

    #[test]
    fn there_are_so_many_places() {
        let area = area();
        (0..PLACES as u64).for_each(|due| assert!(area.put(&held(due + 1, 1))));
        assert!(!area.put(&held(1, 1)));
        assert!(area.take(|| 1).is_some() && area.put(&held(1, 2)) && !area.put(&held(1, 3)));
        let long = Held { bytes: vec![0; LONGEST_FRAME + 1], ..held(1, 1) };
        assert!(area.take(|| 1).is_some() && !area.put(&long));
    }
}
