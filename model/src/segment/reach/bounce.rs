//! Large copies to private memory of another process, with that process's help.
//!
//! The kernel copies between two processes at a third of what two cores reach. So
//! whoever runs the cards copies into a few slots in the segment, chunk by chunk,
//! and a thread of the owner ([`super::helper`]) copies from there, or the other
//! way round, while the next chunk is under way. The copy is complete when the
//! call returns.
//!
//! Nobody is waited for in vain: what the thread does not take within
//! microseconds is taken back and left to the kernel, and after that it is not
//! asked for a while. Only a chunk that it has begun must be waited for, since
//! it might still be written later; if that takes as long as a stopped process
//! takes, the access fails.
#![allow(unsafe_code)]

use crate::plain::plain;
use std::cell::UnsafeCell;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::pace::Pace;
use super::private::{Direction, DmaFault};
use crate::segment::futex::futex_wake;
use crate::segment::layout::{MAX_MEMBERS, PAGE};
use crate::segment::lock::Guard;
use crate::segment::now_ns;

/// Chunks under way at a time.
pub(in crate::segment) const SLOTS: usize = 4;
/// Bytes of a chunk of a long copy; shorter ones use half, to overlap at all.
pub(in crate::segment) const CHUNK: usize = 32 * 1024;
const LONG: usize = 8 * CHUNK;
/// Shorter copies are the kernel's.
pub(in crate::segment) const LEAST: usize = 64 * 1024;
/// How long a chunk may wait for the thread.
const TAKE_NS: u64 = 20_000;
/// From then on a chunk that was begun is waited for without spinning.
const SPIN_NS: u64 = 50_000;
/// How long a chunk that was begun may take.
const FINISH_NS: u64 = 1_000_000_000;
/// How long a chunk may wait or take that nobody else can copy: somewhat more than its owner waits itself.
const ASK_NS: u64 = 3_000_000_000;
/// A sleeping thread is woken when the last large copy is not older than this.
const RECENT_NS: u64 = 200_000;
/// It is woken at once for a copy of this size.
const HUGE: usize = 1 << 20;
/// What the kernel copies while the thread wakes up.
const WHILE_WAKING: usize = 128 * 1024;
/// First pause after a failure; it doubles up to 1024 times that.
const PAUSE_NS: u64 = 1_000_000;

/// No thread.
pub(in crate::segment) const NONE: u32 = 0;
/// The thread sleeps on this word.
pub(in crate::segment) const ASLEEP: u32 = 1;
/// It has been woken.
pub(in crate::segment) const WAKING: u32 = 2;
/// It looks for jobs.
pub(in crate::segment) const AWAKE: u32 = 3;

/// Phases of a job.
const PENDING: u64 = 1;
const TAKEN: u64 = 2;
const DONE: u64 = 3;
const REFUSED: u64 = 4;
const CANCELLED: u64 = 5;

/// The queue and the slots of one member.
#[repr(C, align(4096))]
pub struct Bounce {
    pub(in crate::segment) helper: HelperState,
    pub(in crate::segment) runner: RunnerState,
    jobs: [Job; SLOTS],
    data: BounceData,
}

const _: () = assert!(size_of::<Bounce>() == PAGE as usize + SLOTS * CHUNK);

/// Written by the owner, and by whoever wakes it.
#[repr(C, align(128))]
pub(in crate::segment) struct HelperState {
    pub(in crate::segment) state: AtomicU32,
    /// Times in a row that it was woken and got no job.
    pub(in crate::segment) vain: AtomicU32,
    /// Jobs done, for tests.
    pub(in crate::segment) served: AtomicU32,
}

/// Used with the lock held.
#[repr(C, align(128))]
pub(in crate::segment) struct RunnerState {
    /// Number of the next job.
    head: AtomicU64,
    /// End of the last large copy.
    last: AtomicU64,
    /// Not before.
    retry_at: AtomicU64,
    woken_at: AtomicU64,
    failures: AtomicU32,
    pub(in crate::segment) pace: Pace,
}

