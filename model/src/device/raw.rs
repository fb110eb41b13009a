//! Raw packet queue pairs: the frames that they send, and who gets those that come.
//!
//! A frame is sent when all who get a copy have a receive WQE; until then it stays in its send queue, as if the wire were
//! paused (IEEE 802.3 annex 31B), and the next receive doorbell of who is waited for runs the card. A receiver that posts
//! none for [`PATIENCE`] is not waited for any more until it posts receives again.

use fpga_regs::regs::port;
use fpga_regs::{CqeStatus, QpState, QpType, Syndrome, WqeCtrl, WqeOpcode, MAX_FRAME, MAX_INLINE};

use super::gather::{malformed, LocalError};
use super::wqe::Wqe;
use super::Device;
use crate::dma::Pieces;
use crate::env::Env;
use crate::packet::{Payload, PortId};
use crate::steering::{Copies, Copy, Fields, Taken};
use crate::wire::checksum::Checksums;
use crate::wire::ethernet::{self, MIN_FRAME};
use crate::wire::{psn, Ethernet};

/// How long a receiver without receive WQEs holds the wire (ns).
pub(crate) const PATIENCE: u64 = 100_000_000;

/// Calls with room for so many bytes of a frame, which are zero.
pub(crate) fn with_room<R>(len: usize, call: impl FnOnce(&mut [u8]) -> R) -> R {
    /// Most frames are of one of these lengths, and to clear more takes longer than to read these.
    const SHORT: usize = 128;
    const USUAL: usize = 1536;
    if len <= SHORT {
        call(&mut [0; SHORT][..len])
    } else if len <= USUAL {
        call(&mut [0; USUAL][..len])
    } else {
        call(&mut [0; MAX_FRAME as usize][..len])
    }
}

/// What the card adds to a frame that it sends.
#[derive(Clone, Copy)]
pub(crate) struct Added {
    /// A tag of 802.1Q.
    tag: Option<u16>,
    /// Checksums.
    fill: Checksums,
}

impl Added {
    /// What the control segment of a frame asks for. A frame that is too short or too long has none.
    #[inline(always)]
    pub fn by(ctrl: &WqeCtrl) -> Option<Added> {
        let tag = ctrl.vlan_insert().then(|| ctrl.vlan_tci());
        let longest = MAX_FRAME - if tag.is_some() { Ethernet::TAG_BYTES as u32 } else { 0 };
        let is_frame = (Ethernet::BYTES as u32..=longest).contains(&ctrl.length());
        is_frame.then(|| Added { tag, fill: Checksums { ip: ctrl.ip_csum(), l4: ctrl.l4_csum() } })
    }

    /// Whether a frame of so many bytes leaves as it was posted.
    #[inline(always)]
    pub fn leaves_as_it_is(&self, len: usize) -> bool {
        len >= MIN_FRAME && self.tag.is_none() && self.fill == Checksums::default()
    }

    /// Bytes of a frame that was posted with so many.
    #[inline(always)]
    pub fn length(&self, len: usize) -> usize {
        self.tagged(len).max(MIN_FRAME)
    }

    fn tagged(&self, len: usize) -> usize {
        len + if self.tag.is_some() { Ethernet::TAG_BYTES } else { 0 }
    }

    /// Makes the frame of the first `len` bytes. `frame` has its [length](Self::length).
    #[inline]
    pub fn add(&self, frame: &mut [u8], len: usize) {
        let (tagged, padding) = frame.split_at_mut(self.tagged(len));
        if let Some(tci) = self.tag {
            ethernet::insert_tag(tagged, tci);
        }
        self.fill.fill(tagged);
        padding.fill(0);
    }
}

/// The next frame of a send queue.
pub(crate) struct Outgoing {
    /// Its bytes.
    pub payload: Payload,
    /// It was in its WQE.
    pub inline: bool,
    /// Blocks of its WQE.
    pub(super) blocks: u32,
    /// What of its message is sent with it.
    pub(super) part: Part,
}

/// What of the message of a WQE is sent with a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    All,
    /// What is before this byte was sent before, or is now.
    Until(u32),
    /// The rest of one that is cut into frames.
    Rest,
}

impl Outgoing {
    /// It is the last frame of its WQE.
    pub fn is_last(&self) -> bool {
        !matches!(self.part, Part::Until(_))
    }
}

