//! Shared receive queues, ordinary ones and those of an XRC domain.
#![allow(unsafe_code)]

use std::sync::atomic::{fence, Ordering};
use std::sync::{Arc, Mutex};

use fpga_regs::regs::FeatureSet;
use fpga_regs::{AdminOpcode, Command, SrqContext, SrqDoorbell, DOORBELL_SRQ, MAX_SGE};

use crate::card::Card;
use crate::cq::Cq;
use crate::dma::Dma;
use crate::error::{refuse_if, within, Error, PostError, Result};
use crate::lock;
use crate::pd::Pd;
use crate::put::put_recv;
use crate::spin::{Guard, Spin};
use crate::srq_ring::{Slot, SrqRing, SrqShared};
use crate::wr::Sge;
use crate::xrc::Xrcd;

/// Sizes and limit of an SRQ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SrqAttr {
    /// Outstanding receives.
    pub max_wr: u32,
    /// Elements of a receive.
    pub max_sge: u32,
    /// An event is raised when fewer receives than this are left; 0 is never.
    pub limit: u32,
}

bitflags::bitflags! {
    /// What [`Srq::modify`] changes; the numbers of `enum ibv_srq_attr_mask`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct SrqAttrMask: u32 {
        /// `max_wr` (not supported).
        const MAX_WR = 1 << 0;
        /// `limit`.
        const LIMIT = 1 << 1;
        const _ = !0;
    }
}

/// The domain of an XRC SRQ, and where its receives complete.
type Extended<C> = (Arc<Xrcd<C>>, Arc<Cq<C>>);

/// A shared receive queue.
pub struct Srq<C: Card> {
    // Boxed: completions reach it by its address.
    shared: Box<SrqShared>,
    pub(crate) pd: Arc<Pd<C>>,
    card: Arc<C>,
    srqn: u32,
    attr: SrqAttr,
    memory: Mutex<Option<Dma<C>>>,
    extended: Option<Extended<C>>,
}

impl<C: Card> Pd<C> {
    /// A shared receive queue.
    pub fn create_srq(self: &Arc<Self>, attr: &SrqAttr) -> Result<Arc<Srq<C>>> {
        self.make_srq(attr, None)
    }

    /// A shared receive queue of an XRC domain, whose receives complete to `cq`.
    pub fn create_xrc_srq(
        self: &Arc<Self>,
        attr: &SrqAttr,
        xrcd: &Arc<Xrcd<C>>,
        cq: &Arc<Cq<C>>,
    ) -> Result<Arc<Srq<C>>> {
        if !Arc::ptr_eq(&xrcd.object.dev, &self.dev) || !Arc::ptr_eq(&cq.dev, &self.dev) {
            return Err(Error::invalid("the domain and the CQ of an SRQ must be of the same device"));
        }
        self.make_srq(attr, Some((xrcd.clone(), cq.clone())))
    }

    fn make_srq(self: &Arc<Self>, attr: &SrqAttr, extended: Option<Extended<C>>) -> Result<Arc<Srq<C>>> {
        let dev = &self.dev;
        dev.need(FeatureSet::SRQ, "a shared receive queue")?;
        let limits = dev.limits();
        // A WQE has 16 bits for a slot and for the next entry.
        let max_wr = limits.max_srq_wr().min(1 << 15);
        let max_sge = limits.max_srq_sge().min(MAX_SGE as u32);
        refuse_if(attr.max_wr == 0, "an SRQ needs max_wr of at least 1")?;
        within("max_wr of an SRQ", attr.max_wr, max_wr)?;
        within("max_sge of an SRQ", attr.max_sge, max_sge)?;
        within("limit of an SRQ", attr.limit, attr.max_wr)?;
        // One more than can be outstanding: see `srq_ring.rs`.
        let log = (attr.max_wr + 1).next_power_of_two().trailing_zeros();
        let stride_log = fpga_regs::recv_stride_log(attr.max_sge as usize);
        let (card, bytes) = (dev.card_arc(), 1 << (log + u32::from(stride_log)));
        let memory = Dma::lent(card, self.lender.as_ref(), bytes, || Dma::alloc(card, bytes))?;
        let context = SrqContext::new()
            .with_pd(self.pdn())
            .with_ring_iova(memory.iova())
            .with_log_size(log as u8)
            .with_stride_log(stride_log)
            .with_page(dev.page() as u16)
            .with_limit(attr.limit)
            .with_max_sge(attr.max_sge as u8)
            .with_xrcd(extended.as_ref().map_or(0, |(xrcd, _)| xrcd.number()))
            .with_cq(extended.as_ref().map_or(0, |(_, cq)| cq.cqn()));
        let (memory, srqn) = memory.after(dev.admin().create(AdminOpcode::CREATE_SRQ, context.as_bytes()))?;
        let ring = SrqRing {
            entries: memory.ptr(),
            slots: vec![Slot::default(); attr.max_wr as usize].into(),
            free: (0..attr.max_wr as u16).rev().collect(),
            free_count: attr.max_wr,
            head: 0,
            srqn,
            mask: (1 << log) - 1,
            stride_log,
            max_sge: attr.max_sge as u8,
            page: dev.page() as u8,
        };
        let srq = Arc::new(Srq {
            shared: Box::new(Spin::new(ring)),
            pd: self.clone(),
            card: dev.card_arc().clone(),
            srqn,
            attr: *attr,
            memory: Mutex::new(Some(memory)),
            extended,
        });
        if let Some((_, cq)) = &srq.extended {
            if !dev.takes_number(|| dev.qps.insert_srq(srqn, cq.cqn(), &srq.shared)) {
                return Err(Error::Protocol(format!(
                    "SRQ number {srqn:#x} is another's, or larger than the driver's table"
                )));
            }
        }
        Ok(srq)
    }
}

