//! A send request: its kinds, and its line.

use super::pair::{Pair, RC, REMOTE_ATOMIC, REMOTE_READ, REMOTE_WRITE, TARGETS, UC, ZONE};
use tests::Random;

/// Opcodes of verbs.
pub const WRITE: usize = 0;
pub const WRITE_IMM: usize = 1;
pub const SEND: usize = 2;
pub const SEND_IMM: usize = 3;
pub const READ: usize = 4;
pub const SWAP: usize = 5;
pub const ADD: usize = 6;
pub const INVALIDATE: usize = 7;
pub const BIND: usize = 8;
pub const SEND_INVALIDATE: usize = 9;

pub const FENCE: usize = 1;
pub const SIGNALED: usize = 2;
pub const SOLICITED: usize = 4;
pub const INLINE: usize = 8;

/// Lengths around those of a WQE's inline room and of one and several packets.
pub const LENGTHS: [usize; 18] =
    [0, 1, 3, 8, 16, 31, 32, 33, 48, 64, 255, 256, 257, 1000, 1024, 1025, 2048, 4096];

/// Keys: regions by number, then the peer's windows; nothing has the last.
pub const WINDOW: usize = 7;
pub const NO_REMOTE: usize = 1;
pub const READ_ONLY: usize = 2;
pub const OTHER_DOMAIN: usize = 3;
pub const NO_KEY: usize = 99;

/// The right that the peer's QP has to give.
pub fn right(opcode: usize) -> usize {
    match opcode {
        WRITE | WRITE_IMM => REMOTE_WRITE,
        READ => REMOTE_READ,
        SWAP | ADD => REMOTE_ATOMIC,
        _ => 0,
    }
}

/// A request's line. `place` is where it reads or puts its bytes, in the sender's zone.
pub struct Request {
    pub opcode: usize,
    pub flags: usize,
    pub imm: usize,
    pub elements: Vec<[usize; 3]>,
    pub remote: usize,
    pub key: usize,
    pub numbers: [i64; 3],
}

impl Request {
    pub fn line(&self, pair: &Pair, side: usize, id: usize, more: bool) -> String {
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

pub fn split(elements: &mut Vec<[usize; 3]>, random: &mut Random) {
    while elements.len() < 3 && random.percent(30) {
        let [at, length, key] = elements.pop().expect("an element");
        if length < 2 {
            elements.push([at, length, key]);
            return;
        }
        let first = 1 + random.below(length - 1);
        elements.extend([[at, first, key], [at + first, length - first, key]]);
    }
}

pub fn opcode(kind: usize, random: &mut Random) -> usize {
    match kind {
        RC => random.of(&[
            WRITE, WRITE, WRITE, WRITE_IMM, SEND, SEND, SEND, SEND_IMM, READ, READ, SWAP, ADD, BIND,
            INVALIDATE,
        ]),
        UC => random.of(&[WRITE, WRITE, WRITE_IMM, SEND, SEND, SEND_IMM]),
        _ => random.of(&[SEND, SEND, SEND_IMM]),
    }
}