#[repr(C, align(64))]
struct Job {
    /// Number of the job and its phase.
    state: AtomicU64,
    /// Where the bytes are or go in the segment.
    offset: AtomicU64,
    /// Where they go or are in the owner.
    iova: AtomicU64,
    len: AtomicU32,
    /// 1: to the owner.
    write: AtomicU32,
}

#[repr(C, align(4096))]
struct BounceData(UnsafeCell<[[u8; CHUNK]; SLOTS]>);

/// What the owner is asked to do; nothing in it is to be trusted.
#[derive(Clone, Copy)]
pub(in crate::segment) struct Order {
    pub(in crate::segment) offset: u64,
    pub(in crate::segment) iova: u64,
    pub(in crate::segment) len: usize,
    pub(in crate::segment) write: bool,
}

impl Bounce {
    /// Number of the next job, for a helper that begins.
    pub(in crate::segment) fn head(&self) -> u64 {
        self.runner.head.load(Acquire)
    }

    /// The owner has gone. The lock is held.
    pub(in crate::segment) fn clear(&self) {
        self.helper.state.store(NONE, Relaxed);
        self.helper.vain.store(0, Relaxed);
        for job in &self.jobs {
            job.state.store(CANCELLED, Relaxed);
        }
    }

    /// Takes job `next` if it is there. Returns false when there is nothing to do.
    #[inline]
    pub(in crate::segment) fn serve(&self, next: &mut u64, work: impl FnOnce(Order) -> bool) -> bool {
        let job = &self.jobs[*next as usize % SLOTS];
        let state = job.state.load(Acquire);
        let number = state >> 8;
        // A slot that was never used looks like one of job 0.
        if number < *next || state & 0xff == 0 {
            return false;
        }
        let here = number == *next;
        *next += 1;
        let taken = number << 8 | TAKEN;
        if here
            && state & 0xff == PENDING
            && job.state.compare_exchange(state, taken, AcqRel, Relaxed).is_ok()
        {
            let done = work(Order {
                offset: job.offset.load(Relaxed),
                iova: job.iova.load(Relaxed),
                len: job.len.load(Relaxed) as usize,
                write: job.write.load(Relaxed) != 0,
            });
            job.state.store(number << 8 | if done { DONE } else { REFUSED }, Release);
        }
        true
    }
}

/// How the wait for a job ended.
enum Outcome {
    Done,
    /// The owner will not do it, or is gone: the kernel may say why.
    Not,
    /// It was begun and does not end.
    Stuck,
}

/// One copy between the segment or this process (`here`) and the owner.
#[derive(Clone, Copy)]
pub(in crate::segment) struct Transfer {
    pub(in crate::segment) member: u16,
    pub(in crate::segment) iova: u64,
    pub(in crate::segment) here: *mut u8,
    pub(in crate::segment) len: usize,
    pub(in crate::segment) direction: Direction,
}

impl Transfer {
    /// Its first `len` bytes.
    pub(in crate::segment) fn first(self, len: usize) -> Transfer {
        Transfer { len, ..self }
    }

    /// All but its first `done` bytes.
    pub(in crate::segment) fn after(self, done: usize) -> Transfer {
        let here = self.here.wrapping_add(done);
        Transfer { iova: self.iova + done as u64, here, len: self.len - done, ..self }
    }
}

