//! What a program does, for the trace: posts and polls.
//!
//! Recorded by events, so that their order among the cards' does not depend on which process comes first.
#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::ops::Range;

use super::Threads;
use crate::segment::Segment;
use crate::sim::engine::Engine;
use crate::sim::event::Event;
use crate::sim::trace::{Phase, Span, Subject, Unread};

impl<S: Borrow<Segment>> Threads<S> {
    /// Whether posts and polls are recorded.
    #[inline]
    fn traced(&self) -> bool {
        // SAFETY: reads only an atomic of it.
        unsafe { (*self.net().sim.get()).trace.on() }
    }

    /// WQEs were posted at the thread's clock, which took `cost`; the card sees the doorbell at `seen`.
    #[inline]
    pub(super) fn trace_posted(&self, queue: (u16, u16), blocks: Range<u32>, cost: u64, seen: u64) {
        if self.traced() {
            self.put_posted(queue, blocks, cost, seen);
        }
    }

    #[cold]
    fn put_posted(&self, (card, qp): (u16, u16), blocks: Range<u32>, cost: u64, seen: u64) {
        let (me, rung) = (self.me(), self.clock());
        let process = self.segment().member();
        let Ok(mut held) = self.locked() else { return };
        held.engine(|e| {
            let q = &e.world.cards[card as usize].qps[qp as usize];
            let subject =
                Subject { card, place: card, port: q.port.port, qpn: q.qpn, process, ..Subject::default() };
            let each = e.env.sim.profile.host.post_ps;
            let mut at = rung.saturating_sub(cost);
            let mut index = blocks.start;
            while index != blocks.end {
                let posted = e.world.cards[card as usize].posted(qp, index, &mut e.env);
                let Some((ctrl, n)) = posted else { return };
                let bytes = ctrl.length();
                let built = (at + each).min(rung);
                let subject = Subject { message: index, ..subject };
                for (phase, start, end) in [(Phase::POST, at, built), (Phase::DOORBELL, built, seen)] {
                    e.env.sim.act(
                        me,
                        seen,
                        Event::Span { span: Span { start, end, phase, subject, index, bytes } },
                    );
                }
                at = built;
                index = index.wrapping_add(n.min(blocks.end.wrapping_sub(index)));
            }
        });
    }

    /// Completions were reaped.
    #[inline]
    pub(super) fn trace_polled(&self) {
        if self.traced() {
            self.put_polled();
        }
    }

    #[cold]
    fn put_polled(&self) {
        let (me, clock) = (self.me(), self.clock());
        let process = self.segment().member();
        let Ok(mut held) = self.locked() else { return };
        held.engine(|e| {
            let Engine { world, env, .. } = e;
            let guard = env.guard;
            let reaped = |unread: &Unread| {
                let card = &world.cards[unread.span.subject.place as usize];
                let q = &card.qps[unread.qp as usize % card.qps.len()];
                let cq = &card.cqs[if unread.recv.get() { q.recv_cq } else { q.send_cq } as usize];
                let mut consumed = [0; 4];
                let read = guard.read(cq.ring.domain, cq.ci_iova, &mut consumed);
                let place = (unread.entry.iova.wrapping_sub(cq.ring.iova) >> 6) as u32;
                let last = cq.pi.wrapping_sub(1);
                // The latest entry at this place of the ring.
                let index = last.wrapping_sub(last.wrapping_sub(place) & cq.mask);
                let reaped = (u32::from_le_bytes(consumed).wrapping_sub(index) as i32) > 0;
                unread.span.subject.process == process && read.is_ok() && reaped
            };
            for span in env.sim.trace.take_reaped(reaped) {
                let at = (clock + env.sim.lookahead()).max(env.sim.now);
                env.sim.act(me, at, Event::Span { span: Span { end: clock.max(span.start), ..span } });
            }
        });
    }
}
