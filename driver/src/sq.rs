//! Posting sends: WQEs are built in the ring, then one barrier and one doorbell for the whole chain.
#![allow(unsafe_code)]

use std::sync::atomic::{fence, Ordering};

use fpga_regs::{SqDoorbell, WqeOpcode, DOORBELL_SQ, MAX_TSO_HEADER, MAX_WQE_BLOCKS, WQE_BLOCK, WQE_UNIT};

use crate::card::Card;
use crate::error::PostError;
use crate::qp::Qp;
use crate::spin::Guard;
use crate::sq_ring::SqRing;
use crate::sq_shape::{self, shape, Shape, CUTS, FRAMES, KIND, KIND_XRC, OPEN};
use crate::sq_write::{self, Message};
use crate::wr::{Data, Segmented, SendFlags, SendWr, Sge};

/// Largest message, from the InfiniBand specification.
const MAX_MESSAGE: u64 = 1 << 31;
/// Units of 16 bytes in a block.
const BLOCK_UNITS: u32 = (WQE_BLOCK / WQE_UNIT) as u32;
/// The flags of a QP of each of these types that takes sends.
const EXTENDED: u8 = KIND_XRC | OPEN;
const RAW: u8 = KIND_XRC | FRAMES | OPEN;

/// A chain of sends under construction. Holds the SQ's lock; dropping it without [`SendPost::ring`]
/// posts nothing.
pub struct SendPost<'a, C: Card> {
    sq: Guard<'a, SqRing<C>>,
    head: u32,
    count: u32,
}

impl<C: Card> Qp<C> {
    /// Begins a chain of sends.
    #[inline]
    pub fn send(&self) -> SendPost<'_, C> {
        let sq = self.sq.lock();
        sq.card().expect_doorbell();
        let (head, count) = (sq.head, sq.count);
        SendPost { sq, head, count }
    }
}

impl<C: Card> SendPost<'_, C> {
    /// Whether the QP has one peer: it is an RC or UC QP.
    #[inline(always)]
    pub fn connected(&self) -> bool {
        self.sq.flags & KIND < sq_shape::KIND_UD
    }

    /// Writes one WQE. After an error the WQEs before it are still in the chain: ring or drop it.
    #[inline(always)]
    pub fn push(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        let shape = shape(wr.opcode);
        if shape.kinds >> (self.sq.flags & KIND) & 1 == 0 || self.sq.flags & OPEN == 0 {
            // A copy, so that the request itself can stay in registers.
            return self.push_other(&{ *wr });
        }
        self.write(wr, shape)
    }

    /// As [`push`](Self::push) of [`WqeOpcode::RAW_ETH`] with one element, on a raw packet QP: one frame.
    #[inline(always)]
    pub fn push_frame(
        &mut self,
        wr_id: u64,
        frame: Sge,
        flags: SendFlags,
        vlan_tci: u16,
    ) -> Result<(), PostError> {
        let (opcode, data) = (WqeOpcode::RAW_ETH, Data::Sges(&[frame]));
        let shape = shape(opcode);
        if self.sq.flags & (KIND | FRAMES | OPEN) != RAW {
            return Err(refusal(&self.sq, shape));
        }
        self.write(&SendWr { wr_id, opcode, flags, vlan_tci, data, ..SendWr::default() }, shape)
    }

    /// As [`push`](Self::push), on an XRC or raw packet QP, or one that refuses it. On its own, so that the others do not
    /// pay for it.
    #[cold]
    #[inline(never)]
    fn push_other(&mut self, wr: &SendWr<'_>) -> Result<(), PostError> {
        let (flags, shape) = (self.sq.flags, shape(wr.opcode));
        let taken = match flags & (KIND | FRAMES | OPEN) {
            EXTENDED => shape.extended(),
            RAW => shape.of_frames(),
            _ => None,
        };
        match taken {
            Some(taken) => self.write(wr, taken),
            None => Err(refusal(&self.sq, shape)),
        }
    }

    #[inline(always)]
    fn write(&mut self, wr: &SendWr<'_>, shape: Shape) -> Result<(), PostError> {
        let sq = &mut *self.sq;
        let message = measure(sq, wr, shape)?;
        let units = u32::from(shape.units) + message.units;
        let blocks = units.div_ceil(BLOCK_UNITS);
        let (head, count) = (self.head, self.count.wrapping_add(1));
        if !sq.has_room(head, self.count, blocks) {
            return Err(PostError::QueueFull);
        }
        let to_end = sq.mask + 1 - (head & sq.mask);
        if blocks <= to_end {
            // SAFETY: the blocks are free and do not pass the ring's end; `measure` has checked the request.
            unsafe { sq_write::wqe(sq.block(head), sq.flags, wr, shape, &message, units, head) };
        } else {
            // A copy, so that the request itself can stay in registers.
            wrapped(sq, &{ *wr }, shape, head);
        }
        let end = head.wrapping_add(blocks);
        sq.remember(head, wr.wr_id, end, count);
        sq.prefetch(end);
        self.head = end;
        self.count = count;
        Ok(())
    }

    /// Tells the card of the chain: one barrier, one doorbell. Nothing for an empty chain.
    ///
    /// By reference: a copy of a chain that was just written field by field waits for all earlier stores.
    #[inline(always)]
    pub fn ring(&mut self) {
        let sq = &mut *self.sq;
        if self.head == sq.head {
            return;
        }
        sq.head = self.head;
        sq.count = self.count;
        // All WQE bytes before the doorbell.
        fence(Ordering::Release);
        let at = fpga_regs::doorbell_page(sq.page()) + DOORBELL_SQ;
        let value = SqDoorbell::new(sq.qpn(), self.head);
        self.sq.card().doorbell(at, value.0);
    }
}

