//! Extended reliable connections (annex A14): domains, who holds a receiving QP, and requests that name their SRQ.
//!
//! An XRC_RECV QP belongs to a domain, not to a function: it exists as long as a function holds it. It has no queues. Each
//! request names an SRQ of the same domain, and for that request the SRQ's protection domain and CQ are the QP's.

use fpga_regs::regs::port;
use fpga_regs::{AdminStatus, EventKind, QpType, Syndrome, XrcdFlags};

use super::command_error::{refuse_if, Refused, FULL, IN_USE, NOT_FOUND};
use super::objects::owned;
use super::qp::{Qp, IDLE};
use super::refusal::Refusal;
use super::tables::*;
use super::{Device, Outcome};
use crate::env::Env;
use crate::packet::Packet;
use crate::wire::psn;

/// What a receiving QP has of an SRQ.
#[derive(Clone, Copy)]
struct Chosen {
    srq: u16,
    cq: u16,
    pd: u32,
    domain: u16,
}

impl Chosen {
    fn of(qp: &Qp) -> Self {
        Chosen { srq: qp.srq, cq: qp.recv_cq, pd: qp.pd, domain: qp.domain }
    }

    fn put(self, qp: &mut Qp) {
        (qp.srq, qp.recv_cq, qp.pd, qp.domain) = (self.srq, self.cq, self.pd, self.domain);
    }
}

/// Domains, and who has them open.
impl Device {
    /// OPEN_XRCD.
    pub(super) fn open_xrcd(&mut self, f: u16, key: [u64; 2], flags: XrcdFlags) -> Result<u32, Refused> {
        let xrcds = &self.xrcds;
        let named = key != [0; 2];
        let realm = self.realm(f);
        let same = |x: &&Xrcd| named && x.used.get() && x.key == key && self.realm(x.function) == realm;
        let known = xrcds[self.tables.xrcd.range()].iter().find(same).map(|x| x.domain);
        if known.is_some() && flags.contains(XrcdFlags::EXCLUSIVE) {
            return Err((AdminStatus::BAD_STATE, Syndrome::STILL_USED));
        }
        refuse_if(named && known.is_none() && !flags.contains(XrcdFlags::CREATE), NOT_FOUND)?;
        let x = self.tables.xrcd.take(1..MAX_XRCDS, |i| xrcds[i].used.get()).ok_or(FULL)?;
        let domain = known.unwrap_or_else(|| {
            self.xrc_domains = self.xrc_domains.wrapping_add(1).max(1);
            self.xrc_domains
        });
        self.xrcds[x] = Xrcd { used: true.into(), function: f, users: 0, domain, key };
        Ok(x as u32)
    }

    /// Those who know domains by the same keys: all processes here, or one client.
    fn realm(&self, f: u16) -> u32 {
        let Function { remote, domain, .. } = self.functions[usize::from(f)];
        if remote.get() {
            u32::from(domain) + 1
        } else {
            0
        }
    }

    pub(super) fn check_xrcd(&self, f: u16, x: u32) -> Result<usize, Refused> {
        owned(self.xrcds.get(x as usize).map(|x| (x.used.get(), x.function)), f)?;
        Ok(x as usize)
    }

    /// CLOSE_XRCD.
    pub(super) fn close_xrcd(&mut self, f: u16, x: u32) -> Result<(), Refused> {
        let x = self.check_xrcd(f, x)?;
        refuse_if(self.xrcds[x].users != 0, IN_USE)?;
        self.xrcds[x].used = false.into();
        Ok(())
    }

    /// Closes all domains of a function that is reset, and lets go of all QPs that it holds.
    pub(super) fn leave_domains(&mut self, f: u16, env: &mut impl Env) {
        for h in self.tables.hold.range() {
            if self.holds[h].used.get() && self.holds[h].function == f {
                self.let_go(h, env);
            }
        }
        for x in &mut self.xrcds[self.tables.xrcd.range()] {
            if x.used.get() && x.function == f {
                x.used = false.into();
            }
        }
    }
}

/// Holds on receiving QPs.
impl Device {
    /// A place for one more hold.
    pub(super) fn free_hold(&mut self) -> Result<usize, Refused> {
        let holds = &self.holds;
        self.tables.hold.take(0..MAX_HOLDS, |i| holds[i].used.get()).ok_or(FULL)
    }

    /// A function holds a QP, by an open domain of its own.
    pub(super) fn hold(&mut self, h: usize, x: usize, q: usize) {
        let xrcd = &mut self.xrcds[x];
        xrcd.users += 1;
        self.holds[h] = Hold { used: true.into(), function: xrcd.function, xrcd: x as u16, qp: q as u16 };
    }

    /// OPEN_QP.
    pub(super) fn open_qp(&mut self, f: u16, qpn: u32, x: u32) -> Result<(), Refused> {
        let x = self.check_xrcd(f, x)?;
        let domain = self.xrcds[x].domain;
        let of_domain = |&q: &usize| self.qps[q].xrcd == domain;
        let q = self.find_qp(qpn).filter(of_domain).ok_or(NOT_FOUND)?;
        let h = self.free_hold()?;
        self.hold(h, x, q);
        Ok(())
    }

