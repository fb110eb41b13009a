//! The environment of control operations in simulated time: their replies take no simulated time.
//!
//! DMA writes and interrupts happen at once. What an operation gives the card to do becomes part of the simulation.

use super::engine::Engine;
use super::env::SimEnv;
use crate::cells::{Bells, Interrupts};
use crate::dma::{Addr, Atomic, DmaFault, Pieces, Undelivered};
use crate::env::Env;
use crate::packet::{Packet, Payload};
use crate::world::World;

/// See the module.
pub(crate) struct ControlEnv<'e, 'a> {
    pub env: &'e mut SimEnv<'a>,
    pub interrupts: &'a [Interrupts],
}

impl Engine<'_> {
    /// A control operation, at the simulation's time.
    pub(crate) fn control<R>(&mut self, work: impl FnOnce(&mut World, &mut ControlEnv<'_, '_>) -> R) -> R {
        let mut env = ControlEnv { env: &mut self.env, interrupts: self.interrupts };
        let result = work(self.world, &mut env);
        if env.env.step.links_changed {
            self.world.follow_peers(&mut env);
            self.env.step.links_changed = false;
            self.link.follow(self.world);
        }
        self.settle();
        result
    }
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
    const GATHER_BYTES: u32 = SimEnv::<'a>::GATHER_BYTES;

    simulated! {
        fn note(&mut self, word: u64);
        fn now(&mut self) -> u64;
        fn read(&mut self, from: Addr, to: &mut [u8]) -> Result<(), DmaFault>;
        fn atomic(&mut self, at: Addr, op: Atomic) -> Result<u64, DmaFault>;
        fn gather(&mut self, pieces: &Pieces) -> Result<Payload, DmaFault>;
        fn hold(&mut self, bytes: &[u8]) -> Payload;
        fn stash(&mut self, bytes: &[u8]) -> Payload;
        fn payload(&mut self, payload: &Payload, to: &mut [u8]) -> Result<(), DmaFault>;
        fn send_later(&mut self, card: u16, qp: u16);
        fn send(&mut self) -> &mut Packet;
        fn watch(&mut self, card: u16, qp: u16);
        fn timer(&mut self, at: u64);
        fn links_changed(&mut self);
        fn deliver(&mut self, to: Addr, payload: &Payload, offset: usize, len: usize) -> Result<(), Undelivered>;
        fn exists(&mut self, domain: u16) -> bool;
    }

    fn words<const N: usize>(&mut self, from: Addr) -> Result<[u64; N], DmaFault> {
        self.env.words(from)
    }

    fn ends_turn(&self, executed: u32) -> bool {
        self.env.ends_turn(executed)
    }

    fn bells(&self, card: u16) -> &Bells {
        self.env.bells(card)
    }

    fn settle(&mut self, ring: Addr, len: u64) {
        let entries = self.env.sim.take_entries(ring, len);
        if !entries.is_empty() {
            // No entry passes the payload that it reports.
            self.settle_payload(ring.domain);
        }
        for (to, entry) in entries {
            // If the memory is gone, nothing reads it.
            let _ = self.publish(to, entry);
        }
    }

    fn settle_payload(&mut self, process: u16) {
        for (to, bytes) in self.env.sim.take_payload(process) {
            let _ = self.write(to, &bytes);
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

    fn interrupt(&mut self, card: u16, function: u16, vector: u8) {
        self.env.sim.interrupt(self.interrupts, (card, function, vector));
    }
}
