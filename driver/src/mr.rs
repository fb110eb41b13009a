//! Memory regions: user memory that the card can reach, with keys.
#![allow(unsafe_code)]

use std::sync::{Arc, Mutex, MutexGuard};

use fpga_regs::regs::FeatureSet;
use fpga_regs::{Access, AdminOpcode, Command, MrAttrMask, MrContext, MrMode};

use crate::card::Card;
use crate::device::Device;
use crate::dm::Dm;
use crate::dma::{Dma, PAGE};
use crate::error::{refuse_if, within, Error, Result};
use crate::lock;
use crate::pd::Pd;

/// A memory region.
pub struct Mr<C: Card> {
    dev: Arc<Device<C>>,
    key: u32,
    state: Mutex<State<C>>,
}

/// What a region is, until it is changed or destroyed.
struct State<C: Card> {
    pd: Arc<Pd<C>>,
    addr: u64,
    length: u64,
    wire_va: u64,
    access: Access,
    /// `None`: destroyed.
    memory: Option<Memory<C>>,
}

/// The memory that a region holds.
enum Memory<C: Card> {
    /// A range that this region mapped.
    Direct { iova: u64, addr: usize, len: usize },
    /// The page list; the pages belong to the caller.
    Pages(Dma<C>),
    /// None: it is found when it is accessed, or there is none.
    Unmapped,
}

/// What a region is to be, for [`Pd::reg_mr`] and [`Mr::modify`].
#[derive(Debug, Clone, Copy)]
pub struct Region {
    /// Its first byte.
    pub addr: *mut u8,
    /// Bytes.
    pub len: usize,
    /// The address from which peers and elements count.
    pub wire_va: u64,
    /// What may be done with it.
    pub access: Access,
    /// The card finds the memory when it accesses it, as the process has it then: nothing is mapped before, and there may
    /// be none.
    pub on_demand: bool,
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
    /// Registers memory of this process.
    ///
    /// # Safety
    /// The memory must stay valid until the region is destroyed (or, if it is found on demand, be fit for the card
    /// whenever it is there), and what the card writes into it (as `access` allows) must be expected by its owner.
    pub unsafe fn register(self: &Arc<Self>, region: &Region) -> Result<Arc<Mr<C>>> {
        let (context, memory) = self.place(region)?;
        self.create_region(region.addr as u64, &context, memory)
    }

