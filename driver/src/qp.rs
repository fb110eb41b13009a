//! Queue pairs: create and destroy. `qp_modify.rs` moves them through their states.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use fpga_regs::{AdminOpcode, Command, QpContext, QpState, QpType};

use crate::card::Card;
use crate::cq::lock_both;
use crate::device::Device;
use crate::dma::Dma;
use crate::error::{Error, Result};
use crate::lock;
use crate::pd::Pd;
use crate::qp_attr::{QpCaps, QpInit};
use crate::qp_size::Sizes;
use crate::qp_table::{QpLine, SendShadow};
use crate::rq_ring::{RqRing, RqSize};
use crate::rss::Table;
use crate::spin::Spin;
use crate::sq_ring::{SqRing, SqSize};
use crate::sq_shape;
use crate::xrc::Xrcd;

/// A queue pair.
pub struct Qp<C: Card> {
    pub(crate) sq: Spin<SqRing<C>>,
    pub(crate) rq: Spin<RqRing<C>>,
    pub(crate) control: Mutex<Control<C>>,
    qpn: u32,
    qp_type: QpType,
    pub(crate) dev: Arc<Device<C>>,
    of: Of<C>,
    // Completions reach these through the QP table, so they are freed after the QP has left the table.
    _send_shadow: Box<[SendShadow]>,
    _recv_shadow: Box<[AtomicU64]>,
}

/// What a queue pair belongs to.
pub(crate) enum Of<C: Card> {
    /// A protection domain: it has queues.
    Pd { _pd: Arc<Pd<C>>, init: QpInit<C> },
    /// An XRC domain: it only receives.
    Xrcd { xrcd: Arc<Xrcd<C>> },
    /// An indirection table: the frames go to the queues of that.
    Table { _pd: Arc<Pd<C>>, _table: Arc<Table<C>> },
}

/// What the calls that change the QP share.
pub(crate) struct Control<C: Card> {
    /// The state as last set or seen.
    pub state: QpState,
    /// As last set; the card wants it only in the addresses of datagrams.
    pub static_rate: u8,
    /// It was not destroyed.
    alive: bool,
    /// The rings, if it has queues and was not destroyed.
    memory: Option<Dma<C>>,
}

impl<C: Card> Control<C> {
    fn new(memory: Option<Dma<C>>) -> Self {
        Control { state: QpState::RESET, static_rate: 0, alive: true, memory }
    }
}

