//! Memory keys: rights, bounds, translation of wire addresses to DMA addresses.

use fpga_regs::{Access, MrMode, Syndrome};

use super::tables::{key_kind, Key};
use super::Device;
use crate::dma::{Addr, Pages};
use crate::env::Env;

/// Why a memory access was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// No such key, or it is invalidated.
    Invalid,
    /// Another protection domain (or, for a window, another QP).
    Domain,
    /// The right is missing.
    Rights,
    /// Outside the region.
    Bounds,
}

impl KeyError {
    /// Vendor syndrome of a local access.
    pub(super) fn syndrome(self) -> Syndrome {
        match self {
            KeyError::Invalid => Syndrome::LKEY_UNKNOWN,
            KeyError::Domain => Syndrome::LKEY_PD,
            KeyError::Rights => Syndrome::LKEY_ACCESS,
            KeyError::Bounds => Syndrome::LKEY_BOUNDS,
        }
    }

    /// That of a remote one.
    pub(super) fn remote_syndrome(self) -> Syndrome {
        match self {
            KeyError::Invalid => Syndrome::RKEY_UNKNOWN,
            KeyError::Domain => Syndrome::RKEY_PD,
            KeyError::Rights => Syndrome::RKEY_ACCESS,
            KeyError::Bounds => Syndrome::RKEY_BOUNDS,
        }
    }
}

/// A checked range: key index and offset within the region.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    key: u32,
    offset: u64,
}

impl Key {
    fn pages(&self, at: u64) -> Pages {
        let from = at + u64::from(self.first_offset);
        Pages { list: self.iova, from, domain: self.domain, shift: self.page_shift }
    }
}

impl Device {
    /// Checks that `[va, va + len)` may be accessed by `key` with all of `rights`.
    #[inline(always)]
    pub(crate) fn check_key(
        &self,
        pd: u32,
        qp: u32,
        key: u32,
        va: u64,
        len: u64,
        rights: Access,
    ) -> Result<Range, KeyError> {
        let index = (key >> 8) as usize;
        let k = self.keys.get(index).ok_or(KeyError::Invalid)?;
        if k.key != key || !k.valid.get() {
            return Err(KeyError::Invalid);
        }
        let window = k.kind != key_kind::MR;
        // QP 0 is for local keys, which a window's is not.
        if k.pd != pd || (window && (qp == 0 || k.kind == key_kind::MW2 && k.bound != qp)) {
            return Err(KeyError::Domain);
        }
        if k.access & rights.0 != rights.0 {
            return Err(KeyError::Rights);
        }
        let offset = va.wrapping_sub(k.va);
        if offset > k.length || k.length - offset < len {
            return Err(KeyError::Bounds);
        }
        if window {
            // The region cannot go while a window is bound to it.
            return Ok(Range { key: k.parent, offset: offset + k.window_offset });
        }
        Ok(Range { key: index as u32, offset })
    }

    /// The DMA address of byte `offset` of a checked range, and how many bytes follow contiguously.
    #[inline(always)]
    pub(crate) fn translate(&self, range: Range, offset: u64, env: &mut impl Env) -> Option<(Addr, u64)> {
        let k = &self.keys[range.key as usize];
        let at = range.offset + offset;
        if k.mode == MrMode::DIRECT {
            return Some((Addr { iova: k.iova, domain: k.domain }.add(at), k.length - at));
        }
        Self::translate_page(k, at, env)
    }

    #[cold]
    fn translate_page(k: &Key, at: u64, env: &mut impl Env) -> Option<(Addr, u64)> {
        k.pages(at).at(0, |at, entry| env.read(at, entry)).ok()
    }

    /// The pages from byte `offset` of a checked range on, of a region that is a list of them.
    pub(super) fn pages(&self, range: Range, offset: u64) -> Pages {
        self.keys[range.key as usize].pages(range.offset + offset)
    }
}
