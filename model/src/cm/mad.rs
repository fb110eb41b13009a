//! Communication management datagrams: 256 bytes each, as the IB specification lays them out (volume 1, chapter 12) and
//! as Linux fills them in.
//!
//! A [`Mad`] is its bytes. Each field of a message is a [`Field`]: reading or writing one cannot fail, whatever the
//! bytes are; [`Mad::read`] refuses what is no such datagram at all.

use core::ops::Range;

use crate::plain::Plain;

/// Bytes of every datagram.
pub const BYTES: usize = 256;
/// QP that all of them are sent to, and come from.
pub const GSI_QPN: u32 = 1;
/// Q_Key of that QP.
pub const GSI_QKEY: u32 = 0x8001_0000;

/// `AttributeID`: which message it is.
pub mod attribute {
    /// Request for communication.
    pub const REQ: u16 = 0x10;
    /// Message receipt acknowledgement: the answer takes longer.
    pub const MRA: u16 = 0x11;
    /// Reject.
    pub const REJ: u16 = 0x12;
    /// Reply to a REQ.
    pub const REP: u16 = 0x13;
    /// Ready to use.
    pub const RTU: u16 = 0x14;
    /// Request for disconnection.
    pub const DREQ: u16 = 0x15;
    /// Reply to a DREQ.
    pub const DREP: u16 = 0x16;
    /// Service ID resolution request.
    pub const SIDR_REQ: u16 = 0x17;
    /// Service ID resolution response.
    pub const SIDR_REP: u16 = 0x18;
}

/// Reasons of a REJ (volume 1, 12.6.7.2).
pub mod reason {
    /// The sender waited in vain.
    pub const TIMEOUT: u16 = 4;
    /// Nobody listens for this service.
    pub const INVALID_SERVICE_ID: u16 = 8;
    /// The QP is connected already, as far as the receiver knows.
    pub const STALE_CONN: u16 = 10;
    /// The port has no packets as long as the connection would have.
    pub const INVALID_PATH_MTU: u16 = 26;
    /// The program does not want it.
    pub const CONSUMER_DEFINED: u16 = 28;
    /// The program does not want this vendor's options.
    pub const VENDOR_OPTION_NOT_SUPPORTED: u16 = 35;
}

/// Status of a SIDR_REP.
pub mod sidr_status {
    /// The QP is in the message.
    pub const SUCCESS: u8 = 0;
    /// Nobody listens for this service.
    pub const UNSUPPORTED: u8 = 1;
    /// The program does not want it.
    pub const REJECT: u8 = 2;
}

/// Which message an MRA or a REJ answers.
pub mod answered {
    /// A REQ.
    pub const REQ: u8 = 0;
    /// A REP.
    pub const REP: u8 = 1;
    /// Another one, or none (of a REJ).
    pub const OTHER: u8 = 2;
}

/// Some bits of a message.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    byte: usize,
    /// From the highest bit of that byte.
    bit: u32,
    bits: u32,
}

const START: usize = 0;
/// Bytes before the message: the MAD header (volume 1, 13.4.3).
const HEADER: usize = 24;

