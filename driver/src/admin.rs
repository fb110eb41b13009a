//! The admin command queue: several threads can each have a command outstanding.
//!
//! A command takes a slot from a lock-free list; the slot's number is its tag and names its mailbox.
//! Each waiting thread reads the replies of all. A slot whose command timed out is not used again until its
//! late reply arrives, because the card may still write to its mailbox.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;
use fpga_regs::{AdminOpcode, AdminStatus, Command, Reply};

use crate::card::{Card, CardError};
use crate::dma::Dma;
use crate::error::{Error, Result};
use crate::lock;
use crate::ring::Phased;
use fpga_regs::regs;

/// Entries of both rings; more than there are slots, so the rings never fill.
const LOG_ENTRIES: u32 = 6;
const ENTRIES: u32 = 1 << LOG_ENTRIES;
/// Commands that can be outstanding.
const SLOTS: usize = 32;
/// Bytes of each of a slot's two mailboxes.
pub(crate) const MAILBOX: usize = 512;
/// Time-out of a command.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);
/// Time between two checks, in a wait, that the card is still there.
const CHECK_AFTER: Duration = Duration::from_millis(100);

/// What a slot is doing.
enum Slot {
    Idle,
    Waiting,
    Done(Reply),
    /// Timed out; free when the late reply arrives.
    Abandoned,
}

/// The admin queue of a function.
pub(crate) struct Admin<C: Card> {
    card: Arc<C>,
    commands: Dma<C>,
    mail: Dma<C>,
    producer: Mutex<u32>,
    replies: Mutex<Phased<C>>,
    free: ArrayQueue<u16>,
    slots: Box<[Mutex<Slot>]>,
    timeout_ms: AtomicU32,
}

/// A slot in use. It is free after this, or if the command is still under way, by time-out or panic, when its reply comes.
struct Taken<'a, C: Card> {
    admin: &'a Admin<C>,
    tag: u16,
}

impl<C: Card> Drop for Taken<'_, C> {
    fn drop(&mut self) {
        let mut slot = lock(&self.admin.slots[usize::from(self.tag)]);
        *slot = match *slot {
            Slot::Waiting => Slot::Abandoned,
            _ => self.admin.give_back(self.tag),
        };
    }
}

impl<C: Card> Admin<C> {
    /// Allocates the rings and tells the card where they are; the card is in reset state.
    pub fn new(card: &Arc<C>) -> Result<Self> {
        let commands = Dma::alloc(card, ENTRIES as usize * Command::BYTES)?;
        let replies = Dma::alloc(card, ENTRIES as usize * Reply::BYTES)?;
        let mail = Dma::alloc(card, SLOTS * 2 * MAILBOX)?;
        card.write64(regs::ASQ_BASE, commands.iova());
        card.write64(regs::ACQ_BASE, replies.iova());
        card.write32(regs::ADMIN_SIZE, LOG_ENTRIES);
        let free = ArrayQueue::new(SLOTS);
        for tag in 0..SLOTS as u16 {
            let _ = free.push(tag);
        }
        Ok(Admin {
            card: card.clone(),
            commands,
            mail,
            producer: Mutex::new(0),
            replies: Mutex::new(Phased::new(replies, LOG_ENTRIES, Reply::BYTES)),
            free,
            slots: (0..SLOTS).map(|_| Mutex::new(Slot::Idle)).collect(),
            timeout_ms: AtomicU32::new(TIMEOUT.as_millis() as u32),
        })
    }

    /// Changes the time-out of a command.
    pub fn set_timeout(&self, timeout: Duration) {
        let ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        self.timeout_ms.store(ms.max(1), Ordering::Relaxed);
    }

    /// Runs a command, with an input or none.
    pub fn run(&self, command: Command, input: &[u8]) -> Result<Reply> {
        self.exchange(command, input, &mut [])
    }

    /// The same, for its output.
    pub fn read(&self, command: Command, output: &mut [u8]) -> Result<()> {
        self.exchange(command, &[], output).map(drop)
    }

