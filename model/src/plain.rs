//! Types for which every pattern of bytes is a value, since the segment may hold any bytes.
//!
//! Each process of a net maps the segment and may write over it, and a killed one leaves torn values. A `bool` or an
//! `enum` that holds another pattern than its values is undefined behaviour before any code looks at it; so none
//! is in shared memory. [`plain!`] lists the fields of a struct and checks each at compile time; a field that is
//! added must be listed. (The simulation's own tables, `sim`, are not: see `docs/segment.md`.)
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicI32, AtomicU16, AtomicU32, AtomicU64, AtomicU8};

use fpga_regs::{MrMode, QpContext, QpState, QpType, WqeCtrl, WqeSge};

/// Every pattern of its bytes is a value. Declared here for what is nothing but integers, and by [`plain!`].
pub trait Plain {}

macro_rules! all_plain {
    ($($type:ty),* $(,)?) => {
        $(impl Plain for $type {})*
    };
}

all_plain!(u8, u16, u32, u64, i32, usize, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicI32, Flag);
all_plain!(fpga_regs::CardLimits, MrMode, QpContext, QpState, QpType, WqeCtrl, WqeSge);

impl<T: Plain, const N: usize> Plain for [T; N] {}
impl<T: Plain> Plain for UnsafeCell<T> {}

/// Declares structs plain, with all of their fields.
macro_rules! plain {
    ($($type:ident $(<$n:ident>)? { $($field:ident),* $(,)? })*) => {$(
        impl $(<const $n: usize>)? $crate::plain::Plain for $type $(<$n>)? {}
        const _: () = {
            #[allow(dead_code)]
            fn check $(<const $n: usize>)? (it: &$type $(<$n>)?) {
                fn is<T: $crate::plain::Plain>(_: &T) {}
                let $type { $($field),* } = it;
                $(is($field);)*
            }
        };
    )*};
}
pub(crate) use plain;

/// Yes or no: 0 is no, everything else yes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Flag(u8);

impl Flag {
    /// No.
    pub const NO: Flag = Flag(0);

    /// What it says.
    #[inline(always)]
    pub const fn get(self) -> bool {
        self.0 != 0
    }

    /// Makes it no; gives what it was.
    #[inline(always)]
    pub fn take(&mut self) -> bool {
        core::mem::take(self).get()
    }
}

impl From<bool> for Flag {
    #[inline(always)]
    fn from(yes: bool) -> Flag {
        Flag(yes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_yes_or_no() {
        // SAFETY: what is tested.
        let flag = |byte: u8| unsafe { core::mem::transmute::<u8, Flag>(byte) };
        assert!(!flag(0).get() && flag(1).get() && flag(2).get() && flag(255).get());
        let mut some = flag(0x80);
        assert!(some.take() && !some.get());
    }
}
