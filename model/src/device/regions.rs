//! What the admin queue creates and destroys: memory regions and windows, and where a region's memory is.

use fpga_regs::{Access, AdminStatus, MrAttrMask, MrContext, MrMode, Syndrome};

use super::command_error::{refuse_if, Refused, FULL, IN_USE, NOT_FOUND};
use super::objects::owned;
use super::tables::*;
use super::Device;
use crate::dma::Addr;
use crate::env::Env;
use crate::plain::zeroed;

impl Device {
    /// A free key slot with a new variant of its key.
    pub(super) fn new_key(&mut self, f: u16, kind: u8, pd: u32) -> Result<usize, Refused> {
        let keys = &self.keys;
        let k = self.tables.key.take(1..MAX_KEYS, |i| keys[i].kind != key_kind::FREE).ok_or(FULL)?;
        let domain = self.functions[f as usize].domain;
        let key = &mut self.keys[k];
        let variant = (key.key as u8).wrapping_add(1);
        *key = Key {
            kind,
            mode: MrMode::DIRECT,
            domain,
            function: f,
            key: (k as u32) << 8 | variant as u32,
            pd,
            ..zeroed()
        };
        self.pds[pd as usize].users += 1;
        Ok(k)
    }

    pub(super) fn create_mr(&mut self, f: u16, m: &MrContext) -> Result<u32, Refused> {
        let pd = self.check_pd(f, m.pd())?;
        let access = region_access(m)?;
        let place = self.place(f, m)?;
        let k = self.new_key(f, key_kind::MR, pd as u32)?;
        let key = &mut self.keys[k];
        key.access = access;
        place.put(key);
        key.valid = true.into();
        let key = *key;
        self.count_region(&key, true);
        Ok(key.key)
    }

    /// Changes a region, whose key stays; not while a window is bound to it.
    pub(super) fn modify_mr(
        &mut self,
        f: u16,
        lkey: u32,
        mask: MrAttrMask,
        m: &MrContext,
        env: &mut impl Env,
    ) -> Result<(), Refused> {
        let k = (lkey >> 8) as usize;
        let Some(slot) = self.keys.get(k).copied().filter(|s| s.kind == key_kind::MR && s.key == lkey) else {
            return Err(NOT_FOUND);
        };
        owned(Some((true, slot.function)), f)?;
        refuse_if(mask.unknown() != 0, (AdminStatus::BAD_PARAM, Syndrome::RESERVED_SET))?;
        // Only memory of a process becomes other memory of it.
        let of_process = |domain: u16| domain & !Addr::ON_DEMAND == self.functions[f as usize].domain;
        if !of_process(slot.domain) || matches!(m.mode(), MrMode::NULL | MrMode::ON_CARD) {
            return Err((AdminStatus::NOT_SUPPORTED, Syndrome::NONE));
        }
        refuse_if(slot.bound != 0, IN_USE)?;
        let mut key = slot;
        if mask.contains(MrAttrMask::PD) {
            key.pd = self.check_pd(f, m.pd())? as u32;
        }
        if mask.contains(MrAttrMask::ACCESS) {
            key.access = region_access(m)?;
        }
        if mask.contains(MrAttrMask::TRANSLATION) {
            self.place(f, m)?.put(&mut key);
        }
        self.pds[slot.pd as usize].users -= 1;
        self.pds[key.pd as usize].users += 1;
        self.keys[k] = key;
        settle(&slot, env);
        Ok(())
    }

