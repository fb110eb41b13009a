//! Where the queues of a function are, as its commands say, and what is new in them.
#![allow(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{fence, Ordering};

use fpga_regs::regs::{self, Control};
use fpga_regs::*;

use super::line::Line;

/// Memory that a card can reach, by IOVA.
#[derive(Default)]
pub struct Reachable {
    ranges: BTreeMap<u64, (usize, *mut u8)>,
}

// SAFETY: only addresses; each access says why it may.
unsafe impl Send for Reachable {}

impl Reachable {
    /// A range that stays until `remove`.
    pub fn add(&mut self, iova: u64, len: usize, ptr: *mut u8) {
        self.ranges.insert(iova, (len, ptr));
    }

    /// The range is about to go.
    pub fn remove(&mut self, iova: u64) {
        self.ranges.remove(&iova);
    }

    fn at(&self, iova: u64, len: usize) -> Option<*mut u8> {
        let (start, (size, ptr)) = self.ranges.range(..=iova).next_back()?;
        let offset = (iova - start) as usize;
        (offset.checked_add(len)? <= *size).then(|| ptr.wrapping_add(offset))
    }

    /// Bytes as they are now.
    pub fn read(&self, iova: u64, len: usize) -> Option<Vec<u8>> {
        let ptr = self.at(iova, len)?;
        // SAFETY: within a range that lives; volatile, as the card may write meanwhile.
        let bytes = (0..len).map(|at| unsafe { ptr.add(at).read_volatile() }).collect();
        fence(Ordering::Acquire);
        Some(bytes)
    }

    /// Puts bytes there; false where nothing is.
    pub fn write(&self, iova: u64, bytes: &[u8]) -> bool {
        let Some(ptr) = self.at(iova, bytes.len()) else { return false };
        // SAFETY: within a range that lives; entries that the card does not own yet.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), ptr, bytes.len()) }
        fence(Ordering::Release);
        true
    }
}

/// A ring that the card writes, phase bit last.
#[derive(Clone, Copy, Default)]
struct Written {
    iova: u64,
    log: u32,
    entry: usize,
    next: u32,
    /// Where software says how far it has read (a CQ).
    record: u64,
}

impl Written {
    fn slot(&self) -> u64 {
        self.iova + u64::from(self.next & ((1 << self.log) - 1)) * self.entry as u64
    }

    /// The phase that entry `index` is to have.
    fn phase(&self, index: u32) -> bool {
        index >> self.log & 1 == 0
    }

    /// The next entry, if it was written.
    fn take(&mut self, memory: &Reachable) -> Option<(u32, Vec<u8>)> {
        // The card writes the phase last, so it is read first: what is read after it is whole.
        let last = memory.read(self.slot() + self.entry as u64 - 1, 1)?[0];
        if (last & 1 == 1) != self.phase(self.next) {
            return None;
        }
        let bytes = memory.read(self.slot(), self.entry)?;
        self.next = self.next.wrapping_add(1);
        Some((self.next.wrapping_sub(1), bytes))
    }

    /// An entry that was written with the wrong phase: seen on the first lap, where slots are zero before.
    fn odd(&self, memory: &Reachable) -> Option<(u32, Vec<u8>)> {
        let bytes = memory.read(self.slot(), self.entry).filter(|_| self.next >> self.log == 0)?;
        bytes[..self.entry - 1].iter().any(|byte| *byte != 0).then_some((self.next, bytes))
    }
}

/// What a ring that software writes is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Queue {
    /// The send queue of a QP.
    Send,
    /// Its receive queue.
    Recv,
    /// A shared receive queue.
    SharedRecv,
}

/// A ring that software writes.
#[derive(Clone, Copy)]
struct Posted {
    iova: u64,
    log: u32,
    stride_log: u32,
    next: u32,
}

impl Posted {
    /// One slot after the other up to a producer index, around the end.
    fn slots(&mut self, to: u32) -> Vec<(u32, u64)> {
        let count = to.wrapping_sub(self.next).min(1 << self.log);
        let first = self.next;
        self.next = to;
        let slots = (0..count).map(|n| first.wrapping_add(n));
        slots.map(|index| (index, self.address(index))).collect()
    }

    fn address(&self, index: u32) -> u64 {
        self.iova + (u64::from(index & ((1 << self.log) - 1)) << self.stride_log)
    }
}

/// All queues of a function.
#[derive(Default)]
pub struct Rings {
    asq: u64,
    log: u32,
    tail: u32,
    replies: Written,
    /// Commands without a reply, by tag.
    flying: HashMap<u16, (Command, Vec<u8>)>,
    cqs: BTreeMap<u32, Written>,
    eqs: BTreeMap<u32, Written>,
    /// By the number of the QP or the SRQ.
    posted: HashMap<(Queue, u32), Posted>,
}

