//! Memory regions: user memory that the card can reach, with keys.
#![allow(unsafe_code)]

use std::sync::{Arc, Mutex, PoisonError};

use fpga_regs::{Access, AdminOpcode, MrContext, MrMode};

use crate::card::Card;
use crate::dma::Dma;
use crate::error::{within, Error, Result};
use crate::pd::Pd;

/// A memory region.
pub struct Mr<C: Card> {
    pd: Arc<Pd<C>>,
    key: u32,
    addr: u64,
    length: u64,
    wire_va: u64,
    access: Access,
    memory: Mutex<Option<Memory<C>>>,
}

/// The memory that a region holds until it is destroyed.
enum Memory<C: Card> {
    /// A range that this region mapped.
    Direct { iova: u64, addr: usize, len: usize },
    /// The page list; the pages belong to the caller.
    Pages(Dma<C>),
}

/// Memory given as a list of pages for [`Pd::reg_pages`].
#[derive(Debug, Clone, Copy)]
pub struct PageList<'a> {
    /// DMA addresses of the pages, each aligned to the page size.
    pub pages: &'a [u64],
    /// Log2 of the page size.
    pub page_shift: u8,
    /// Offset of the first byte in the first page.
    pub first_offset: u32,
    /// Bytes of the region.
    pub length: u64,
}

impl<C: Card> Pd<C> {
    /// Registers `len` bytes at `addr`; peers and elements address them from `wire_va` on.
    ///
    /// # Safety
    /// The memory must stay valid until the region is destroyed, and what the card writes into it
    /// (as `access` allows) must be expected by its owner.
    pub unsafe fn reg_mr(
        self: &Arc<Self>,
        addr: *mut u8,
        len: usize,
        wire_va: u64,
        access: Access,
    ) -> Result<Arc<Mr<C>>> {
        self.check_region(len as u64, wire_va, access)?;
        let card = self.dev.card();
        let writable = access.intersects(Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
        let iova = card.map(addr, len, writable)?;
        let context = self.context(len as u64, wire_va, access).with_mode(MrMode::DIRECT).with_iova(iova);
        match self.create_region(&context) {
            Ok(key) => {
                let memory = Memory::Direct { iova, addr: addr as usize, len };
                Ok(self.region(key, addr as u64, &context, memory))
            }
            // After a time-out the card may still create the region: the memory stays mapped.
            Err(error @ (Error::Timeout { .. } | Error::Lost { .. })) => Err(error),
            Err(error) => {
                card.unmap(iova, addr, len);
                Err(error)
            }
        }
    }

    /// Registers memory that is already mapped, page by page.
    ///
    /// # Safety
    /// As [`Pd::reg_mr`]; also, the pages must stay mapped for the card until the region is destroyed.
    pub unsafe fn reg_pages(
        self: &Arc<Self>,
        list: &PageList<'_>,
        wire_va: u64,
        access: Access,
    ) -> Result<Arc<Mr<C>>> {
        self.check_region(list.length, wire_va, access)?;
        self.check_pages(list)?;
        let table = Dma::alloc(self.dev.card_arc(), list.pages.len() * 8)?;
        for (index, page) in list.pages.iter().enumerate() {
            table.write(index * 8, &page.to_le_bytes());
        }
        let context = self
            .context(list.length, wire_va, access)
            .with_mode(MrMode::PAGE_LIST)
            .with_page_shift(list.page_shift)
            .with_first_offset(list.first_offset)
            .with_iova(table.iova());
        match self.create_region(&context) {
            Ok(key) => Ok(self.region(key, 0, &context, Memory::Pages(table))),
            Err(error) => Err(table.after(error)),
        }
    }

    fn check_region(&self, length: u64, wire_va: u64, access: Access) -> Result<()> {
        if access.unknown() != 0 {
            return Err(Error::Invalid(format!("access flags {access}: some are not known")));
        }
        if access.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC)
            && !access.contains(Access::LOCAL_WRITE)
        {
            return Err(Error::invalid(
                "remote write and remote atomic need local write: add LOCAL_WRITE to the access flags",
            ));
        }
        if length == 0 {
            return Err(Error::invalid("a memory region needs at least one byte"));
        }
        within("bytes of a memory region", length, self.dev.limits().max_mr_size())?;
        if !access.contains(Access::ZERO_BASED) && wire_va.checked_add(length - 1).is_none() {
            return Err(Error::invalid("the memory region's addresses wrap around"));
        }
        Ok(())
    }

