//! Zeroed memory that costs only what is used of it.
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::io;
use std::ops::{Deref, DerefMut};

use crate::device::Device;
use crate::plain::Plain;
use crate::sim::state::{CardTime, Sim, SimOf};
use crate::world::{World, WorldOf};

/// A value in a mapping of its own, which began as zeroes.
pub(crate) struct Zeroed<T: ?Sized> {
    at: *mut T,
    bytes: usize,
}

// SAFETY: it owns the value, like a box.
unsafe impl<T: ?Sized + Send> Send for Zeroed<T> {}

/// A mapping of zeroes, of which only the pages take memory that are written.
fn map(layout: Layout) -> io::Result<(*mut u8, usize)> {
    assert!(layout.align() <= 4096, "a page is aligned enough");
    let bytes = layout.size().max(1);
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY: a new mapping at an address of the kernel's choice.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // A page of 2 MiB for each place that is used would be hundreds of times as much.
    // SAFETY: advice about our own mapping.
    unsafe { libc::madvise(at, bytes, libc::MADV_NOHUGEPAGE) };
    Ok((at.cast(), bytes))
}

/// A mapping for a struct whose last field, a slice at `offset`, has `count` items, and which is an `Empty` without any.
fn with_tail<Empty, T: Plain>(offset: usize, count: usize) -> io::Result<(*mut [T], usize)> {
    let tail = Layout::array::<T>(count).expect("it fits into the address space");
    let layout = Layout::from_size_align(offset + tail.size(), align_of::<Empty>());
    let (at, bytes) = map(layout.expect("it fits into the address space").pad_to_align())?;
    Ok((std::ptr::slice_from_raw_parts_mut(at.cast(), count), bytes))
}

impl<T: Plain> Zeroed<T> {
    /// One of them.
    pub fn new() -> io::Result<Self> {
        let (at, bytes) = map(Layout::new::<T>())?;
        Ok(Zeroed { at: at.cast(), bytes })
    }
}

impl<T: Plain> Zeroed<[T]> {
    /// So many of them.
    pub fn of(count: usize) -> io::Result<Self> {
        let (at, bytes) = map(Layout::array::<T>(count).expect("it fits into the address space"))?;
        Ok(Zeroed { at: std::ptr::slice_from_raw_parts_mut(at.cast(), count), bytes })
    }
}

impl Zeroed<World> {
    /// With so many cards.
    pub fn of_cards(count: usize) -> io::Result<Self> {
        type Empty = WorldOf<[Device; 0]>;
        let (cards, bytes) = with_tail::<Empty, Device>(std::mem::offset_of!(Empty, cards), count)?;
        Ok(Zeroed { at: cards as *mut World, bytes })
    }
}

impl Zeroed<Sim> {
    /// With so many cards.
    pub fn of_cards(count: usize) -> io::Result<Self> {
        type Empty = SimOf<[CardTime; 0]>;
        let (cards, bytes) = with_tail::<Empty, CardTime>(std::mem::offset_of!(Empty, cards), count)?;
        Ok(Zeroed { at: cards as *mut Sim, bytes })
    }
}

impl<T: ?Sized> Deref for Zeroed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: of the type's size, and all of its bytes are a value: they were zeroes, of a type that is plain.
        unsafe { &*self.at }
    }
}

impl<T: ?Sized> DerefMut for Zeroed<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and borrowed for writing.
        unsafe { &mut *self.at }
    }
}

impl<T: ?Sized> Drop for Zeroed<T> {
    fn drop(&mut self) {
        // SAFETY: our own mapping; what is plain needs no drop.
        unsafe { libc::munmap(self.at.cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_size_of_its_type() {
        for count in [0, 1, 5] {
            let (world, sim) =
                (Zeroed::<World>::of_cards(count).unwrap(), Zeroed::<Sim>::of_cards(count).unwrap());
            assert_eq!((size_of_val(&*world), size_of_val(&*sim)), (world.bytes, sim.bytes));
            assert_eq!((world.cards.len(), sim.cards.len()), (count, count));
        }
    }
}
