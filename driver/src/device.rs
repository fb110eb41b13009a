//! An opened card function: everything else is created from it.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fpga_regs::regs::{self, FeatureSet, Status};
use fpga_regs::{AdminOpcode, CardLimits, EthernetLimits};

use crate::admin::{Admin, TIMEOUT};
use crate::bringup;
use crate::card::{Card, CardError};
use crate::dma::Records;
use crate::error::{CqError, Error, Result};
use crate::events::{Event, Events};
use crate::qp_table::QpTable;
use crate::rings::Rings;

/// Empty polls of a CQ between two checks of the card: a few milliseconds.
pub(crate) const CHECK_EVERY: u32 = 1 << 16;
/// Time between two checks of the card while a thread waits for an interrupt.
const CHECK_AFTER: Duration = Duration::from_millis(500);

/// An opened card function.
pub struct Device<C: Card> {
    card: Arc<C>,
    features: FeatureSet,
    limits: CardLimits,
    ethernet: EthernetLimits,
    node_guid: u64,
    page: u32,
    // In an Option so that the memory can be leaked if the card does not stop.
    queues: Option<Queues<C>>,
    pub(crate) qps: Arc<QpTable>,
}

/// What the card writes to while the function is enabled.
struct Queues<C: Card> {
    admin: Admin<C>,
    events: Events<C>,
    records: Records<C>,
    rings: Arc<Rings<C>>,
}

impl<C: Card> Device<C> {
    /// Identifies the card, resets it and brings its queues up; events raise interrupt vector 0.
    pub fn open(card: C) -> Result<Arc<Self>> {
        Self::open_on(card, 0)
    }

    /// As [`Device::open`], with events on another interrupt vector.
    pub fn open_on(card: C, vector: u32) -> Result<Arc<Self>> {
        let card = Arc::new(card);
        let features = bringup::identify(&*card)?.set();
        let node_guid = card.read64(regs::SERIAL);
        bringup::reset(&*card)?;
        let admin = Admin::new(&card)?;
        bringup::enable(&*card)?;
        match Self::start(&card, &admin, features, vector) {
            Ok((limits, ethernet, page, events)) => {
                let records = Records::new(&card);
                let rings = Rings::new(&card);
                let queues = Some(Queues { admin, events, records, rings });
                let qps = Arc::new(QpTable::new());
                Ok(Arc::new(Device { card, features, limits, ethernet, node_guid, page, queues, qps }))
            }
            Err(error) => {
                if bringup::reset(&*card).is_err() {
                    std::mem::forget(admin);
                }
                Err(error)
            }
        }
    }

    /// The first commands.
    fn start(
        card: &Arc<C>,
        admin: &Admin<C>,
        features: FeatureSet,
        vector: u32,
    ) -> Result<(CardLimits, EthernetLimits, u32, Events<C>)> {
        let mut bytes = [0; CardLimits::BYTES];
        admin.query(AdminOpcode::QUERY_CARD, 0, &mut bytes)?;
        let limits = CardLimits::from_bytes(&bytes);
        let mut bytes = [0; EthernetLimits::BYTES];
        if features.contains(FeatureSet::RSS) {
            admin.query(AdminOpcode::QUERY_ETHERNET, 0, &mut bytes)?;
        }
        let ethernet = EthernetLimits::from_bytes(&bytes);
        let page = admin.create(AdminOpcode::ALLOC_PAGE, &[])?;
        if page >= fpga_regs::DOORBELL_PAGES {
            return Err(Error::Protocol(format!("doorbell page {page} is outside BAR0")));
        }
        let events = Events::new(card, admin, vector)?;
        Ok((limits, ethernet, page, events))
    }

    /// What the card can do.
    pub fn limits(&self) -> &CardLimits {
        &self.limits
    }

    /// What it can do with whole Ethernet frames; zero without RSS.
    pub fn ethernet(&self) -> &EthernetLimits {
        &self.ethernet
    }

    /// What the card can do, bit by bit.
    pub fn features(&self) -> FeatureSet {
        self.features
    }

    /// The card's serial number, which is its node GUID.
    pub fn node_guid(&self) -> u64 {
        self.node_guid
    }

    /// The backend.
    #[inline]
    pub fn card(&self) -> &C {
        &self.card
    }

    /// The card's own clock, in nanoseconds.
    pub fn time(&self) -> u64 {
        self.card.read64(regs::TIME)
    }

