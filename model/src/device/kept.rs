//! Selective repeat: packets that come before those that they follow, at both sides of a reliable connection.
//!
//! To the rest of the card they come when it is their turn. Where the first of them is missing, the responder says so, and how
//! many; the requester, who knows which answers it waits for, asks for those again. Both do once more when a quarter of what they may keep
//! has come meanwhile: the packet that was sent again is lost, too, or what asked for it.

use fpga_regs::QpType;

use super::qp::NOT_MISSED;
use super::reorder::{Fate, Side};
use super::responder::Outcome;
use super::Device;
use crate::env::Env;
use crate::packet::Packet;
use crate::wire::{self, psn, Extra, NakCode, Operation, Transport};

/// Most packets that a NAK can say are missing.
const MOST_MISSING: i32 = 127;
/// Packets that come, at least, before something missing is asked for once more.
const LEAST_PATIENCE: u32 = 8;

impl Device {
    /// Whether a queue pair repeats selectively. XRC does not: what a request of it is for depends on those before it.
    pub(super) fn repeats(&self, q: usize) -> bool {
        self.reorder.limit() != 0 && self.qps[q].qp_type == QpType::RC
    }

    /// Whether a packet, which may have been sent before, leaves before those that follow it.
    #[inline(always)]
    pub(crate) fn repeats_first(&self, p: &Packet) -> bool {
        self.reorder.limit() != 0 && p.transport == Transport::RC && p.operation != Operation::Acknowledge
    }

    /// Packets that come before something missing is asked for once more.
    fn patience(&self) -> u8 {
        (self.reorder.limit() / 4).max(LEAST_PATIENCE) as u8
    }

    /// A request came before those that it follows.
    #[cold]
    pub(super) fn keep_request(&mut self, q: usize, p: &Packet, env: &mut impl Env) {
        // Keys are invalidated by who has all the cards, which need not be those that the missing request comes to.
        let fate = match self.repeats(q) && p.extra != Extra::Invalidate {
            true => self.reorder.keep(q, Side::Requests, p, env),
            false => Fate::Refused,
        };
        let patience = self.patience();
        let resp = &mut self.qps[q].resp;
        match fate {
            Fate::Kept => {
                if !resp.keeps.get() {
                    (resp.keeps, resp.asked) = (true.into(), resp.epsn);
                }
            }
            // A peer that goes back sends it, having heard of it.
            Fate::Again => return,
            Fate::Full | Fate::Refused => resp.dropped = true.into(),
        }
        if !resp.nak_sent.get() {
            return self.send_sequence_nak(q, env);
        }
        if resp.keeps.get() && resp.since < NOT_MISSED - 1 {
            resp.since += 1;
            let (since, times) = (resp.since, resp.since / patience);
            // Each time later: to a peer that goes back each NAK is a retry.
            if since % patience == 0 && (times + 1).is_power_of_two() {
                self.send_sequence_nak(q, env);
                self.qps[q].resp.since = since;
            }
        }
    }

    /// Says what is missing: up to the first request that is kept, or all that follows.
    fn send_sequence_nak(&mut self, q: usize, env: &mut impl Env) {
        let epsn = self.qps[q].resp.epsn;
        let kept = self.reorder.first(q, Side::Requests, epsn).filter(|_| self.qps[q].resp.keeps.get());
        let missing = kept.map_or(0, |(_, kept)| psn::diff(kept.psn, epsn).clamp(1, MOST_MISSING)) as u8;
        let resp = &mut self.qps[q].resp;
        (resp.nak_sent, resp.since) = (true.into(), 0);
        resp.asked = psn::add(epsn, missing.into());
        if missing == 0 {
            resp.dropped = false.into();
        }
        let qp = &mut self.qps[q];
        qp.count_ack();
        let nak = qp.reply(Operation::Acknowledge, epsn, env);
        (nak.syndrome, nak.missing) = (wire::Syndrome::nak(NakCode::PSN_SEQUENCE_ERROR), missing);
    }

    /// After a request was taken: those that were kept and follow it. Gives what remains to be done for all of them.
    #[cold]
    pub(super) fn take_kept(&mut self, q: usize, mut owed: Outcome, env: &mut impl Env) -> Outcome {
        if owed == Outcome::Unread {
            return owed;
        }
        loop {
            let epsn = self.qps[q].resp.epsn;
            let Some((place, first)) = self.reorder.first(q, Side::Requests, epsn) else {
                self.reorder.release(q, Side::Requests);
                let resp = &mut self.qps[q].resp;
                resp.keeps = false.into();
                if !resp.dropped.get() || resp.nak_sent.get() || !self.qps[q].receives() {
                    return owed;
                }
                break;
            };
            let ahead = psn::diff(first.psn, epsn);
            if ahead > 0 {
                let resp = &mut self.qps[q].resp;
                if resp.nak_sent.get() {
                    return owed;
                }
                if psn::diff(resp.asked, epsn) > 0 {
                    // Of several, one has come.
                    (resp.nak_sent, resp.since) = (true.into(), resp.since % NOT_MISSED);
                    return owed;
                }
                break;
            }
            let Some(p) = self.reorder.remove(q, Side::Requests, place, env) else { return owed };
            if ahead == 0 {
                // An answer with data says the same as an acknowledgement before it, but must not pass it.
                if !matches!(p.operation, Operation::Send | Operation::Write) {
                    self.acknowledge_owed(q, &mut owed, env);
                }
                let outcome = self.in_order(q, &p, env);
                if matches!(outcome, Outcome::Acknowledge { .. }) {
                    self.unsend(q, &std::mem::replace(&mut owed, outcome));
                }
            }
            env.drop_payload(&p.payload);
        }
        // The NAK acknowledges what is before it.
        self.unsend(q, &owed);
        self.send_sequence_nak(q, env);
        Outcome::Done
    }

