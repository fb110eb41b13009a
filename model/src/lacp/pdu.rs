//! LACPDUs and markers as frames (IEEE 802.1AX-2014, 6.4.2.3 and 6.5.3.3).

use crate::plain::Plain;
use crate::wire::Ethernet;

/// The address of slow protocols: it goes no further than the other end of a cable (IEEE 802.1AX-2014, 6.2.11.2).
pub const SLOW_PROTOCOLS: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 2];
const ETHERTYPE: u16 = 0x8809;
const LACP: u8 = 1;
const MARKER: u8 = 2;
const VERSION: u8 = 1;
/// Types and lengths of what a LACPDU has: this end, the other end, how long frames may be delayed.
const ACTOR: [u8; 2] = [1, 20];
const PARTNER: [u8; 2] = [2, 20];
const COLLECTOR: [u8; 2] = [3, 16];
/// Type of a marker, and of its answer.
const MARKER_QUESTION: u8 = 1;
const MARKER_ANSWER: u8 = 2;

/// Bytes of a LACPDU's frame, without its check sequence; a marker's has as many.
pub const BYTES: usize = Ethernet::BYTES + 110;

/// What a LACPDU says of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Plain)]
#[repr(C)]
pub struct Info {
    /// Priority of its system.
    pub priority: u16,
    /// Its system, by an Ethernet address.
    pub system: [u8; 6],
    /// Ports of a system with the same key can be one.
    pub key: u16,
    /// Priority of the port.
    pub port_priority: u16,
    /// Its number, from 1.
    pub port: u16,
    /// [`LacpState`](fpga_regs::LacpState) bits.
    pub state: u8,
}

impl Info {
    /// The same without the state: who it is.
    pub fn who(&self) -> Info {
        Info { state: 0, ..*self }
    }

    fn put(&self, to: &mut [u8]) {
        to[0..2].copy_from_slice(&self.priority.to_be_bytes());
        to[2..8].copy_from_slice(&self.system);
        to[8..10].copy_from_slice(&self.key.to_be_bytes());
        to[10..12].copy_from_slice(&self.port_priority.to_be_bytes());
        to[12..14].copy_from_slice(&self.port.to_be_bytes());
        to[14] = self.state;
    }

    fn get(from: &[u8; 15]) -> Info {
        let word = |at: usize| u16::from_be_bytes([from[at], from[at + 1]]);
        let [_, _, a, b, c, d, e, f, ..] = *from;
        Info {
            priority: word(0),
            system: [a, b, c, d, e, f],
            key: word(8),
            port_priority: word(10),
            port: word(12),
            state: from[14],
        }
    }
}

/// A frame of slow protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    /// What a port says of itself, and of the port at the other end.
    Lacp {
        /// Itself.
        actor: Info,
        /// The other end, as far as it knows.
        partner: Info,
    },
    /// Asks for an answer once all frames before it were taken.
    Marker,
}

/// Where the first byte after the Ethernet header is.
const BODY: usize = Ethernet::BYTES;

/// Whether a frame is of slow protocols, by its first bytes.
pub fn is_slow(frame: &[u8]) -> bool {
    frame.len() > BODY && frame[..6] == SLOW_PROTOCOLS && frame[12..14] == ETHERTYPE.to_be_bytes()
}

impl Slow {
    /// Reads a frame; `None` if it is none, or is damaged. Of versions after the first what the first has is read.
    pub fn read(frame: &[u8]) -> Option<Slow> {
        let body = frame.get(BODY..BYTES).filter(|_| is_slow(frame))?;
        match body[0] {
            LACP if body[2..4] == ACTOR && body[22..24] == PARTNER => Some(Slow::Lacp {
                actor: Info::get(body[4..].first_chunk()?),
                partner: Info::get(body[24..].first_chunk()?),
            }),
            MARKER if body[2] == MARKER_QUESTION => Some(Slow::Marker),
            _ => None,
        }
    }
}

