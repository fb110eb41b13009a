//! A chain of send requests, with a mistake in it now and then, and what the specification says of it.

use super::pair::{
    Pair, ERR, RC, REMOTE_ATOMIC, REMOTE_READ, REMOTE_WRITE, RESULTS, SQE, TARGETS, UC, UD, ZONE,
};
use super::random::Random;
use super::script::{Expect, Unit};

/// Opcodes of verbs.
const WRITE: usize = 0;
const WRITE_IMM: usize = 1;
pub const SEND: usize = 2;
const SEND_IMM: usize = 3;
pub const READ: usize = 4;
const SWAP: usize = 5;
const ADD: usize = 6;
pub const INVALIDATE: usize = 7;
pub const BIND: usize = 8;

const FENCE: usize = 1;
pub const SIGNALED: usize = 2;
const SOLICITED: usize = 4;
const INLINE: usize = 8;

/// Lengths around those of a WQE's inline room and of one and several packets.
const LENGTHS: [usize; 18] =
    [0, 1, 3, 8, 16, 31, 32, 33, 48, 64, 255, 256, 257, 1000, 1024, 1025, 2048, 4096];

/// Keys: regions by number, then the peer's windows; nothing has the last.
const NO_REMOTE: usize = 1;
const READ_ONLY: usize = 2;
const OTHER_DOMAIN: usize = 3;
const NO_KEY: usize = 99;

/// Work completion statuses of verbs.
pub mod status {
    pub const SUCCESS: u32 = 0;
    pub const LOCAL_PROTECTION: u32 = 4;
    pub const FLUSHED: u32 = 5;
    pub const INVALID_REQUEST: u32 = 9;
    pub const REMOTE_ACCESS: u32 = 10;
    pub const REMOTE_OPERATION: u32 = 11;
    pub const RETRY_EXCEEDED: u32 = 12;
    pub const RNR_RETRY_EXCEEDED: u32 = 13;
}
use status::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    LocalKey,
    LocalDomain,
    LocalBounds,
    LocalRight,
    RemoteKey,
    RemoteDomain,
    RemoteBounds,
    RemoteRight,
    Unaligned,
    NoReceive,
    ShortReceive,
    ReceiveKey,
    WrongQkey,
    WrongQpn,
}

/// Which a message can have.
fn mistakes(kind: usize, opcode: usize, pair: &Pair, receiver: usize, length: usize) -> Vec<Mistake> {
    use Mistake::*;
    let mut all = vec![];
    if length > 0 {
        all.extend([LocalKey, LocalDomain, LocalBounds]);
        if matches!(opcode, READ | SWAP | ADD) {
            all.push(LocalRight);
        }
        if matches!(opcode, WRITE | WRITE_IMM | READ | SWAP | ADD) {
            all.extend([RemoteKey, RemoteDomain, RemoteBounds, RemoteRight]);
        }
    }
    if matches!(opcode, SWAP | ADD) {
        all.push(Unaligned);
    }
    let own = !pair.srq[receiver];
    if matches!(opcode, SEND | SEND_IMM | WRITE_IMM) && own && !(kind == RC && pair.rnr_retry == 7) {
        all.push(NoReceive);
    }
    if matches!(opcode, SEND | SEND_IMM) && own && length > 1 {
        all.extend([ShortReceive, ReceiveKey]);
    }
    if kind == UD {
        all.extend([WrongQkey, WrongQpn]);
    }
    all
}

/// What it is for the sender of RC, InfiniBand 9.9 and 10.10; of UC and UD where `kind` is one of those: nobody tells
/// them of mistakes of the other side.
fn status_of(mistake: Mistake, kind: usize) -> u32 {
    use Mistake::*;
    match mistake {
        LocalKey | LocalDomain | LocalBounds | LocalRight => LOCAL_PROTECTION,
        _ if kind != RC => SUCCESS,
        RemoteKey | RemoteDomain | RemoteBounds | RemoteRight => REMOTE_ACCESS,
        Unaligned | ShortReceive => INVALID_REQUEST,
        NoReceive => RNR_RETRY_EXCEEDED,
        ReceiveKey => REMOTE_OPERATION,
        WrongQkey | WrongQpn => SUCCESS,
    }
}