    fn check_pages(&self, list: &PageList<'_>) -> Result<()> {
        if list.page_shift >= 64 || self.dev.limits().page_size_cap() >> list.page_shift & 1 == 0 {
            return Err(Error::Invalid(format!(
                "pages of 2^{} bytes: the card has no such page size",
                list.page_shift
            )));
        }
        let size = 1u64 << list.page_shift;
        if u64::from(list.first_offset) >= size {
            return Err(Error::invalid("the first byte is not in the first page"));
        }
        if list.pages.iter().any(|page| page % size != 0) {
            return Err(Error::invalid("a page of the list is not aligned to the page size"));
        }
        let need = (u64::from(list.first_offset) + list.length).div_ceil(size);
        if (list.pages.len() as u64) != need {
            return Err(Error::Invalid(format!("{} pages given, the region takes {need}", list.pages.len())));
        }
        Ok(())
    }

    fn context(&self, length: u64, wire_va: u64, access: Access) -> MrContext {
        let va = if access.contains(Access::ZERO_BASED) { 0 } else { wire_va };
        MrContext::new().with_pd(self.pdn()).with_access(access).with_va(va).with_length(length)
    }

    fn create_region(&self, context: &MrContext) -> Result<u32> {
        self.dev.admin().create(AdminOpcode::CREATE_MR, context.as_bytes())
    }

    fn region(self: &Arc<Self>, key: u32, addr: u64, context: &MrContext, memory: Memory<C>) -> Arc<Mr<C>> {
        Arc::new(Mr {
            pd: self.clone(),
            key,
            addr,
            length: context.length(),
            wire_va: context.va(),
            access: context.access(),
            memory: Mutex::new(Some(memory)),
        })
    }
}

impl<C: Card> Mr<C> {
    /// Key for elements of local work requests.
    pub fn lkey(&self) -> u32 {
        self.key
    }

    /// Key for peers.
    pub fn rkey(&self) -> u32 {
        self.key
    }

    /// Where this process sees it (0 for a page list).
    pub fn addr(&self) -> u64 {
        self.addr
    }

    /// Bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The address of its first byte in elements and on the wire.
    pub fn wire_va(&self) -> u64 {
        self.wire_va
    }

    /// Its access rights.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Its protection domain.
    pub fn pd(&self) -> &Arc<Pd<C>> {
        &self.pd
    }

    /// Invalidates the keys and unmaps the memory; fails while a window is bound to it.
    pub fn destroy(&self) -> Result<()> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.is_none() {
            return Err(Error::Destroyed("memory region"));
        }
        self.pd.dev.admin().destroy(AdminOpcode::DESTROY_MR, self.key)?;
        match memory.take() {
            Some(Memory::Direct { iova, addr, len }) => self.pd.dev.card().unmap(iova, addr as *mut u8, len),
            Some(Memory::Pages(table)) => drop(table),
            None => (),
        }
        Ok(())
    }
}

impl<C: Card> Drop for Mr<C> {
    fn drop(&mut self) {
        let alive = self.memory.get_mut().unwrap_or_else(PoisonError::into_inner).is_some();
        if alive && self.destroy().is_err() {
            // The card may still use the memory: it stays mapped, and a page list is leaked.
            if let Some(Memory::Pages(table)) =
                self.memory.get_mut().unwrap_or_else(PoisonError::into_inner).take()
            {
                table.leak();
            }
        }
    }
}