impl Guard<'_> {
    fn bounce_of(&self, member: u16) -> Option<&Bounce> {
        self.segment().tables().bounce.get(usize::from(member))
    }

    /// How much of a copy the kernel is to do now, before [`Guard::with_help`]
    /// is asked again. Wakes the owner's thread if that is worth it.
    pub(in crate::segment) fn kernel_share(&self, member: u16, len: usize) -> usize {
        let Some(bounce) = self.bounce_of(member).filter(|_| len >= LEAST) else {
            return len;
        };
        let (now, runner) = (now_ns(), &bounce.runner);
        let retry = now >= runner.retry_at.load(Relaxed);
        match bounce.helper.state.load(Relaxed) {
            NONE => return len,
            _ if !retry || !runner.pace.help_pays(now) => return len,
            // It is asked for the rest.
            AWAKE | WAKING => return len.min(WHILE_WAKING),
            _ => {}
        }
        let vain = bounce.helper.vain.load(Relaxed).min(10);
        let pause = if vain == 0 { 0 } else { PAUSE_NS << vain };
        let wanted = len >= HUGE || now.saturating_sub(runner.last.load(Relaxed)) < RECENT_NS;
        if !wanted || now.saturating_sub(runner.woken_at.load(Relaxed)) < pause {
            return len;
        }
        let state = &bounce.helper.state;
        if state.compare_exchange(ASLEEP, WAKING, AcqRel, Relaxed).is_ok() {
            runner.woken_at.store(now, Relaxed);
            futex_wake(state, 1);
        }
        len.min(WHILE_WAKING)
    }

    /// The kernel has copied from or to `member`, since `begin` (ns).
    pub(in crate::segment) fn copied_by_kernel(&self, member: u16, len: usize, begin: u64) {
        if let Some(bounce) = self.bounce_of(member) {
            bounce.runner.pace.kernel(len, now_ns() - begin);
        }
    }

    /// A large copy is over, whoever did it.
    pub(in crate::segment) fn large_copy_done(&self, member: u16) {
        if let Some(bounce) = self.bounce_of(member) {
            if bounce.helper.state.load(Relaxed) != NONE {
                bounce.runner.last.store(now_ns(), Relaxed);
            }
        }
    }

    /// Copies with the help of the owner's thread if that is awake. Returns how
    /// many bytes from the beginning are done; the rest is for the kernel.
    pub(in crate::segment) fn with_help(&self, transfer: Transfer) -> Result<usize, DmaFault> {
        let Some(bounce) = self.bounce_of(transfer.member) else { return Ok(0) };
        if transfer.len < LEAST || bounce.helper.state.load(Acquire) != AWAKE {
            return Ok(0);
        }
        let begin = now_ns();
        if begin < bounce.runner.retry_at.load(Relaxed) || !bounce.runner.pace.help_pays(begin) {
            return Ok(0);
        }
        let mut run = Run::new(self, bounce, transfer, false);
        let result = run.run();
        bounce.runner.pace.helped(run.done, now_ns() - begin);
        let failures = &bounce.runner.failures;
        if run.done == transfer.len {
            failures.store(0, Relaxed);
        } else {
            let pause = PAUSE_NS << failures.load(Relaxed).min(10);
            failures.fetch_add(1, Relaxed);
            bounce.runner.retry_at.store(now_ns() + pause, Relaxed);
        }
        result.map(|()| run.done)
    }

    /// Lets the owner's thread do a copy that nobody else can do.
    pub(in crate::segment) fn ask_owner(&self, transfer: Transfer) -> Result<(), DmaFault> {
        let errno = libc::EIO;
        let refused = DmaFault::Unreachable { member: transfer.member, iova: transfer.iova, errno };
        let bounce = self.bounce_of(transfer.member).ok_or(refused)?;
        let mut run = Run::new(self, bounce, transfer, true);
        run.run()?;
        if run.done == transfer.len {
            Ok(())
        } else {
            Err(refused)
        }
    }

    /// Wakes the thread of a member, if it sleeps.
    fn wake_helper(&self, bounce: &Bounce) {
        let state = &bounce.helper.state;
        if state.compare_exchange(ASLEEP, WAKING, AcqRel, Relaxed).is_ok() {
            futex_wake(state, 1);
        }
    }

    /// The last holder of the lock died: none of its jobs may be done later.
    pub(in crate::segment) fn settle_bounces(&self) {
        // For all of them: what is stopped, or no member at all, does not hold up everybody.
        let until = now_ns() + 2 * FINISH_NS;
        for member in 0..MAX_MEMBERS as u16 {
            if self.segment().pid_of(member).is_none() {
                continue;
            }
            let Some(bounce) = self.bounce_of(member) else { continue };
            if bounce.helper.state.load(Relaxed) == NONE {
                continue;
            }
            for job in &bounce.jobs {
                if !cancel(job) && now_ns() < until {
                    self.wait(member, job, None);
                }
            }
            // The dead one may have published a job before it counted it.
            let highest = bounce.jobs.iter().map(|job| job.state.load(Relaxed) >> 8).max();
            bounce.runner.head.fetch_max(highest.unwrap_or(0) + 1, Release);
        }
    }

    /// Waits for a job that has been published. `asked`: nobody else can do it, so that its owner is woken and
    /// gets time.
    fn wait(&self, member: u16, job: &Job, asked: Option<&Bounce>) -> Outcome {
        let (take_ns, finish_ns) = match asked {
            Some(_) => (ASK_NS, ASK_NS),
            None => (TAKE_NS, FINISH_NS),
        };
        let mut begin = 0;
        let mut looked = 0;
        for spins in 1_u64.. {
            let state = job.state.load(Acquire);
            match state & 0xff {
                PENDING | TAKEN => std::hint::spin_loop(),
                DONE => return Outcome::Done,
                _ => return Outcome::Not,
            }
            if spins % 64 != 0 {
                continue;
            }
            let now = now_ns();
            if begin == 0 {
                (begin, looked) = (now, now);
            }
            if state & 0xff == PENDING {
                if now - begin > take_ns && cancel(job) {
                    return Outcome::Not;
                }
                let Some(bounce) = asked else { continue };
                self.wake_helper(bounce);
                if now - begin > SPIN_NS {
                    std::thread::yield_now();
                }
                if now - looked > 1_000_000 {
                    looked = now;
                    if !self.exists(member) && cancel(job) {
                        return Outcome::Not;
                    }
                }
                continue;
            }
            if now - begin > finish_ns {
                return Outcome::Stuck;
            }
            if now - begin > SPIN_NS {
                std::thread::yield_now();
                if now - looked > 1_000_000 {
                    looked = now;
                    if !self.exists(member) {
                        return Outcome::Not;
                    }
                    std::thread::sleep(std::time::Duration::from_micros(100));
                }
            }
        }
        Outcome::Stuck
    }
}

