//! [`WallCard`]: an opened card in wall-clock time as the driver's backend.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use driver::{CardError, DmaMemory, Hints, Interrupts, Memory, Registers};
use fpga_regs::CqArm;

use super::env::WallEnv;
use super::polling::Poller;
use super::runner::Runner;
use crate::attach::error::OpenError;
use crate::attach::function::{self, accesses, Function, Rung};
use crate::attach::manager::Task;
use crate::device::defect::Defect;
use crate::device::tables::EQS;
use crate::device::Device;
use crate::panics::tidied;
use crate::world::World;

/// Empty polls in a row after which a poll yields its core, and again after each further such number.
const YIELD_AFTER: u32 = 256;

/// The same, after which messages that wait for others to leave with are sent, and what has come from outside is received.
const SEND_AFTER: u32 = 8;

/// And those after which such a poll waits for the threads in the way of what is pending: to try again costs a core that they
/// may need, and with many threads that do so it takes each of them long to get one.
const WAIT_AFTER: u32 = 16 * YIELD_AFTER;

/// How long it does so.
const A_WAIT: Duration = Duration::from_millis(10);

/// How long a thread that waits for interrupts waits for those who keep it from running what is pending.
const LONGEST_LOOK: Duration = Duration::from_millis(100);

/// See the module.
pub struct WallCard {
    pub(in crate::attach) runner: Arc<Runner>,
    pub(in crate::attach) function: Function,
    poller: Option<Poller>,
}

impl WallCard {
    /// `remote`: the function is for a client, whose memory this process reaches only where it was mapped.
    pub(in crate::attach) fn open(
        runner: Arc<Runner>,
        card: u32,
        remote: bool,
    ) -> Result<WallCard, OpenError> {
        let member = runner.segment().member();
        let index = runner.control(|world, _| {
            let index = Function::attach(world, card, member)?;
            world.cards[card as usize].functions[usize::from(index)].remote = remote.into();
            // Its last owner may have been a server that was killed.
            runner.net().servers[card as usize][index as usize].0.store(0, Ordering::Release);
            Ok::<_, OpenError>(index)
        })??;
        let function = Function::new(runner.net(), card, index);
        let poller = Poller::new(&runner, card as u16);
        Ok(WallCard { runner, function, poller })
    }

    /// Runs what the card's registers ask for. `None`: the cards cannot be had.
    pub(in crate::attach) fn registers<R>(
        &self,
        access: impl FnOnce(&mut Device, u16, &mut WallEnv<'_>) -> R,
    ) -> Option<R> {
        let function = &self.function;
        let access =
            |world: &mut _, env: &mut WallEnv<'_>| access(function.device(world), function.index, env);
        tidied(None, || self.runner.control(access).ok())
    }

    /// Makes the card a defective one, for all programs that use it.
    pub fn set_defect(&self, defect: Defect) {
        self.registers(|device, _, _| device.defect = defect);
    }

    /// Makes a thread of this process that waits for interrupt `vector` check again.
    pub fn wake(&self, vector: u32) {
        self.function.wake(self.runner.net(), vector);
    }

    /// Lets the net's connection manager do something. `None`: the cards cannot be had.
    pub fn manager<T: Task>(&self, task: T) -> Option<T::Answer> {
        let caller = self.function.caller(self.runner.segment());
        let run = |world: &mut World, env: &mut WallEnv<'_>| task.run(world.manager(env), caller);
        tidied(None, || self.runner.control(run).ok())
    }

    #[cold]
    fn arm(&self, arm: CqArm) {
        self.runner.send_gathered();
        if let Some(poller) = &self.poller {
            poller.end(&self.runner);
        }
        // Of damaged cards no completion comes.
        let _ = tidied(Ok(()), || self.runner.arm(self.function.card, self.function.index, arm));
    }

    /// A queue pair is pending: wakes the threads of this process that wait for interrupts, to run it.
    #[cold]
    #[inline(never)]
    fn leave(&self) {
        let server = &self.runner.net().servers[self.function.card as usize][self.function.index as usize];
        match server.is_served() {
            true => server.ring(),
            false => (0..EQS as u32).for_each(|vector| self.wake(vector)),
        }
    }

    /// Lets a thread `wait` for interrupts, which it is told how long to do, and runs what is pending before and after
    /// that.
    pub(in crate::attach) fn beside_pending<R>(
        &self,
        timeout: Duration,
        wait: impl FnOnce(Duration) -> R,
    ) -> R {
        let runner = &self.runner;
        if runner.has_pending() {
            runner.run_pending_within(timeout.min(LONGEST_LOOK));
        }
        // What could not be run then is tried again soon.
        let result = wait(if runner.has_pending() { timeout.min(LONGEST_LOOK) } else { timeout });
        if runner.has_pending() {
            runner.run_pending_within(LONGEST_LOOK);
        }
        result
    }
}

impl Drop for WallCard {
    fn drop(&mut self) {
        self.registers(|device, f, env| device.detach(f, env));
    }
}

impl Registers for WallCard {
    accesses!();