    fn exchange(&self, command: Command, input: &[u8], output: &mut [u8]) -> Result<Reply> {
        assert!(input.len() <= MAILBOX && output.len() <= MAILBOX);
        let after = Duration::from_millis(self.timeout_ms.load(Ordering::Relaxed).into());
        let deadline = Instant::now() + after;
        let timed_out = || self.timed_out(command, after);
        let mut spins = 0;
        let taken = loop {
            if let Some(tag) = self.free.pop() {
                break Taken { admin: self, tag };
            }
            self.drain();
            if Instant::now() >= deadline {
                return Err(timed_out());
            }
            self.card.relax(spins);
            spins = spins.saturating_add(1);
        };
        let tag = taken.tag;
        self.submit(command, tag, input, output.len());
        let mut spins = 0;
        let mut check_at = Instant::now() + CHECK_AFTER;
        let reply = loop {
            self.drain();
            let now = Instant::now();
            // At the deadline the card is looked at anyway.
            let late = now >= deadline;
            let gone = !late && now >= check_at && self.card.read32(regs::ID) == u32::MAX;
            if let Slot::Done(reply) = *lock(&self.slots[usize::from(tag)]) {
                break reply;
            }
            if late || gone {
                return Err(timed_out());
            }
            if now >= check_at {
                check_at = now + CHECK_AFTER;
            }
            self.card.relax(spins);
            spins = spins.saturating_add(1);
        };
        match reply.status() {
            AdminStatus::OK => {
                self.mail.read(usize::from(tag) * 2 * MAILBOX + MAILBOX, output);
                Ok(reply)
            }
            status => Err(Error::Refused { command: command.opcode(), status, syndrome: reply.syndrome() }),
        }
    }

    /// Creates an object from its context; returns its number.
    pub fn create(&self, opcode: AdminOpcode, context: &[u8]) -> Result<u32> {
        Ok(self.run(Command::of(opcode), context)?.object())
    }

    /// Destroys an object.
    pub fn destroy(&self, opcode: AdminOpcode, object: u32) -> Result<()> {
        self.run(Command::of(opcode).with_object(object), &[]).map(drop)
    }

    /// Reads the context of an object.
    pub fn query(&self, opcode: AdminOpcode, object: u32, context: &mut [u8]) -> Result<()> {
        self.read(Command::of(opcode).with_object(object), context)
    }

    /// Writes the command into the ring, and rings the doorbell.
    fn submit(&self, command: Command, tag: u16, input: &[u8], output: usize) {
        let inbox = usize::from(tag) * 2 * MAILBOX;
        let mut command = command.with_tag(tag);
        if !input.is_empty() {
            self.mail.write(inbox, input);
            command = command.with_in_iova(self.mail.iova() + inbox as u64).with_in_len(input.len() as u32);
        }
        if output != 0 {
            let outbox = inbox + MAILBOX;
            self.mail.write(outbox, &[0; MAILBOX][..output]);
            command = command.with_out_iova(self.mail.iova() + outbox as u64).with_out_len(output as u32);
        }
        *lock(&self.slots[usize::from(tag)]) = Slot::Waiting;
        let mut producer = lock(&self.producer);
        let at = (*producer % ENTRIES) as usize;
        self.commands.write(at * Command::BYTES, command.as_bytes());
        *producer = producer.wrapping_add(1);
        self.card.write32(regs::ASQ_DOORBELL, *producer);
    }

    /// Moves all replies in the ring to their slots.
    fn drain(&self) {
        // The holder of the lock does the work for all threads.
        let mut replies = match self.replies.try_lock() {
            Ok(replies) => replies,
            Err(TryLockError::Poisoned(replies)) => replies.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let mut any = false;
        let mut bytes = [0; Reply::BYTES];
        while replies.pop(&mut bytes) {
            any = true;
            let reply = Reply::from_bytes(&bytes);
            // A tag that was never used is the card's mistake: no thread waits for it.
            let Some(slot) = self.slots.get(usize::from(reply.tag())) else { continue };
            let mut slot = lock(slot);
            match *slot {
                Slot::Waiting => *slot = Slot::Done(reply),
                Slot::Abandoned => *slot = self.give_back(reply.tag()),
                Slot::Idle | Slot::Done(_) => (),
            }
        }
        if any {
            self.card.write32(regs::ACQ_CONSUMER, replies.consumer);
        }
    }

    /// Lets others have a slot.
    fn give_back(&self, tag: u16) -> Slot {
        let _ = self.free.push(tag);
        Slot::Idle
    }

    fn timed_out(&self, command: Command, after: Duration) -> Error {
        if self.card.read32(regs::ID) == u32::MAX {
            return CardError::Gone.into();
        }
        let lost = |status: &regs::Status| !status.ready() || status.error();
        let status = self.card.may_vanish().then(|| regs::Status(self.card.read32(regs::STATUS)));
        if let Some(status) = status.filter(lost) {
            return Error::Lost { status: status.0, cause: self.card.read32(regs::ERROR_CAUSE) };
        }
        Error::Timeout { command: command.opcode(), after }
    }
}