/// Takes a job back; false when the owner has begun it.
fn cancel(job: &Job) -> bool {
    let state = job.state.load(Acquire);
    match state & 0xff {
        PENDING => {
            let cancelled = state & !0xff | CANCELLED;
            job.state.compare_exchange(state, cancelled, AcqRel, Relaxed).is_ok()
        }
        TAKEN => false,
        _ => true,
    }
}

/// One copy under way: jobs `first..next` are published.
struct Run<'a> {
    guard: &'a Guard<'a>,
    bounce: &'a Bounce,
    transfer: Transfer,
    first: u64,
    next: u64,
    issued: usize,
    done: usize,
    /// Nobody else can do it.
    asked: bool,
}

impl<'a> Run<'a> {
    fn new(guard: &'a Guard<'a>, bounce: &'a Bounce, transfer: Transfer, asked: bool) -> Self {
        Run { guard, bounce, transfer, first: 0, next: 0, issued: 0, done: 0, asked }
    }

    fn wait(&self, number: u64) -> Outcome {
        self.guard.wait(self.transfer.member, self.job(number), self.asked.then_some(self.bounce))
    }

    fn run(&mut self) -> Result<(), DmaFault> {
        self.next = self.bounce.head();
        self.first = self.next;
        let len = self.transfer.len;
        let chunk = if len >= LONG { CHUNK } else { CHUNK / 2 };
        while self.done < len {
            while self.issued < len && self.next - self.first < SLOTS as u64 {
                if !self.publish(chunk.min(len - self.issued)) {
                    break;
                }
            }
            if self.first == self.next {
                // A chunk of an earlier copy is still stuck.
                return Ok(());
            }
            match self.wait(self.first) {
                Outcome::Done => self.harvest(),
                Outcome::Not => {
                    self.first += 1;
                    return self.take_back();
                }
                Outcome::Stuck => {
                    self.first += 1;
                    let _ = self.take_back();
                    return Err(self.stuck());
                }
            }
        }
        Ok(())
    }

