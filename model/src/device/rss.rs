//! Receive side scaling: indirection tables of receive work queues, and which of these a frame goes to.

use std::sync::atomic::{compiler_fence, Ordering::SeqCst};

use fpga_regs::{AdminStatus, EthernetLimits, HashFields, QpType, Syndrome, TableContext};

use super::command_error::{Refused, DMA_FAULT, FULL, IN_USE};
use super::objects::owned;
use super::pacing::RATES;
use super::segment::MAX_TSO;
use super::tables::{Indirection, MAX_ENTRIES, MAX_INDIRECTIONS};
use super::Device;
use crate::dma::Addr;
use crate::env::Env;
use crate::packet::PortId;
use crate::steering::{toeplitz, Copy, Fields};

impl Indirection {
    /// Its entries; never past the end, whatever is in shared memory.
    fn entries(&self) -> &[u16] {
        &self.entries[..(1 << self.log_size.min(MAX_ENTRIES.ilog2() as u8))]
    }
}

impl Device {
    /// QUERY_ETHERNET.
    pub(super) fn ethernet_limits(&self) -> EthernetLimits {
        EthernetLimits::new()
            .with_max_tables(MAX_INDIRECTIONS as u32)
            .with_max_table_entries(MAX_ENTRIES as u32)
            .with_max_wq(self.limits.max_qp())
            .with_hash_fields(HashFields::ALL)
            .with_max_tso(MAX_TSO)
            .with_min_rate_limit(*RATES.start())
            .with_max_rate_limit(*RATES.end())
    }

    /// The table of a number, if it is this function's.
    pub(super) fn check_table(&self, f: u16, table: u32) -> Result<usize, Refused> {
        let table = table as usize;
        owned(self.indirections.get(table).map(|table| (table.used.get(), table.function)), f)?;
        Ok(table)
    }

    /// CREATE_TABLE.
    pub(super) fn create_table(
        &mut self,
        f: u16,
        context: &TableContext,
        env: &mut impl Env,
    ) -> Result<u32, Refused> {
        let made = self.read_table(f, context, env)?;
        let tables = &self.indirections;
        let free = self.tables.indirection.take(0..MAX_INDIRECTIONS, |n| tables[n].used.get());
        let n = free.ok_or(FULL)?;
        // In this order: a table that counts is whole, whenever a process dies.
        self.indirections[n] = Indirection { used: false.into(), ..made };
        compiler_fence(SeqCst);
        self.indirections[n].used = true.into();
        Ok(n as u32)
    }

    /// MODIFY_TABLE: its size stays.
    pub(super) fn modify_table(
        &mut self,
        f: u16,
        table: u32,
        context: &TableContext,
        env: &mut impl Env,
    ) -> Result<(), Refused> {
        let n = self.check_table(f, table)?;
        if context.log_size() != self.indirections[n].log_size {
            return Err((AdminStatus::BAD_PARAM, Syndrome::BAD_SIZE));
        }
        self.indirections[n] = self.read_table(f, context, env)?;
        Ok(())
    }

    /// DESTROY_TABLE: not while a queue pair has it.
    pub(super) fn destroy_table(&mut self, f: u16, table: u32) -> Result<(), Refused> {
        let n = self.check_table(f, table)?;
        let mut qps = self.qps[self.tables.qp.range()].iter();
        if qps
            .any(|qp| qp.used.get() && qp.qp_type == QpType::RX_HASH && qp.attributes.table_number() == table)
        {
            return Err(IN_USE);
        }
        self.indirections[n].used = false.into();
        Ok(())
    }

    fn read_table(&self, f: u16, context: &TableContext, env: &mut impl Env) -> Result<Indirection, Refused> {
        if usize::from(context.log_size()) > MAX_ENTRIES.ilog2() as usize {
            return Err((AdminStatus::LIMIT, Syndrome::BAD_SIZE));
        }
        let mut made = Indirection {
            used: true.into(),
            log_size: context.log_size(),
            function: f,
            entries: [0; MAX_ENTRIES],
        };
        let mut bytes = [0; 4 * MAX_ENTRIES];
        let bytes = &mut bytes[..4 << context.log_size()];
        let at = Addr { iova: context.entries_iova(), domain: self.functions[f as usize].domain };
        env.read(at, bytes).map_err(|_| DMA_FAULT)?;
        for (entry, number) in made.entries.iter_mut().zip(bytes.chunks_exact(4)) {
            let number = number.try_into().map_or(0, u32::from_le_bytes);
            let q = self.check_qp(f, number)?;
            if self.qps[q].qp_type != QpType::WQ {
                return Err((AdminStatus::BAD_PARAM, Syndrome::ATTR_NOT_ALLOWED));
            }
            *entry = q as u16;
        }
        Ok(made)
    }

    /// Whether it may spread frames over work queues.
    pub(crate) fn spreads_frames(&self) -> bool {
        self.indirections[self.tables.indirection.range()].iter().any(|table| table.used.get())
    }

    /// Whether an indirection table names a work queue.
    pub(super) fn is_in_table(&self, q: usize) -> bool {
        let mut tables =
            self.indirections[self.tables.indirection.range()].iter().filter(|table| table.used.get());
        tables.any(|table| table.entries().contains(&(q as u16)))
    }

    /// Frees the tables of a function. Its queue pairs are free before.
    pub(super) fn free_tables(&mut self, f: u16) {
        // What was never used takes no memory.
        let tables = self.indirections[self.tables.indirection.range()].iter_mut();
        tables.filter(|table| table.function == f).for_each(|table| table.used = false.into());
    }

    /// The copy of a frame that has come to a port, known to software as `port`, whose rule names this queue pair, if it takes frames there.
    pub(super) fn copy_for(&self, q: u16, (at, port): (PortId, u8), fields: &Fields) -> Option<Copy> {
        let qp = self.qps.get(usize::from(q)).filter(|qp| qp.used.get())?;
        let copy = Copy { at, queue: q, hash: 0, marked: false.into(), mark: 0 };
        match qp.qp_type {
            QpType::RAW_PACKET => (qp.port.port == port).then_some(copy),
            QpType::RX_HASH => {
                let table = self.indirections.get(qp.attributes.table_number() as usize)?;
                let hash = toeplitz(&qp.attributes.hash_key(), fields, qp.attributes.hash_fields());
                let entries = table.entries();
                // The low bits of the hash: a table has a power of two of entries.
                let queue = entries[hash as usize & (entries.len() - 1)];
                let to = self.qps.get(usize::from(queue))?;
                (to.used.get() && to.qp_type == QpType::WQ).then_some(Copy { queue, hash, ..copy })
            }
            _ => None,
        }
    }
}