    fn acknowledge_owed(&mut self, q: usize, owed: &mut Outcome, env: &mut impl Env) {
        if let Outcome::Acknowledge { psn, .. } = std::mem::replace(owed, Outcome::Done) {
            self.qps[q].reply(Operation::Acknowledge, psn, env).syndrome = wire::Syndrome::ACK;
        }
    }

    fn unsend(&mut self, q: usize, owed: &Outcome) {
        if matches!(owed, Outcome::Acknowledge { .. }) {
            self.unsent_ack(self.qps[q].qpn);
        }
    }

    /// An answer, or an acknowledgement, came before the answer to a READ or atomic that it follows.
    #[cold]
    pub(super) fn keep_answer(&mut self, q: usize, p: &Packet, env: &mut impl Env) {
        let latest = psn::add(p.psn, p.count - 1);
        if !self.repeats(q) {
            return self.answer_lost(q, latest, env);
        }
        let una = self.qps[q].req.una;
        let known = self.reorder.end(q, Side::Answers, una);
        match self.reorder.keep(q, Side::Answers, p, env) {
            Fate::Kept => {}
            Fate::Again => return,
            Fate::Full => {
                self.qps[q].req.dropped = true.into();
                return;
            }
            Fate::Refused => return self.answer_lost(q, latest, env),
        }
        let patience = self.patience();
        // Nothing that could be counted comes after the last one.
        let last =
            psn::add(p.psn, 1) == self.qps[q].sent() && u32::from(self.qps[q].req.since) >= LEAST_PATIENCE;
        let req = &mut self.qps[q].req;
        if !req.keeps.get() {
            (req.keeps, req.since) = (true.into(), 0);
        }
        req.since = if last { patience } else { req.since.saturating_add(1) };
        // Something comes, if not what is waited for.
        self.timers.disarm(q, &mut self.qps);
        env.watch(self.id, q as u16);
        // What is acknowledged is missing, too, if it has an answer.
        let acknowledged = u32::from(p.operation == Operation::Acknowledge);
        let missing = psn::diff(psn::add(p.psn, acknowledged), known);
        if missing > 0 {
            self.ask_again(q, known, missing as u32, env);
        } else if self.qps[q].req.since >= patience {
            self.ask_for_first(q, env);
        } else {
            return;
        }
        if !last {
            self.qps[q].req.since = 0;
        }
    }

    /// Asks for the first answers that are missing.
    fn ask_for_first(&mut self, q: usize, env: &mut impl Env) {
        let una = self.qps[q].req.una;
        if let Some((_, first)) = self.reorder.first(q, Side::Answers, una) {
            self.ask_again(q, una, psn::diff(first.psn, una).max(0) as u32, env);
        }
    }

    /// After an answer: those that were kept and follow it.
    #[cold]
    pub(super) fn take_kept_answers(&mut self, q: usize, env: &mut impl Env) {
        let mut taken = false;
        while let Some((place, first)) = self.reorder.first(q, Side::Answers, self.qps[q].req.una) {
            let response = first.operation != Operation::Acknowledge;
            let ahead = psn::diff(first.psn, self.qps[q].req.una);
            if ahead >= 0 {
                let upto = psn::add(first.psn, u32::from(!response));
                if self.advance(q, upto, env) || (response && self.qps[q].req.una != first.psn) {
                    // More is missing, and has been for some time.
                    if taken && self.qps[q].req.since >= self.patience() {
                        self.ask_for_first(q, env);
                    }
                    return;
                }
            }
            let Some(p) = self.reorder.remove(q, Side::Answers, place, env) else { return };
            taken = true;
            if ahead >= 0 && response {
                // Its payload is at hand.
                let _ = self.response(q, &p, env);
            }
            env.drop_payload(&p.payload);
        }
        let (dropped, una) = (self.qps[q].req.dropped, self.qps[q].req.una);
        self.forget_answers(q);
        let missing = psn::diff(self.qps[q].sent(), una);
        if dropped.get() && missing > 0 {
            self.ask_again(q, una, missing as u32, env);
        }
    }

    /// Sending goes back: what was kept is answered again.
    pub(super) fn forget_answers(&mut self, q: usize) {
        let req = &mut self.qps[q].req;
        req.dropped = false.into();
        if req.keeps.take() {
            self.reorder.release(q, Side::Answers);
        }
    }

    /// The queue pair is in error, or new.
    pub(super) fn forget_kept(&mut self, q: usize) {
        if self.reorder.limit() != 0 {
            self.reorder.release(q, Side::Requests);
            self.reorder.release(q, Side::Answers);
        }
        let qp = &mut self.qps[q];
        (qp.req.keeps, qp.req.dropped) = Default::default();
        (qp.resp.keeps, qp.resp.dropped) = Default::default();
    }
}
