//! Memory, doorbells and a clock for a card alone. What it sends is dropped.

use std::collections::VecDeque;

use fpga_regs::Access;

use crate::cells::Bells;
use crate::dma::{Addr, Atomic, DmaFault, Pieces, Undelivered};
use crate::env::Env;
use crate::packet::{Packet, Payload};
use crate::zeroed::Zeroed;

/// The process with the queues and the memory.
pub const OWN: u16 = 1;
/// The peer's, of which every byte can be read.
pub const PEER: u16 = 2;
/// One that is gone.
pub const ABSENT: u16 = 3;
/// What memory holds at the start.
pub const MEMORY: u8 = 0x5e;
/// The memory of requests: sources and sinks, receives, what peers may do all to, and what they may only read.
pub const LOCAL: u64 = 0x1_0000;
pub const RECEIVES: u64 = 0x2_0000;
pub const OPEN: u64 = 0x3_0000;
pub const READABLE: u64 = 0x4_0000;
/// Of another protection domain.
pub const FOREIGN: u64 = 0x5_0000;
pub const REGION: u64 = 0x1000;
/// On the wire the addresses of `OPEN` are others.
pub const SHIFT: u64 = 0x7_0000_0000;
const BYTES: usize = 0x18_0000;

pub const ALL: Access =
    Access(Access::LOCAL_WRITE.0 | Access::REMOTE_WRITE.0 | Access::REMOTE_READ.0 | Access::REMOTE_ATOMIC.0);

/// Index of a key: its region, rights and protection domain.
pub const KEYS: [(u64, u64, Access, u32); 5] = [
    (LOCAL, LOCAL, Access::LOCAL_WRITE, 1),
    (RECEIVES, RECEIVES, Access::LOCAL_WRITE, 1),
    (OPEN, OPEN + SHIFT, ALL, 1),
    (READABLE, READABLE, Access::REMOTE_READ, 1),
    (FOREIGN, FOREIGN, ALL, 2),
];

pub fn key(n: usize) -> u32 {
    ((n as u32 + 1) << 8) | 0x5a
}

pub struct Surroundings {
    pub bells: Zeroed<Bells>,
    pub now: u64,
    pub memory: Vec<u8>,
    /// Where payload was written, and how much.
    pub touched: Vec<(u64, u64)>,
    /// Atomic operations done.
    pub atomics: u32,
    /// Queue pairs that may wait for an answer.
    pub watched: Vec<usize>,
    sent: Packet,
    again: VecDeque<usize>,
}

impl Surroundings {
    pub fn new() -> Surroundings {
        let bells = Zeroed::new().expect("address space");
        let memory = vec![MEMORY; BYTES];
        let (touched, watched, again) = Default::default();
        Surroundings {
            bells,
            now: 1_000_000,
            memory,
            touched,
            atomics: 0,
            watched,
            sent: Packet::BLANK,
            again,
        }
    }

    /// The queue pair to be run next.
    pub fn next(&mut self) -> Option<usize> {
        self.again.pop_front()
    }

    pub fn put(&mut self, at: u64, bytes: &[u8]) {
        self.memory[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    pub fn get<const N: usize>(&self, at: u64) -> &[u8; N] {
        self.memory[at as usize..].first_chunk().expect("within memory")
    }

    fn place(&mut self, at: Addr, len: usize) -> Result<&mut [u8], DmaFault> {
        let from = usize::try_from(at.iova).map_err(|_| DmaFault)?;
        let end = from.checked_add(len).ok_or(DmaFault)?;
        if at.domain != OWN {
            return Err(DmaFault);
        }
        self.memory.get_mut(from..end).ok_or(DmaFault)
    }
}

impl Env for Surroundings {
    const GATHER_BYTES: u32 = 1 << 16;

    fn note(&mut self, _word: u64) {}

    fn now(&mut self) -> u64 {
        self.now
    }
    fn read(&mut self, from: Addr, to: &mut [u8]) -> Result<(), DmaFault> {
        to.copy_from_slice(self.place(from, to.len())?);
        Ok(())
    }
    fn words<const N: usize>(&mut self, from: Addr) -> Result<[u64; N], DmaFault> {
        let bytes = self.place(from, 8 * N)?;
        Ok(std::array::from_fn(|n| u64::from_le_bytes(*bytes[8 * n..].first_chunk().expect("8 bytes"))))
    }
    fn write(&mut self, to: Addr, from: &[u8]) -> Result<(), DmaFault> {
        self.place(to, from.len())?.copy_from_slice(from);
        self.touched.push((to.iova, from.len() as u64));
        Ok(())
    }
    fn publish<const N: usize>(&mut self, to: Addr, entry: [u64; N]) -> Result<(), DmaFault> {
        let bytes = entry.map(u64::to_le_bytes).concat();
        self.place(to, bytes.len())?.copy_from_slice(&bytes);
        Ok(())
    }
    fn atomic(&mut self, at: Addr, op: Atomic) -> Result<u64, DmaFault> {
        let place = self.place(at, 8)?;
        let original = u64::from_le_bytes(*place.first_chunk().expect("8 bytes"));
        if let Some(value) = op.applied(original) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        self.touched.push((at.iova, 8));
        self.atomics += 1;
        Ok(original)
    }
    fn gather(&mut self, pieces: &Pieces) -> Result<Payload, DmaFault> {
        Ok(Payload::Stash(0, pieces.len()))
    }
    fn hold(&mut self, bytes: &[u8]) -> Payload {
        Payload::Stash(0, bytes.len() as u32)
    }
    fn stash(&mut self, bytes: &[u8]) -> Payload {
        Payload::Stash(0, bytes.len() as u32)
    }
    fn payload(&mut self, _: &Payload, to: &mut [u8]) -> Result<(), DmaFault> {
        to.fill(7);
        Ok(())
    }
    fn deliver(&mut self, to: Addr, payload: &Payload, offset: usize, len: usize) -> Result<(), Undelivered> {
        assert!(offset + len <= payload.len(), "bytes that the payload does not have");
        if matches!(payload, Payload::Memory(from, _) if from.domain == ABSENT) {
            return Err(Undelivered::Unread);
        }
        self.write(to, &vec![0xaa; len]).map_err(|DmaFault| Undelivered::Unwritten)
    }
    fn send(&mut self) -> &mut Packet {
        self.sent = Packet::BLANK;
        &mut self.sent
    }
    fn send_later(&mut self, _: u16, qp: u16) {
        if !self.again.contains(&qp.into()) {
            self.again.push_back(qp.into());
        }
    }
    fn ends_turn(&self, executed: u32) -> bool {
        executed >= 32
    }
    fn watch(&mut self, _: u16, qp: u16) {
        self.watched.push(qp.into());
    }
    fn timer(&mut self, _: u64) {}
    fn bells(&self, _: u16) -> &Bells {
        &self.bells
    }
    fn interrupt(&mut self, _: u16, _: u16, _: u8) {}
    fn exists(&mut self, domain: u16) -> bool {
        domain != ABSENT
    }
}
