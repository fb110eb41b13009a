//! A pair of queue pairs, one on each side, as a script makes and uses it.

use std::fmt::Write;

use super::script::{Expect, Unit};
use tests::Random;

pub const RC: usize = 2;
pub const UC: usize = 3;
pub const UD: usize = 4;

pub const ZONE: usize = 32768;
/// Parts of a zone: what is sent, where READs and atomics put what they get, what the peer may write to, receives.
pub const RESULTS: usize = 8192;
pub const TARGETS: usize = 12288;
pub const RECEIVES: usize = 20480;

pub const REMOTE_WRITE: usize = 2;
pub const REMOTE_READ: usize = 4;
pub const REMOTE_ATOMIC: usize = 8;
pub const ALL: usize = 15;

/// QP states of verbs.
pub const RTS: u32 = 3;
pub const SQE: u32 = 5;
pub const ERR: u32 = 6;

/// Who a connection was made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Right,
    /// The QP of this side has a number that nothing has.
    Nobody(usize),
    /// The QP of this side belongs to that pair.
    Other(usize, usize),
}

#[derive(Clone, Debug)]
pub struct Pair {
    pub index: usize,
    pub kind: usize,
    pub srq: [bool; 2],
    pub sig_all: [bool; 2],
    pub small_cq: [bool; 2],
    /// Which of its side's CQs it has, 0 or 2, for sends and for receives; the small CQ is the next one.
    pub cqs: [[usize; 2]; 2],
    /// Which of its side's SRQs, if it has one.
    pub which_srq: [usize; 2],
    /// Others take from its SRQ at the same time.
    pub crowded: bool,
    pub access: [usize; 2],
    pub mtu: usize,
    pub rd_atomic: usize,
    pub rnr_retry: usize,
    pub psn: [usize; 2],
    pub peer: Peer,
    /// Both sides are in RTS.
    pub well: bool,
    /// A CQ of it was overrun: it stays as it is.
    pub lost: bool,
    /// Bytes of the peer's targets that each side's window is bound to; 0: it is not bound. Pairs 0 and 1 have one.
    pub window: [usize; 2],
    /// Only this side's sends have failed, by a local error: the QP is in SQE.
    pub sqe: Option<usize>,
    pub next_id: [usize; 2],
    pub next_receive: usize,
}

impl Pair {
    pub fn new(index: usize, count: usize, orderly: bool, random: &mut Random) -> Pair {
        let kind = random.of(&[RC, RC, RC, RC, UC, UD]);
        let mut flags = |percent| [(); 2].map(|()| random.percent(percent));
        let (srq, sig_all, small_cq) = (flags(25), flags(25), flags(10));
        let access = [(); 2].map(|()| {
            if !orderly && random.percent(30) {
                random.of(&[1, 3, 5, 9, 7, 13, 11])
            } else {
                ALL
            }
        });
        let peer = match random.below(100) {
            0..=7 if orderly && kind == RC => Peer::Nobody(random.below(2)),
            _ if orderly => Peer::Right,
            0..=7 if kind != UD => Peer::Nobody(random.below(2)),
            // Another UC queue pair would take what it gets, whatever its PSN (IB spec 9.8.2.2.1).
            8..=13 if kind == RC && count > 1 => {
                Peer::Other(random.below(2), (index + 1 + random.below(count - 1)) % count)
            }
            _ => Peer::Right,
        };
        // Far apart: a packet for the wrong queue pair is never one that it waits for.
        let psn = [(index * 2 + 1) * 0x10_0000, (index * 2 + 2) * 0x10_0000 - 2];
        let psn = if index == 0 { [0xff_fff0, psn[1]] } else { psn };
        Pair {
            index,
            kind,
            srq: if kind == UC { [false; 2] } else { srq },
            sig_all,
            small_cq,
            cqs: [[2 * (index & 1); 2]; 2],
            which_srq: [0; 2],
            crowded: false,
            access,
            mtu: if kind == UD { 3 } else { 1 + random.below(5) },
            rd_atomic: 1 + random.below(4),
            rnr_retry: random.of(&[0, 1, 7]),
            psn,
            peer,
            well: true,
            lost: false,
            window: [0; 2],
            sqe: None,
            next_id: [0; 2],
            next_receive: 0,
        }
    }

    /// Its connection lets messages through.
    pub fn is_right(&self) -> bool {
        self.peer == Peer::Right
    }

    /// A line with this pair's number after the side.
    pub fn line(&self, letter: char, side: usize, rest: &str) -> String {
        format!("{letter} {side} {} {rest}", self.index)
    }

    /// The CQ of its sends.
    pub fn send_cq(&self, side: usize) -> usize {
        self.cqs[side][0] + usize::from(self.small_cq[side])
    }