impl<C: Card> Pd<C> {
    /// A queue pair in RESET.
    pub fn create_qp(self: &Arc<Self>, init: &QpInit<C>) -> Result<Arc<Qp<C>>> {
        let dev = &self.dev;
        let sizes = Sizes::new(dev, init)?;
        if !Arc::ptr_eq(&init.send_cq.dev, dev) || !Arc::ptr_eq(&init.recv_cq.dev, dev) {
            return Err(Error::invalid("the CQs of a QP must be of the same device"));
        }
        let mut init = init.clone();
        init.caps = sizes.caps;
        let own = || dev.rings().alloc(sizes.bytes());
        let memory = Dma::lent(dev.card_arc(), self.lender.as_ref(), sizes.bytes(), own)?;
        let context = sizes
            .context(&memory)
            .with_qp_type(init.qp_type)
            .with_pd(self.pdn())
            .with_send_cq(init.send_cq.cqn())
            .with_recv_cq(init.recv_cq.cqn())
            .with_has_srq(init.srq.is_some())
            .with_srq(init.srq.as_ref().map_or(0, |srq| srq.srqn()))
            .with_sq_sig_all(init.sq_sig_all)
            .with_strip_vlan(init.offloads.strip_vlan)
            .with_scatter_fcs(init.offloads.scatter_fcs)
            .with_page(dev.page() as u16);
        let (memory, qpn) = memory.after(dev.admin().create(AdminOpcode::CREATE_QP, context.as_bytes()))?;
        let send_shadow: Box<[SendShadow]> =
            (0..1u32 << sizes.sq.log).map(|_| SendShadow::default()).collect();
        let recv_shadow: Box<[AtomicU64]> = (0..1u32 << sizes.rq.log).map(|_| AtomicU64::new(0)).collect();
        let fill = |line: &QpLine| {
            line.send_cqn.store(init.send_cq.cqn(), Ordering::Relaxed);
            line.recv_cqn.store(init.recv_cq.cqn(), Ordering::Relaxed);
            line.sq_mask.store((1 << sizes.sq.log) - 1, Ordering::Relaxed);
            line.sq_shadow.store(send_shadow.as_ptr().cast_mut(), Ordering::Relaxed);
            line.sq_retired.store(0, Ordering::Relaxed);
            line.rq_shadow.store(recv_shadow.as_ptr().cast_mut(), Ordering::Relaxed);
            line.rq_mask.store((1 << sizes.rq.log) - 1, Ordering::Relaxed);
            line.rq_retired.store(0, Ordering::Relaxed);
            let srq = init.srq.as_ref().map_or(std::ptr::null(), |srq| std::ptr::from_ref(srq.shared()));
            line.srq.store(srq.cast_mut(), Ordering::Relaxed);
            line.sq.store(std::ptr::null_mut(), Ordering::Relaxed);
        };
        if !dev.takes_number(|| dev.qps.insert(qpn, fill)) {
            let undone = dev.admin().destroy(AdminOpcode::DESTROY_QP, qpn);
            if undone.is_err() {
                memory.leak();
            }
            return Err(Error::Protocol(format!("QPN {qpn:#x} has the low 16 bits of another QP's")));
        }
        let line = dev.qps.line(qpn);
        // The PD holds the device, and that the card.
        let card = dev.card();
        let page = dev.page();
        let mut flags = sq_shape::kind(init.qp_type).unwrap_or_default();
        if init.sq_sig_all {
            flags |= sq_shape::SIGNAL_ALL;
        }
        if init.offloads.tso {
            flags |= sq_shape::CUTS;
        }
        // One cache line each.
        const { assert!(size_of::<Spin<SqRing<C>>>() == 64 && size_of::<Spin<RqRing<C>>>() == 64) };
        let rq_at = memory.ptr().wrapping_add(sizes.rq_offset());
        let qp = Arc::new(Qp {
            sq: Spin::new(SqRing::new(dev, memory.ptr(), send_shadow.as_ptr(), &sizes.sq, qpn, page, flags)),
            rq: Spin::new(RqRing::new(card, rq_at, recv_shadow.as_ptr(), line, &sizes.rq, qpn, page)),
            control: Mutex::new(Control::new(Some(memory))),
            qpn,
            qp_type: init.qp_type,
            dev: dev.clone(),
            of: Of::Pd { _pd: self.clone(), init },
            _send_shadow: send_shadow,
            _recv_shadow: recv_shadow,
        });
        line.sq.store((&raw const qp.sq).cast_mut().cast(), Ordering::Relaxed);
        Ok(qp)
    }
}

/// Queue pairs that receive for all SRQs of a domain. They have no queues, and belong to the domain: any function that has it
/// open may hold one, which exists until the last has let go.
impl<C: Card> Xrcd<C> {
    /// A receiving queue pair in RESET.
    pub fn create_qp(self: &Arc<Self>) -> Result<Arc<Qp<C>>> {
        let context = QpContext::new()
            .with_qp_type(QpType::XRC_RECV)
            .with_xrcd(self.number())
            .with_page(self.object.dev.page() as u16);
        let qpn = self.object.dev.admin().create(AdminOpcode::CREATE_QP, context.as_bytes())?;
        Ok(Qp::of_domain(self, qpn))
    }

    /// Holds a receiving queue pair of the domain that another function has created. `NOT_FOUND` if there is none.
    pub fn open_qp(self: &Arc<Self>, qpn: u32) -> Result<Arc<Qp<C>>> {
        let command = Command::of(AdminOpcode::OPEN_QP).with_object(qpn).with_param0(self.number().into());
        self.object.dev.admin().run(command, &[])?;
        Ok(Qp::of_domain(self, qpn))
    }
}

impl<C: Card> Qp<C> {
    fn of_domain(xrcd: &Arc<Xrcd<C>>, qpn: u32) -> Arc<Self> {
        Self::without_queues(&xrcd.object.dev, qpn, QpType::XRC_RECV, Of::Xrcd { xrcd: xrcd.clone() })
    }

