//! Completion and event queues: CQE and EQE writes, arming, overrun.

use core::sync::atomic::Ordering::Relaxed;

use fpga_regs::regs::{Cause, ErrorCause, Health};
use fpga_regs::{Cqe, Eqe, EventKind, QpState, QpType};

use super::defect::Defect;
use super::tables::{Cq, EQS};
use super::Device;
use crate::dma::Addr;
use crate::env::Env;
use crate::segment::ISLANDS;

/// CQ is not armed.
pub(super) const DISARMED: u8 = 0;
/// Armed for any completion.
const ARMED: u8 = 1;
/// Armed for a solicited completion or an error.
const ARMED_SOLICITED: u8 = 2;

impl Device {
    /// Writes a CQE and, when the CQ is armed for it, an event. `urgent`: solicited, or in error.
    #[inline(always)]
    pub(super) fn push_cqe(&mut self, cqn: u16, cqe: Cqe, urgent: bool, env: &mut impl Env) {
        let cq = &self.cqs[cqn as usize];
        if !cq.used.get() {
            return;
        }
        if cq.special.get() {
            return self.push_special(cqn, cqe, urgent, env);
        }
        self.write_cqe(cqn, cqe, urgent, env);
    }

    /// As [`push_cqe`](Self::push_cqe), where the CQ is overrun, its CQEs have the time, or islands share it. On its own,
    /// so that the others do not pay for it.
    #[cold]
    #[inline(never)]
    fn push_special(&mut self, cqn: u16, cqe: Cqe, urgent: bool, env: &mut impl Env) {
        if !self.cqs[cqn as usize].shared.get() {
            return self.push_unless_overrun(cqn, cqe, urgent, env);
        }
        env.with_cq(self.id, cqn, |env, died| {
            if died {
                self.recover_cq(cqn.into(), env);
            }
            self.push_unless_overrun(cqn, cqe, urgent, env);
            self.is_written(&cqe);
        });
        if self.cqs[cqn as usize].failed.get() {
            self.end_overrun_cqs(env);
        }
    }

    /// What `recovery` asks for, of a CQ that islands share: its last entry may not be that of a dead process.
    pub(super) fn is_written(&mut self, cqe: &Cqe) {
        if let Some(q) = self.find_qp(cqe.qpn()) {
            self.qps[q].written[usize::from(cqe.recv())] = cqe.wqe_index();
        }
    }

    fn push_unless_overrun(&mut self, cqn: u16, mut cqe: Cqe, urgent: bool, env: &mut impl Env) {
        let cq = &self.cqs[cqn as usize];
        if cq.overrun.get() {
            return;
        }
        if cq.stamped.get() {
            cqe.set_timestamp(env.now());
        }
        self.write_cqe(cqn, cqe, urgent, env);
    }

    #[inline(always)]
    fn write_cqe(&mut self, cqn: u16, mut cqe: Cqe, urgent: bool, env: &mut impl Env) {
        let cq = &mut self.cqs[cqn as usize];
        if cq.pi.wrapping_sub(cq.ci) > cq.mask && !Self::refresh_consumer(cq, env) {
            cq.overrun = true.into();
            cq.special = true.into();
            let (function, shared) = (cq.function, cq.shared.get());
            self.async_event(function, EventKind::CQ_ERR, cqn as u32, env);
            self.cqs[cqn as usize].failed = true.into();
            // Of a shared one, once others may use it: what is flushed may go to it.
            if !shared {
                self.end_overrun_cqs(env);
            }
            return;
        }
        let lap_is_odd = cq.pi & (cq.mask + 1) != 0;
        cqe.set_phase(!lap_is_odd);
        let at = cq.ring.add(((cq.pi & cq.mask) as u64) << 6);
        // The order is what `recovery` relies on. A CQ whose memory is gone belongs to a process that
        // is gone.
        let _ = env.publish(at, cqe.words());
        cq.pi = cq.pi.wrapping_add(1);
        if cq.armed != DISARMED && (cq.armed == ARMED || urgent) {
            cq.held += 1;
            if !self.holds_event(cqn, env) {
                self.completion_event(cqn, env);
            }
        }
    }

    /// Whether the event of an armed CQ waits for more completions: as software has set it, or else as the card does by
    /// itself.
    fn holds_event(&mut self, cqn: u16, env: &mut impl Env) -> bool {
        let cq = &mut self.cqs[cqn as usize];
        if cq.moderation.period == 0 {
            return env.holds_event(self.id, cqn, cq.arming, cq.held);
        }
        let holds = cq.moderation.holds(cq.held);
        if holds && cq.due == 0 {
            cq.due = env.now() + u64::from(cq.moderation.period) * 1000;
            self.moderates.store(1, Relaxed);
            env.timer(cq.due);
        }
        holds
    }

