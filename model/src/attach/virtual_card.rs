//! [`VirtualCard`]: an opened card in simulated time as the driver's backend.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use driver::{CardError, DmaMemory, Hints, Interrupts, Memory, Registers};

use super::card::Joined;
use super::error::OpenError;
use super::function::{self, accesses, Function, Rung};
use super::manager::Task;
use crate::device::defect::Defect;
use crate::device::Device;
use crate::panics::tidied;
use crate::segment::ALL;
use crate::sim::control::ControlEnv;
use crate::sim::doorbell::DoorbellWrite;
use crate::sim::threads::{on_thread_end, prepare, Follower, Threads, Timeline};
use crate::world::World;

/// How far the simulated time of the net has advanced whose keeper listens at `socket` (ps): the furthest clock of all
/// threads that take or took part. `None`: it runs in wall-clock time.
pub fn simulated_time(socket: &Path) -> Result<Option<u64>, OpenError> {
    match Joined::new(socket)? {
        Joined::Wall(_) => Ok(None),
        Joined::Virtual(threads) => Ok(Some(threads.furthest()?)),
    }
}

/// Why the trace of the net so far is not complete whose keeper listens at `socket`. `None`: it is, or there is none.
pub fn trace_lost(socket: &Path) -> Result<Option<io::Error>, OpenError> {
    match Joined::new(socket)? {
        Joined::Wall(_) => Ok(None),
        Joined::Virtual(threads) => Ok(threads.trace_lost()?),
    }
}

/// See the module.
pub struct VirtualCard {
    threads: Arc<Threads>,
    function: Function,
}

impl VirtualCard {
    pub(super) fn open(threads: Arc<Threads>, card: u32) -> Result<VirtualCard, OpenError> {
        prepare();
        let timeline = Arc::downgrade(&threads);
        on_thread_end(move || timeline.upgrade().is_none_or(|timeline| timeline.leave()));
        let member = threads.segment().member();
        let index = threads.control(|world, _| Function::attach(world, card, member))??;
        threads.own_function(card as u16, index);
        let function = Function::new(threads.net(), card, index);
        Ok(VirtualCard { threads, function })
    }

    /// Runs what the card's registers ask for. `None`: the cards cannot be had.
    fn registers<R>(&self, access: impl FnOnce(&mut Device, u16, &mut ControlEnv<'_, '_>) -> R) -> Option<R> {
        let function = &self.function;
        let access =
            |world: &mut _, env: &mut ControlEnv<'_, '_>| access(function.device(world), function.index, env);
        tidied(None, || self.threads.control(access).ok())
    }

    /// This process's part in the simulated time of the card.
    pub fn timeline(&self) -> Timeline {
        Timeline::new(Arc::clone(&self.threads))
    }

    /// The place of a thread about to be started that waits for this card's interrupts; `None`: there is no room.
    pub fn follower(&self) -> Option<Follower> {
        Follower::new(&self.threads, self.function.card, self.function.index)
    }

    /// Lets the net's connection manager do something. `None`: the cards cannot be had.
    pub fn manager<T: Task>(&self, task: T) -> Option<T::Answer> {
        let caller = self.function.caller(self.threads.segment());
        let run = |world: &mut World, env: &mut ControlEnv<'_, '_>| task.run(world.manager(env), caller);
        tidied(None, || self.threads.control(run).ok())
    }

    /// Makes the card a defective one, for all programs that use it.
    pub fn set_defect(&self, defect: Defect) {
        self.registers(|device, _, _| device.defect = defect);
    }

    /// Makes a thread of this process that waits for interrupt `vector` check again.
    pub fn wake(&self, vector: u32) {
        self.function.wake(self.threads.net(), vector);
    }
}

impl Drop for VirtualCard {
    fn drop(&mut self) {
        tidied((), || self.threads.drain_writes());
        self.registers(|device, f, env| device.detach(f, env));
    }
}

impl Registers for VirtualCard {
    accesses!();

    /// The program pays for a doorbell, and the card sees it later.
    #[inline(never)]
    fn doorbell(&self, offset: u32, value: u64) {
        let (threads, card) = (&self.threads, self.function.card);
        let profile = threads.profile();
        let bells = &threads.net().bells[card as usize];
        let Some(bell) = self.function.hears(bells, offset, value) else { return };
        match bell {
            Rung::Send { qp, index } => {
                threads.send_bell(card, qp, index, bells.qp[qp as usize].advance(0, index))
            }
            Rung::Recv { qp, index } => threads.bell(DoorbellWrite::recv(bells, card, qp, index, profile)),
            Rung::Shared { srq, index } => {
                threads.bell(DoorbellWrite::shared(bells, card, srq, index, profile))
            }
            Rung::Arm(arm) => threads.bell(DoorbellWrite::arms(card, self.function.index, arm, profile)),
        }
    }

    fn may_vanish(&self) -> bool {
        self.threads.segment().is_condemned()
    }
}

impl Memory for VirtualCard {
    fn alloc(&self, bytes: usize) -> Result<DmaMemory, CardError> {
        function::alloc(self.threads.segment(), bytes)
    }

    fn free(&self, memory: DmaMemory) {
        tidied((), || {
            self.threads.drain_writes();
            function::free(self.threads.segment(), memory);
        });
    }

    fn map(&self, addr: *mut u8, len: usize, writable: bool) -> Result<u64, CardError> {
        function::map(self.threads.segment(), addr, len, writable)
    }

    fn unmap(&self, _iova: u64, addr: *mut u8, len: usize) {
        tidied((), || {
            self.threads.drain_writes();
            let _ = self.threads.segment().unmap(addr, len);
        });
    }
}

impl Interrupts for VirtualCard {
    fn wait_interrupt(&self, vector: u32, timeout: Duration) -> Result<bool, CardError> {
        let (threads, card, f) = (&self.threads, self.function.card, self.function.index);
        let member = (threads.segment(), threads.net());
        let may_sleep = |word: &_, seen| threads.block_for_interrupt(card, f, word, seen);
        let raised = self.function.wait_interrupt(member, vector, timeout, may_sleep)?;
        if raised {
            threads.took_interrupt(card, f);
        }
        Ok(raised)
    }
}

impl Hints for VirtualCard {
    #[inline]
    fn expect_doorbell(&self) {
        self.threads.segment().expect_lock(ALL);
    }

    #[inline]
    fn polled(&self, completions: usize) {
        self.threads.polled(completions);
    }

    #[inline]
    fn relax(&self, _empty_polls: u32) {
        self.threads.polled_nothing();
    }
}