impl Device {
    /// The next frame of a raw packet queue pair that may send. What is no frame ends it in error.
    pub(crate) fn next_frame(&mut self, q: usize, env: &mut impl Env) -> Option<Outgoing> {
        for executed in 0.. {
            if env.ends_turn(executed) {
                env.send_later(self.id, q as u16);
                break;
            }
            let producer = env.bells(self.id).sq_producer(q);
            let qp = &self.qps[q];
            if !qp.used.get() || !qp.takes_frames() {
                return None;
            }
            match qp.state {
                QpState::RTS => {}
                QpState::ERR => self.flush(q, env),
                QpState::SQE => self.flush_send(q, env),
                QpState::SQD => self.check_drained(q, env),
                _ => {}
            }
            let qp = &self.qps[q];
            // What is cut into frames was begun, and ends.
            let sends = qp.state == QpState::RTS || qp.state == QpState::SQD && qp.req.cur_offset != 0;
            if !sends || qp.req.rnr_wait.get() || qp.req.pending_status != 0 {
                return None;
            }
            if producer.wrapping_sub(qp.req.ci) > qp.sq_mask + 1 {
                self.fatal(q, env);
                return None;
            }
            if qp.req.cur == producer {
                return None;
            }
            if self.is_ahead(q, env) {
                return None;
            }
            match self.take_frame(q, env) {
                Ok(Some(frame)) => return Some(frame),
                Ok(None) => {}
                Err(error) => {
                    self.send_error(q, error, env);
                    return None;
                }
            }
        }
        None
    }

    /// The frame of the WQE at `cur`, or `None` for a WQE without one, which is done.
    fn take_frame<E: Env>(&mut self, q: usize, env: &mut E) -> Result<Option<Outgoing>, LocalError> {
        let qp = &self.qps[q];
        let wqe = Wqe::fetch(qp, qp.req.cur, env)?;
        let ctrl = &wqe.ctrl;
        if wqe.blocks() == 0 || !wqe.well_formed(qp.qp_type) {
            return Err(malformed());
        }
        match ctrl.opcode() {
            WqeOpcode::RAW_ETH => {}
            WqeOpcode::RAW_TSO => return self.take_segment(q, &wqe, env).map(Some),
            WqeOpcode::NOP => {
                self.execute_local(q, &wqe, env)?;
                return Ok(None);
            }
            _ => return Err(malformed()),
        }
        let len = ctrl.length();
        let error = LocalError { status: CqeStatus::LOC_LEN_ERR, syndrome: Syndrome::MESSAGE_TOO_LONG };
        let added = Added::by(ctrl).ok_or(error)?;
        let as_it_is = added.leaves_as_it_is(len as usize);
        let mut payload = match self.gather_direct(q, &wqe, 0, len, env)? {
            Some(at) if E::FETCHES_FRAMES && as_it_is => {
                let payload = Payload::Memory(at, len);
                return Ok(Some(Outgoing { payload, inline: false, blocks: wqe.blocks(), part: Part::All }));
            }
            Some(at) => env.gather(&Pieces::one(at, len))?,
            None => self.gather_pieces(q, &wqe, 0, len, env)?.0,
        };
        let len = len as usize;
        // The ring of inline data may be gone when the frame is delivered.
        let inline = matches!(payload, Payload::Memory(..));
        if inline && len > MAX_INLINE {
            return Err(malformed());
        }
        if inline || !as_it_is {
            payload = with_room(added.length(len), |bytes| {
                let read = env.payload(&payload, &mut bytes[..len]);
                env.drop_payload(&payload);
                added.add(bytes, len);
                read.map(|()| env.stash(bytes))
            })?;
        }
        Ok(Some(Outgoing { payload, inline, blocks: wqe.blocks(), part: Part::All }))
    }

    /// A frame is sent: its WQE is complete.
    pub(crate) fn frame_sent(&mut self, q: usize, frame: &Outgoing, env: &mut impl Env) {
        self.frame_starts(q, frame, env);
        self.left(q, env);
    }

    /// A frame is on its way, and its WQE complete once it has [left](Self::left_before).
    pub(crate) fn frame_starts(&mut self, q: usize, frame: &Outgoing, env: &mut impl Env) {
        self.keep_pace(q, frame.payload.len(), env);
        let by = self.qps[q].leaves;
        let req = &mut self.qps[q].req;
        req.packets += 1;
        req.bytes += frame.payload.len() as u64;
        if let Part::Until(offset) = frame.part {
            req.cur_offset = offset;
        } else {
            req.cur_offset = 0;
            req.psn = psn::add(req.psn, 1);
            req.cur = req.cur.wrapping_add(frame.blocks);
            self.qps[q].catch_up();
        }
        if frame.part != Part::All {
            self.count(by, port::TX_SEGMENTED);
        }
    }

    /// The next frame waits until this time (ns) at most: for receivers, or for the rate of its queue pair.
    pub(crate) fn frame_waits(&mut self, q: usize, until: u64, env: &mut impl Env) {
        self.qps[q].req.rnr_wait = true.into();
        self.timers.arm(q, &mut self.qps, until);
        env.timer(until);
    }

    /// The queue pairs whose frames may be waiting.
    pub(crate) fn waiting(&self) -> Vec<usize> {
        self.timers.armed().filter(|&q| q < self.qps.len()).collect()
    }

