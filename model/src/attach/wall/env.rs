//! The environment of the cards in wall-clock time: it answers every request at once.
#![allow(unsafe_code)]

use std::sync::atomic::{compiler_fence, AtomicU64, Ordering};

use super::part::{LONGEST_CQ_TURN, LONGEST_TURN};
use super::queue::Work;
use super::routes::Routes;
use super::scratch::{Again, Scratch, KEPT};
use crate::address::Gid;
use crate::cells::Bells;
use crate::dma::{Addr, Atomic, DmaFault, Pieces, Undelivered};
use crate::env::Env;
use crate::gids::GidEntry;
use crate::here::Here;
use crate::link::{frames::LONGEST_FRAME, outside::medium, LinkEnv, Mode};
use crate::net::Net;
use crate::packet::{Packet, Payload, PortId};
use crate::segment::{futex_raise, now_ns, Reach, ALL};
use crate::world::World;

/// WQEs that a QP executes in one turn.
pub(super) const TURN: u32 = 32;
/// [`Env::notification_interval`]: one notification per 50 us and flow, as DCQCN's authors have it.
const NOTIFICATION_INTERVAL: u64 = 50_000;
/// The buffer of the payload of a received frame.
pub(super) const FRAME: usize = 0;
/// The buffer of a header that is delivered as payload.
const HEADER: usize = 1;
/// The number of [`WallEnv::arrived`] among the gather buffers.
const ARRIVED: u32 = u32::MAX;
const NOTHING: *const [u8] = &[];

/// The environment, for as long as the lock is held.
pub(crate) struct WallEnv<'a> {
    pub(super) guard: &'a Reach<'a>,
    pub(super) net: &'a Net,
    pub(super) scratch: &'a mut Scratch,
    pub(super) routes: &'a Routes,
    /// Whether packets travel as frames, or are recorded as such.
    pub(super) mode: Mode,
    /// The buffers of [`FRAME`] and [`HEADER`], allocated on first use.
    kept: [Option<u32>; 2],
    /// The payload of the packet from outside that is being received.
    arrived: *const [u8],
}

impl<'a> WallEnv<'a> {
    #[inline(always)]
    pub fn new(guard: &'a Reach<'a>, net: &'a Net, scratch: &'a mut Scratch, routes: &'a Routes) -> Self {
        let mode = net.link.mode();
        WallEnv { guard, net, scratch, routes, mode, kept: [None; 2], arrived: NOTHING }
    }

    /// Runs a send queue, on the express lane as far as possible when no frame is observed.
    #[inline(always)]
    pub fn run_send(&mut self, world: &mut World, card: u16, qp: u16) {
        if self.guard.island() == ALL {
            let ends = world.connection((card, qp.into()));
            self.join(world, ends);
        }
        if world.cards[card as usize].qps[qp as usize].takes_frames() {
            return self.run_frames(world, card, qp);
        }
        if self.mode.is_observed() || !world.express(card, qp, self) {
            self.forget_routes_of(card, qp);
            world.cards[card as usize].run_send(qp.into(), self);
        }
    }

    /// The end of a run.
    #[inline]
    pub fn end(&mut self) {
        if self.scratch.wire.is_some() {
            self.with_wire(|wire, area, env| wire.end_run(area, env));
            if !self.mode.is_linked() {
                // A capture has ended, or links have come back: packets travel as values again.
                self.scratch.wire = None;
            }
        }
        self.scratch.free.extend(self.kept.iter_mut().filter_map(Option::take));
        self.scratch.end();
    }

    /// Whether there is work.
    #[inline]
    pub fn has_work(&self) -> bool {
        !self.scratch.queue.is_empty()
    }

    /// Whether a QP sent something that may wait for an answer.
    #[inline]
    pub fn has_watched(&self) -> bool {
        !self.scratch.watched.is_empty()
    }

    /// Takes a QP from those noted by [`watch`](Env::watch).
    #[inline]
    pub fn watched(&mut self) -> Option<(u16, u16)> {
        self.scratch.watched.pop()
    }

    /// Whether the gathered payload in flight is so much that it must be delivered before send queues continue.
    #[inline]
    pub fn gathered_enough(&self) -> bool {
        self.scratch.stashes.len() - self.scratch.free.len() >= KEPT
    }

    /// A gather buffer of at least `len` bytes.
    fn buffer(&mut self, len: usize) -> u32 {
        let s = &mut self.scratch;
        let stash = s.free.pop().unwrap_or_else(|| {
            s.stashes.push(Vec::new());
            s.stashes.len() as u32 - 1
        });
        let buffer = &mut s.stashes[stash as usize];
        if buffer.len() < len {
            // Zeroed pages of the system, which need not be filled.
            *buffer = vec![0; len];
        }
        stash
    }

    /// Returns a gather buffer.
    pub fn unstash(&mut self, stash: u32) {
        self.scratch.free.push(stash);
    }

