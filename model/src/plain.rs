//! Types for which every pattern of bytes is a value, since the segment may hold any bytes.
//!
//! Each process of a net maps the segment and may write over it, and a killed one leaves torn values. A `bool` or an
//! `enum` that holds another pattern than its values is undefined behaviour before any code looks at it; so none
//! is in shared memory: `derive(Plain)` checks each field of a struct at compile time. What is an `enum` or has a `bool`
//! everywhere else is [`Kept`] there: its bytes, which are copied and looked at before they are taken for a value.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicI32, AtomicU16, AtomicU32, AtomicU64, AtomicU8};

use fpga_regs::{MrMode, QpContext, QpState, QpType, WqeCtrl, WqeSge};
pub(crate) use plain_derive::{Checked, Plain};

/// Every pattern of its bytes is a value. Declared here for what is nothing but integers, and derived.
pub trait Plain {}

macro_rules! all_plain {
    ($($type:ty),* $(,)?) => {
        $(impl Plain for $type {})*
    };
}

all_plain!(u8, u16, u32, u64, u128, i32, usize, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicI32, Flag);
all_plain!(fpga_regs::CardLimits, MrMode, QpContext, QpState, QpType, WqeCtrl, WqeSge);

impl<T: Plain, const N: usize> Plain for [T; N] {}
impl<T: Plain> Plain for UnsafeCell<T> {}
impl<A: Plain, B: Plain> Plain for (A, B) {}
impl<A: Plain, B: Plain, C: Plain> Plain for (A, B, C) {}

/// A value of zero bytes.
pub(crate) fn zeroed<T: Plain>() -> T {
    // SAFETY: every pattern of bytes is a value.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// Compiles if this is plain.
pub(crate) const fn is_plain<T: Plain + ?Sized>() {}

/// Of any bytes it can be said whether they are a value.
///
/// # Safety
/// [`is_one`](Checked::is_one) is true of nothing else than values.
pub unsafe trait Checked: Copy {
    /// Whether there is a value.
    ///
    /// # Safety
    /// There are bytes of this size, of which a value or zeroes were written first.
    unsafe fn is_one(at: *const Self) -> bool;
}

// SAFETY: every pattern of bytes is a value.
unsafe impl<T: Plain + Copy> Checked for T {
    #[inline(always)]
    unsafe fn is_one(_: *const T) -> bool {
        true
    }
}

// SAFETY: 0 and 1 are its values.
unsafe impl Checked for bool {
    #[inline(always)]
    unsafe fn is_one(at: *const bool) -> bool {
        // SAFETY: as the caller promises.
        unsafe { at.cast::<u8>().read() <= 1 }
    }
}

/// A `T` in shared memory, where somebody may have written over it. Zero bytes need not be a `T`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Kept<T: Copy>(MaybeUninit<T>);

impl<T: Copy> Plain for Kept<T> {}

impl<T: Checked> Kept<T> {
    /// Keeps it.
    #[inline(always)]
    pub fn new(it: T) -> Kept<T> {
        Kept(MaybeUninit::new(it))
    }

    /// Keeps something else.
    #[inline(always)]
    pub fn set(&mut self, it: T) {
        self.0.write(it);
    }

    /// What is kept; `None`: the bytes are not a value.
    #[inline(always)]
    pub fn read(&self) -> Option<T> {
        // SAFETY: a reference is readable. Volatile, so that what is looked at is the copy.
        let copy = unsafe { (&raw const self.0).read_volatile() };
        // SAFETY: nothing but values, and zeroes, is written here, but by those who write over everything.
        unsafe { T::is_one(copy.as_ptr()).then(|| copy.assume_init()) }
    }

    /// What is kept. Panics where it is no value: to the others that is the end of a thread that had the lock.
    #[inline(always)]
    pub fn get(&self) -> T {
        self.read().unwrap_or_else(|| damaged())
    }
}

#[cold]
fn damaged() -> ! {
    panic!("a program of the net has written over the cards' memory")
}

/// Yes or no: 0 is no, everything else yes.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Flag(u8);

impl Flag {
    /// No.
    pub const NO: Flag = Flag(0);
    /// Yes.
    pub const YES: Flag = Flag(1);

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

/// By what it says: several patterns are yes.
impl PartialEq for Flag {
    fn eq(&self, other: &Flag) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Flag {}

impl core::hash::Hash for Flag {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.get().hash(state);
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

    /// Something of each kind.
    #[derive(Checked, Clone, Copy, Debug, PartialEq)]
    struct Some3 {
        number: u32,
        yes: bool,
        one: One,
    }

    #[derive(Checked, Clone, Copy, Debug, PartialEq)]
    #[repr(C, u8)]
    enum One {
        Nothing,
        Word { word: u64 },
    }

    #[test]
    fn bytes_of_no_value_are_not_read() {
        let value = Some3 { number: 7, yes: true, one: One::Word { word: 9 } };
        let at = |offset: usize, byte: u8| {
            let mut kept = Kept::new(value);
            // SAFETY: within it.
            unsafe { (&raw mut kept).cast::<u8>().add(offset).write(byte) };
            kept
        };
        assert_eq!(Kept::new(value).read(), Some(value));
        assert_eq!(at(core::mem::offset_of!(Some3, yes), 0).get(), Some3 { yes: false, ..value });
        assert_eq!(at(core::mem::offset_of!(Some3, yes), 2).read(), None);
        assert_eq!(at(core::mem::offset_of!(Some3, one), 1).get(), value);
        assert_eq!(at(core::mem::offset_of!(Some3, one), 0).get().one, One::Nothing);
        assert_eq!(at(core::mem::offset_of!(Some3, one), 2).read(), None);
        assert_eq!(at(core::mem::offset_of!(Some3, number), 255).get().number, 255);
    }

    #[test]
    fn every_byte_is_yes_or_no() {
        // SAFETY: what is tested.
        let flag = |byte: u8| unsafe { core::mem::transmute::<u8, Flag>(byte) };
        assert!(!flag(0).get() && flag(1).get() && flag(2).get() && flag(255).get());
        let mut some = flag(0x80);
        assert!(some.take() && !some.get());
    }
}
