//! TCP that the card cuts into frames (TSO): what a packet asks for, and whether the card can do it.
#![allow(unsafe_code)]

use fpga_regs::{MAX_FRAME, MAX_TSO_HEADER};

use crate::abi::mbuf::{Lengths, Mbuf, TX_VLAN};
use crate::headers::are_of_tcp;

/// Bytes of a VLAN tag.
pub const TAG: u32 = 4;

/// How a packet is to be cut.
#[derive(Debug)]
pub struct Cut {
    header: [u8; MAX_TSO_HEADER],
    length: usize,
    /// Most bytes of data in a frame.
    pub mss: u16,
    /// Bytes of data.
    pub data: u32,
}

impl Cut {
    /// What a packet asks for; `None` if the card, which cuts at most `most` bytes, cannot do that, or the packet is not
    /// [whole](Mbuf::is_whole).
    ///
    /// # Safety
    /// As of [`Mbuf::is_whole`], and the packet must ask for it.
    pub unsafe fn of(packet: *mut Mbuf, most: u32) -> Option<Cut> {
        // SAFETY: as the caller promises.
        let (Lengths { l2, l3, l4, mss }, packet_length, asked) =
            unsafe { ((*packet).lengths(), (*packet).pkt_len, (*packet).ol_flags) };
        let length = l2 + l3 + l4;
        let data = packet_length.checked_sub(length as u32)?;
        let tag = if asked & TX_VLAN == 0 { 0 } else { TAG };
        let fits = length <= MAX_TSO_HEADER && length as u32 + tag + data.min(mss.into()) <= MAX_FRAME;
        // SAFETY: as above.
        if mss == 0 || data > most || !fits || !unsafe { Mbuf::is_whole(packet) } {
            return None;
        }
        let mut header = [0; MAX_TSO_HEADER];
        // SAFETY: as above; it has these bytes, and there is room for them.
        unsafe { Mbuf::copy(packet, 0, header.as_mut_ptr(), length as u32) };
        let cut = Cut { header, length, mss, data };
        are_of_tcp(cut.header()).then_some(cut)
    }

    /// What each frame begins with.
    pub fn header(&self) -> &[u8] {
        &self.header[..self.length]
    }
}