    /// Copies bytes into the buffer `which`: [`FRAME`] or [`HEADER`].
    pub(super) fn keep(&mut self, which: usize, bytes: &[u8]) -> Payload {
        let id = match self.kept[which] {
            Some(id) => id,
            None => self.buffer(LONGEST_FRAME),
        };
        self.kept[which] = Some(id);
        self.scratch.stashes[id as usize][..bytes.len()].copy_from_slice(bytes);
        Payload::Stash(id, bytes.len() as u32)
    }

    /// Does something with a payload that stays where it is.
    pub(super) fn with_arrived<R>(&mut self, bytes: &[u8], work: impl FnOnce(&mut Self, Payload) -> R) -> R {
        self.arrived = bytes;
        let payload =
            if bytes.is_empty() { Payload::None } else { Payload::Stash(ARRIVED, bytes.len() as u32) };
        let result = work(self, payload);
        self.arrived = NOTHING;
        result
    }

    /// The bytes of a gathered payload.
    pub(super) fn stashed(&self, id: u32) -> &[u8] {
        match id {
            // SAFETY: what `with_arrived` was given, during that call; a panic in it ends the use of this environment.
            ARRIVED => unsafe { &*self.arrived },
            _ => &self.scratch.stashes[id as usize],
        }
    }

    /// The next piece of work. It stays in the queue until the next call.
    #[inline]
    pub fn next(&mut self) -> Option<*const Work> {
        self.scratch.queue.next()
    }
}

pub(super) fn fault<E>(_: E) -> DmaFault {
    DmaFault
}