    fn job(&self, number: u64) -> &Job {
        &self.bounce.jobs[number as usize % SLOTS]
    }

    /// The slot of a job: its offset in the segment and its address.
    fn slot(&self, number: u64) -> (u64, *mut u8) {
        let all = self.bounce.data.0.get().cast::<u8>();
        let ptr = all.wrapping_add(number as usize % SLOTS * CHUNK);
        (ptr as u64 - self.guard.segment().ptr_at(0) as u64, ptr)
    }

    /// The offset in the segment of our side of the copy, if it lies there.
    fn direct(&self) -> Option<u64> {
        let segment = self.guard.segment();
        let offset = (self.transfer.here as u64).wrapping_sub(segment.ptr_at(0) as u64);
        let end = offset.checked_add(self.transfer.len as u64)?;
        (end <= segment.local().total_bytes).then_some(offset)
    }

    fn publish(&mut self, len: usize) -> bool {
        let job = self.job(self.next);
        if matches!(job.state.load(Acquire) & 0xff, PENDING | TAKEN) {
            return false;
        }
        let write = matches!(self.transfer.direction, Direction::Write);
        let offset = match self.direct() {
            Some(offset) => offset + self.issued as u64,
            None => {
                let (offset, ptr) = self.slot(self.next);
                if write {
                    let from = self.transfer.here.wrapping_add(self.issued);
                    // SAFETY: the caller's memory; the slot is no job's now, and
                    // `len` is at most its size.
                    unsafe { std::ptr::copy_nonoverlapping(from, ptr, len) };
                }
                offset
            }
        };
        job.offset.store(offset, Relaxed);
        job.iova.store(self.transfer.iova + self.issued as u64, Relaxed);
        job.len.store(len as u32, Relaxed);
        job.write.store(write.into(), Relaxed);
        job.state.store(self.next << 8 | PENDING, Release);
        self.next += 1;
        self.bounce.runner.head.store(self.next, Release);
        self.issued += len;
        true
    }

    /// The oldest job is done.
    fn harvest(&mut self) {
        let len = self.job(self.first).len.load(Relaxed) as usize;
        let len = len.min(CHUNK).min(self.transfer.len - self.done);
        if matches!(self.transfer.direction, Direction::Read) && self.direct().is_none() {
            let (_, ptr) = self.slot(self.first);
            let to = self.transfer.here.wrapping_add(self.done);
            // SAFETY: the slot and the caller's memory, each at least that long.
            unsafe { std::ptr::copy_nonoverlapping(ptr, to, len) };
        }
        self.first += 1;
        self.done += len;
    }

    /// Leaves nothing behind that might be done later.
    fn take_back(&mut self) -> Result<(), DmaFault> {
        let begun = (self.first..self.next).rev().filter(|&number| !cancel(self.job(number)));
        let begun: Vec<u64> = begun.collect();
        for number in begun {
            if let Outcome::Stuck = self.wait(number) {
                return Err(self.stuck());
            }
        }
        Ok(())
    }

    fn stuck(&self) -> DmaFault {
        DmaFault::Unreachable {
            member: self.transfer.member,
            iova: self.transfer.iova,
            errno: libc::ETIMEDOUT,
        }
    }
}

impl crate::plain::Plain for BounceData {}

plain! {
    Bounce { helper, runner, jobs, data }
    HelperState { state, vain, served }
    RunnerState { head, last, retry_at, woken_at, failures, pace }
    Job { state, offset, iova, len, write }
}