/// The right that the peer's QP has to give.
fn right(opcode: usize) -> usize {
    match opcode {
        WRITE | WRITE_IMM => REMOTE_WRITE,
        READ => REMOTE_READ,
        SWAP | ADD => REMOTE_ATOMIC,
        _ => 0,
    }
}

/// A request's line. `place` is where it reads or puts its bytes, in the sender's zone.
struct Request {
    opcode: usize,
    flags: usize,
    imm: usize,
    elements: Vec<[usize; 3]>,
    remote: usize,
    key: usize,
    numbers: [i64; 3],
}

impl Request {
    fn line(&self, pair: &Pair, side: usize, id: usize, more: bool) -> String {
        let mut elements = self.elements.clone();
        elements.resize(3, [0; 3]);
        let elements: Vec<String> = elements.iter().flatten().map(usize::to_string).collect();
        let [x, y, z] = self.numbers;
        let (opcode, flags, imm, n) = (self.opcode, self.flags, self.imm, self.elements.len());
        let (more, elements) = (u8::from(more), elements.join(" "));
        let rest = format!(
            "{id} {opcode} {flags} {imm} {more} {n} {elements} {} {} {x} {y} {z}",
            self.remote, self.key
        );
        pair.line('S', side, &rest)
    }
}

/// The line of a bind of the pair's window over its targets, or of nothing, in a region.
pub fn bind(pair: &mut Pair, side: usize, region: usize, length: usize) -> (usize, String) {
    let request = Request {
        opcode: BIND,
        flags: SIGNALED,
        imm: 0,
        elements: vec![[0, length, 0]],
        remote: pair.index * ZONE + TARGETS,
        key: 0,
        // The peer may write and read.
        numbers: [pair.index as i64, region as i64, 6],
    };
    let id = pair.id(side);
    (id, request.line(pair, side, id, false))
}

/// The line of a local invalidate of the pair's window.
pub fn invalidate(pair: &mut Pair, side: usize) -> (usize, String) {
    let request = Request {
        opcode: INVALIDATE,
        flags: SIGNALED,
        imm: 0,
        elements: vec![],
        remote: 0,
        key: 0,
        numbers: [pair.index as i64, 0, 0],
    };
    let id = pair.id(side);
    (id, request.line(pair, side, id, false))
}

fn split(elements: &mut Vec<[usize; 3]>, random: &mut Random) {
    let [at, length, key] = elements[0];
    if length > 1 && random.percent(25) {
        let first = 1 + random.below(length - 1);
        *elements = vec![[at, first, key], [at + first, length - first, key]];
    }
}

fn opcode(kind: usize, random: &mut Random) -> usize {
    match kind {
        RC => random.of(&[
            WRITE, WRITE, WRITE, WRITE_IMM, SEND, SEND, SEND, SEND_IMM, READ, READ, SWAP, ADD, BIND,
            INVALIDATE,
        ]),
        UC => random.of(&[WRITE, WRITE, WRITE_IMM, SEND, SEND, SEND_IMM]),
        _ => random.of(&[SEND, SEND, SEND_IMM]),
    }
}

/// How a chain is posted.
#[derive(Clone, Copy, Default)]
pub struct How {
    /// At most so many requests.
    pub most: usize,
    /// Nothing is wrong with it.
    pub plain: bool,
    /// Every request is signaled.
    pub all_signaled: bool,
    /// Only requests to memory: no receive is needed.
    pub only_memory: bool,
}