impl Env for WallEnv<'_> {
    const GATHER_BYTES: u32 = 1 << 16;
    const TAKES_PAGES: bool = true;
    const PACING_WAIT: u64 = 200_000;
    const PACING_LATE: u64 = 1_000_000;
    const NEGOTIATES: bool = true;

    #[inline(always)]
    fn note(&mut self, word: u64) {
        self.guard.control().write_journal(word);
    }

    fn now(&mut self) -> u64 {
        now_ns()
    }

    #[cold]
    fn ask(&mut self, from: PortId, own: &GidEntry, ip: &Gid) -> bool {
        self.with_sockets(from, |port, sockets| medium::ask(port, sockets, own, ip)).unwrap_or(false)
    }

    #[cold]
    fn groups_changed(&mut self) {
        if let Some(news) = self.net.link.outside().news().and_then(|index| self.socket(index)) {
            // Only a counter at its maximum fails, and that tells as well.
            let _ = rustix::io::write(news, &1_u64.to_ne_bytes());
        }
    }

    #[inline]
    fn read(&mut self, from: Addr, to: &mut [u8]) -> Result<(), DmaFault> {
        self.guard.read(from.domain, from.iova, to).map_err(fault)
    }

    #[inline(always)]
    fn words<const N: usize>(&mut self, from: Addr) -> Result<[u64; N], DmaFault> {
        match self.direct(from, N * 8) {
            // SAFETY: `N` words of the segment's heap.
            Some(p) => Ok(unsafe { Here::new(p).words() }),
            None => self.words_slowly(from),
        }
    }

    #[inline]
    fn prefetch(&mut self, at: Addr) {
        if let Some(p) = self.direct(at, 1) {
            Here::new(p).prefetch();
        }
    }

    #[inline]
    fn write(&mut self, to: Addr, from: &[u8]) -> Result<(), DmaFault> {
        self.guard.write(to.domain, to.iova, from).map_err(fault)
    }

    #[inline(always)]
    fn publish<const N: usize>(&mut self, to: Addr, entry: [u64; N]) -> Result<(), DmaFault> {
        let Some(p) = self.direct(to, N * 8).filter(|p| *p as usize % 8 == 0) else {
            return self.publish_slowly(to, entry);
        };
        // By reference: a copy of the words that have just been put together would wait for all stores before them.
        for (i, &word) in entry.iter().enumerate() {
            // SAFETY: aligned words of the segment's heap; others access them concurrently only as a queue entry's
            // last word.
            let place = unsafe { AtomicU64::from_ptr(p.cast::<u64>().add(i)) };
            place.store(word, if i + 1 == N { Ordering::Release } else { Ordering::Relaxed });
        }
        // Keeps later changes after this one, for crash recovery.
        compiler_fence(Ordering::SeqCst);
        Ok(())
    }

    fn atomic(&mut self, at: Addr, op: Atomic) -> Result<u64, DmaFault> {
        if let Some(p) = self.reach(at).filter(|p| *p as usize % 8 == 0) {
            // SAFETY: eight aligned bytes of the segment's heap, accessed atomically.
            let cell = unsafe { AtomicU64::from_ptr(p.cast()) };
            return Ok(match op {
                Atomic::CompareSwap { compare, swap } => {
                    match cell.compare_exchange(compare, swap, Ordering::SeqCst, Ordering::SeqCst) {
                        Ok(v) | Err(v) => v,
                    }
                }
                Atomic::FetchAdd(add) => cell.fetch_add(add, Ordering::SeqCst),
            });
        }
        // Private memory: atomic among the cards of the segment, as IBV_ATOMIC_HCA promises.
        self.net.atomics.take(self.guard, LONGEST_TURN);
        let result = self.atomic_by_copies(at, op);
        self.net.atomics.give(self.guard);
        result
    }

    fn gather(&mut self, pieces: &Pieces) -> Result<Payload, DmaFault> {
        let stash = self.buffer(pieces.len() as usize);
        for (offset, at, len) in pieces.iter() {
            let to = &mut self.scratch.stashes[stash as usize][offset..offset + len];
            if self.guard.read(at.domain, at.iova, to).is_err() {
                self.unstash(stash);
                return Err(DmaFault);
            }
        }
        Ok(Payload::Stash(stash, pieces.len()))
    }

    fn hold(&mut self, bytes: &[u8]) -> Payload {
        self.keep(HEADER, bytes)
    }

    #[cold]
    fn stash(&mut self, bytes: &[u8]) -> Payload {
        let id = self.buffer(bytes.len());
        self.scratch.stashes[id as usize][..bytes.len()].copy_from_slice(bytes);
        Payload::Stash(id, bytes.len() as u32)
    }

    #[cold]
    fn payload(&mut self, payload: &Payload, to: &mut [u8]) -> Result<(), DmaFault> {
        self.fetch(payload, 0, to)
    }

    #[inline(always)]
    fn send_later(&mut self, card: u16, qp: u16) {
        self.scratch.queue.push(Work::Send { card, qp });
    }

    #[inline(always)]
    fn ends_turn(&self, executed: u32) -> bool {
        executed >= TURN || self.gathered_enough()
    }

    fn drop_payload(&mut self, payload: &Payload) {
        if let Payload::Stash(stash, _) = *payload {
            self.unstash(stash);
        }
    }

    fn has_all(&mut self, card: u16, qp: u16) -> bool {
        let all = self.guard.island() == ALL;
        match all {
            true => self.guard.segment().new_generation(),
            false => self.scratch.again.push(Again { card, qp, all: true }),
        }
        all
    }

    fn has(&mut self, card: u16, qp: u16) -> bool {
        if self.guard.island() == ALL {
            // It may have routes of any island.
            self.guard.segment().new_generation();
            return true;
        }
        self.is_of_island(&self.net.bells[card as usize].qp[qp as usize])
    }

    fn reaches(&mut self, (card, qp): (u16, u16), to: Option<(u16, u16)>) -> bool {
        let reaches = self.guard.island() == ALL || to.is_some_and(|to| self.may_receive(to));
        if !reaches {
            self.scratch.again.push(Again { card, qp, all: true });
        }
        reaches
    }

    fn with_events<R>(&mut self, card: u16, function: u16, work: impl FnOnce(&mut Self, bool) -> R) -> R {
        self.in_turn(&self.net.events[card as usize][function as usize], LONGEST_TURN, work)
    }

    fn with_cq<R>(&mut self, card: u16, cqn: u16, work: impl FnOnce(&mut Self, bool) -> R) -> R {
        self.in_turn(&self.net.completions[card as usize][cqn as usize].0, LONGEST_CQ_TURN, work)
    }

    fn island(&self) -> u16 {
        self.guard.island()
    }

    #[inline(always)]
    fn bells(&self, card: u16) -> &Bells {
        &self.net.bells[card as usize]
    }

    #[inline(always)]
    fn send(&mut self) -> &mut Packet {
        self.scratch.queue.send()
    }

    #[cold]
    fn exists(&mut self, domain: u16) -> bool {
        self.guard.exists(domain)
    }

    fn notification_interval(&self) -> Option<u64> {
        Some(NOTIFICATION_INTERVAL)
    }

    fn interrupt(&mut self, card: u16, function: u16, vector: u8) {
        let word = &self.net.interrupts[card as usize][function as usize][vector as usize];
        futex_raise(word);
        self.net.servers[card as usize][function as usize].ring();
    }

    #[inline]
    fn watch(&mut self, card: u16, qp: u16) {
        // Most runs are of one QP.
        if self.scratch.watched.last() != Some(&(card, qp)) {
            self.scratch.watched.push((card, qp));
        }
    }

    fn timer(&mut self, at: u64) {
        self.guard.segment().arm_deadline(at);
    }

    #[inline(always)]
    fn deliver(&mut self, to: Addr, payload: &Payload, offset: usize, len: usize) -> Result<(), Undelivered> {
        match *payload {
            Payload::Memory(from, _) => {
                let from = from.add(offset as u64);
                let copied = self.guard.copy((to.domain, to.iova), (from.domain, from.iova), len as u64);
                copied.map_err(|fault| self.blame(fault.member(), to, from, len))
            }
            Payload::Stash(id, _) => {
                let bytes = &self.stashed(id)[offset..offset + len];
                self.guard.write(to.domain, to.iova, bytes).map_err(|_| Undelivered::Unwritten)
            }
            Payload::Pages(_, pages) => self.deliver_pages(to, &pages, offset as u64, len as u64),
            Payload::None => Ok(()),
        }
    }
}