/// The frame in which a port with this address says something of itself and its partner.
pub fn frame(mac: [u8; 6], actor: &Info, partner: &Info) -> [u8; BYTES] {
    let mut frame = [0; BYTES];
    frame[..6].copy_from_slice(&SLOW_PROTOCOLS);
    frame[6..12].copy_from_slice(&mac);
    frame[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
    let body = &mut frame[BODY..];
    body[..2].copy_from_slice(&[LACP, VERSION]);
    body[2..4].copy_from_slice(&ACTOR);
    actor.put(&mut body[4..]);
    body[22..24].copy_from_slice(&PARTNER);
    partner.put(&mut body[24..]);
    body[42..44].copy_from_slice(&COLLECTOR);
    frame
}

/// The answer of a port with this address to a marker: the marker, as an answer.
pub fn marker_answer(mac: [u8; 6], marker: &[u8]) -> Option<[u8; BYTES]> {
    let mut frame: [u8; BYTES] = *marker.first_chunk()?;
    frame[6..12].copy_from_slice(&mac);
    frame[BODY + 2] = MARKER_ANSWER;
    Some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::corpus;
    use proptest::prelude::*;

    /// The fields by their places in figure 6-10 of the standard.
    #[test]
    fn fields_are_where_the_standard_has_them() {
        let actor = Info {
            priority: 0x0102,
            system: [2, 0x56, 0x42, 0, 1, 0],
            key: 0x0304,
            port_priority: 0x0506,
            port: 0x0708,
            state: 0x3f,
        };
        let partner = Info { port: 2, ..Info::default() };
        let bytes = frame([2, 0x56, 0x42, 0, 1, 1], &actor, &partner);
        let mut expected = vec![0x01, 0x80, 0xc2, 0, 0, 2, 2, 0x56, 0x42, 0, 1, 1, 0x88, 0x09, 1, 1, 1, 20];
        expected.extend([1, 2, 2, 0x56, 0x42, 0, 1, 0, 3, 4, 5, 6, 7, 8, 0x3f, 0, 0, 0, 2, 20]);
        expected.extend([0; 12]);
        expected.extend([0, 2, 0, 0, 0, 0, 3, 16]);
        expected.resize(124, 0);
        assert_eq!(bytes[..], expected);
        assert_eq!(Slow::read(&bytes), Some(Slow::Lacp { actor, partner }));
    }

    #[test]
    fn markers_are_answered() {
        let mut marker = frame([2; 6], &Info::default(), &Info::default());
        marker[BODY..BODY + 4].copy_from_slice(&[MARKER, 1, MARKER_QUESTION, 16]);
        assert_eq!(Slow::read(&marker), Some(Slow::Marker));
        let answer = marker_answer([3; 6], &marker).unwrap();
        assert_eq!((&answer[6..12], answer[BODY + 2]), (&[3; 6][..], MARKER_ANSWER));
        assert_eq!(Slow::read(&answer), None, "an answer asks for none");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), slow: bool) {
            let mut bytes = bytes;
            if slow && bytes.len() > BODY {
                bytes[..6].copy_from_slice(&SLOW_PROTOCOLS);
                bytes[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
            }
            read(&bytes)?;
        }
    }

    /// These bytes are what is read of them; gives what that is.
    fn read(bytes: &[u8]) -> Result<Option<Slow>, TestCaseError> {
        let read = Slow::read(bytes);
        if let Some(Slow::Lacp { actor, partner }) = &read {
            let written = frame([0; 6], actor, partner);
            prop_assert_eq!(&written[BODY + 2..BODY + 19], &bytes[BODY + 2..BODY + 19]);
        }
        Ok(read)
    }

    #[test]
    fn kept_frames() {
        let found = corpus::frames().into_iter().filter_map(|kept| read(&kept.bytes).expect(&kept.what));
        assert!(matches!(found.collect::<Vec<_>>()[..], [Slow::Lacp { .. }, Slow::Marker]));
    }
}