    /// As [`register`](Self::register), of memory that is mapped now: `len` bytes at `addr`, which peers and elements
    /// address from `wire_va` on.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn reg_mr(
        self: &Arc<Self>,
        addr: *mut u8,
        len: usize,
        wire_va: u64,
        access: Access,
    ) -> Result<Arc<Mr<C>>> {
        // SAFETY: as the caller promises.
        unsafe { self.register(&Region { addr, len, wire_va, access, on_demand: false }) }
    }

    /// A region of no memory: it reads as zeros, what is written to it is lost, and it has all addresses. It has no R_Key.
    pub fn alloc_null_mr(self: &Arc<Self>) -> Result<Arc<Mr<C>>> {
        self.dev.need(FeatureSet::NULL_MR, "a null memory region")?;
        let context = self.context(u64::MAX, 0, Access::LOCAL_WRITE).with_mode(MrMode::NULL);
        self.create_region(0, &context, Memory::Unmapped)
    }

    /// A region of `len` bytes of the card's own memory, from byte `at` of `dm` on.
    pub fn reg_dm(self: &Arc<Self>, dm: &Dm<C>, at: u64, len: u64, access: Access) -> Result<Arc<Mr<C>>> {
        check_access(access)?;
        if !Arc::ptr_eq(&dm.object.dev, &self.dev) {
            return Err(Error::invalid("the card's memory and the protection domain are of one device"));
        }
        let iova = dm.place(at, len)?.into();
        let context = self.context(len, 0, access).with_mode(MrMode::ON_CARD).with_iova(iova);
        self.create_region(0, &context, Memory::Unmapped)
    }

    /// Makes a region's memory reachable: as the card is told, and what to undo later.
    fn place(&self, region: &Region) -> Result<(MrContext, Memory<C>)> {
        let Region { addr, len, wire_va, access, on_demand } = *region;
        self.check_region(region)?;
        let context = self.context(len as u64, wire_va, access);
        if on_demand {
            self.dev.need(FeatureSet::ON_DEMAND, "on-demand paging")?;
            let context = context.with_mode(MrMode::ON_DEMAND).with_iova(addr as u64);
            return Ok((context, Memory::Unmapped));
        }
        if len == 0 {
            return Ok((context.with_mode(MrMode::DIRECT), Memory::Unmapped));
        }
        let writable = access.intersects(Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
        let iova = self.dev.card().map(addr, len, writable)?;
        let memory = Memory::Direct { iova, addr: addr as usize, len };
        Ok((context.with_mode(MrMode::DIRECT).with_iova(iova), memory))
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
        refuse_if(list.length == 0, "pages of a memory region hold at least one byte")?;
        self.check_range(list.length, wire_va, access)?;
        within("bytes of a memory region", list.length, self.dev.limits().max_mr_size())?;
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
        self.create_region(0, &context, Memory::Pages(table))
    }

    fn check_region(&self, region: &Region) -> Result<()> {
        // All of a process's memory may be one region that is found on demand.
        if !region.on_demand {
            within("bytes of a memory region", region.len as u64, self.dev.limits().max_mr_size())?;
        }
        // As in Linux, which wants a page that the region touches.
        let nothing = region.len == 0 && (region.addr as usize) % PAGE == 0;
        refuse_if(nothing, "a memory region without bytes begins within a page")?;
        self.check_range(region.len as u64, region.wire_va, region.access)
    }

    fn check_range(&self, length: u64, wire_va: u64, access: Access) -> Result<()> {
        check_access(access)?;
        if !access.contains(Access::ZERO_BASED) && wire_va.checked_add(length.saturating_sub(1)).is_none() {
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
        refuse_if(u64::from(list.first_offset) >= size, "the first byte is not in the first page")?;
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

    fn create_region(
        self: &Arc<Self>,
        addr: u64,
        context: &MrContext,
        memory: Memory<C>,
    ) -> Result<Arc<Mr<C>>> {
        let key = match self.dev.admin().create(AdminOpcode::CREATE_MR, context.as_bytes()) {
            Ok(key) => key,
            Err(error) => return Err(self.dev.undo(memory, error)),
        };
        let state = State {
            pd: self.clone(),
            addr,
            length: context.length(),
            wire_va: context.va(),
            access: context.access(),
            memory: Some(memory),
        };
        Ok(Arc::new(Mr { dev: self.dev.clone(), key, state: Mutex::new(state) }))
    }
}

impl<C: Card> Device<C> {
    /// After a command that failed: unmaps what was mapped for it, unless the card may still execute it.
    fn undo(&self, memory: Memory<C>, error: Error) -> Error {
        match memory {
            Memory::Pages(table) if error.may_execute() => table.leak(),
            _ if error.may_execute() => (),
            memory => self.release(memory),
        }
        error
    }

    fn release(&self, memory: Memory<C>) {
        match memory {
            Memory::Direct { iova, addr, len } => self.card().unmap(iova, addr as *mut u8, len),
            Memory::Pages(table) => drop(table),
            Memory::Unmapped => (),
        }
    }
}

impl<C: Card> Mr<C> {
    fn state(&self) -> MutexGuard<'_, State<C>> {
        lock(&self.state)
    }

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
        self.state().addr
    }

    /// Bytes.
    pub fn length(&self) -> u64 {
        self.state().length
    }

    /// The address of its first byte in elements and on the wire.
    pub fn wire_va(&self) -> u64 {
        self.state().wire_va
    }

    /// Its access rights.
    pub fn access(&self) -> Access {
        self.state().access
    }

    /// Its protection domain.
    pub fn pd(&self) -> Arc<Pd<C>> {
        self.state().pd.clone()
    }

    /// Makes it another region, in `pd`, with the same keys; fails, and changes nothing, while a window is bound to it.
    ///
    /// # Safety
    /// As [`Pd::register`]; the memory of before is no longer used when this returns.
    pub unsafe fn modify(&self, pd: &Arc<Pd<C>>, region: &Region) -> Result<()> {
        self.dev.need(FeatureSet::MODIFY_MR, "changing a memory region")?;
        let mut state = self.state();
        if state.memory.is_none() {
            return Err(Error::Destroyed("memory region"));
        }
        refuse_if(!Arc::ptr_eq(&pd.dev, &self.dev), "a memory region stays with its device")?;
        let (context, memory) = pd.place(region)?;
        let all = MrAttrMask::TRANSLATION | MrAttrMask::PD | MrAttrMask::ACCESS;
        let command =
            Command::of(AdminOpcode::MODIFY_MR).with_object(self.key).with_param0(all.bits().into());
        if let Err(error) = self.dev.admin().run(command, context.as_bytes()) {
            return Err(self.dev.undo(memory, error));
        }
        if let Some(before) = state.memory.replace(memory) {
            self.dev.release(before);
        }
        state.pd = pd.clone();
        state.addr = region.addr as u64;
        (state.length, state.wire_va, state.access) = (context.length(), context.va(), context.access());
        Ok(())
    }

    /// Invalidates the keys and unmaps the memory; fails while a window is bound to it.
    pub fn destroy(&self) -> Result<()> {
        let mut state = self.state();
        if state.memory.is_none() {
            return Err(Error::Destroyed("memory region"));
        }
        self.dev.admin().destroy(AdminOpcode::DESTROY_MR, self.key)?;
        if let Some(memory) = state.memory.take() {
            self.dev.release(memory);
        }
        Ok(())
    }
}

impl<C: Card> Drop for Mr<C> {
    fn drop(&mut self) {
        let alive = self.state().memory.is_some();
        if alive && self.destroy().is_err() {
            // The card may still use the memory: it stays mapped, and a page list is leaked.
            if let Some(Memory::Pages(table)) = self.state().memory.take() {
                table.leak();
            }
        }
    }
}

fn check_access(access: Access) -> Result<()> {
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
    Ok(())
}