    pub fn create(&self, side: usize) -> String {
        let srq = if self.srq[side] { 1 + self.which_srq[side] } else { 0 };
        let (all, send, recv) = (u8::from(self.sig_all[side]), self.send_cq(side), self.cqs[side][1]);
        self.line('Q', side, &format!("{} {srq} {all} {send} {recv}", self.kind))
    }

    /// RESET to RTS of one side.
    pub fn connect(&self, side: usize) -> Vec<String> {
        let peer = match self.peer {
            Peer::Nobody(who) if who == side => -1,
            Peer::Other(who, other) if who == side => other as i64,
            _ => self.index as i64,
        };
        let (mtu, rd) = (self.mtu, self.rd_atomic);
        vec![
            self.line('I', side, &self.access[side].to_string()),
            self.line('T', side, &format!("{peer} {mtu} {rd} {} 1", self.psn[1 - side])),
            // 4.096 us * 2^8, three times: what has no answer fails after some milliseconds.
            self.line('R', side, &format!("{} 8 2 {} {rd}", self.psn[side], self.rnr_retry)),
        ]
    }

    /// Makes both sides and connects them.
    pub fn birth(&self) -> Unit {
        let both = |what: &dyn Fn(usize) -> Vec<String>| [what(0), what(1)].concat();
        Unit {
            before: both(&|side| vec![self.create(side)]),
            then: both(&|side| self.connect(side)),
            expect: vec![],
        }
    }

    /// After an error: through RESET, or with new queue pairs, to RTS again.
    pub fn repair(&mut self, random: &mut Random) -> Unit {
        self.well = true;
        let sqe = self.sqe.take().filter(|_| random.percent(70));
        let anew = sqe.is_none() && random.percent(20);
        let mut unit = Unit::default();
        let mut refused = [0; 2];
        for (side, refused) in refused.iter_mut().enumerate() {
            if anew {
                unit.before.extend([format!("X {side} {}", self.index), self.create(side)]);
            } else if sqe != Some(side) {
                unit.before.push(self.line('M', side, "0 -1"));
            }
            // Windows that are bound to nothing, whatever became of the others.
            if self.index < 2 {
                unit.before.push(format!("N {side} {}", self.index));
            }
            if sqe == Some(side) {
                // From SQE back to RTS, without RESET: the other side has to forget its receives.
                unit.then.push(self.line('M', side, &format!("{RTS} -1")));
            } else {
                let walk = random.percent(30);
                *refused = self.walk(side, walk, &mut unit, random);
            }
        }
        self.window = [0; 2];
        for (side, times) in refused.into_iter().enumerate() {
            let (qp, what) = (self.index, format!("M {}", self.index));
            unit.expect.push(Expect::State { side, qp, state: RTS });
            unit.expect.push(Expect::Refused { side, what, errno: libc::EINVAL, times });
        }
        unit
    }

    /// RESET to RTS, with steps in between that the state machine does not have; how many of those.
    fn walk(&self, side: usize, wrong: bool, unit: &mut Unit, random: &mut Random) -> usize {
        // From RESET there is only INIT; nothing leads to SQE, and back there is only RESET.
        let not_from: [&[u32]; 3] = [&[3, 4, 5, 6], &[3, 4, 5], &[1, 4, 5]];
        let mut count = 0;
        for (step, not) in self.connect(side).into_iter().zip(not_from) {
            if wrong && random.percent(60) {
                unit.then.push(self.line('M', side, &format!("{} -1", random.of(not))));
                count += 1;
            }
            unit.then.push(step);
        }
        count
    }

    /// A receive of `length` bytes with the key of a region, in up to three elements.
    pub fn receive(&mut self, side: usize, length: usize, key: usize, random: &mut Random) -> String {
        let slot = self.next_receive % 2;
        self.next_receive += 1;
        let id = (1 << 20) + 512 * self.index + self.next_receive;
        if self.srq[side] {
            // All alike: any QP may take them.
            return self.line('v', side, &self.which_srq[side].to_string());
        }
        let at = self.index * ZONE + RECEIVES + slot * 6000;
        let (count, mut elements) = ((1 + random.below(3)).clamp(1, length.max(1)), String::new());
        for n in 0..count {
            let (from, to) = (n * length / count, (n + 1) * length / count);
            let _ = write!(elements, " {} {} {key}", at + from, to - from);
        }
        self.line('r', side, &format!("{id} {count}{elements}"))
    }

    /// The next request's number.
    pub fn id(&mut self, side: usize) -> usize {
        self.next_id[side] += 1;
        self.next_id[side]
    }
}