/// A chain from `side`: receives before, requests then. The pair is not well afterwards if that is to be expected.
/// Windows belong to the pair of their number: what a pair does to them nobody else sees.
pub fn chain(pair: &mut Pair, side: usize, how: How, random: &mut Random) -> Unit {
    let (peer, kind) = (1 - side, pair.kind);
    let count = 1 + random.below(how.most);
    let wrong_at = if !how.plain && random.percent(30) { random.below(count) } else { count };
    let mut unit = Unit::default();
    // What is expected: until the first that fails, of it, behind it.
    let (mut failed, mut fenced, mut binds, mut dry) = (None, false, 0, false);
    for n in 0..count {
        let last = n + 1 == count;
        let mut opcode = opcode(kind, random);
        if how.only_memory {
            opcode = if kind == RC { random.of(&[WRITE, READ]) } else { WRITE };
        }
        if matches!(opcode, BIND | INVALIDATE) {
            opcode = match () {
                _ if pair.index > 1 || !pair.is_right() || binds > 0 => SEND,
                // Now and then the one that is an error.
                _ if (how.plain || random.percent(90)) == pair.bound[side] => INVALIDATE,
                _ => BIND,
            };
            binds += usize::from(opcode == BIND);
        }
        let zone = pair.index * ZONE;
        let mut length = if matches!(opcode, SWAP | ADD) { 8 } else { random.of(&LENGTHS) };
        if kind == UD {
            length = length.min(1024);
        }
        // Of a WRITE of several packets that finds no receive for its last one, the first may be in memory or not.
        if opcode == WRITE_IMM && (wrong_at < count || !pair.well) {
            length = length.min(128 << pair.mtu);
        }
        let mut flags = if how.all_signaled || last || random.percent(50) { SIGNALED } else { 0 };
        flags |= if random.percent(20) { SOLICITED } else { 0 };
        // A READ and what comes behind it may pass each other without a fence.
        if kind == RC && (fenced || random.percent(10)) {
            flags |= FENCE;
        }
        let results = matches!(opcode, READ | SWAP | ADD);
        let place = if results {
            RESULTS + 8 * random.below(512 - length / 8)
        } else {
            random.below(RESULTS - length)
        };
        let mut target = TARGETS + random.below(8192 - length);
        if opcode == READ {
            if random.percent(50) {
                target -= TARGETS;
            } else {
                fenced = true;
            }
        }
        if matches!(opcode, SWAP | ADD) {
            target &= !7;
        }
        let mut elements = vec![[zone + place, length, 0]];
        split(&mut elements, random);
        if length == 0 && random.percent(50) {
            elements.clear();
        }
        let mut key = 0;
        let mut numbers = match opcode {
            SWAP | ADD => [random.below(1000) as i64, random.below(1000) as i64, 0],
            _ => [pair.index as i64, 0, 0],
        };
        // A window of its own; what it is a window of nobody uses.
        if matches!(opcode, BIND | INVALIDATE) {
            numbers = [pair.index as i64, 4, 2];
            target = TARGETS;
            elements = if opcode == BIND { vec![[0, random.of(&[64, 4096]), 0]] } else { vec![] };
        }
        let mut remote = zone + target;
        let can = match opcode {
            BIND | INVALIDATE => vec![],
            _ => mistakes(kind, opcode, pair, peer, length),
        };
        let mistake = (n == wrong_at && !can.is_empty()).then(|| random.of(&can));
        if let Some(mistake) = mistake {
            use Mistake::*;
            match mistake {
                LocalKey => elements[0][2] = NO_KEY,
                LocalDomain => elements[0][2] = OTHER_DOMAIN,
                LocalRight => elements.iter_mut().for_each(|element| element[2] = READ_ONLY),
                LocalBounds => elements[0][0] = 8 * ZONE - elements[0][1] + 1,
                RemoteKey => key = NO_KEY,
                RemoteDomain => key = OTHER_DOMAIN,
                RemoteRight => {
                    key = if opcode == READ { NO_REMOTE } else { random.of(&[NO_REMOTE, READ_ONLY]) }
                }
                RemoteBounds => remote = 8 * ZONE - if matches!(opcode, SWAP | ADD) { 0 } else { length / 2 },
                Unaligned => remote += 1 + random.below(7),
                WrongQkey => numbers[1] = 1,
                WrongQpn => numbers[0] = -1,
                NoReceive | ShortReceive | ReceiveKey => {}
            }
        }
        let inline =
            matches!(opcode, WRITE | WRITE_IMM | SEND | SEND_IMM) && length <= 64 && random.percent(50);
        if kind == UC && right(opcode) & !pair.access[peer] != 0 {
            pair.well = false;
        }
        let local = mistake.is_some_and(|m| status_of(m, UC) == LOCAL_PROTECTION);
        if inline && !local {
            flags |= INLINE;
        }
        // A receive of a later message would serve.
        dry |= mistake == Some(Mistake::NoReceive);
        if matches!(opcode, SEND | SEND_IMM | WRITE_IMM) && !dry {
            let grh = if kind == UD { 40 } else { 0 };
            let room = match mistake {
                Some(Mistake::ShortReceive) => grh + length / 2,
                _ => random.of(&[length, length + 100]) + grh,
            };
            let key = if mistake == Some(Mistake::ReceiveKey) { NO_KEY } else { 0 };
            unit.before.push(pair.receive(peer, room, key));
        }
        let id = pair.id(side);
        let request = Request { opcode, flags, imm: 1000 + id, elements, remote, key, numbers };
        unit.then.push(request.line(pair, side, id, !last));

        // An invalidate of a window that is not bound is an error whose number the specification leaves open.
        let unsure = match opcode {
            BIND => std::mem::replace(&mut pair.bound[side], true),
            INVALIDATE => !std::mem::replace(&mut pair.bound[side], false),
            _ => false,
        };
        let missing_right = kind == RC && right(opcode) & !pair.access[peer] != 0;
        let outcome = match mistake {
            _ if kind == RC && !pair.is_right() && !local => RETRY_EXCEEDED,
            Some(mistake) if status_of(mistake, kind) == LOCAL_PROTECTION => LOCAL_PROTECTION,
            // A QP that may not do this at all has not looked at the key.
            _ if missing_right => INVALID_REQUEST,
            Some(mistake) => status_of(mistake, kind),
            None => SUCCESS,
        };
        let signaled = flags & SIGNALED != 0 || pair.sig_all[side];
        match failed {
            None if unsure => failed = Some(None),
            None if outcome != SUCCESS => {
                failed = Some(Some(outcome));
                unit.expect.push(Expect::Status { side, qp: pair.index, id, status: outcome });
                tell(&mut unit, pair, peer, outcome);
            }
            None if signaled => {
                unit.expect.push(Expect::Status { side, qp: pair.index, id, status: SUCCESS })
            }
            Some(Some(_)) => unit.expect.push(Expect::Status { side, qp: pair.index, id, status: FLUSHED }),
            _ => {}
        }
        if last {
            unit.then.push(pair.line('W', side, &id.to_string()));
        }
    }
    if let Some(Some(_)) = failed {
        let state = if kind == RC { ERR } else { SQE };
        unit.expect.push(Expect::State { side, qp: pair.index, state });
    }
    // Nobody tells the sender what the other side of UC or UD thinks of its messages.
    pair.well &= failed.is_none() && (kind == RC || wrong_at >= count);
    unit
}

/// The event that goes with a status at the side that was asked.
fn tell(unit: &mut Unit, pair: &Pair, peer: usize, status: u32) {
    let name = match status {
        REMOTE_ACCESS => "local access violation work queue error",
        INVALID_REQUEST | REMOTE_OPERATION | LOCAL_PROTECTION => return,
        _ => return,
    };
    let what = format!("event qp {}: 1 x {name}", pair.index);
    unit.expect.push(Expect::Event { side: peer, what, comes: true });
}
