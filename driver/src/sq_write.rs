//! The bytes of a send WQE.
#![allow(unsafe_code)]

use fpga_regs::{WqeAtomic, WqeBind, WqeCtrl, WqeRemote, WqeTso};

use crate::put::{put16, put_sges};
use crate::sq_shape::{self, Shape, SIGNAL_ALL};
use crate::wr::{Data, Segmented, SendWr, Sge};

/// The data of a checked request.
pub(crate) struct Message {
    /// Units of 16 bytes of data and address in the WQE.
    pub units: u32,
    /// Bytes of the message.
    pub length: u32,
    /// Elements; 0 for inline data.
    pub sges: u8,
    /// The data is in the WQE.
    pub inline: bool,
    /// An address segment precedes the data.
    pub address: bool,
}

/// Writes a whole WQE of `units` units of 16 bytes.
///
/// # Safety
/// `to` is writable for all units and aligned to 8, and the request was measured: it has what its opcode
/// needs, its data is as long as `message` says, and inline pieces are readable.
#[inline(always)]
pub(crate) unsafe fn wqe(
    to: *mut u8,
    flags: u8,
    wr: &SendWr<'_>,
    shape: Shape,
    message: &Message,
    units: u32,
    index: u32,
) {
    let mut bits = wr.flags.bits();
    if flags & SIGNAL_ALL != 0 {
        bits |= WqeCtrl::SIGNALED;
    }
    if message.inline {
        bits |= WqeCtrl::INLINE;
    }
    let ctrl = WqeCtrl::new()
        .with_opcode(wr.opcode)
        .with_ds(units as u8)
        .with_flags(bits)
        .with_num_sge(message.sges)
        .with_index(index as u16)
        .with_vlan_tci(wr.vlan_tci)
        .with_length(message.length)
        .with_imm(wr.imm);
    // SAFETY: every segment below is counted in `units`, for which the caller has room; all of them are
    // multiples of 16 bytes, so the alignment stays.
    unsafe {
        put16(to, ctrl.as_bytes());
        let mut to = to.add(WqeCtrl::BYTES);
        if shape.parts & sq_shape::REMOTE != 0 {
            let remote = WqeRemote::new().with_remote_addr(wr.remote_addr).with_rkey(wr.rkey);
            let remote = remote.with_srqn(wr.remote_srqn);
            put16(to, remote.as_bytes());
            to = to.add(WqeRemote::BYTES);
            if shape.parts & sq_shape::ATOMIC != 0 {
                put16(to, WqeAtomic::new().with_compare_add(wr.compare_add).with_swap(wr.swap).as_bytes());
                to = to.add(WqeAtomic::BYTES);
            }
        } else if message.address {
            to = put_address(to, wr);
        } else if shape.parts & sq_shape::BIND != 0 {
            put_bind(to, wr);
        }
        if shape.parts & sq_shape::DATA != 0 {
            match wr.data {
                Data::Sges(sges) => put_sges(to, sges),
                Data::Inline(pieces) => put_inline(to, pieces.pieces(), message),
                Data::Bytes(bytes) => put_bytes(to, bytes, message),
                Data::Segmented(message) => put_segmented(to, message),
            }
        }
    }
}

/// Clears the last unit, which the data may fill only in part.
///
/// # Safety
/// As [`wqe`].
#[inline(always)]
unsafe fn pad(to: *mut u8, message: &Message) {
    if message.length != 0 {
        let last = (message.length as usize - 1) & !15;
        // SAFETY: as the caller promises.
        unsafe { put16(to.add(last), &[0; 16]) };
    }
}

/// # Safety
/// As [`wqe`].
#[inline(always)]
unsafe fn put_inline(to: *mut u8, pieces: &[Sge], message: &Message) {
    // SAFETY: as the caller promises; the pieces add up to the message's length.
    unsafe {
        pad(to, message);
        let mut to = to;
        for piece in pieces {
            put_piece(to, piece.addr as *const u8, piece.length as usize);
            to = to.add(piece.length as usize);
        }
    }
}

/// # Safety
/// As [`wqe`].
#[inline(always)]
unsafe fn put_bytes(to: *mut u8, bytes: &[u8], message: &Message) {
    // SAFETY: as the caller promises.
    unsafe {
        pad(to, message);
        put_piece(to, bytes.as_ptr(), bytes.len());
    }
}

/// A copy; for 8 bytes, the most frequent length, one load and one store.
///
/// # Safety
/// Both sides are good for `length` bytes.
#[inline(always)]
unsafe fn put_piece(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        if length == 8 {
            to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned());
        } else if length != 0 {
            std::ptr::copy_nonoverlapping(from, to, length);
        }
    }
}

/// # Safety
/// As [`wqe`].
#[inline]
unsafe fn put_address(to: *mut u8, wr: &SendWr<'_>) -> *mut u8 {
    let Some(ah) = wr.ah else { return to };
    let address = ah.address.with_dest_qpn(wr.remote_qpn).with_qkey(wr.remote_qkey);
    let bytes = address.as_bytes();
    // SAFETY: as the caller promises.
    unsafe {
        for (index, chunk) in bytes.chunks_exact(16).enumerate() {
            let mut unit = [0; 16];
            unit.copy_from_slice(chunk);
            put16(to.add(index * 16), &unit);
        }
        to.add(bytes.len())
    }
}

/// # Safety
/// As [`wqe`].
#[inline]
unsafe fn put_bind(to: *mut u8, wr: &SendWr<'_>) {
    let bind = wr.bind.unwrap_or_default();
    let bind = WqeBind::new()
        .with_addr(bind.addr)
        .with_length(bind.length)
        .with_mr_lkey(bind.mr_lkey)
        .with_mw_rkey(bind.mw_rkey)
        .with_access(bind.access);
    let bytes = bind.as_bytes();
    // SAFETY: as the caller promises.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
}

/// # Safety
/// As [`wqe`].
#[cold]
unsafe fn put_segmented(to: *mut u8, message: &Segmented<'_>) {
    let segment = WqeTso::new().with_mss(message.mss).with_header(message.header);
    // SAFETY: as the caller promises.
    unsafe {
        std::ptr::copy_nonoverlapping(segment.as_bytes().as_ptr(), to, WqeTso::BYTES);
        put_sges(to.add(WqeTso::BYTES), message.data);
    }
}
