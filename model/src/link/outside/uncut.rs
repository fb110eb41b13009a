//! Messages of TCP and UDP that an interface has given as a whole, as one that cuts what is sent, or has merged what came (GSO,
//! GRO): the frames that are on the link.

use crate::link::frames::LONGEST_FRAME;
use crate::wire::segments::{Part, Template};
use crate::wire::virtio_net::VirtioNetHeader;
use crate::wire::Ethernet;

/// One of them, until all its frames are made.
pub(super) struct Uncut {
    message: Vec<u8>,
    template: Template,
    /// Most bytes of data in a frame.
    size: usize,
    /// Bytes of the message's data in the frames that are made.
    offset: usize,
    nth: u32,
}

impl Uncut {
    /// Of a message; `None` if it is none that can be cut into frames.
    pub fn of(message: &[u8], header: &VirtioNetHeader) -> Option<Uncut> {
        let known = [VirtioNetHeader::GSO_TCPV4, VirtioNetHeader::GSO_TCPV6, VirtioNetHeader::GSO_UDP_L4]
            .contains(&header.gso());
        let template = Template::find(message).filter(|_| known && header.gso_size != 0)?;
        let size = usize::from(header.gso_size);
        let fits = template.bytes() + size + Ethernet::TAG_BYTES <= LONGEST_FRAME;
        fits.then(|| Uncut { message: message.to_vec(), template, size, offset: 0, nth: 0 })
    }

    /// Makes the next frame, at the beginning of `into`, which has room for the longest: its length. `None`: all are made.
    pub fn next(&mut self, into: &mut [u8]) -> Option<usize> {
        let (header, data) = self.message.split_at(self.template.bytes());
        let rest = data.get(self.offset..).filter(|rest| !rest.is_empty())?;
        let data = &rest[..self.size.min(rest.len())];
        let frame = &mut into[..header.len() + data.len()];
        frame[..header.len()].copy_from_slice(header);
        frame[header.len()..].copy_from_slice(data);
        let part = Part { nth: self.nth, offset: self.offset as u32, last: data.len() == rest.len() };
        self.template.finish(frame, part);
        self.offset += data.len();
        self.nth += 1;
        Some(frame.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::checksum::Checksums;

    fn message(protocol: u8, data: usize) -> Vec<u8> {
        let mut message = vec![2; 12];
        message.extend([
            8, 0, 0x45, 0, 0, 0, 0xff, 0xff, 0x40, 0, 64, protocol, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2,
        ]);
        message.extend([0, 1, 0x12, 0xb7, 0, 0, 0, 0]);
        if protocol == 6 {
            message.extend([0, 0, 0, 0, 0x50, 0x18, 0, 9, 0, 0, 0, 0]);
        }
        message.extend((0..data).map(|n| n as u8));
        message
    }

    #[test]
    fn a_message_becomes_the_frames_of_the_link() {
        for (protocol, gso_type, head) in [
            (17, VirtioNetHeader::GSO_UDP_L4, 42),
            (6, VirtioNetHeader::GSO_TCPV4 | VirtioNetHeader::GSO_ECN, 54),
        ] {
            let message = message(protocol, 2500);
            let header = VirtioNetHeader { gso_type, gso_size: 1000, ..VirtioNetHeader::default() };
            let mut uncut = Uncut::of(&message, &header).expect("a message");
            let mut into = vec![0; LONGEST_FRAME];
            let mut got: Vec<u8> = Vec::new();
            for (nth, bytes) in [1000, 1000, 500].into_iter().enumerate() {
                assert_eq!(uncut.next(&mut into), Some(head + bytes));
                let frame = &into[..head + bytes];
                assert_eq!(Checksums::right(frame), Checksums { ip: true, l4: true }, "{protocol}");
                assert_eq!(frame[16..18], ((head - 14 + bytes) as u16).to_be_bytes());
                assert_eq!(frame[18..20], 0xffff_u16.wrapping_add(nth as u16).to_be_bytes());
                match protocol {
                    17 => assert_eq!(frame[38..40], ((8 + bytes) as u16).to_be_bytes()),
                    _ => assert_eq!(frame[38..42], (1000 * nth as u32).to_be_bytes()),
                }
                got.extend(&frame[head..]);
            }
            assert_eq!(uncut.next(&mut into), None);
            assert_eq!(got, message[head..]);
            for (gso_type, gso_size) in [(gso_type, 0), (gso_type, 9600), (3, 1000), (0, 1000)] {
                let header = VirtioNetHeader { gso_type, gso_size, ..VirtioNetHeader::default() };
                assert!(Uncut::of(&message, &header).is_none(), "{header:?}");
            }
        }
        let header = VirtioNetHeader {
            gso_type: VirtioNetHeader::GSO_UDP_L4,
            gso_size: 1000,
            ..VirtioNetHeader::default()
        };
        assert!(Uncut::of(&message(1, 2500), &header).is_none(), "not UDP");
    }
}