/// What is in the header, or in a message behind it: fields at a byte and a bit of that, so many bits long; and ranges of bytes.
macro_rules! messages {
    ($(
        $(#[doc = $doc:literal])+
        $message:ident: $base:ident {
            $($name:ident: $byte:literal, $bit:literal, $bits:literal;)+
            $($(#[doc = $what:literal])+ $range:ident: $from:literal..$to:literal;)*
        }
    )+) => {$(
        $(#[doc = $doc])+
        pub mod $message {
            use super::{Field, BYTES, $base as BASE};
            $(
                #[doc = concat!("Byte ", $byte, ", bit ", $bit, " of the highest: ", $bits, " bits.")]
                pub const $name: Field = {
                    assert!(BASE + $byte + 8 <= BYTES && $bits <= 64 - $bit);
                    Field { byte: BASE + $byte, bit: $bit, bits: $bits }
                };
            )+
            $(
                $(#[doc = $what])+
                pub const $range: core::ops::Range<usize> = BASE + $from..BASE + $to;
            )*
        }
    )+};
}

messages! {
    /// The header.
    header: START {
        BASE_VERSION: 0, 0, 8;
        CLASS: 1, 0, 8;
        CLASS_VERSION: 2, 0, 8;
        METHOD: 3, 0, 8;
        TRANSACTION: 8, 0, 64;
        ATTRIBUTE: 16, 0, 16;
    }

    /// What most messages begin with: the sender's name of the connection, and the receiver's.
    both: HEADER {
        LOCAL_ID: 0, 0, 32;
        REMOTE_ID: 4, 0, 32;
    }

    /// REQ (table 106).
    req: HEADER {
        SERVICE_ID: 8, 0, 64;
        CA_GUID: 16, 0, 64;
        QKEY: 28, 0, 32;
        QPN: 32, 0, 24;
        RESPONDER_RESOURCES: 35, 0, 8;
        INITIATOR_DEPTH: 39, 0, 8;
        REMOTE_RESPONSE_TIMEOUT: 43, 0, 5;
        TRANSPORT: 43, 5, 2;
        FLOW_CONTROL: 43, 7, 1;
        STARTING_PSN: 44, 0, 24;
        LOCAL_RESPONSE_TIMEOUT: 47, 0, 5;
        RETRY_COUNT: 47, 5, 3;
        PKEY: 48, 0, 16;
        MTU: 50, 0, 4;
        RNR_RETRY_COUNT: 50, 5, 3;
        MAX_CM_RETRIES: 51, 0, 4;
        SRQ: 51, 4, 1;
        LOCAL_LID: 52, 0, 16;
        REMOTE_LID: 54, 0, 16;
        FLOW_LABEL: 88, 0, 20;
        RATE: 91, 2, 6;
        TRAFFIC_CLASS: 92, 0, 8;
        HOP_LIMIT: 93, 0, 8;
        SL: 94, 0, 4;
        SUBNET_LOCAL: 94, 4, 1;
        ACK_TIMEOUT: 95, 0, 5;
        /// The sender's GID.
        LOCAL_GID: 56..72;
        /// The receiver's GID.
        REMOTE_GID: 72..88;
        /// The program's bytes.
        PRIVATE: 140..232;
    }

    /// MRA (table 107).
    mra: HEADER {
        ANSWERED: 8, 0, 2;
        SERVICE_TIMEOUT: 9, 0, 5;
    }

    /// REJ (table 108).
    rej: HEADER {
        ANSWERED: 8, 0, 2;
        INFO_LENGTH: 9, 0, 7;
        REASON: 10, 0, 16;
        /// Additional information.
        INFO: 12..84;
        /// The program's bytes.
        PRIVATE: 84..232;
    }

    /// REP (table 110).
    rep: HEADER {
        QKEY: 8, 0, 32;
        QPN: 12, 0, 24;
        STARTING_PSN: 20, 0, 24;
        RESPONDER_RESOURCES: 24, 0, 8;
        INITIATOR_DEPTH: 25, 0, 8;
        TARGET_ACK_DELAY: 26, 0, 5;
        FLOW_CONTROL: 26, 7, 1;
        RNR_RETRY_COUNT: 27, 0, 3;
        SRQ: 27, 3, 1;
        CA_GUID: 28, 0, 64;
        /// The program's bytes.
        PRIVATE: 36..232;
    }

    /// DREQ (table 112).
    dreq: HEADER {
        REMOTE_QPN: 8, 0, 24;
    }

    /// SIDR_REQ (table 119).
    sidr_req: HEADER {
        REQUEST_ID: 0, 0, 32;
        PKEY: 4, 0, 16;
        SERVICE_ID: 8, 0, 64;
        /// The program's bytes.
        PRIVATE: 16..232;
    }

    /// SIDR_REP (table 120).
    sidr_rep: HEADER {
        REQUEST_ID: 0, 0, 32;
        STATUS: 4, 0, 8;
        QPN: 8, 0, 24;
        SERVICE_ID: 12, 0, 64;
        QKEY: 20, 0, 32;
        /// The program's bytes.
        PRIVATE: 96..232;
    }
}

/// The header that IP connections have at the start of the private data of a REQ and of a SIDR_REQ (volume 1, annex A11).
pub mod ip {
    use core::ops::Range;
    /// Bytes of it.
    pub const BYTES: usize = 36;
    /// Version 0, and in the second byte 4 or 6 in the high four bits.
    pub const VERSION: usize = 1;
    /// The sender's port.
    pub const PORT: Range<usize> = 2..4;
    /// The sender's address; an IPv4 address is in the last four bytes.
    pub const SOURCE: Range<usize> = 4..20;
    /// The address that it connects to.
    pub const DESTINATION: Range<usize> = 20..36;
}

/// Class, version and method of all these datagrams.
const KIND: [(Field, u64); 4] =
    [(header::BASE_VERSION, 1), (header::CLASS, 7), (header::CLASS_VERSION, 2), (header::METHOD, 3)];

/// A datagram.
#[derive(Clone, Copy, PartialEq, Eq, Plain)]
#[repr(C)]
pub struct Mad {
    bytes: [u8; BYTES],
}

impl Mad {
    /// A message without content.
    pub fn new(attribute: u16, transaction: u64) -> Mad {
        let mut mad = Mad { bytes: [0; BYTES] };
        for (field, value) in KIND {
            mad.set(field, value);
        }
        mad.set(header::ATTRIBUTE, attribute.into());
        mad.set(header::TRANSACTION, transaction);
        mad
    }

    /// The datagram that a packet carries. `None`: it is not one of communication management.
    pub fn read(payload: &[u8]) -> Option<Mad> {
        let mad = Mad { bytes: payload.try_into().ok()? };
        KIND.iter().all(|&(field, value)| mad.get(field) == value).then_some(mad)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; BYTES] {
        &self.bytes
    }

    /// Which message it is: one of [`attribute`], or another one.
    pub fn attribute(&self) -> u16 {
        self.get(header::ATTRIBUTE) as u16
    }

    /// A field.
    pub fn get(&self, field: Field) -> u64 {
        let bytes = self.bytes[field.byte..field.byte + 8].first_chunk().expect("eight bytes");
        u64::from_be_bytes(*bytes) << field.bit >> (64 - field.bits)
    }

    /// Changes a field; of `value` the low bits count.
    pub fn set(&mut self, field: Field, value: u64) {
        let bytes: &mut [u8; 8] =
            self.bytes[field.byte..field.byte + 8].first_chunk_mut().expect("eight bytes");
        let shift = 64 - field.bit - field.bits;
        let mask = (u64::MAX >> (64 - field.bits)) << shift;
        *bytes = (u64::from_be_bytes(*bytes) & !mask | value << shift & mask).to_be_bytes();
    }

    /// Bytes of the message, as named by the constants of its module.
    pub fn part(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// The same, to be written.
    pub fn part_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self.bytes[range]
    }

    /// A GID of the message.
    pub fn gid(&self, range: Range<usize>) -> [u8; 16] {
        *self.bytes[range].first_chunk().expect("a GID is sixteen bytes")
    }
}

impl core::fmt::Debug for Mad {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Mad({:#x}, {:02x?})", self.attribute(), &self.bytes[HEADER..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_are_where_the_tables_say() {
        let mut mad = Mad::new(attribute::REQ, 0x0102_0304_0506_0708);
        assert_eq!(&mad.bytes()[..20], [1, 7, 2, 3, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0x10, 0, 0]);
        mad.set(both::LOCAL_ID, 0xa1b2_c3d4);
        mad.set(req::SERVICE_ID, 0x0106_1c42);
        mad.set(req::QPN, 0x01_0011);
        mad.set(req::RESPONDER_RESOURCES, 4);
        mad.set(req::REMOTE_RESPONSE_TIMEOUT, 20);
        mad.set(req::FLOW_CONTROL, 1);
        mad.set(req::STARTING_PSN, 0xab_cdef);
        mad.set(req::LOCAL_RESPONSE_TIMEOUT, 20);
        mad.set(req::RETRY_COUNT, 7);
        mad.set(req::MTU, 3);
        mad.set(req::RNR_RETRY_COUNT, 7);
        mad.set(req::MAX_CM_RETRIES, 15);
        mad.set(req::SRQ, 1);
        mad.set(req::FLOW_LABEL, 0xa_bcde);
        mad.set(req::RATE, 3);
        mad.set(req::ACK_TIMEOUT, 0x11);
        let m = |n: usize| mad.bytes()[24 + n];
        assert_eq!([m(0), m(3), m(12), m(13), m(14), m(15)], [0xa1, 0xd4, 1, 6, 0x1c, 0x42]);
        assert_eq!([m(32), m(33), m(34), m(35)], [1, 0, 0x11, 4]);
        assert_eq!([m(43), m(44), m(46), m(47)], [20 << 3 | 1, 0xab, 0xef, 20 << 3 | 7]);
        assert_eq!([m(50), m(51)], [3 << 4 | 7, 15 << 4 | 8]);
        assert_eq!([m(88), m(89), m(90), m(91), m(95)], [0xab, 0xcd, 0xe0, 3, 0x11 << 3]);
        assert_eq!(req::PRIVATE.end, BYTES);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(byte in 0usize..248, bit in 0u32..8, bits in 1u32..57, value: u64, fill: u8) {
            let field = Field { byte, bit, bits };
            let mut mad = Mad { bytes: [fill; BYTES] };
            mad.set(field, value);
            prop_assert_eq!(mad.get(field), value << (64 - bits) >> (64 - bits));
            // And nothing else is changed.
            mad.set(field, Mad { bytes: [fill; BYTES] }.get(field));
            prop_assert_eq!(mad.bytes, [fill; BYTES]);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), right: bool) {
            let mut bytes = bytes;
            if right {
                bytes.resize(BYTES, 0);
                bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
            }
            match Mad::read(&bytes) {
                Some(mad) => prop_assert_eq!(&mad.bytes[..], &bytes[..]),
                None => prop_assert!(bytes.len() != BYTES || bytes[..4] != [1, 7, 2, 3]),
            }
        }
    }
}
