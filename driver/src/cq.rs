//! Completion queues: create, arm, resize, destroy.
//!
//! The consumer index has 32 bits and wraps; entry `i` is at `i mod size` and has the phase bit of its lap.
//! A resize keeps the running index: the card moves the entries that were not consumed to their places in
//! the new ring. The driver holds the CQ's lock meanwhile, so the consumer index record is exact.
#![allow(unsafe_code)]

use std::sync::{Arc, Mutex};

use fpga_regs::regs::FeatureSet;
use fpga_regs::{AdminOpcode, Command, CqArm, CqContext, Cqe, DOORBELL_CQ_ARM};

use crate::card::Card;
use crate::cq_ring::CqRing;
use crate::device::Device;
use crate::dma::{Dma, Record};
use crate::error::{refuse_if, within, Error, Result};
use crate::lock;
use crate::pd::Pd;
use crate::spin::{Guard, Spin};

/// A completion queue.
pub struct Cq<C: Card> {
    pub(crate) hot: Spin<CqRing>,
    pub(crate) dev: Arc<Device<C>>,
    cqn: u32,
    arm: u32,
    stamped: bool,
    pd: Option<Arc<Pd<C>>>,
    record: Record,
    ring: Mutex<Option<Dma<C>>>,
}

/// What to choose for a completion queue.
pub struct CqOptions<C: Card> {
    /// The card's time is in its completions ([`crate::Wc::timestamp`]).
    pub stamped: bool,
    /// The domain whose lender, if it has one, lends the memory of its ring; it stays while the queue does.
    pub pd: Option<Arc<Pd<C>>>,
}

impl<C: Card> Default for CqOptions<C> {
    fn default() -> Self {
        CqOptions { stamped: false, pd: None }
    }
}

const _: () = assert!(size_of::<Spin<CqRing>>() == 64);

impl<C: Card> Device<C> {
    /// A completion queue of at least `entries`, which reports to event vector `eq_vector`.
    pub fn create_cq(self: &Arc<Self>, entries: u32, eq_vector: u32) -> Result<Arc<Cq<C>>> {
        self.create_cq_with(entries, eq_vector, CqOptions::default())
    }

    /// The same, with more to choose.
    pub fn create_cq_with(
        self: &Arc<Self>,
        entries: u32,
        eq_vector: u32,
        options: CqOptions<C>,
    ) -> Result<Arc<Cq<C>>> {
        let CqOptions { stamped, pd } = options;
        if stamped {
            self.need(FeatureSet::TIMESTAMP, "completion timestamps")?;
        }
        if pd.as_ref().is_some_and(|pd| !Arc::ptr_eq(&pd.dev, self)) {
            return Err(Error::invalid("the protection domain of a CQ must be of the same device"));
        }
        within("event vector of a CQ", eq_vector, self.eq_vectors() - 1)?;
        let log = self.log_entries(entries)?;
        let memory = self.cq_memory(pd.as_deref(), log)?;
        let record = self.records().alloc()?;
        let context = self.cq_context(&memory, record, log).with_stamped(stamped);
        let created = self.admin().create(AdminOpcode::CREATE_CQ, context.as_bytes());
        let (memory, cqn) = memory.after(created.inspect_err(|_| self.records().free(record)))?;
        Ok(Arc::new(Cq {
            hot: Spin::new(CqRing::new(memory.ptr(), log, cqn, record, self.qps.clone())),
            dev: self.clone(),
            cqn,
            arm: fpga_regs::doorbell_page(self.page()) + DOORBELL_CQ_ARM,
            stamped,
            pd,
            record,
            ring: Mutex::new(Some(memory)),
        }))
    }

    /// Log2 of the size of a ring for `entries`.
    fn log_entries(&self, entries: u32) -> Result<u32> {
        refuse_if(entries == 0, "a CQ needs at least one entry")?;
        within("entries of a CQ", entries, self.limits().max_cqe())?;
        Ok(entries.next_power_of_two().trailing_zeros())
    }

    fn cq_memory(&self, pd: Option<&Pd<C>>, log: u32) -> Result<Dma<C>> {
        let (card, bytes) = (self.card_arc(), Cqe::BYTES << log);
        Ok(Dma::lent(card, pd.and_then(|pd| pd.lender.as_ref()), bytes, || Dma::alloc(card, bytes))?)
    }