    /// One whose queues take nothing.
    pub(crate) fn without_queues(dev: &Arc<Device<C>>, qpn: u32, qp_type: QpType, of: Of<C>) -> Arc<Self> {
        let page = dev.page();
        let sq = SqSize { log: 0, max_count: 0, max_inline: 0, max_sge: 0 };
        let rq = RqSize { log: 0, stride_log: 0, max_count: 0, max_sge: 0 };
        let none = std::ptr::null_mut;
        let line = dev.qps.line(qpn);
        Arc::new(Qp {
            sq: Spin::new(SqRing::new(dev, none(), std::ptr::null(), &sq, qpn, page, 0)),
            rq: Spin::new(RqRing::new(dev.card(), none(), std::ptr::null(), line, &rq, qpn, page)),
            control: Mutex::new(Control::new(None)),
            qpn,
            qp_type,
            dev: dev.clone(),
            of,
            _send_shadow: Box::default(),
            _recv_shadow: Box::default(),
        })
    }

    /// Its number, as the peer and events know it.
    #[inline]
    pub fn qpn(&self) -> u32 {
        self.qpn
    }

    /// Its transport.
    pub fn qp_type(&self) -> QpType {
        self.qp_type
    }

    /// What it was created with, its sizes as granted; `None` if it has no queues.
    pub fn init(&self) -> Option<&QpInit<C>> {
        match &self.of {
            Of::Pd { init, .. } => Some(init),
            Of::Xrcd { .. } | Of::Table { .. } => None,
        }
    }

    /// Sizes as granted.
    pub fn caps(&self) -> &QpCaps {
        const NONE: QpCaps =
            QpCaps { max_send_wr: 0, max_recv_wr: 0, max_send_sge: 0, max_recv_sge: 0, max_inline: 0 };
        self.init().map_or(&NONE, |init| &init.caps)
    }

    /// Its device.
    pub fn device(&self) -> &Arc<Device<C>> {
        &self.dev
    }

    /// The state as last set, or seen by a query; the card may have moved it to an error state since.
    pub fn state(&self) -> QpState {
        lock(&self.control).state
    }

    /// Destroys it on the card, and removes its completions from the CQs.
    pub fn destroy(&self) -> Result<()> {
        let mut control = lock(&self.control);
        if !control.alive {
            return Err(Error::Destroyed("QP"));
        }
        // No post writes to the rings from here on.
        self.gate(QpState::RESET);
        let xrcd = match &self.of {
            Of::Pd { .. } | Of::Table { .. } => 0,
            Of::Xrcd { xrcd } => xrcd.number(),
        };
        let command = Command::of(AdminOpcode::DESTROY_QP).with_object(self.qpn).with_param0(xrcd.into());
        if let Err(error) = self.dev.admin().run(command, &[]) {
            self.gate(control.state);
            return Err(error);
        }
        self.forget(true);
        control.alive = false;
        control.memory = None;
        Ok(())
    }

    /// Removes this QP's completions from the CQs; if `gone`, also its line from the table.
    pub(crate) fn forget(&self, gone: bool) {
        let Some(init) = self.init() else { return };
        let (mut first, mut second) = lock_both(&init.send_cq, &init.recv_cq);
        for ring in std::iter::once(&mut first).chain(second.as_mut()) {
            ring.clean(|cqe| {
                if cqe.qpn() != self.qpn {
                    return false;
                }
                if let (Some(srq), true) = (&init.srq, cqe.recv()) {
                    // The receive was consumed: its slot is free again.
                    srq.shared().lock().complete(cqe.wqe_index());
                }
                true
            });
        }
        if gone {
            self.dev.qps.remove(self.qpn);
        } else {
            self.sq.lock().reset();
            self.rq.lock().reset();
        }
    }
}

impl<C: Card> Drop for Qp<C> {
    fn drop(&mut self) {
        let alive = lock(&self.control).alive;
        if alive && self.destroy().is_err() {
            // The card may still write to the rings and complete requests: their memory is kept.
            self.forget(true);
            if let Some(memory) = lock(&self.control).memory.take() {
                memory.leak();
            }
        }
    }
}
