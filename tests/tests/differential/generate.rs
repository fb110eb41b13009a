//! Scripts from seeds.

use super::chain::{chain, How};
use super::pair::{Pair, ERR, RC, RTS, UD};
use super::request::{bind, invalidate};
use super::script::{Expect, Script, Unit};
use tests::Random;

/// Entries of a small CQ.
const SMALL_CQ: usize = 8;

/// The script of a seed; an orderly one has no mistakes, and nothing that is a matter of time.
pub fn script(seed: u64, orderly: bool) -> Script {
    let mut random = Random(seed);
    let random = &mut random;
    let count = 1 + random.below(4);
    let mut pairs: Vec<Pair> = (0..count).map(|index| Pair::new(index, count, orderly, random)).collect();
    // What is shared comes from other numbers: the steps of a script do not depend on it.
    let sharing = &mut Random(!seed);
    share(&mut pairs, sharing);
    let threads = if random.percent(40) { sharing.of(&[2, 2, 3, 4]) } else { 1 };
    let mut rounds = vec![pairs.iter().map(Pair::birth).collect::<Vec<_>>()];
    for _ in 0..2 + random.below(8) {
        // What takes from the shared queue of a side takes turns.
        let mut taken = [false; 2];
        let mut round = vec![];
        for pair in pairs.iter_mut().filter(|pair| !pair.lost) {
            let side = random.below(2);
            if !pair.crowded && pair.srq[1 - side] && std::mem::replace(&mut taken[1 - side], true) {
                continue;
            }
            round.push(if orderly { good(pair, side, random) } else { unit(pair, side, random) });
        }
        if random.percent(10) {
            // By itself: receives that other threads post in the same moment may count or not.
            let (side, limit) = (random.below(2), random.below(8));
            let pair = &pairs[sharing.below(pairs.len())];
            let limit = pair.line('A', side, &format!("{} {limit}", pair.which_srq[side]));
            rounds.push(vec![Unit { before: vec![limit], ..Unit::default() }]);
        }
        rounds.push(round);
        if !orderly && random.percent(12) {
            rounds.extend(overrun(&mut pairs, random).map(|unit| vec![unit]));
        }
    }
    Script { seed, threads, orderly, rounds }
}

/// Gives the pairs of each side CQs and SRQs at random, in most scripts; otherwise even and odd pairs have their own.
fn share(pairs: &mut [Pair], random: &mut Random) {
    let crowded = random.percent(50);
    if random.percent(30) {
        return;
    }
    for side in 0..2 {
        // Two chains fill a small CQ.
        let mut room = [2; 4];
        for pair in pairs.iter_mut() {
            pair.cqs[side] = [(); 2].map(|()| random.of(&[0, 2]));
            pair.which_srq[side] = random.below(2);
            pair.crowded = crowded;
            if pair.small_cq[side] {
                let room = &mut room[pair.send_cq(side)];
                pair.small_cq[side] = *room > 0;
                *room = usize::saturating_sub(*room, 1);
            }
        }
    }
}

/// Nothing goes wrong in it, or all of it for want of a peer.
fn good(pair: &mut Pair, side: usize, random: &mut Random) -> Unit {
    if !pair.well {
        return pair.repair(random);
    }
    let how = How { most: if pair.small_cq[side] { 4 } else { 12 }, plain: true, ..How::default() };
    match random.below(100) {
        _ if !pair.is_right() => chain(pair, side, how, random),
        0..=9 => drained(pair, side, how, random),
        10..=19 if pair.kind == RC && pair.index < 2 => windows(pair, side, random),
        20..=29 => resized(pair, side, how, random),
        30..=34 => illegal(pair, side, random),
        _ => chain(pair, side, how, random),
    }
}