    fn cq_context(&self, memory: &Dma<C>, record: Record, log: u32) -> CqContext {
        CqContext::new()
            .with_ring_iova(memory.iova())
            .with_ci_iova(record.iova)
            .with_log_size(log as u8)
            .with_vector(self.events().eqn as u8)
            .with_page(self.page() as u16)
    }
}

impl<C: Card> Cq<C> {
    /// Its number, as events name it.
    pub fn cqn(&self) -> u32 {
        self.cqn
    }

    /// Entries of the ring, at least the number asked for.
    pub fn entries(&self) -> u32 {
        self.hot.lock().entries()
    }

    /// Its device.
    pub fn device(&self) -> &Arc<Device<C>> {
        &self.dev
    }

    /// Asks for one event at the next completion (or the next solicited or failed one).
    #[inline]
    pub fn arm(&self, solicited_only: bool) {
        let index = self.hot.lock().consumer();
        let value = CqArm::new(self.cqn, solicited_only, index);
        self.dev.card().doorbell(self.arm, value.0);
    }

    /// Holds its events back until they tell of `count` completions, for at most `period_us` microseconds; not at all if
    /// that is 0.
    pub fn moderate(&self, count: u16, period_us: u16) -> Result<()> {
        self.dev.need(FeatureSet::MODERATION, "moderating the events of a CQ")?;
        let context = CqContext::new().with_event_count(count).with_event_period(period_us);
        let command = Command::of(AdminOpcode::MODIFY_CQ).with_object(self.cqn);
        self.dev.admin().run(command, context.as_bytes()).map(drop)
    }

    /// Changes the size to at least `entries`; refuses fewer than wait to be polled.
    pub fn resize(&self, entries: u32) -> Result<()> {
        self.dev.need(FeatureSet::RESIZE_CQ, "resizing a CQ")?;
        let log = self.dev.log_entries(entries)?;
        let mut ring = lock(&self.ring);
        if ring.is_none() {
            return Err(Error::Destroyed("CQ"));
        }
        let memory = self.dev.cq_memory(self.pd.as_deref(), log)?;
        // Held during the command: no thread may consume from the old ring meanwhile.
        let mut hot = self.hot.lock();
        if hot.pending() > 1 << log {
            return Err(Error::Invalid(format!(
                "{} completions wait in the CQ, more than the new size: poll first",
                hot.pending()
            )));
        }
        let mut next = CqRing::new(memory.ptr(), log, self.cqn, self.record, self.dev.qps.clone());
        next.blank(hot.consumer());
        let context = self.dev.cq_context(&memory, self.record, log).with_stamped(self.stamped);
        let command = Command::of(AdminOpcode::RESIZE_CQ).with_object(self.cqn);
        let (memory, _) = memory.after(self.dev.admin().run(command, context.as_bytes()))?;
        *hot = next;
        drop(hot);
        *ring = Some(memory);
        Ok(())
    }

    /// Destroys it; fails while a QP uses it.
    pub fn destroy(&self) -> Result<()> {
        let mut ring = lock(&self.ring);
        if ring.is_none() {
            return Err(Error::Destroyed("CQ"));
        }
        self.dev.admin().destroy(AdminOpcode::DESTROY_CQ, self.cqn)?;
        self.hot.lock().close();
        drop(ring.take());
        self.dev.records().free(self.record);
        Ok(())
    }
}

impl<C: Card> Drop for Cq<C> {
    fn drop(&mut self) {
        if self.destroy().is_err() {
            if let Some(memory) = lock(&self.ring).take() {
                memory.leak();
            }
        }
    }
}

/// Both CQs of a QP, locked in the order of their numbers; the second is `None` where they are the same.
pub(crate) fn lock_both<'a, C: Card>(
    send: &'a Cq<C>,
    recv: &'a Cq<C>,
) -> (Guard<'a, CqRing>, Option<Guard<'a, CqRing>>) {
    if send.cqn == recv.cqn {
        return (send.hot.lock(), None);
    }
    let (first, second) = if send.cqn < recv.cqn { (send, recv) } else { (recv, send) };
    let first = first.hot.lock();
    (first, Some(second.hot.lock()))
}
