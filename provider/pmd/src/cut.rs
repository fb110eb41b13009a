//! TCP that the card cuts into frames (TSO): what a packet asks for, and whether the card can do it.
#![allow(unsafe_code)]

use fpga_regs::MAX_TSO_HEADER;

use crate::abi::mbuf::{Lengths, Mbuf, TX_VLAN};
use crate::slots::MAX_FRAME;

/// Bytes of a VLAN tag.
pub const TAG: u32 = 4;
/// Bytes of the EtherType, before the IP header.
const ETHER_TYPE: usize = 2;
const PROTOCOL_TCP: u8 = 6;

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
        let (lengths, packet_length, asked) =
            unsafe { ((*packet).lengths(), (*packet).pkt_len, (*packet).ol_flags) };
        let Lengths { l2, l3, l4, mss } = lengths;
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
        is_tcp(cut.header(), &lengths).then_some(cut)
    }

    /// What each frame begins with.
    pub fn header(&self) -> &[u8] {
        &self.header[..self.length]
    }
}

/// Whether headers are those of TCP with these lengths. The card refuses others, and then all that is in its queue.
fn is_tcp(header: &[u8], &Lengths { l2, l3, l4, .. }: &Lengths) -> bool {
    let Some((ethernet, rest)) = header.split_at_checked(l2) else { return false };
    let Some((ip, tcp)) = rest.split_at_checked(l3) else { return false };
    let ip_is_right = match (ethernet.get(l2.saturating_sub(ETHER_TYPE)..), ip.first().map(|byte| byte >> 4))
    {
        (Some([8, 0]), Some(4)) => {
            let whole = || ip[6] & 0x3f == 0 && ip[7] == 0;
            l3 >= 20 && usize::from(ip[0] & 15) * 4 == l3 && ip[9] == PROTOCOL_TCP && whole()
        }
        (Some([0x86, 0xdd]), Some(6)) => l3 == 40 && ip[6] == PROTOCOL_TCP,
        _ => false,
    };
    let tags_are_right = || matches!(l2, 14 | 18 | 22);
    ip_is_right && tags_are_right() && l4 >= 20 && usize::from(tcp[12] >> 4) * 4 == l4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_tcp_are_known() {
        let mut v4 = vec![0; 54];
        (v4[12], v4[14], v4[23], v4[46]) = (8, 0x45, 6, 0x50);
        let mut v6 = vec![0; 74];
        (v6[12], v6[13], v6[14], v6[20], v6[66]) = (0x86, 0xdd, 0x60, 6, 0x50);
        let lengths = |l3, l4| Lengths { l2: 14, l3, l4, mss: 1 };
        assert!(is_tcp(&v4, &lengths(20, 20)) && is_tcp(&v6, &lengths(40, 20)));
        for (l3, l4) in [(20, 16), (24, 16), (40, 0), (0, 20), (0, 0), (20, 24)] {
            assert!(!is_tcp(&v4, &lengths(l3, l4)), "{l3} {l4}");
            assert!(!is_tcp(&v6, &lengths(l3, l4)), "{l3} {l4}");
        }
        for at in [12, 14, 20, 23, 46] {
            let mut wrong = v4.clone();
            wrong[at] ^= 0x11;
            assert!(!is_tcp(&wrong, &lengths(20, 20)), "{at}");
        }
        assert!(!is_tcp(&v4, &Lengths { l2: 0, ..lengths(20, 20) }));
        assert!(!is_tcp(&[], &Lengths { l2: 0, l3: 0, l4: 0, mss: 1 }));
    }
}
