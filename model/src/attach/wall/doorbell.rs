//! The doorbell of a send queue: plain messages take the express lane at once.
#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering;

use super::env::WallEnv;
use super::runner::Runner;
use crate::cells::QpBells;
use crate::device::tables::MAX_QPS;
use crate::express::{send, End, Lane};
use crate::here::Here;
use crate::segment::{Entry, Island, Segment};
use crate::world::{World, MAX_CARDS};

impl<S: Borrow<Segment>> Runner<S> {
    /// A queue pair will send again soon: fetches the lines that this takes. With many queue pairs in turn none of them
    /// is in the cache.
    #[inline(always)]
    pub fn expect_posts(&self, card: u16, qp: u16) {
        Here::new(std::ptr::from_ref(self.bells(card, qp)).cast_mut().cast()).prefetch_for_write();
        self.routes.prefetch(card, qp, self.net().world.get());
    }

    #[inline(always)]
    pub(super) fn bells(&self, card: u16, qp: u16) -> &QpBells {
        &self.net().bells[card as usize % MAX_CARDS].qp[qp as usize % MAX_QPS]
    }

    /// A send doorbell rang: runs the QP. False: others were in the way all the time, and it is pending.
    #[inline]
    pub fn ring(&self, card: u16, qp: u16, producer: u32) -> bool {
        let bells = self.bells(card, qp);
        let label = bells.label();
        let island = match self.segment().enter(label) {
            Entry::Entered(island) => island,
            _ => return self.run_qp(card, qp),
        };
        if bells.label() != label {
            // It has become another island's meanwhile.
            drop(island);
            return self.run_qp(card, qp);
        }
        // SAFETY: the lock of its island is held: no other thread uses the route, which this process found.
        let route = unsafe { &*self.routes.place(card, qp) };
        let mut lane = Doorbell { runner: self, island: &island, left: false, doubt: false };
        // SAFETY: the same holds for its part of the cards.
        let end = unsafe { send(self.net().world.get(), route, card, qp, producer, &mut lane) };
        let (sent, left, doubt) = (end == End::Sent, lane.left, lane.doubt);
        if sent && !left {
            island.control().close_journal();
            return true;
        }
        if doubt {
            island.abandon();
            return true;
        }
        self.finish_island(island, card, qp, sent)
    }
}

/// The express lane within a doorbell: there is no environment but for completions, which few messages have.
struct Doorbell<'a, S: Borrow<Segment>> {
    runner: &'a Runner<S>,
    island: &'a Island<'a>,
    /// A completion left work.
    left: bool,
    /// A completion ended by a panic: the cards may be half changed.
    doubt: bool,
}

impl<S: Borrow<Segment>> Doorbell<'_, S> {
    /// Completes a message of the express lane. Whether work is left after that.
    ///
    /// The callers have the C ABI, so that the doorbell needs no clean-up for a panic: a panic ends here, and the cards
    /// are repaired before anything else happens to them.
    ///
    /// # Safety
    /// Nothing refers to the cards or our scratch.
    #[inline(always)]
    unsafe fn complete(&mut self, complete: impl FnOnce(&mut World, &mut WallEnv<'_>)) {
        if self.doubt {
            return;
        }
        let runner = self.runner;
        let (net, scratch) = (runner.net(), runner.scratch(self.island.island()));
        let completed = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: as the caller promises, with the lock of the island.
            let (world, scratch) = unsafe { (&mut *net.world.get(), &mut *scratch) };
            let mut env = WallEnv::new(self.island, net, scratch, &runner.routes);
            complete(world, &mut env);
            env.has_work() || env.has_watched() || env.has_again()
        }));
        match completed {
            Ok(left) => self.left |= left,
            Err(_) => {
                // SAFETY: as above, and nothing refers to it any more.
                unsafe { (*scratch).forget() };
                (self.left, self.doubt) = (true, true);
            }
        }
    }

    /// # Safety
    /// As [`complete`](Self::complete).
    #[inline(never)]
    unsafe extern "C" fn complete_sent(&mut self, card: u16, qp: u16, ctrl: u64, more: u64) {
        // SAFETY: as the caller promises.
        unsafe { self.complete(|world, env| world.sent(card, qp, [ctrl, more], env)) }
    }

    /// # Safety
    /// As [`complete`](Self::complete).
    #[inline(never)]
    unsafe extern "C" fn complete_received(&mut self, card: u16, qp: u16, length: u32, solicited: bool) {
        // SAFETY: as the caller promises.
        unsafe { self.complete(|world, env| world.received(card, qp, length, solicited, env)) }
    }
}

impl<S: Borrow<Segment>> Lane for Doorbell<'_, S> {
    #[inline(always)]
    fn generation(&self) -> u64 {
        self.island.control().generation.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn note(&mut self, word: u64) {
        self.island.control().write_journal(word);
    }

    #[inline(always)]
    fn rq_producer(&mut self, card: u16, qp: u16) -> u32 {
        self.runner.bells(card, qp).rq.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn sent(&mut self, card: u16, qp: u16, ctrl: [u64; 2]) {
        // SAFETY: the lane refers to nothing within this call.
        unsafe { self.complete_sent(card, qp, ctrl[0], ctrl[1]) };
    }

    #[inline(always)]
    fn received(&mut self, card: u16, qp: u16, length: u32, solicited: bool) {
        // SAFETY: as above.
        unsafe { self.complete_received(card, qp, length, solicited) };
    }
}
