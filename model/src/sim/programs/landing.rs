//! Writes on their way to memory: reads through the bus see them, programs do not yet.
//!
//! A posted write is visible to the program some time after the card made it. A read that the card makes
//! meanwhile goes the same way and does not pass it (PCIe base specification, 2.4.1), so it returns what
//! was written: the READ or atomic that follows a WRITE depends on that.

use crate::dma::Addr;
use crate::plain::{Kept, Plain};
use crate::sim::event::{Event, SHORT};
use crate::sim::slab::Slab;
use crate::sim::state::{release, Sim, EVENTS, ROW, SLOTS};

/// Pages, by their number modulo this, of which it is counted how many writes are in flight to them.
const PAGES: usize = 1 << 16;
/// Log2 of a page's bytes.
const PAGE_LOG: u32 = 12;

#[derive(Clone, Copy, Plain)]
#[repr(C)]
struct Write {
    /// The one before it and the one after it, plus one; 0: none.
    around: [u32; 2],
    len: u16,
    process: u16,
    iova: u64,
}

/// Payload writes that have not happened yet, in the order in which they will. What one costs does not depend on how
/// many there are: few reads are of a page that something is in flight to.
#[derive(Plain)]
#[repr(C)]
pub struct Landing {
    /// The first and the last, plus one.
    ends: [u32; 2],
    count: u32,
    /// Writes in flight to a page.
    pages: [u32; PAGES],
    /// By item.
    all: [Write; EVENTS],
}

/// The places in `pages` of a range, which is no longer than the largest payload: one or two.
fn pages(iova: u64, len: u64) -> impl Iterator<Item = usize> {
    let place = |page: u64| (page % PAGES as u64) as usize;
    let (first, last) = (iova >> PAGE_LOG, iova.saturating_add(len.max(1) - 1) >> PAGE_LOG);
    (first..=last).map(place)
}

impl Landing {
    /// An event of the queue is to write there.
    pub fn add(&mut self, item: u32, to: Addr, len: usize) {
        if to.domain == Addr::NOWHERE {
            return;
        }
        let before = self.ends[1];
        self.all[item as usize] =
            Write { around: [before, 0], len: len as u16, process: to.process(), iova: to.iova };
        match before {
            0 => self.ends[0] = item + 1,
            before => self.all[before as usize - 1].around[1] = item + 1,
        }
        self.ends[1] = item + 1;
        self.count += 1;
        pages(to.iova, len as u64).for_each(|page| self.pages[page] += 1);
    }

    /// The event happens, or never will.
    pub fn remove(&mut self, item: u32) {
        let Write { around: [before, after], len, iova, .. } = self.all[item as usize];
        // One to nowhere is not here.
        if before == 0 && self.ends[0] != item + 1 {
            return;
        }
        match before {
            0 => self.ends[0] = after,
            before => self.all[before as usize - 1].around[1] = after,
        }
        match after {
            0 => self.ends[1] = before,
            after => self.all[after as usize - 1].around[0] = before,
        }
        self.all[item as usize].around = [0; 2];
        self.count -= 1;
        pages(iova, len.into()).for_each(|page| self.pages[page] -= 1);
    }

    /// The items of the writes, in order.
    fn items(&self) -> impl Iterator<Item = u32> + '_ {
        // However many it is said to be: others may have written over it.
        let count = (self.count as usize).min(EVENTS);
        let next = |item: &u32| self.all[*item as usize].around[1].checked_sub(1);
        std::iter::successors(self.ends[0].checked_sub(1), next).take(count)
    }

    /// A process is gone.
    pub fn forget(&mut self, process: u16) {
        let gone: Vec<u32> =
            self.items().filter(|&item| self.all[item as usize].process == process).collect();
        gone.into_iter().for_each(|item| self.remove(item));
    }

    /// Nothing is in flight.
    pub fn clear(&mut self) {
        let gone: Vec<u32> = self.items().collect();
        gone.into_iter().for_each(|item| self.all[item as usize].around = [0; 2]);
        (self.ends, self.count) = ([0; 2], 0);
        self.pages.fill(0);
    }

    /// Whether something is in flight to a page of a range.
    fn may_concern(&self, iova: u64, len: usize) -> bool {
        self.count != 0 && pages(iova, len as u64).any(|page| self.pages[page] != 0)
    }

    /// Whether something is in flight to a range.
    #[inline]
    pub fn concerns(&self, at: Addr, len: usize) -> bool {
        let end = at.iova.saturating_add(len as u64);
        let concerns = |item: u32| {
            let w = &self.all[item as usize];
            w.process == at.process() && w.iova < end && at.iova < w.iova + u64::from(w.len)
        };
        self.may_concern(at.iova, len) && self.items().any(concerns)
    }

    /// What was read at an address, with what is about to be written there.
    #[inline]
    pub fn cover(
        &self,
        at: Addr,
        bytes: &mut [u8],
        events: &Slab<Kept<Event>, EVENTS>,
        payload: &[[u8; ROW]; SLOTS + 1],
    ) {
        if !self.may_concern(at.iova, bytes.len()) {
            return;
        }
        let end = at.iova.saturating_add(bytes.len() as u64);
        for item in self.items() {
            let write = &self.all[item as usize];
            let (from, to) = (write.iova.max(at.iova), (write.iova + u64::from(write.len)).min(end));
            if write.process != at.process() || from >= to {
                continue;
            }
            let event = events.get(item).get();
            let source: &[u8] = match &event {
                Event::Write { slot, offset, .. } => &payload[*slot as usize][*offset as usize..],
                Event::Short { bytes, .. } => bytes,
                _ => continue,
            };
            let source = &source[(from - write.iova) as usize..(to - write.iova) as usize];
            bytes[(from - at.iova) as usize..(to - at.iova) as usize].copy_from_slice(source);
        }
    }
}