impl Rings {
    /// A register is about to be written. Gives what is posted by it.
    pub fn register(&mut self, at: u32, value: u64, memory: &Reachable) -> Vec<Line> {
        match at {
            regs::ASQ_BASE => self.asq = value,
            regs::ACQ_BASE => self.replies = Written { iova: value, entry: Reply::BYTES, ..self.replies },
            regs::ADMIN_SIZE => {
                self.log = (value as u32).min(12);
                self.replies.log = self.log;
            }
            regs::CONTROL if Control(value as u32).reset() => *self = Rings::default(),
            regs::ASQ_DOORBELL => return self.commands(value as u32, memory),
            _ => {}
        }
        Vec::new()
    }

    /// Where command `index` is.
    pub fn command_at(&self, index: u32) -> u64 {
        self.asq + u64::from(index & ((1 << self.log) - 1)) * Command::BYTES as u64
    }

    fn commands(&mut self, tail: u32, memory: &Reachable) -> Vec<Line> {
        let count = tail.wrapping_sub(self.tail).min(1 << self.log);
        let mut lines = Vec::new();
        for index in (0..count).map(|n| self.tail.wrapping_add(n)) {
            let Some(bytes) = memory.read(self.command_at(index), Command::BYTES) else { continue };
            let command = Command::from_slice(&bytes).unwrap_or_default();
            let input = match command.in_len() {
                0 => Vec::new(),
                len => memory.read(command.in_iova(), len as usize).unwrap_or_default(),
            };
            self.flying.insert(command.tag(), (command, input.clone()));
            lines.push(Line::Command { index, bytes, input });
        }
        self.tail = tail;
        lines
    }

    /// A doorbell is about to be rung. Gives what is posted by it.
    pub fn bell(&mut self, at: u32, value: u64, memory: &Reachable) -> Vec<Line> {
        let (queue, number, index) = match Doorbell::decode(at, value) {
            Some(Doorbell::Send(bell)) => (Queue::Send, self.number(bell.qpn()), bell.index()),
            Some(Doorbell::Recv(bell)) => (Queue::Recv, self.number(bell.qpn()), bell.index()),
            Some(Doorbell::SharedRecv(bell)) => (Queue::SharedRecv, bell.srqn(), bell.index()),
            Some(Doorbell::Arm(_)) | None => return Vec::new(),
        };
        let Some(ring) = self.posted.get_mut(&(queue, number)) else { return Vec::new() };
        let slots = ring.slots(index).into_iter();
        let entries = slots.filter_map(|(index, at)| Some((index, memory.read(at, 1 << ring.stride_log)?)));
        match queue {
            Queue::Send => {
                let blocks: Vec<_> = entries.collect();
                whole_wqes(&blocks).map(|(index, bytes)| Line::Wqe { qpn: number, index, bytes }).collect()
            }
            Queue::Recv => entries.map(|(index, bytes)| Line::Recv { qpn: number, index, bytes }).collect(),
            Queue::SharedRecv => {
                entries.map(|(index, bytes)| Line::SrqRecv { srqn: number, index, bytes }).collect()
            }
        }
    }

    /// Doorbells carry the low 24 bits of a number.
    fn number(&self, low: u32) -> u32 {
        let mut qpns = self.posted.keys().filter(|(queue, _)| *queue == Queue::Send).map(|(_, qpn)| *qpn);
        qpns.find(|qpn| qpn & 0xff_ffff == low).unwrap_or(low)
    }

    /// Where block or entry `index` of a queue is.
    pub fn slot(&self, queue: Queue, number: u32, index: u32) -> Option<u64> {
        Some(self.posted.get(&(queue, number))?.address(index))
    }

    /// What the card has written since the last look.
    pub fn scan(&mut self, memory: &Reachable) -> Vec<Line> {
        let mut lines = Vec::new();
        while let Some((index, bytes)) =
            self.replies.entry.gt(&0).then(|| self.replies.take(memory)).flatten()
        {
            let reply = Reply::from_slice(&bytes).unwrap_or_default();
            let flown = self.flying.remove(&reply.tag());
            let mut output = Vec::new();
            if let (Some((command, input)), AdminStatus::OK) = (flown, reply.status()) {
                if command.out_len() != 0 {
                    output = memory.read(command.out_iova(), command.out_len() as usize).unwrap_or_default();
                }
                self.done(&command, &input, reply.object());
            }
            lines.push(Line::Reply { index, bytes, output });
        }
        for (&cqn, ring) in &mut self.cqs {
            while let Some((index, bytes)) = ring.take(memory) {
                lines.push(Line::Cqe { cqn, index, bytes });
            }
        }
        for (&eqn, ring) in &mut self.eqs {
            while let Some((index, bytes)) = ring.take(memory) {
                lines.push(Line::Eqe { eqn, index, bytes });
            }
        }
        lines
    }

