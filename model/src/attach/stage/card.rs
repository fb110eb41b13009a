//! A card of a stage as the driver's backend.

use std::sync::Arc;
use std::time::Duration;

use driver::{CardError, DmaMemory, Hints, Interrupts, Memory, Registers};

use super::state::{Inner, State};
use crate::attach::function::{accesses, Function, Rung};
use crate::device::tables::EQS;
use crate::device::Device;
use crate::sim::control::ControlEnv;
use crate::sim::doorbell::DoorbellWrite;

/// An opened card of a [`Stage`](super::Stage).
pub struct StageCard {
    inner: Arc<Inner>,
    function: Function,
}

impl StageCard {
    pub(super) fn new(inner: Arc<Inner>, card: u16, index: u16) -> StageCard {
        let function =
            Function::of(card, index, &inner.state().room.interrupts[usize::from(card)][usize::from(index)]);
        StageCard { inner, function }
    }

    /// Runs what the card's registers ask for.
    fn registers<R>(&self, access: impl FnOnce(&mut Device, u16, &mut ControlEnv<'_, '_>) -> R) -> Option<R> {
        let function = &self.function;
        Some(self.inner.control(|world, env| access(function.device(world), function.index, env)))
    }
}

impl Drop for StageCard {
    fn drop(&mut self) {
        self.registers(|device, function, env| device.detach(function, env));
    }
}

impl Registers for StageCard {
    accesses!();

    /// The actor pays for a doorbell, and the card sees it later.
    fn doorbell(&self, offset: u32, value: u64) {
        let card = self.function.card;
        let mut state = self.inner.state();
        let bells = &state.room.bells[usize::from(card)];
        let Some(bell) = self.function.hears(bells, offset, value) else { return };
        let profile = &state.room.sim.profile;
        let write = match bell {
            Rung::Send { qp, index } => {
                let advance = bells.qp[usize::from(qp)].advance(0, index);
                self.inner.engine(&mut state, |engine| engine.sends(card, qp, index, advance).0)
            }
            Rung::Recv { qp, index } => DoorbellWrite::recv(bells, card, qp, index, profile),
            Rung::Shared { srq, index } => DoorbellWrite::shared(bells, card, srq, index, profile),
            Rung::Arm(arm) => DoorbellWrite::arms(card, self.function.index, arm, profile),
        };
        let clock = state.spend(card, write.cost);
        self.inner.engine(&mut state, |engine| {
            let (at, event) = engine.rung(&write, clock);
            engine.env.sim.at(at, event);
        });
    }
}

impl Memory for StageCard {
    fn alloc(&self, bytes: usize) -> Result<DmaMemory, CardError> {
        self.inner.state().alloc(Some(self.function.card), bytes).ok_or(CardError::NoMemory { bytes })
    }

    fn free(&self, memory: DmaMemory) {
        self.inner.state().free(memory);
    }

    /// Memory of the stage can be reached already, and no other.
    fn map(&self, addr: *mut u8, len: usize, _writable: bool) -> Result<u64, CardError> {
        let mapped = self.inner.state().iova(addr as u64, len);
        let reason = || "it is not memory of the stage".to_owned();
        mapped.ok_or_else(|| CardError::Map { addr: addr as u64, len, reason: reason() })
    }

    fn unmap(&self, _iova: u64, _addr: *mut u8, _len: usize) {}
}

impl Interrupts for StageCard {
    /// Actors poll: nobody waits here.
    fn wait_interrupt(&self, vector: u32, _timeout: Duration) -> Result<bool, CardError> {
        match (vector as usize) < EQS {
            true => Ok(false),
            false => Err(CardError::NoVector { vector, count: EQS as u32 }),
        }
    }
}

impl Hints for StageCard {
    fn polled(&self, completions: usize) {
        let mut state = self.inner.state();
        let host = state.room.sim.profile.host;
        state.spend(self.function.card, host.poll_ps + completions as u64 * host.poll_cqe_ps);
    }

    /// An actor that finds nothing is called again when there is something.
    fn relax(&self, _empty_polls: u32) {}
}

impl State {
    /// An actor uses its processor; returns its clock.
    fn spend(&mut self, card: u16, ps: u64) -> u64 {
        let clock = &mut self.clocks[usize::from(card)];
        *clock += ps;
        *clock
    }
}
