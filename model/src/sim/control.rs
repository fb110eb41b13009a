//! The environment of control operations in simulated time: their replies take no simulated time.
//!
//! DMA writes and interrupts happen at once. What an operation gives the card to do becomes part of the simulation.

use std::sync::atomic::Ordering;

use super::env::SimEnv;
use crate::cells::Interrupts;
use crate::dma::{Addr, Atomic, DmaFault, Undelivered};
use crate::env::{Env, Work};
use crate::packet::{Packet, Payload};
use crate::segment::futex_wake;

/// See the module.
pub(crate) struct ControlEnv<'e, 'a> {
    pub env: &'e mut SimEnv<'a>,
    pub interrupts: &'a Interrupts,
}

/// Methods that the simulation's environment answers.
macro_rules! simulated {
    ($(fn $name:ident(&mut self $(, $arg:ident: $type:ty)*) $(-> $result:ty)?;)*) => {
        $(fn $name(&mut self $(, $arg: $type)*) $(-> $result)? {
            self.env.$name($($arg),*)
        })*
    };
}

impl<'a> Env for ControlEnv<'_, 'a> {
    const TURN: u32 = SimEnv::<'a>::TURN;
    const TRAIN_BYTES: u32 = SimEnv::<'a>::TRAIN_BYTES;
    const STASH_BYTES: u32 = SimEnv::<'a>::STASH_BYTES;
    const TAKES_PAYLOAD: bool = SimEnv::<'a>::TAKES_PAYLOAD;

    simulated! {
        fn now(&mut self) -> u64;
        fn read(&mut self, from: Addr, to: &mut [u8]) -> Result<(), DmaFault>;
        fn prefetch(&mut self, at: Addr);
        fn atomic(&mut self, at: Addr, op: Atomic) -> Result<u64, DmaFault>;
        fn stash(&mut self, len: usize) -> u32;
        fn stash_read(&mut self, stash: u32, offset: usize, from: Addr, len: usize) -> Result<(), DmaFault>;
        fn stash_fill(&mut self, stash: u32, bytes: &[u8]);
        fn push(&mut self, work: Work);
        fn send(&mut self) -> &mut Packet;
        fn watch(&mut self, card: u8, qp: u16);
        fn watched(&mut self) -> Option<(u8, u16)>;
        fn timer(&mut self, at: u64);
        fn sq_producer(&mut self, card: u8, qp: u16) -> u32;
        fn rq_producer(&mut self, card: u8, qp: u16, watch: bool) -> u32;
        fn srq_producer(&mut self, card: u8, srq: u16) -> u32;
        fn reset_doorbells(&mut self, card: u8, qp: u16, function: Option<u16>);
        fn reset_srq_doorbell(&mut self, card: u8, srq: u16, function: Option<u16>);
        fn deliver(&mut self, to: Addr, payload: &Payload, offset: usize, len: usize) -> Result<(), Undelivered>;
        fn exists(&mut self, domain: u16) -> bool;
    }

    fn words<const N: usize>(&mut self, from: Addr) -> Result<[u64; N], DmaFault> {
        self.env.words(from)
    }

    fn settle(&mut self, ring: Addr, len: u64) {
        let entries = self.env.sim.take_entries(ring, len);
        if !entries.is_empty() {
            // No entry passes the payload that it tells of.
            for (to, bytes) in self.env.sim.take_payload(ring.domain) {
                let _ = self.write(to, &bytes);
            }
        }
        for (to, entry) in entries {
            // If the memory is gone, nothing reads it.
            let _ = self.publish(to, entry);
        }
    }

    fn write(&mut self, to: Addr, from: &[u8]) -> Result<(), DmaFault> {
        self.env.guard.write(to.domain, to.iova, from).map_err(|_| DmaFault)
    }

    fn publish<const N: usize>(&mut self, to: Addr, entry: [u64; N]) -> Result<(), DmaFault> {
        let bytes = entry.map(u64::to_le_bytes);
        self.env.check(to, bytes.as_flattened().len())?;
        self.env.apply_short(to, bytes.as_flattened(), true);
        Ok(())
    }

    fn interrupt(&mut self, card: u8, function: u16, vector: u8) {
        let word = &self.interrupts[card as usize][function as usize][vector as usize];
        word.fetch_add(1, Ordering::Release);
        futex_wake(word, u32::MAX >> 1);
    }
}