/// Takes an event out of its place; `None` if somebody has written over it.
fn take(place: &mut Kept<Event>) -> Option<Event> {
    let event = place.read().filter(is_whole);
    place.set(Event::None);
    event
}

/// Whether what an event writes is where it says. One that is not may be why a thread has died.
fn is_whole(event: &Event) -> bool {
    match *event {
        Event::Write { slot, offset, len, .. } => {
            slot as usize <= SLOTS && usize::from(offset) + usize::from(len) <= ROW
        }
        Event::Entry { len, .. } => (8..=SHORT).contains(&len.into()),
        Event::Short { len, entry, .. } => usize::from(len) <= SHORT && (len >= 8 || !entry.get()),
        _ => true,
    }
}

impl Sim {
    /// Takes what the cards have written and memory does not have yet: payload in its order, and then entries, as none
    /// passes the payload that it reports. Threads that wait for it have it now.
    pub fn take_writes(&mut self) -> Vec<Event> {
        let mut taken: Vec<Event> = Vec::new();
        for item in self.landing.items() {
            taken.extend(take(self.events.get_mut(item)));
        }
        // What is for nowhere is still there.
        let is = |event: &Event, entries: bool| match event {
            Event::Write { .. } | Event::Short { .. } | Event::Entry { .. } => event.lands() != entries,
            _ => false,
        };
        for entries in [false, true] {
            let places = self.events.each().iter_mut();
            let wanted = places.filter(|place| place.read().is_some_and(|event| is(&event, entries)));
            taken.extend(wanted.filter_map(take));
        }
        for touch in taken.iter().filter_map(Event::touches) {
            self.touched(touch);
        }
        taken
    }

    /// Takes the payload in flight to a process, in order: its events do not happen. Threads that wait for it have it now.
    pub fn take_payload(&mut self, domain: u16) -> Vec<(Addr, Vec<u8>)> {
        let (mut taken, mut touches) = (Vec::new(), Vec::new());
        let of_domain = |&item: &u32| self.landing.all[item as usize].process == domain;
        let items: Vec<u32> = self.landing.items().filter(of_domain).collect();
        for item in items {
            let Some(event) = take(self.events.get_mut(item)) else { continue };
            touches.extend(event.touches());
            match event {
                Event::Write { to, slot, offset, len } => {
                    let bytes = &self.payload[slot as usize][offset as usize..][..len as usize];
                    taken.push((to, bytes.to_vec()));
                    release(&mut self.slots, slot);
                }
                Event::Short { to, len, bytes, .. } => taken.push((to, bytes[..len.into()].to_vec())),
                _ => {}
            }
        }
        self.landing.forget(domain);
        for touch in touches {
            self.touched(touch);
        }
        taken
    }

    /// Takes the completions in flight to a ring: their events do not happen.
    pub fn take_entries(&mut self, ring: Addr, len: u64) -> Vec<(Addr, [u64; 8])> {
        let mut taken = Vec::new();
        for place in self.events.each() {
            let (to, bytes) = match place.read() {
                Some(Event::Entry { to, len: 64, bytes, .. }) => (to, bytes),
                Some(Event::Short { to, len: 64, entry, bytes }) if entry.get() => (to, bytes),
                _ => continue,
            };
            if to.domain == ring.domain && (ring.iova..ring.iova.saturating_add(len)).contains(&to.iova) {
                let word = |i| u64::from_le_bytes(std::array::from_fn(|byte| bytes[i * 8 + byte]));
                taken.push((to, std::array::from_fn(word)));
                place.set(Event::None);
            }
        }
        taken
    }