    /// Where a region's memory is.
    fn place(&self, f: u16, m: &MrContext) -> Result<Place, Refused> {
        let function = &self.functions[f as usize];
        let place = Place {
            mode: MrMode::DIRECT,
            page_shift: 0,
            domain: function.domain,
            va: m.va(),
            length: m.length(),
            iova: m.iova(),
            first_offset: 0,
        };
        let ends = m.va().checked_add(m.length()).is_some() && m.iova().checked_add(m.length()).is_some();
        let sized = ends && m.length() <= self.limits.max_mr_size();
        let too_large = (AdminStatus::LIMIT, Syndrome::BAD_SIZE);
        match m.mode() {
            MrMode::DIRECT if sized => Ok(Place { iova: m.iova().wrapping_add(self.dma_slip()), ..place }),
            MrMode::PAGE_LIST if sized => {
                let size_known =
                    m.page_shift() < 64 && self.limits.page_size_cap() >> m.page_shift() & 1 == 1;
                if !size_known || m.first_offset() as u64 >= 1 << m.page_shift() {
                    return Err((AdminStatus::BAD_PARAM, Syndrome::BAD_SIZE));
                }
                let (page_shift, first_offset) = (m.page_shift(), m.first_offset());
                Ok(Place { mode: MrMode::PAGE_LIST, page_shift, first_offset, ..place })
            }
            MrMode::NULL => Ok(Place { domain: Addr::NOWHERE, va: 0, length: u64::MAX, iova: 0, ..place }),
            // All of a process's memory may be one such region.
            MrMode::ON_DEMAND if !function.remote.get() => match ends {
                true => Ok(Place { domain: function.domain | Addr::ON_DEMAND, ..place }),
                false => Err(too_large),
            },
            MrMode::ON_CARD if ends => {
                self.part_of(f, m.iova(), m.length())?;
                Ok(Place { domain: Addr::ON_CARD | self.id, ..place })
            }
            MrMode::DIRECT | MrMode::PAGE_LIST => Err(too_large),
            _ => Err((AdminStatus::NOT_SUPPORTED, Syndrome::NONE)),
        }
    }

    pub(super) fn destroy_key(
        &mut self,
        f: u16,
        key: u32,
        window: bool,
        env: &mut impl Env,
    ) -> Result<(), Refused> {
        let k = (key >> 8) as usize;
        let slot = self.keys.get(k).copied();
        // A window's key changes with each bind: its owner may know an older variant.
        let known = |s: Key| match window {
            true => key_kind::is_window(s.kind),
            false => s.kind == key_kind::MR && s.key == key,
        };
        refuse_if(!slot.is_some_and(known), NOT_FOUND)?;
        owned(slot.map(|s| (true, s.function)), f)?;
        if window {
            self.unbind(k);
        } else if self.keys[k].bound != 0 {
            return Err(IN_USE);
        }
        self.keys[k].kind = key_kind::FREE;
        self.keys[k].valid = false.into();
        let freed = self.keys[k];
        if !window {
            self.count_region(&freed, false);
            settle(&freed, env);
        }
        let pd = self.keys[k].pd;
        self.pds[pd as usize].users -= 1;
        Ok(())
    }
}

/// Where a region's memory is, as its key has it.
struct Place {
    mode: MrMode,
    page_shift: u8,
    domain: u16,
    va: u64,
    length: u64,
    iova: u64,
    first_offset: u32,
}

impl Place {
    fn put(self, key: &mut Key) {
        let Place { mode, page_shift, domain, va, length, iova, first_offset } = self;
        *key = Key { mode, page_shift, domain, va, length, iova, first_offset, ..*key };
    }
}

/// What was written to a region that ends is there, and is not written to what has its memory next: nothing is unmapped
/// that would keep it from that.
pub(super) fn settle(region: &Key, env: &mut impl Env) {
    if region.domain & (Addr::ON_DEMAND | Addr::ON_CARD) != 0 {
        env.settle_payload(Addr { iova: 0, domain: region.domain }.process());
    }
}

/// The rights that a region may give; none to a peer where there is no memory.
fn region_access(m: &MrContext) -> Result<u8, Refused> {
    let access = m.access();
    let remote = Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC | Access::MW_BIND;
    let writes = access.intersects(Access::REMOTE_WRITE | Access::REMOTE_ATOMIC);
    let lacks = writes && !access.contains(Access::LOCAL_WRITE);
    if lacks || (m.mode() == MrMode::NULL && access.intersects(remote)) {
        return Err((AdminStatus::BAD_PARAM, Syndrome::BAD_ACCESS));
    }
    Ok(access.0)
}