    /// The frames of a raw packet queue pair need not wait any more, if they did.
    pub(crate) fn frame_goes_on(&mut self, q: usize, env: &mut impl Env) {
        let qp = &mut self.qps[q];
        if qp.used.get() && qp.qp_type == QpType::RAW_PACKET && qp.req.rnr_wait.take() {
            self.timers.disarm(q, &mut self.qps);
            env.send_later(self.id, q as u16);
        }
    }

    /// A queue is run because a doorbell of it rang. Whether frames waited for the receives that it has.
    pub(crate) fn has_posted(&mut self, q: usize, env: &mut impl Env) -> bool {
        let card = self.id;
        let qp = &mut self.qps[q];
        if !qp.takes_frames() || !qp.awaited.get() {
            return false;
        }
        if env.bells(card).rq_producer(q) == qp.resp.rq_ci {
            // The doorbell of its sends.
            return false;
        }
        qp.awaited = false.into();
        if !qp.flushing.get() {
            env.bells(self.id).watch_no_more(q);
        }
        true
    }

    /// Until when (ns) a frame has to wait at most for a queue to get a receive; `None`: it need not.
    pub(crate) fn lacks_recv(&mut self, q: usize, env: &mut impl Env) -> Option<u64> {
        let card = self.id;
        let qp = &mut self.qps[q];
        if qp.resp.has_recv.get() || !qp.receives() {
            return None;
        }
        if qp.resp.posted(|| env.bells(card).rq_producer(q)) != 0 {
            qp.waits_until = 0;
            return None;
        }
        let now = env.now();
        if qp.waits_until != 0 && now >= qp.waits_until {
            // It was waited for, and is not any more until it posts.
            return None;
        }
        qp.awaited = true.into();
        qp.resp.rq_pi = env.bells(card).rq_producer_watched(q);
        if qp.resp.rq_pi != qp.resp.rq_ci {
            qp.waits_until = 0;
            return None;
        }
        // Since the first frame that found it without: who posts now and then is waited for each time.
        if qp.waits_until == 0 {
            qp.waits_until = now + PATIENCE;
        }
        Some(qp.waits_until)
    }

    /// Work queues have no send queue of their own: the queue pairs of their protection domain send for them.
    pub(crate) fn sends_for(&self, sender: u16, queue: u16) -> bool {
        let [sender, queue] = [sender, queue].map(|q| self.qps.get(usize::from(q)));
        let both = sender.zip(queue);
        both.is_some_and(|(sender, queue)| queue.qp_type == QpType::WQ && queue.pd == sender.pd)
    }

    /// Tells what the rules do with a frame that arrives at a port, those that take it.
    pub(crate) fn rules_for(&self, at: PortId, fields: &Fields, takes_it: &mut impl FnMut(Taken)) {
        self.rules.steer(self.known_port(at.port), fields, takes_it);
    }

    /// The copy of a frame that a rule gives to a queue at a port.
    #[inline(always)]
    pub(crate) fn copy_by(&self, rule: &Taken, at: PortId, fields: &Fields) -> Option<Copy> {
        let copy = self.copy_for(rule.qp?, (at, self.known_port(at.port)), fields)?;
        Some(Copy { marked: rule.mark.is_some().into(), mark: rule.mark.unwrap_or_default(), ..copy })
    }

    /// Adds the queues that get a frame that arrives at a port.
    pub(crate) fn steer(&self, at: PortId, fields: &Fields, copies: &mut Copies) {
        let sender = copies.sender_on(self.id);
        let sends = |queue| sender.is_some_and(|sender| sender == queue || self.sends_for(sender, queue));
        // Whether there is a copy, and whether the frame is its queue's own.
        let add = |copies: &mut Copies, rule: &Taken| {
            let Some(copy) = self.copy_by(rule, at, fields) else { return (false, false) };
            let own = sends(copy.queue);
            if !own {
                copies.add(copy);
            }
            (!own, own)
        };
        let (mut drops, mut kept) = (false, false);
        self.rules_for(at, fields, &mut |rule| {
            let (copied, own) = add(copies, &rule);
            drops |= rule.qp.is_none();
            kept |= rule.keeps && copied;
            copies.counted.extend(rule.counts.filter(|_| !own).map(|rule| (self.id, rule)));
        });
        // Copies that others take beside the rules do not count.
        if drops && !kept {
            copies.dropped.push(at);
        }
        if fields.is_multicast() {
            let dmac = fields.dmac();
            for group in self.mcast.iter().filter(|group| group.count != 0 && group.gid[10..] == dmac) {
                let members = &group.qps[..(group.count as usize).min(group.qps.len())];
                for &q in members {
                    add(copies, &Taken { qp: Some(q), keeps: false, mark: None, counts: None });
                }
            }
        }
    }
}