fn unit(pair: &mut Pair, side: usize, random: &mut Random) -> Unit {
    if !pair.well && random.percent(80) {
        return pair.repair(random);
    }
    // A small CQ has eight entries and is polled: a chain never fills it.
    let how = How { most: if pair.small_cq[side] { 4 } else { 12 }, ..How::default() };
    if !pair.well {
        // Whatever comes of it comes of it everywhere.
        let mut unit = chain(pair, side, how, random);
        unit.expect = vec![Expect::MayMiss { qp: pair.index }];
        (pair.well, pair.sqe) = (false, None);
        return unit;
    }
    match random.below(100) {
        0..=9 => to_error(pair, side, random),
        10..=21 => drained(pair, side, how, random),
        22..=29 if pair.kind == RC && pair.index < 2 && pair.is_right() => windows(pair, side, random),
        // Others would take what they find.
        30..=34 if pair.kind == RC && pair.is_right() && pair.rnr_retry == 7 && !pair.crowded => {
            late_receive(pair, side, random)
        }
        35..=44 => resized(pair, side, how, random),
        45..=48 => illegal(pair, side, random),
        _ => chain(pair, side, how, random),
    }
}

/// To ERR while receives and, later, sends are posted: all are flushed.
fn to_error(pair: &mut Pair, side: usize, random: &mut Random) -> Unit {
    let mut unit = Unit::default();
    for _ in 0..random.below(4) {
        unit.before.push(pair.receive(side, 64, 0, random));
    }
    let mut posted = chain(pair, side, How { most: 4, plain: true, ..How::default() }, random);
    posted.then.insert(0, pair.line('M', side, &format!("{ERR} -1")));
    unit.before.extend(posted.before);
    unit.then = posted.then;
    unit.expect = vec![Expect::State { side, qp: pair.index, state: ERR }];
    pair.well = false;
    unit
}

/// A chain, SQD at once or before it, and on with it when it is drained.
fn drained(pair: &mut Pair, side: usize, how: How, random: &mut Random) -> Unit {
    let mut unit = chain(pair, side, How { plain: true, ..how }, random);
    let well = pair.well;
    let (notify, twice) = (random.of(&[-1, 0, 1]), random.percent(40));
    let notify = if twice { 1 } else { notify };
    let stop = pair.line('M', side, &format!("4 {notify}"));
    let mut lines = vec![stop, pair.line('V', side, ""), pair.line('M', side, "3 -1")];
    if twice {
        // A further change within SQD does not take back that the event was asked for.
        lines.insert(1, pair.line('M', side, "4 -1"));
    }
    if random.percent(30) {
        // Neither INIT nor RTR nor SQE.
        lines.insert(lines.len() - 1, pair.line('M', side, &format!("{} -1", random.of(&[1, 2, 5]))));
        unit.expect.push(refused(side, format!("M {}", pair.index), libc::EINVAL));
    }
    // A chain that fails does so before or after the state changes.
    let at = if random.percent(50) || !well || !pair.is_right() { 0 } else { unit.then.len() - 1 };
    if at == 0 {
        // What is posted while it is drained waits.
        let (wait, on) = (unit.then.pop().expect("the wait"), lines.pop().expect("a line"));
        unit.then.splice(0..0, lines);
        unit.then.extend([on, wait]);
    } else {
        unit.then.splice(at..at, lines);
    }
    if well {
        let what = format!("event qp {}: 1 x send queue drained", pair.index);
        unit.expect.push(Expect::Event { side, what, comes: notify == 1 });
    }
    unit
}

/// Binds a window, invalidates it, and asks whether its region may go: not while a window of some length is bound to it.
fn windows(pair: &mut Pair, side: usize, random: &mut Random) -> Unit {
    let mut unit = Unit::default();
    let qp = pair.index;
    let wait = |pair: &Pair, id: usize| pair.line('W', side, &id.to_string());
    if pair.window[side] != 0 {
        let (id, line) = invalidate(pair, side);
        unit.before.extend([line, wait(pair, id)]);
    }
    let region = 5 + pair.index;
    let free = pair.line('G', side, &region.to_string());
    let length = random.of(&[0, 0, 64, 4096]);
    let (first, line) = bind(pair, side, region, length);
    unit.before.extend([line, wait(pair, first), free.clone()]);
    unit.expect.push(Expect::Status { side, qp, id: first, status: 0 });
    // A bind of length 0 binds the window to nothing.
    let times = usize::from(length != 0);
    unit.expect.push(Expect::Refused { side, what: format!("G {region}"), errno: libc::EBUSY, times });
    if length > 0 {
        let (second, line) = invalidate(pair, side);
        unit.then.extend([line, wait(pair, second), free]);
        unit.expect.push(Expect::Status { side, qp, id: second, status: 0 });
    }
    pair.window[side] = 0;
    unit
}