    /// Raises the events that were held back long enough.
    pub(super) fn raise_held(&mut self, now: u64, env: &mut impl Env) {
        if self.moderates.load(Relaxed) == 0 {
            return;
        }
        let due = |cq: &Cq| cq.used.get() && cq.due != 0 && cq.due <= now;
        for cqn in self.tables.cq.range() {
            if due(&self.cqs[cqn]) {
                self.cqs[cqn].due = 0;
                if self.cqs[cqn].armed != DISARMED && self.cqs[cqn].held > 0 {
                    self.completion_event(cqn as u16, env);
                }
            }
        }
        self.moderates.store(self.next_held().is_some().into(), Relaxed);
    }

    /// When the next event that is held back is due (ns).
    pub(super) fn next_held(&self) -> Option<u64> {
        if self.moderates.load(Relaxed) == 0 {
            return None;
        }
        let cqs = self.cqs[self.tables.cq.range()].iter();
        cqs.filter(|cq| cq.used.get() && cq.due != 0).map(|cq| cq.due).min()
    }

    /// A completion event was held back long enough (CQ moderation), unless it was raised meanwhile.
    pub fn held_event(&mut self, cqn: u16, arming: u32, env: &mut impl Env) {
        let cq = &self.cqs[cqn as usize];
        if cq.used.get() && cq.armed != DISARMED && cq.held > 0 && cq.arming == arming {
            self.completion_event(cqn, env);
        }
    }

    pub(super) fn completion_event(&mut self, cqn: u16, env: &mut impl Env) {
        let cq = &self.cqs[cqn as usize];
        let (function, eq) = (cq.function, cq.eq);
        self.push_event(function, eq, EventKind::COMPLETION, 0, cqn as u32, env);
        let cq = &mut self.cqs[cqn as usize];
        (cq.armed, cq.held, cq.told, cq.due) = (DISARMED, 0, cq.pi, 0);
    }

    /// Reads the consumer index record; whether there is room now.
    #[cold]
    fn refresh_consumer(cq: &mut Cq, env: &mut impl Env) -> bool {
        let mut record = [0u8; 4];
        let at = Addr { iova: cq.ci_iova, domain: cq.ring.domain };
        if env.read(at, &mut record).is_err() {
            return false;
        }
        let ci = u32::from_le_bytes(record);
        // A record outside the window is the driver's error and is not followed.
        if cq.pi.wrapping_sub(ci) <= cq.mask + 1 {
            cq.ci = ci;
        }
        cq.pi.wrapping_sub(cq.ci) <= cq.mask
    }

    /// The CQ-arm doorbell. An event is raised at once when there are CQEs from `consumer` on of which none
    /// has told: a program that arms before it polls is not told twice of what it is about to poll.
    pub fn arm_cq(
        &mut self,
        function: u16,
        cqn: u32,
        solicited_only: bool,
        consumer: u32,
        env: &mut impl Env,
    ) {
        let Some(cq) = self.cqs.get(cqn as usize) else { return };
        if !cq.used.get() || cq.function != function {
            return;
        }
        if !cq.shared.get() {
            return self.arm(cqn as u16, solicited_only, consumer, env);
        }
        env.with_cq(self.id, cqn as u16, |env, died| {
            if died {
                self.recover_cq(cqn as usize, env);
            }
            self.arm(cqn as u16, solicited_only, consumer, env);
        });
    }

    fn arm(&mut self, cqn: u16, solicited_only: bool, consumer: u32, env: &mut impl Env) {
        let first = self.first_cqe(self.cqs[cqn as usize].mask + 1);
        let cq = &mut self.cqs[cqn as usize];
        cq.arming = cq.arming.wrapping_add(1);
        let consumed = cq.pi.wrapping_sub(first) == consumer;
        if consumed {
            // What was held back is known: the next completion is the first again.
            (cq.held, cq.due) = (0, 0);
        }
        // What was held back is due: nothing else would raise it now.
        let due = cq.held > 0 || !solicited_only;
        if !consumed && cq.pi != cq.told && due {
            self.completion_event(cqn, env);
        } else if solicited_only {
            if cq.armed == DISARMED {
                cq.armed = ARMED_SOLICITED;
            }
        } else {
            cq.armed = ARMED;
        }
    }