    fn holds_of(&self, q: usize) -> impl Iterator<Item = usize> + '_ {
        let of = move |hold: &Hold| hold.used.get() && usize::from(hold.qp) == q;
        self.tables.hold.range().filter(move |&h| of(&self.holds[h]))
    }

    /// Whether a function holds a QP.
    pub(super) fn holds(&self, f: u16, q: usize) -> Result<(), Refused> {
        let held = self.holds_of(q).any(|h| self.holds[h].function == f);
        held.then_some(()).ok_or((AdminStatus::NOT_FOUND, Syndrome::NOT_OWNER))
    }

    /// DESTROY_QP: a function no longer holds a QP by an open domain of its own.
    pub(super) fn destroy_held(
        &mut self,
        f: u16,
        q: usize,
        x: u32,
        env: &mut impl Env,
    ) -> Result<(), Refused> {
        let x = self.check_xrcd(f, x)?;
        let found = self.holds_of(q).find(|&h| usize::from(self.holds[h].xrcd) == x);
        self.let_go(found.ok_or((AdminStatus::NOT_FOUND, Syndrome::NOT_OWNER))?, env);
        Ok(())
    }

    /// Ends a hold; the QP ends with its last.
    pub(super) fn let_go(&mut self, h: usize, env: &mut impl Env) {
        let Hold { xrcd, qp, .. } = self.holds[h];
        self.holds[h].used = false.into();
        self.xrcds[usize::from(xrcd) % MAX_XRCDS].users -= 1;
        let q = usize::from(qp) % MAX_QPS;
        let other = self.holds_of(q).next();
        match other {
            Some(other) => self.qps[q].function = self.holds[other].function,
            None => self.free_qp(q, env),
        }
    }

    /// An asynchronous event of a QP, for every function that has it.
    pub(super) fn qp_event(&mut self, q: usize, kind: EventKind, env: &mut impl Env) {
        let Qp { qp_type, function, qpn, .. } = self.qps[q];
        if qp_type == QpType::WQ {
            return self.async_event(function, EventKind::WQ_FATAL, qpn, env);
        }
        if qp_type != QpType::XRC_RECV {
            return self.async_event(function, kind, qpn, env);
        }
        for h in self.tables.hold.range() {
            let function = self.holds[h].function;
            // One that holds it twice is told once.
            if self.holds_of(q).find(|&h| self.holds[h].function == function) == Some(h) {
                self.async_event(function, kind, qpn, env);
            }
        }
    }
}

/// Requests.
impl Device {
    /// A request of XRC.
    #[inline(never)]
    pub(super) fn request_extended(&mut self, q: usize, p: &Packet, env: &mut impl Env) -> Outcome {
        let qp = &self.qps[q];
        if qp.qp_type != QpType::XRC_RECV {
            // The sending end takes none.
            self.count_packets(p.dst.port, port::RX_NO_QP, p);
            return Outcome::Done;
        }
        let ahead = psn::diff(p.psn, qp.resp.epsn);
        if ahead > 0 {
            return self.request(q, p, env);
        }
        let before = Chosen::of(qp);
        let busy = qp.receiving();
        // Some of a train may have been received before.
        let new = ahead + p.count as i32 > 0;
        let refused = match self.choose(q, p.srqn) {
            Err(refusal) => Some(refusal),
            Ok(()) => (new && busy && self.qps[q].srq != before.srq).then_some(Refusal::Invalid),
        };
        if let Some(refusal) = refused {
            before.put(&mut self.qps[q]);
            // What was executed before is not repeated without its SRQ.
            if new {
                let rest = Packet { psn: psn::add(p.psn, ahead.unsigned_abs()), ..*p };
                self.refuse(q, refusal, &rest, env);
            }
            return Outcome::Done;
        }
        let outcome = self.request(q, p, env);
        if !new {
            // A message to another SRQ may be in progress.
            before.put(&mut self.qps[q]);
        }
        outcome
    }

    /// What follows is for this SRQ.
    fn choose(&mut self, q: usize, srqn: u32) -> Result<(), Refusal> {
        let domain = self.qps[q].xrcd;
        let Some(srq) = self.srqs.get(srqn as usize).filter(|srq| srq.used.get() && srq.xrcd == domain)
        else {
            return Err(Refusal::NoSrq);
        };
        if self.cqs[usize::from(srq.cq)].overrun.get() {
            return Err(Refusal::Operation);
        }
        let chosen = Chosen { srq: srqn as u16, cq: srq.cq, pd: srq.pd, domain: srq.domain };
        chosen.put(&mut self.qps[q]);
        Ok(())
    }

    /// Frees an SRQ. Messages that are on their way into it end.
    pub(super) fn free_srq(&mut self, s: usize, env: &mut impl Env) {
        let Srq { pd, cq, xrcd, opened, .. } = self.srqs[s];
        self.srqs[s].used = false.into();
        env.bells(self.id).reset_srq(s, None);
        self.pds[pd as usize].users -= 1;
        if xrcd == 0 {
            return;
        }
        self.cqs[usize::from(cq)].users -= 1;
        self.xrcds[usize::from(opened)].users -= 1;
        for q in self.tables.qp.range() {
            let qp = &mut self.qps[q];
            if qp.used.get() && qp.qp_type == QpType::XRC_RECV && usize::from(qp.srq) == s {
                qp.resp.has_recv = false.into();
                qp.resp.op = IDLE;
                (qp.srq, qp.recv_cq, qp.pd) = (0, 0, 0);
            }
        }
    }
}