    /// Tells the card that a completion was read.
    pub fn consume(&self, cqn: u32, memory: &Reachable) {
        if let Some(ring) = self.cqs.get(&cqn) {
            memory.write(ring.record, &ring.next.to_le_bytes());
        }
    }

    /// The phase that entry `index` of a CQ is to have.
    pub fn cqe_phase(&self, cqn: u32, index: u32) -> Option<bool> {
        Some(self.cqs.get(&cqn)?.phase(index))
    }

    /// The phase that entry `index` of an event queue is to have.
    pub fn eqe_phase(&self, eqn: u32, index: u32) -> Option<bool> {
        Some(self.eqs.get(&eqn)?.phase(index))
    }

    /// Entries that are never taken because of their phase.
    pub fn odd(&self, memory: &Reachable) -> Vec<Line> {
        let replies = self.replies.entry.gt(&0).then(|| self.replies.odd(memory)).flatten();
        let replies = replies.map(|(index, bytes)| Line::Reply { index, bytes, output: Vec::new() });
        let cqes = self.cqs.iter().filter_map(|(&cqn, ring)| {
            ring.odd(memory).map(|(index, bytes)| Line::Cqe { cqn, index, bytes })
        });
        let eqes = self.eqs.iter().filter_map(|(&eqn, ring)| {
            ring.odd(memory).map(|(index, bytes)| Line::Eqe { eqn, index, bytes })
        });
        replies.into_iter().chain(cqes).chain(eqes).collect()
    }

    /// A command that worked changes which queues there are.
    fn done(&mut self, command: &Command, input: &[u8], made: u32) {
        match command.opcode() {
            AdminOpcode::CREATE_CQ | AdminOpcode::RESIZE_CQ => {
                let Some(cq) = CqContext::from_slice(input) else { return };
                let (number, next) = match command.opcode() {
                    AdminOpcode::CREATE_CQ => (made, 0),
                    _ => (command.object(), self.cqs.get(&command.object()).map_or(0, |ring| ring.next)),
                };
                let ring = Written {
                    iova: cq.ring_iova(),
                    log: cq.log_size().min(22).into(),
                    entry: Cqe::BYTES,
                    next,
                    record: cq.ci_iova(),
                };
                self.cqs.insert(number, ring);
            }
            AdminOpcode::CREATE_EQ => {
                let Some(eq) = EqContext::from_slice(input) else { return };
                let log = eq.log_size().min(22).into();
                self.eqs.insert(
                    made,
                    Written { iova: eq.ring_iova(), log, entry: Eqe::BYTES, next: 0, record: 0 },
                );
            }
            AdminOpcode::CREATE_SRQ => {
                let Some(srq) = SrqContext::from_slice(input) else { return };
                self.make(Queue::SharedRecv, made, srq.ring_iova(), srq.log_size(), srq.stride_log());
            }
            AdminOpcode::CREATE_QP => {
                let Some(qp) = QpContext::from_slice(input) else { return };
                self.make(Queue::Send, made, qp.sq_iova(), qp.sq_log(), WQE_BLOCK.ilog2() as u8);
                self.make(Queue::Recv, made, qp.rq_iova(), qp.rq_log(), qp.rq_stride_log());
            }
            AdminOpcode::MODIFY_QP if QpState(command.param1() as u8) == QpState::RESET => {
                for queue in [Queue::Send, Queue::Recv] {
                    if let Some(ring) = self.posted.get_mut(&(queue, command.object())) {
                        ring.next = 0;
                    }
                }
            }
            AdminOpcode::DESTROY_CQ => drop(self.cqs.remove(&command.object())),
            AdminOpcode::DESTROY_EQ => drop(self.eqs.remove(&command.object())),
            AdminOpcode::DESTROY_SRQ => drop(self.posted.remove(&(Queue::SharedRecv, command.object()))),
            AdminOpcode::DESTROY_QP => {
                self.posted.remove(&(Queue::Send, command.object()));
                self.posted.remove(&(Queue::Recv, command.object()));
            }
            _ => {}
        }
    }

    fn make(&mut self, queue: Queue, number: u32, iova: u64, log: u8, stride_log: u8) {
        let (log, stride_log) = (log.min(22).into(), stride_log.min(12).into());
        self.posted.insert((queue, number), Posted { iova, log, stride_log, next: 0 });
    }
}

/// Puts the blocks of a send queue together to WQEs.
fn whole_wqes(blocks: &[(u32, Vec<u8>)]) -> impl Iterator<Item = (u32, Vec<u8>)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (index, first) = blocks.get(at)?;
        let count = WqeCtrl::from_slice(first).map_or(1, |ctrl| ctrl.blocks() as usize);
        let end = (at + count.max(1)).min(blocks.len());
        let bytes = blocks[at..end].iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
        at = end;
        Some((*index, bytes))
    })
}