    /// Writes an EQE and raises the event queue's interrupt.
    pub(super) fn push_event(
        &mut self,
        function: u16,
        eq: u8,
        kind: EventKind,
        port: u8,
        object: u32,
        env: &mut impl Env,
    ) {
        if eq as usize >= EQS {
            return;
        }
        env.with_events(self.id, function, |env, died| {
            if died {
                (0..EQS).for_each(|n| self.recover_eq(function as usize, n, env));
            }
            if kind == EventKind::CQ_ERR {
                self.functions[function as usize].health |= Health(0).with_cq_overrun(true).0;
            }
            let mut eqe = Eqe::default();
            eqe.set_kind(kind);
            eqe.set_port(port);
            eqe.set_object(object);
            self.write_eqe(function, eq, eqe, env);
        });
    }

    fn write_eqe(&mut self, function: u16, eq: u8, mut eqe: Eqe, env: &mut impl Env) {
        let card = self.id;
        let f = &mut self.functions[function as usize];
        let q = &mut f.eqs[eq as usize];
        if !f.used.get() || !q.used.get() {
            return;
        }
        if q.pi.wrapping_sub(q.ci) > q.mask {
            f.error_cause = Cause(0).with_code(ErrorCause::EQ_OVERRUN).with_detail(eq as u16).0;
            f.health |= Health(0).with_eq_overrun(true).0;
            return;
        }
        eqe.set_timestamp(env.now());
        eqe.set_phase(q.pi & (q.mask + 1) == 0);
        let ring = Addr { iova: q.ring, domain: f.domain };
        let at = ring.add(u64::from(q.pi & q.mask) * Eqe::BYTES as u64);
        let _ = env.publish(at, eqe.words());
        q.pi = q.pi.wrapping_add(1);
        let vector = q.vector;
        if f.vector_mask & (1 << vector) != 0 {
            f.vector_pending |= 1 << vector;
        } else if self.defect != Defect::LostInterrupts {
            env.interrupt(card, function, vector);
        }
    }

    /// An asynchronous event: goes to the function's event queue 0.
    pub(super) fn async_event(&mut self, function: u16, kind: EventKind, object: u32, env: &mut impl Env) {
        self.push_event(function, 0, kind, 0, object, env);
    }

    /// Tells every function that this many entries of a port's GID table have been added or removed.
    #[cold]
    pub fn gids_changed(&mut self, port: u8, entries: usize, env: &mut impl Env) {
        (0..entries).for_each(|_| self.port_event(port, EventKind::GID_CHANGE, env));
    }

    /// Tells every function of an event of a port.
    #[cold]
    pub(super) fn port_event(&mut self, port: u8, kind: EventKind, env: &mut impl Env) {
        for function in self.tables.function.range() {
            self.push_event(function as u16, 0, kind, port + 1, 0, env);
        }
    }

    /// What is flushed to another CQ may overrun that: one after the other, not each within the last. CQs of this island.
    #[cold]
    pub(super) fn end_overrun_cqs(&mut self, env: &mut impl Env) {
        let island = env.island();
        let ends = usize::from(island) % ISLANDS;
        if core::mem::replace(&mut self.ends_cqs[ends], true.into()).get() {
            return;
        }
        let failed =
            |cq: &Cq| cq.failed.get() && (island == 0 || cq.shared.get() || cq.island.island() == island);
        while let Some(cqn) = self.tables.cq.range().find(|&n| failed(&self.cqs[n])) {
            self.cqs[cqn].failed = false.into();
            self.cq_overrun(cqn as u16, env);
        }
        self.ends_cqs[ends] = false.into();
    }

    /// All QPs of an overrun CQ go to error: their completions would be lost.
    #[cold]
    pub(crate) fn cq_overrun(&mut self, cqn: u16, env: &mut impl Env) {
        for q in self.tables.qp.range() {
            let qp = &self.qps[q];
            let uses = match qp.qp_type {
                // It has that of its last request, which may be over.
                QpType::XRC_RECV => qp.recv_cq == cqn && qp.receiving(),
                _ => qp.send_cq == cqn || qp.recv_cq == cqn,
            };
            if qp.used.get() && uses && !matches!(qp.state, QpState::RESET | QpState::ERR) {
                if !env.has(self.id, q as u16) && !env.has_all(self.id, q as u16) {
                    // It is not of this island, as it is not connected: later, with all the cards.
                    continue;
                }
                // What completes to another CQ is flushed there.
                self.to_error(q, env);
                self.qp_event(q, EventKind::QP_FATAL, env);
            }
        }
    }

    /// What [`cq_overrun`](Self::cq_overrun) has left of the CQs of a queue pair. With all the cards.
    #[cold]
    pub fn end_cqs_of(&mut self, q: usize, env: &mut impl Env) {
        for cqn in [self.qps[q].send_cq, self.qps[q].recv_cq] {
            if self.cqs[cqn as usize].overrun.get() {
                self.cq_overrun(cqn, env);
            }
        }
    }
}