/// Checks the request and finds the size of its data and, for UD, of the address before it.
#[inline(always)]
fn measure<C: Card>(sq: &SqRing<C>, wr: &SendWr<'_>, shape: Shape) -> Result<Message, PostError> {
    let mut message = Message { units: 0, length: 0, sges: 0, inline: false, address: false };
    if shape.parts & sq_shape::DATA == 0 {
        if shape.parts & sq_shape::BIND != 0 && wr.bind.is_none() {
            return Err(PostError::Invalid("BIND_MW needs what to bind"));
        }
        return Ok(message);
    }
    if shape.parts & sq_shape::TSO != 0 {
        return measure_segmented(sq, wr);
    }
    let length = match wr.data {
        Data::Sges(sges) => {
            message.sges = elements(sq, sges)?;
            total(sges)
        }
        Data::Segmented(_) => {
            return Err(PostError::Invalid("this opcode does not cut its data into frames"))
        }
        Data::Inline(pieces) => {
            message.inline = true;
            total(pieces.pieces())
        }
        Data::Bytes(bytes) => {
            message.inline = true;
            bytes.len() as u64
        }
    };
    if message.inline {
        if shape.parts & sq_shape::INLINE == 0 {
            return Err(PostError::Invalid("this opcode takes no inline data"));
        }
        if length > u64::from(sq.max_inline) {
            return Err(PostError::Invalid("more inline data than max_inline_data"));
        }
        message.units = (length as u32).div_ceil(WQE_UNIT as u32);
    } else {
        if length > MAX_MESSAGE {
            return Err(PostError::Invalid("the message is longer than 2 GiB"));
        }
        message.units = message.sges.into();
    }
    message.length = length as u32;
    if sq.flags & KIND == sq_shape::KIND_UD {
        if wr.ah.is_none() {
            return Err(PostError::Invalid("a UD send needs an address handle"));
        }
        message.address = true;
        message.units += sq_shape::ADDRESS_UNITS;
    }
    Ok(message)
}

/// As [`measure`], of RAW_TSO.
#[cold]
#[inline(never)]
fn measure_segmented<C: Card>(sq: &SqRing<C>, wr: &SendWr<'_>) -> Result<Message, PostError> {
    let Data::Segmented(&Segmented { header, mss, data }) = wr.data else {
        return Err(PostError::Invalid("RAW_TSO needs headers and a size of segments"));
    };
    if sq.flags & CUTS == 0 {
        return Err(PostError::Invalid("a queue pair that was created without room for headers of RAW_TSO"));
    }
    if header.len() > MAX_TSO_HEADER {
        return Err(PostError::Invalid("more headers of RAW_TSO than fit into a WQE"));
    }
    if mss == 0 {
        return Err(PostError::Invalid("segments of no bytes"));
    }
    let sges = elements(sq, data)?;
    let length = total(data);
    if length > sq.max_tso().into() {
        return Err(PostError::Invalid("more bytes than max_tso"));
    }
    Ok(Message { units: sges.into(), length: length as u32, sges, inline: false, address: false })
}

/// The number of elements.
#[inline(always)]
fn elements<C: Card>(sq: &SqRing<C>, sges: &[Sge]) -> Result<u8, PostError> {
    match sges.len() > usize::from(sq.max_sge) {
        true => Err(PostError::Invalid("more elements than max_send_sge")),
        false => Ok(sges.len() as u8),
    }
}

#[inline]
fn total(pieces: &[Sge]) -> u64 {
    match pieces {
        [one] => one.length.into(),
        many => many.iter().map(|piece| u64::from(piece.length)).sum(),
    }
}

/// Builds a WQE that wraps around the ring's end.
#[cold]
#[inline(never)]
fn wrapped<C: Card>(sq: &SqRing<C>, wr: &SendWr<'_>, shape: Shape, head: u32) {
    // Measured again, so that the usual path can keep the result in registers.
    let Ok(message) = measure(sq, wr, shape) else { return };
    let units = u32::from(shape.units) + message.units;
    #[repr(align(64))]
    struct Scratch([u8; MAX_WQE_BLOCKS * WQE_BLOCK]);
    let mut scratch = Scratch([0; MAX_WQE_BLOCKS * WQE_BLOCK]);
    // SAFETY: no WQE is longer than the scratch; `measure` has checked the request.
    unsafe { sq_write::wqe(scratch.0.as_mut_ptr(), sq.flags, wr, shape, &message, units, head) };
    let bytes = units as usize * WQE_UNIT;
    for (block, chunk) in scratch.0[..bytes].chunks(WQE_BLOCK).enumerate() {
        let to = sq.block(head.wrapping_add(block as u32));
        // SAFETY: the blocks are free; `block` keeps each within the ring.
        unsafe { std::ptr::copy_nonoverlapping(chunk.as_ptr(), to, chunk.len()) };
    }
}

/// Why a QP does not take an opcode.
#[cold]
#[inline(never)]
fn refusal<C: Card>(sq: &SqRing<C>, shape: Shape) -> PostError {
    match (sq.flags & OPEN, shape.kinds) {
        (0, _) => PostError::State,
        (_, 0) => PostError::Invalid("unknown opcode"),
        _ => PostError::Invalid("this type of QP does not do this opcode"),
    }
}
