//! Stores into a WQE: 16 bytes, elements, a whole receive.
#![allow(unsafe_code)]

use fpga_regs::RecvHead;

use crate::wr::Sge;

// An element is copied into the WQE unchanged.
#[cfg(not(target_endian = "little"))]
compile_error!("Sge is copied to the card as it is in memory: a little-endian processor is needed");
const _: () = assert!(size_of::<Sge>() == fpga_regs::WqeSge::BYTES);

/// Stores 16 bytes as two words.
///
/// # Safety
/// `to` is writable for 16 bytes and aligned to 8.
#[inline(always)]
pub(crate) unsafe fn put16(to: *mut u8, bytes: &[u8; 16]) {
    let value = u128::from_le_bytes(*bytes);
    let to = to.cast::<u64>();
    // SAFETY: as the caller promises.
    unsafe {
        to.write(value as u64);
        to.add(1).write((value >> 64) as u64);
    }
}

/// Copies elements.
///
/// # Safety
/// `to` is writable for all of them and aligned to 8.
#[inline(always)]
pub(crate) unsafe fn put_sges(to: *mut u8, sges: &[Sge]) {
    // SAFETY: as the caller promises.
    unsafe {
        match sges {
            [one] => put_sge(to, one),
            many => many.iter().enumerate().for_each(|(index, sge)| put_sge(to.add(index * 16), sge)),
        }
    }
}

/// # Safety
/// As [`put_sges`], for one.
#[inline(always)]
unsafe fn put_sge(to: *mut u8, sge: &Sge) {
    let to = to.cast::<u64>();
    // SAFETY: as the caller promises; the words are those of WqeSge.
    unsafe {
        // Volatile, so that the two words are not read as one: the caller has just stored them one by one, and one wide
        // load would wait until both stores are done.
        to.write((&raw const sge.addr).read_volatile());
        let (length, lkey) = ((&raw const sge.length).read_volatile(), (&raw const sge.lkey).read_volatile());
        to.add(1).write(u64::from(length) | u64::from(lkey) << 32);
    }
}

/// Writes a receive WQE.
///
/// # Safety
/// `to` is writable for the head and all elements and aligned to 16.
#[inline]
pub(crate) unsafe fn put_recv(to: *mut u8, sges: &[Sge], index: u32, next: u16) {
    let length: u64 = sges.iter().map(|sge| u64::from(sge.length)).sum();
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    let head =
        RecvHead::new().with_num_sge(sges.len() as u8).with_next(next).with_index(index).with_length(length);
    // SAFETY: as the caller promises.
    unsafe {
        put16(to, head.as_bytes());
        put_sges(to.add(RecvHead::BYTES), sges);
    }
}
