//! The doorbell of a send queue: plain messages take the express lane at once.
#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering;

use super::env::WallEnv;
use super::handoff;
use super::runner::Runner;
use crate::cells::QpBells;
use crate::device::tables::MAX_QPS;
use crate::express::{send, End, Lane};
use crate::here::Here;
use crate::segment::Segment;
use crate::world::{World, MAX_CARDS};

impl<S: Borrow<Segment>> Runner<S> {
    /// A queue pair will send again soon: fetches the lines that this takes. With many queue pairs in turn none of them
    /// is in the cache.
    #[inline(always)]
    pub fn expect_posts(&self, card: u8, qp: u16) {
        Here::new(std::ptr::from_ref(self.bells(card, qp)).cast_mut().cast()).prefetch_for_write();
        self.routes.prefetch(card, qp, self.net().world.get());
    }

    #[inline(always)]
    fn bells(&self, card: u8, qp: u16) -> &QpBells {
        &self.net().bells[card as usize % MAX_CARDS].qp[qp as usize % MAX_QPS]
    }

    /// A send doorbell rang: runs the QP now, or leaves it to the lock holder.
    #[inline]
    pub fn ring(&self, card: u8, qp: u16, producer: u32) {
        let Some(guard) = self.segment().try_lock() else { return self.leave_pending(qp) };
        // SAFETY: the lock is held: no other thread uses the routes, and what is in them was found by this process.
        let route = unsafe { &*self.routes.place(card, qp) };
        let mut lane = Doorbell { runner: self, left: false };
        // SAFETY: the same holds for the cards.
        let end = unsafe { send(self.net().world.get(), route, card, qp, producer, &mut lane) };
        let sent = end == End::Sent;
        if sent && !lane.left && self.segment().pending().load(Ordering::Relaxed) == 0 {
            self.segment().journal().store(0, Ordering::Relaxed);
            handoff::unlock(self, guard);
        } else {
            self.run_queue(guard.keep(), card, qp, sent);
        }
    }

    /// Completes a message of the express lane within a doorbell. Whether work is left after that.
    ///
    /// The callers have the C ABI, so that the doorbell needs no clean-up for a panic: a panic ends here, and the cards
    /// are repaired before anything else happens to them.
    ///
    /// # Safety
    /// With the segment's lock; nothing refers to the cards or our scratch.
    #[inline(always)]
    unsafe fn complete(&self, complete: impl FnOnce(&mut World, &mut WallEnv<'_>)) -> bool {
        let net = self.net();
        // SAFETY: as the caller promises.
        let (guard, world, scratch) =
            unsafe { (self.segment().locked(), &mut *net.world.get(), &mut *self.scratch.get()) };
        let completed = catch_unwind(AssertUnwindSafe(|| {
            let mut env = WallEnv::new(&guard, net, scratch, &self.routes);
            complete(world, &mut env);
            env.has_work() || env.has_watched()
        }));
        completed.unwrap_or_else(|_| {
            // SAFETY: as above, and nothing refers to it any more.
            unsafe { (*self.scratch.get()).forget() };
            guard.doubt();
            true
        })
    }

    /// # Safety
    /// As [`complete`](Self::complete).
    #[inline(never)]
    unsafe extern "C" fn complete_sent(&self, card: u8, qp: u16, ctrl: u64, more: u64) -> bool {
        // SAFETY: as the caller promises.
        unsafe { self.complete(|world, env| world.sent(card, qp, [ctrl, more], env)) }
    }

    /// # Safety
    /// As [`complete`](Self::complete).
    #[inline(never)]
    unsafe extern "C" fn complete_received(&self, card: u8, qp: u16, length: u32, solicited: bool) -> bool {
        // SAFETY: as the caller promises.
        unsafe { self.complete(|world, env| world.received(card, qp, length, solicited, env)) }
    }
}

/// The express lane within a doorbell: there is no environment but for completions, which few messages have.
struct Doorbell<'a, S: Borrow<Segment>> {
    runner: &'a Runner<S>,
    /// A completion left work.
    left: bool,
}

impl<S: Borrow<Segment>> Lane for Doorbell<'_, S> {
    #[inline(always)]
    fn generation(&self) -> u64 {
        self.runner.segment().generation()
    }

    #[inline(always)]
    fn note(&mut self, word: u64) {
        self.runner.segment().write_journal(word);
    }

    #[inline(always)]
    fn rq_producer(&mut self, card: u8, qp: u16) -> u32 {
        self.runner.bells(card, qp).rq.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn sent(&mut self, card: u8, qp: u16, ctrl: [u64; 2]) {
        // SAFETY: this is used with the lock only, and the lane refers to nothing within this call.
        self.left |= unsafe { self.runner.complete_sent(card, qp, ctrl[0], ctrl[1]) };
    }

    #[inline(always)]
    fn received(&mut self, card: u8, qp: u16, length: u32, solicited: bool) {
        // SAFETY: as above.
        self.left |= unsafe { self.runner.complete_received(card, qp, length, solicited) };
    }
}