    /// Drops all writes to the memory of a process that is gone.
    pub fn forget_domain(&mut self, domain: u16) {
        self.landing.forget(domain);
        let mut ended = Vec::new();
        for place in self.events.each() {
            let Some(event) = place.read().filter(|event| event.writes_to() == Some(domain)) else {
                continue;
            };
            if let Event::Write { slot, .. } = event {
                ended.push(slot);
            }
            place.set(Event::None);
        }
        ended.into_iter().for_each(|slot| self.release(slot));
    }

    /// Adds an event that writes payload.
    pub fn lands(&mut self, time: u64, event: Event, to: Addr, len: usize) {
        self.sequence += 1;
        if let Some(item) = self.insert(time, self.sequence, event) {
            self.landing.add(item, to, len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::Flag;
    use crate::zeroed::Zeroed;

    fn at(iova: u64) -> Addr {
        Addr { iova, domain: 3 }
    }

    fn short(sim: &mut Sim, iova: u64, value: u8) -> u32 {
        let event = Event::Short { to: at(iova), len: 4, entry: Flag::NO, bytes: [value; 64] };
        let item = sim.events.put(Kept::new(event)).expect("room");
        sim.landing.add(item, at(iova), 4);
        item
    }

    fn read(sim: &Sim, from: u64) -> [u8; 8] {
        let mut bytes = [0; 8];
        sim.landing.cover(at(from), &mut bytes, &sim.events, &sim.payload);
        bytes
    }

    #[test]
    fn completions_of_a_ring_are_taken_once() {
        let mut sim = Zeroed::<Sim>::of_cards(1).unwrap();
        for (iova, value) in [(0x1000, 1), (0x1040, 2), (0x2000, 3)] {
            let event = Event::Short { to: at(iova), len: 64, entry: true.into(), bytes: [value; 64] };
            sim.events.put(Kept::new(event)).expect("room");
        }
        let event = Event::Entry { card: 0, to: at(0x1080), len: 64, bytes: [4; 64] };
        sim.events.put(Kept::new(event)).expect("room");
        let mut taken = sim.take_entries(at(0x1000), 0x1000);
        taken.sort_by_key(|(to, _)| to.iova);
        let seen: Vec<_> = taken.iter().map(|(to, entry)| (to.iova, entry[7] as u8)).collect();
        assert_eq!(seen, [(0x1000, 1), (0x1040, 2), (0x1080, 4)]);
        assert!(sim.take_entries(at(0x1000), 0x1000).is_empty());
        assert_eq!(sim.take_entries(at(0x2000), 64).len(), 1);
    }

    #[test]
    fn payload_of_a_process_is_taken_in_its_order() {
        let mut sim = Zeroed::<Sim>::of_cards(1).unwrap();
        let slot = sim.slots.take().expect("room");
        sim.slots.get_mut(slot).refs = 1;
        sim.payload[slot as usize][..8].copy_from_slice(&[0, 1, 2, 3, 4, 5, 6, 7]);
        short(&mut sim, 100, 9);
        let event = Event::Write { to: at(100), slot, offset: 2, len: 3 };
        sim.lands(5, event, at(100), 3);
        let others = Addr { domain: 4, ..at(100) };
        sim.lands(6, Event::Short { to: others, len: 4, entry: Flag::NO, bytes: [7; 64] }, others, 4);
        assert_eq!(sim.take_payload(3), [(at(100), vec![9; 4]), (at(100), vec![2, 3, 4])]);
        assert_eq!(sim.slots.take(), Some(slot), "nobody needs the packet any more");
        assert!(sim.take_payload(3).is_empty() && !sim.landing.concerns(at(100), 8));
        assert_eq!(sim.take_payload(4), [(others, vec![7; 4])]);
    }

    #[test]
    fn later_writes_cover_earlier_ones_until_they_have_happened() {
        let mut sim = Zeroed::<Sim>::of_cards(1).unwrap();
        let first = short(&mut sim, 100, 1);
        let second = short(&mut sim, 102, 2);
        assert_eq!(read(&sim, 98), [0, 0, 1, 1, 2, 2, 2, 2]);
        assert_eq!(read(&sim, 105), [2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(read(&sim, 92), [0; 8]);
        sim.landing.remove(first);
        assert_eq!(read(&sim, 98), [0, 0, 0, 0, 2, 2, 2, 2]);
        sim.landing.remove(second);
        assert_eq!(read(&sim, 98), [0; 8]);
        short(&mut sim, 100, 1);
        sim.landing.forget(4);
        assert_eq!(read(&sim, 100)[0], 1);
        sim.landing.forget(3);
        assert_eq!(read(&sim, 100), [0; 8]);
    }
}
