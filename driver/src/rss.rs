//! Receive side scaling: receive work queues, indirection tables of them, and queue pairs that spread frames over these.
//!
//! A work queue is a queue pair that has a receive queue only, so everything that fills, reaps and moves one is that of
//! [`Qp`].

use std::sync::{Arc, Mutex};

use fpga_regs::regs::FeatureSet;
use fpga_regs::{
    AdminOpcode, Command, HashFields, HashFunction, QpAttrMask, QpContext, QpType, TableContext, HASH_KEY,
};

use crate::card::Card;
use crate::cq::Cq;
use crate::device::Device;
use crate::dma::Dma;
use crate::error::{refuse_if, Error, Result};
use crate::lock;
use crate::object::Object;
use crate::pd::Pd;
use crate::qp::{Of, Qp};
use crate::qp_attr::{Offloads, QpCaps, QpInit};

const WHAT: &str = "receive work queues";

/// The queues of an indirection table, in the order of its entries.
type Queues<C> = Box<[Arc<Qp<C>>]>;

impl<C: Card> Qp<C> {
    /// Whether a receive work queue strips VLAN tags, from the next frame on.
    pub fn set_strip_vlan(&self, strip: bool) -> Result<()> {
        self.dev.need(FeatureSet::STRIP_VLAN, "VLAN stripping that changes while a work queue is there")?;
        let command = Command::of(AdminOpcode::MODIFY_QP)
            .with_object(self.qpn())
            .with_param0(QpAttrMask::STRIP_VLAN.0.into());
        self.dev.admin().run(command, QpContext::new().with_strip_vlan(strip).as_bytes()).map(drop)
    }
}

/// An indirection table. Its queues cannot be destroyed while it names them.
pub struct Table<C: Card> {
    /// First: destroyed before what it uses.
    object: Object<C>,
    queues: Mutex<Queues<C>>,
}

impl<C: Card> Pd<C> {
    /// A receive work queue in RESET: it takes receives from RTR on, and completes them to `cq`, without the frames' VLAN
    /// tags if it is to strip them. Frames come to it through an indirection table.
    pub fn create_wq(
        self: &Arc<Self>,
        cq: &Arc<Cq<C>>,
        (max_wr, max_sge): (u32, u32),
        offloads: Offloads,
    ) -> Result<Arc<Qp<C>>> {
        refuse_if(max_wr == 0, "a receive work queue needs max_wr of at least 1")?;
        let caps = QpCaps { max_recv_wr: max_wr, max_recv_sge: max_sge, ..QpCaps::default() };
        self.create_qp(&QpInit { offloads, ..QpInit::new(QpType::WQ, cq, caps) })
    }

    /// A queue pair without queues and states. The frames that its flow rules name go to the work queues of a table, by
    /// the Toeplitz hash of their `fields`.
    pub fn create_hash_qp(
        self: &Arc<Self>,
        table: &Arc<Table<C>>,
        fields: HashFields,
        key: &[u8; HASH_KEY],
    ) -> Result<Arc<Qp<C>>> {
        let dev = &self.dev;
        if !Arc::ptr_eq(&table.object.dev, dev) {
            return Err(Error::invalid("the indirection table of a QP must be of the same device"));
        }
        if !dev.ethernet().hash_fields().contains(fields) {
            return Err(Error::Unsupported("one of the fields to hash"));
        }
        let context = QpContext::new()
            .with_qp_type(QpType::RX_HASH)
            .with_pd(self.pdn())
            .with_page(dev.page() as u16)
            .with_table_number(table.object.number)
            .with_hash_fields(fields)
            .with_hash_function(HashFunction::TOEPLITZ)
            .with_hash_key(*key);
        let qpn = dev.admin().create(AdminOpcode::CREATE_QP, context.as_bytes())?;
        let of = Of::Table { _pd: self.clone(), _table: table.clone() };
        Ok(Qp::without_queues(dev, qpn, QpType::RX_HASH, of))
    }
}

impl<C: Card> Device<C> {
    /// An indirection table of work queues; a power of two of them, and one may be there more than once.
    pub fn create_table(self: &Arc<Self>, queues: &[Arc<Qp<C>>]) -> Result<Arc<Table<C>>> {
        self.need(FeatureSet::RSS, WHAT)?;
        let command = Command::of(AdminOpcode::CREATE_TABLE);
        let number = self.write_table(command, queues)?;
        let queues = Mutex::new(queues.into());
        let object = Object::new(self, "indirection table", AdminOpcode::DESTROY_TABLE, number);
        Ok(Arc::new(Table { object, queues }))
    }

    fn write_table(self: &Arc<Self>, command: Command, queues: &[Arc<Qp<C>>]) -> Result<u32> {
        let most = self.ethernet().max_table_entries() as usize;
        if !queues.len().is_power_of_two() || queues.len() > most {
            return Err(Error::Invalid(format!(
                "an indirection table of {} entries: it must be a power of two, at most {most}",
                queues.len()
            )));
        }
        if queues.iter().any(|wq| wq.qp_type() != QpType::WQ || !Arc::ptr_eq(&wq.dev, self)) {
            return Err(Error::invalid("an indirection table has receive work queues of the same device"));
        }
        let numbers: Vec<u8> = queues.iter().flat_map(|wq| wq.qpn().to_le_bytes()).collect();
        let memory = Dma::alloc(self.card_arc(), numbers.len())?;
        memory.write(0, &numbers);
        let context = TableContext::new()
            .with_entries_iova(memory.iova())
            .with_log_size(queues.len().trailing_zeros() as u8);
        let (_, reply) = memory.after(self.admin().run(command, context.as_bytes()))?;
        Ok(reply.object())
    }
}

impl<C: Card> Table<C> {
    /// Its number.
    pub fn number(&self) -> u32 {
        self.object.number
    }

    /// The queue of each entry.
    pub fn queues(&self) -> Vec<Arc<Qp<C>>> {
        lock(&self.queues).to_vec()
    }

    /// Exchanges all entries, between two frames; as many as it had.
    pub fn modify(&self, queues: &[Arc<Qp<C>>]) -> Result<()> {
        let mut old = lock(&self.queues);
        let command = Command::of(AdminOpcode::MODIFY_TABLE).with_object(self.object.number);
        self.object.dev.write_table(command, queues)?;
        *old = queues.into();
        Ok(())
    }

    /// Destroys it; fails while a queue pair uses it.
    pub fn destroy(&self) -> Result<()> {
        self.object.destroy()
    }
}