    /// Changes the time-out of admin commands (5 seconds).
    pub fn set_command_timeout(&self, timeout: Duration) {
        self.admin().set_timeout(timeout);
    }

    pub(crate) fn card_arc(&self) -> &Arc<C> {
        &self.card
    }

    /// The doorbell page of this function's queues.
    pub(crate) fn page(&self) -> u32 {
        self.page
    }

    fn queues(&self) -> &Queues<C> {
        self.queues.as_ref().expect("taken only by drop")
    }

    pub(crate) fn admin(&self) -> &Admin<C> {
        &self.queues().admin
    }

    pub(crate) fn events(&self) -> &Events<C> {
        &self.queues().events
    }

    pub(crate) fn records(&self) -> &Records<C> {
        &self.queues().records
    }

    pub(crate) fn rings(&self) -> &Arc<Rings<C>> {
        &self.queues().rings
    }

    /// Fails with the feature's name if the card does not have it.
    pub(crate) fn need(&self, feature: FeatureSet, what: &'static str) -> Result<()> {
        match self.features.contains(feature) {
            true => Ok(()),
            false => Err(Error::Unsupported(what)),
        }
    }
}

impl<C: Card> Device<C> {
    /// Event vectors for CQs.
    pub fn eq_vectors(&self) -> u32 {
        1
    }

    /// Sleeps until there may be an event, the backend is woken, or `timeout` is over.
    pub fn wait_for_event(&self, timeout: Duration) -> Result<()> {
        self.wait_checked(self.events().vector, timeout).map(drop)
    }

    /// The next event. Waits up to `timeout` for an interrupt; `None` if none came, or one without an event
    /// (a wake-up, or the interrupt of an event that was returned before). Any number of threads may call.
    pub fn next_event(&self, timeout: Duration) -> Result<Option<Event>> {
        if let Some(event) = self.events().pop() {
            return Ok(Some(event));
        }
        if !timeout.is_zero() {
            self.wait_checked(self.events().vector, timeout)?;
        }
        Ok(self.events().pop())
    }
}

/// Whether the card is still there and as the driver left it.
impl<C: Card> Device<C> {
    /// Fails if the card is gone, was reset, or has failed, since it was opened.
    pub fn check(&self) -> Result<()> {
        let status = Status(self.card().read32(regs::STATUS));
        if status.0 == u32::MAX {
            return Err(CardError::Gone.into());
        }
        if status.ready() && !status.error() {
            return Ok(());
        }
        Err(Error::Lost { status: status.0, cause: self.card().read32(regs::ERROR_CAUSE) })
    }

    /// Waits until `enter` has entered a new object into a table. The card may have destroyed what had its number before, while
    /// the thread that asked for that has still to take it out. False: nobody does.
    pub(crate) fn takes_number(&self, enter: impl Fn() -> bool) -> bool {
        let deadline = Instant::now() + TIMEOUT;
        for spins in 0.. {
            if enter() {
                return true;
            }
            if Instant::now() >= deadline {
                break;
            }
            self.card().relax(spins);
        }
        false
    }

    /// [`Device::check`] for a CQ that stays empty.
    #[cold]
    pub(crate) fn check_polled(&self) -> std::result::Result<(), CqError> {
        match self.check() {
            Ok(()) => Ok(()),
            Err(Error::Lost { .. }) => Err(CqError::Lost),
            Err(_) => Err(CqError::Gone),
        }
    }

    /// Waits for an interrupt; if the card may vanish, checks it from time to time.
    pub(crate) fn wait_checked(&self, vector: u32, timeout: Duration) -> Result<bool> {
        if !self.card().may_vanish() {
            return Ok(self.card().wait_interrupt(vector, timeout)?);
        }
        let until = Instant::now().checked_add(timeout);
        loop {
            let left = until.map_or(CHECK_AFTER, |until| until.saturating_duration_since(Instant::now()));
            if self.card().wait_interrupt(vector, left.min(CHECK_AFTER))? {
                return Ok(true);
            }
            self.check()?;
            if left <= CHECK_AFTER && until.is_some() {
                return Ok(false);
            }
        }
    }
}

impl<C: Card> Drop for Device<C> {
    fn drop(&mut self) {
        // If this fails (or panics) the card may still write to its rings: they are leaked then.
        let queues = ManuallyDrop::new(self.queues.take());
        if bringup::reset(&*self.card).is_ok() {
            drop(ManuallyDrop::into_inner(queues));
        }
    }
}
