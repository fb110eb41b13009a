//! A chain of send requests, with a mistake in it now and then, and what the specification says of it.

use super::mistake::{mistakes, status::*, status_of, Mistake};
use super::pair::{Pair, ERR, RC, RESULTS, SQE, TARGETS, UC, UD, ZONE};
use super::request::*;
use super::script::{Expect, Unit};
use tests::Random;

/// How a chain is posted.
#[derive(Clone, Copy, Default)]
pub struct How {
    /// The most requests.
    pub most: usize,
    /// Nothing is wrong with it.
    pub plain: bool,
    /// Every request is signaled.
    pub all_signaled: bool,
    /// Only requests to memory: no receive is needed.
    pub only_memory: bool,
    /// The first request has a wrong L_Key.
    pub local_error: bool,
}

/// A chain from `side`: receives before, requests then. The pair is not well afterwards if that is to be expected.
/// Each window belongs to the pair of its number; other pairs do not use it.
pub fn chain(pair: &mut Pair, side: usize, how: How, random: &mut Random) -> Unit {
    let (peer, kind) = (1 - side, pair.kind);
    let count = 1 + random.below(how.most);
    let wrong_at = match () {
        _ if how.local_error => 0,
        _ if !how.plain && random.percent(30) => random.below(count),
        _ => count,
    };
    let mut unit = Unit::default();
    // What is expected depends on the first request that fails.
    // Requests to memory alone are chains of one: each waits for the READ before it.
    let (mut failed, mut fenced, mut binds, mut dry) = (None, how.only_memory, 0, false);
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
                _ if (how.plain || random.percent(90)) == (pair.window[side] != 0) => INVALIDATE,
                _ => BIND,
            };
            binds += usize::from(opcode == BIND);
        }
        // The peer's window is invalidated by the way.
        if opcode == SEND && pair.window[peer] != 0 && random.percent(20) {
            opcode = SEND_INVALIDATE;
        }
        let zone = pair.index * ZONE;
        let mut length = if matches!(opcode, SWAP | ADD) { 8 } else { random.of(&LENGTHS) };
        if kind == UD {
            length = length.min(1024);
        }
        if how.local_error {
            // Without bytes no key is looked at.
            length = length.max(1);
        }
        // Of a WRITE of several packets that finds no receive for its last one, the first may be in memory or not.
        if opcode == WRITE_IMM && (wrong_at < count || !pair.well) {
            length = length.min(128 << pair.mtu);
        }
        let mut flags = if how.all_signaled || last || random.percent(50) { SIGNALED } else { 0 };
        flags |= if random.percent(20) { SOLICITED } else { 0 };
        // Without a fence, a READ and the requests after it may pass each other.
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
        if matches!(opcode, WRITE | WRITE_IMM | READ) && pair.window[peer] >= length && random.percent(40) {
            // Through the peer's window.
            key = WINDOW + pair.index;
            target = TARGETS + random.below(pair.window[peer] - length + 1);
            fenced |= opcode == READ;
        }
        if opcode == SEND_INVALIDATE {
            key = WINDOW + pair.index;
        }
        let mut numbers = match opcode {
            SWAP | ADD => [random.below(1000) as i64, random.below(1000) as i64, 0],
            _ => [pair.index as i64, 0, 0],
        };
        // The window is over the targets, in a region that is used for nothing else.
        if matches!(opcode, BIND | INVALIDATE) {
            numbers = [pair.index as i64, 4, 6];
            target = TARGETS;
            length = random.of(&[64, 4096]);
            elements = if opcode == BIND { vec![[0, length, 0]] } else { vec![] };
        }
        let can = match opcode {
            BIND | INVALIDATE => vec![],
            _ => mistakes(kind, opcode, pair, peer, length),
        };
        let mistake = (n == wrong_at && !can.is_empty()).then(|| random.of(&can));
        let mistake = if how.local_error { Some(Mistake::LocalKey) } else { mistake };
        let mut request = Request { opcode, flags: 0, imm: 0, elements, remote: zone + target, key, numbers };
        if let Some(mistake) = mistake {
            mistake.make(&mut request, pair, peer, length, random);
        }
        let inline = matches!(opcode, WRITE | WRITE_IMM | SEND | SEND_IMM | SEND_INVALIDATE)
            && length <= 64
            && random.percent(50);
        if kind == UC && right(opcode) & !pair.access[peer] != 0 {
            pair.well = false;
        }
        let local = mistake.is_some_and(|m| status_of(m, UC) == LOCAL_PROTECTION);
        if inline && !local {
            flags |= INLINE;
        }
        // A receive of a later message would serve.
        dry |= mistake == Some(Mistake::NoReceive);
        if matches!(opcode, SEND | SEND_IMM | SEND_INVALIDATE | WRITE_IMM) && !dry {
            let grh = if kind == UD { 40 } else { 0 };
            let room = match mistake {
                Some(Mistake::ShortReceive) => grh + length / 2,
                _ => random.of(&[length, length + 100]) + grh,
            };
            let key = if mistake == Some(Mistake::ReceiveKey) { NO_KEY } else { 0 };
            unit.before.push(pair.receive(peer, room, key, random));
        }
        let id = pair.id(side);
        (request.flags, request.imm) = (flags, 1000 + id);
        unit.then.push(request.line(pair, side, id, !last));

        // An invalidate of a window that is not bound is an error whose number the specification leaves open.
        let unsure = match opcode {
            BIND => std::mem::replace(&mut pair.window[side], length) != 0,
            INVALIDATE => std::mem::replace(&mut pair.window[side], 0) == 0,
            SEND_INVALIDATE => {
                pair.window[peer] = 0;
                false
            }
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
        if mistake == Some(Mistake::WrongQkey) && failed.is_none() {
            unit.expect.push(Expect::WrongQkey);
        }
        let signaled = flags & SIGNALED != 0 || pair.sig_all[side];
        match failed {
            None if unsure => failed = Some(None),
            None if outcome != SUCCESS => {
                failed = Some(Some(outcome));
                unit.expect.push(Expect::Status { side, qp: pair.index, id, status: outcome });
                tell(&mut unit, pair, peer, opcode, outcome, mistake);
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
    // UC and UD senders are not told of errors on the other side.
    pair.well &= failed.is_none() && (kind == RC || wrong_at >= count);
    pair.sqe = (kind != RC && matches!(failed, Some(Some(_)))).then_some(side);
    unit
}

/// The event at the responder: for what none of its completions reports (InfiniBand 11.6.3).
fn tell(unit: &mut Unit, pair: &Pair, peer: usize, opcode: usize, status: u32, mistake: Option<Mistake>) {
    let (name, comes) = match status {
        REMOTE_ACCESS => ("local access violation work queue error", opcode != WRITE_IMM),
        INVALID_REQUEST => ("invalid request local work queue error", mistake != Some(Mistake::ShortReceive)),
        REMOTE_OPERATION => ("invalid request local work queue error", false),
        _ => return,
    };
    let what = format!("event qp {}: 1 x {name}", pair.index);
    unit.expect.push(Expect::Event { side: peer, what, comes });
}