impl<C: Card> Srq<C> {
    /// Its number, as events name it.
    pub fn srqn(&self) -> u32 {
        self.srqn
    }

    /// Its protection domain.
    pub fn pd(&self) -> &Arc<Pd<C>> {
        &self.pd
    }

    pub(crate) fn shared(&self) -> &SrqShared {
        &self.shared
    }

    /// Sizes as granted.
    pub fn attr(&self) -> &SrqAttr {
        &self.attr
    }

    /// Arms the limit event: it is raised once when fewer receives than `attr.limit` are left.
    pub fn modify(&self, attr: &SrqAttr, mask: SrqAttrMask) -> Result<()> {
        if mask.contains(SrqAttrMask::MAX_WR) {
            return Err(Error::Unsupported("resizing an SRQ (MAX_WR)"));
        }
        if !(mask - SrqAttrMask::LIMIT).is_empty() {
            return Err(Error::Invalid(format!(
                "SRQ attribute mask {:#x}: only LIMIT is known",
                mask.bits()
            )));
        }
        if !mask.contains(SrqAttrMask::LIMIT) {
            return Ok(());
        }
        within("limit of an SRQ", attr.limit, self.attr.max_wr)?;
        let context = SrqContext::new().with_pd(self.pd.pdn()).with_limit(attr.limit);
        let command = Command::of(AdminOpcode::MODIFY_SRQ).with_object(self.srqn);
        self.pd.dev.admin().run(command, context.as_bytes()).map(drop)
    }

    /// Sizes as granted, and the limit that is armed now.
    pub fn query(&self) -> Result<SrqAttr> {
        let mut bytes = [0; SrqContext::BYTES];
        self.pd.dev.admin().query(AdminOpcode::QUERY_SRQ, self.srqn, &mut bytes)?;
        let limit = SrqContext::from_bytes(&bytes).limit();
        Ok(SrqAttr { limit, ..self.attr })
    }

    /// Begins a chain of receives.
    #[inline]
    pub fn post(&self) -> SrqPost<'_, C> {
        let ring = self.shared.lock();
        let (head, free_count) = (ring.head, ring.free_count);
        SrqPost { ring, card: &self.card, head, free_count }
    }

    /// Destroys it; fails while a QP uses it.
    pub fn destroy(&self) -> Result<()> {
        let mut memory = lock(&self.memory);
        if memory.is_none() {
            return Err(Error::Destroyed("SRQ"));
        }
        self.pd.dev.admin().destroy(AdminOpcode::DESTROY_SRQ, self.srqn)?;
        self.forget();
        self.shared.lock().entries = std::ptr::null_mut();
        drop(memory.take());
        Ok(())
    }

    /// Removes the completions of an XRC SRQ from its CQ, and the SRQ from the table in which they find it.
    fn forget(&self) {
        if let Some((_, cq)) = &self.extended {
            let mut ring = cq.hot.lock();
            ring.clean(|cqe| cqe.recv() && cqe.srqn() == self.srqn);
            self.pd.dev.qps.remove_srq(self.srqn, &self.shared);
        }
    }
}

impl<C: Card> Drop for Srq<C> {
    fn drop(&mut self) {
        if self.destroy().is_err() {
            if let Some(memory) = lock(&self.memory).take() {
                self.forget();
                memory.leak();
            }
        }
    }
}

/// A chain of receives under construction. Holds the SRQ's lock; dropping it without [`SrqPost::ring`]
/// posts nothing.
pub struct SrqPost<'a, C: Card> {
    ring: Guard<'a, SrqRing>,
    card: &'a C,
    head: u32,
    free_count: u32,
}

impl<C: Card> SrqPost<'_, C> {
    /// Writes one receive. After an error the ones before it are still in the chain: ring or drop it.
    #[inline]
    pub fn push(&mut self, wr_id: u64, sges: &[Sge]) -> std::result::Result<(), PostError> {
        let ring = &mut *self.ring;
        if sges.len() > usize::from(ring.max_sge) {
            return Err(PostError::Invalid("more elements than the SRQ's max_sge"));
        }
        if ring.entries.is_null() {
            return Err(PostError::State);
        }
        let Some(left) = self.free_count.checked_sub(1) else { return Err(PostError::QueueFull) };
        let slot = ring.free[left as usize];
        // `waiting` is set when the chain is rung.
        ring.slots[usize::from(slot)].wr_id = wr_id;
        let at = self.head & ring.mask;
        let to = ring.entries.wrapping_add((at as usize) << ring.stride_log);
        let next = (at + 1) & ring.mask;
        // SAFETY: the card has taken the entry's last WQE; the entry is in the ring and takes max_sge elements.
        unsafe { put_recv(to, sges, slot.into(), next as u16) };
        self.free_count = left;
        self.head = self.head.wrapping_add(1);
        Ok(())
    }

    /// Tells the card of the chain: one barrier, one doorbell. Nothing for an empty chain.
    ///
    /// By reference, as [`crate::SendPost::ring`].
    #[inline]
    pub fn ring(&mut self) {
        let ring = &mut *self.ring;
        if self.head == ring.head {
            return;
        }
        for index in self.free_count..ring.free_count {
            let slot = ring.free[index as usize];
            ring.slots[usize::from(slot)].waiting = true;
        }
        ring.head = self.head;
        ring.free_count = self.free_count;
        // All WQE bytes before the doorbell.
        fence(Ordering::Release);
        let at = fpga_regs::doorbell_page(ring.page.into()) + DOORBELL_SRQ;
        self.card.doorbell(at, SrqDoorbell::new(ring.srqn, self.head).0);
    }
}