/// A SEND whose receive comes when it has been refused some times.
fn late_receive(pair: &mut Pair, side: usize, random: &mut Random) -> Unit {
    let mut unit = chain(pair, side, How { most: 3, plain: true, ..How::default() }, random);
    let wait = format!("Z {} {} 300", 1 - side, pair.index);
    unit.then.push(wait);
    unit.then.append(&mut unit.before);
    unit
}

/// A chain, and the CQ changes its size while it runs.
fn resized(pair: &mut Pair, side: usize, how: How, random: &mut Random) -> Unit {
    let mut unit = chain(pair, side, How { all_signaled: true, ..how }, random);
    let cq = pair.send_cq(side);
    if !pair.small_cq[side] && !pair.small_cq[0] {
        let size = random.of(&[300, 500, 600, 1000]);
        let (at, qp) = (unit.then.len() - 1, pair.index);
        unit.then.insert(at, format!("C {side} {qp} {cq} {size}"));
        if random.percent(70) {
            // Completions are on their way then, in simulated time.
            unit.then.insert(at, format!("Z {side} {qp} {}", 1 + random.below(6)));
        }
    }
    unit
}

/// Steps that the state machine has not.
fn illegal(pair: &mut Pair, side: usize, random: &mut Random) -> Unit {
    let state = random.of(&[1, 2, 5]);
    Unit {
        before: vec![pair.line('M', side, &format!("{state} -1"))],
        then: vec![],
        expect: vec![
            refused(side, format!("M {}", pair.index), libc::EINVAL),
            Expect::State { side, qp: pair.index, state: RTS },
        ],
    }
}

/// More completions than a small CQ holds, without a poll; then no queue pair works with it. The second unit is for a
/// round of its own.
fn overrun(pairs: &mut [Pair], random: &mut Random) -> [Unit; 2] {
    let small: Vec<usize> = (0..pairs.len())
        .filter(|&n| pairs[n].well && !pairs[n].lost && pairs[n].is_right() && pairs[n].kind != UD)
        .filter(|&n| pairs[n].small_cq != [false; 2])
        .collect();
    if small.is_empty() {
        return Default::default();
    }
    let n = random.of(&small);
    let side = usize::from(!pairs[n].small_cq[0]);
    let pair = &mut pairs[n];
    let cq = pair.send_cq(side);
    // The completion that does not fit is one of an error now and then: without it UC would go to SQE.
    let local_error = random.percent(50);
    let mut unit = Unit::default();
    // No more than that: what is sent after the overrun is not specified.
    for n in 0..=SMALL_CQ {
        let last = local_error && n == SMALL_CQ;
        let how = How { most: 1, plain: true, all_signaled: true, only_memory: true, local_error: last };
        let mut one = chain(pair, side, how, random);
        one.then.pop();
        unit.then.append(&mut one.then);
    }
    unit.then.push(format!("Z {side} {n} 30000"));
    let event = format!("event cq {cq}: 1 x CQ error");
    unit.expect = vec![
        Expect::MayMiss { qp: n },
        Expect::Event { side, what: event, comes: true },
        Expect::State { side, qp: n, state: ERR },
    ];
    // All pairs that complete to it are lost.
    for pair in pairs.iter_mut().filter(|pair| pair.send_cq(side) == cq) {
        pair.lost = true;
    }
    let pair = &pairs[n];
    let dead = match random.percent(50) {
        true => Unit {
            before: vec![pair.line('M', side, "0 -1"), pair.connect(side).swap_remove(0)],
            expect: vec![refused(side, format!("I {n}"), libc::EINVAL)],
            ..Unit::default()
        },
        false => Unit {
            before: vec![format!("X {side} {n}"), pair.create(side)],
            expect: vec![refused(side, format!("Q {n}"), libc::EINVAL)],
            ..Unit::default()
        },
    };
    [unit, dead]
}

fn refused(side: usize, what: String, errno: i32) -> Expect {
    Expect::Refused { side, what, errno, times: 1 }
}