    #[inline(always)]
    fn doorbell(&self, offset: u32, value: u64) {
        let net = self.runner.net();
        let card = self.function.card;
        let bells = &net.bells[card as usize];
        match self.function.hears(bells, offset, value) {
            Some(Rung::Send { qp, index }) => {
                bells.qp[qp as usize].sq.store(index, Ordering::Release);
                if !self.runner.ring(card, qp, index) {
                    self.leave();
                }
            }
            Some(Rung::Recv { qp, index }) => {
                let bells = &bells.qp[qp as usize];
                // Ordered before the check of `watch`.
                bells.rq.swap(index, Ordering::SeqCst);
                if bells.watch.load(Ordering::SeqCst) != 0 && !self.runner.run_qp(card, qp) {
                    self.leave();
                }
            }
            Some(Rung::Shared { srq, index }) => {
                bells.srq[srq as usize].producer.store(index, Ordering::Release);
            }
            Some(Rung::Arm(arm)) => self.arm(arm),
            None => not_heard(),
        }
    }

    fn may_vanish(&self) -> bool {
        self.runner.segment().is_condemned()
    }
}

/// A doorbell that is not this function's.
#[cold]
#[inline(never)]
fn not_heard() {}

impl Memory for WallCard {
    fn alloc(&self, bytes: usize) -> Result<DmaMemory, CardError> {
        function::alloc(self.runner.segment(), bytes)
    }

    fn free(&self, memory: DmaMemory) {
        tidied((), || function::free(self.runner.segment(), memory));
    }

    fn map(&self, addr: *mut u8, len: usize, writable: bool) -> Result<u64, CardError> {
        function::map(self.runner.segment(), addr, len, writable)
    }

    fn unmap(&self, _iova: u64, addr: *mut u8, len: usize) {
        tidied((), || {
            let _ = self.runner.segment().unmap(addr, len);
        });
    }
}

impl Interrupts for WallCard {
    fn wait_interrupt(&self, vector: u32, timeout: Duration) -> Result<bool, CardError> {
        let member = (self.runner.segment(), self.runner.net());
        let until = Instant::now() + timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let raised = self.beside_pending(left, |left| {
                self.function.wait_interrupt(member, vector, left, |_, _| true)
            })?;
            if raised || Instant::now() >= until {
                return Ok(raised);
            }
        }
    }
}

impl Hints for WallCard {
    /// Which lock that takes depends on the queue pair.
    #[inline]
    fn expect_doorbell(&self) {}

    #[inline]
    fn expect_posts(&self, qpn: u32) {
        self.runner.expect_posts(self.function.card, qpn as u16);
    }

    #[inline]
    fn relax(&self, empty_polls: u32) {
        std::hint::spin_loop();
        if empty_polls % SEND_AFTER == SEND_AFTER - 1 {
            let came = self.poller.as_ref().is_some_and(|it| it.receive(&self.runner, &self.function));
            // After completions the program may post more, to leave with what waits.
            if !came || empty_polls >= SEND_AFTER {
                self.runner.send_gathered();
            }
        }
        if empty_polls % YIELD_AFTER == YIELD_AFTER - 1 {
            if self.runner.has_pending() {
                match empty_polls < WAIT_AFTER {
                    true => self.runner.run_pending(),
                    false => self.runner.run_pending_within(A_WAIT),
                }
            }
            if self.runner.segment().keeper_is_late() {
                self.runner.run_own_timers(self.function.card, |bells| self.function.owns(&bells.owner));
            }
            std::thread::yield_now();
        }
    }
}
