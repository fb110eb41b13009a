//! The syndrome of an acknowledgement (9.7.5.2): credits, RNR timer, NAK code.

use std::fmt;

use crate::plain::Plain;

/// The AETH's syndrome byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Plain)]
pub struct Syndrome(pub u8);

/// What a [`Syndrome`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyndromeKind {
    /// Acknowledged, with an encoded credit count (31 means that credits are not used).
    Ack {
        /// Encoded end-to-end credits.
        credits: u8,
    },
    /// No receive WQE: try again after the time.
    RnrNak(RnrTimer),
    /// Refused.
    Nak(NakCode),
    /// A value that the specification reserves.
    Reserved,
}

impl Syndrome {
    /// Acknowledged, without end-to-end credits.
    pub const ACK: Self = Self(31);

    /// Acknowledged, with an encoded credit count of five bits.
    #[inline]
    pub const fn ack(credits: u8) -> Self {
        Self(credits & 31)
    }

    /// Receiver not ready.
    #[inline]
    pub const fn rnr(timer: RnrTimer) -> Self {
        Self(0x20 | timer.0 & 31)
    }

    /// Refused.
    #[inline]
    pub const fn nak(code: NakCode) -> Self {
        Self(0x60 | code.0 & 31)
    }

    /// What it says.
    #[inline]
    pub const fn kind(self) -> SyndromeKind {
        let value = self.0 & 31;
        match self.0 >> 5 {
            0 => SyndromeKind::Ack { credits: value },
            1 => SyndromeKind::RnrNak(RnrTimer(value)),
            3 => SyndromeKind::Nak(NakCode(value)),
            _ => SyndromeKind::Reserved,
        }
    }
}

impl fmt::Display for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            SyndromeKind::Ack { credits: 31 } => f.write_str("ACK"),
            SyndromeKind::Ack { credits } => write!(f, "ACK credits {credits}"),
            SyndromeKind::RnrNak(timer) => write!(f, "RNR NAK {} ns", timer.nanoseconds()),
            SyndromeKind::Nak(code) => write!(f, "NAK {code}"),
            SyndromeKind::Reserved => write!(f, "reserved 0x{:02x}", self.0),
        }
    }
}

/// Why a request was refused (table 46).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct NakCode(pub u8);

impl NakCode {
    /// A PSN is missing before this one.
    pub const PSN_SEQUENCE_ERROR: Self = Self(0);
    /// The request is malformed or not supported.
    pub const INVALID_REQUEST: Self = Self(1);
    /// Key, range or rights do not allow it.
    pub const REMOTE_ACCESS_ERROR: Self = Self(2);
    /// The responder failed at a fault of its own.
    pub const REMOTE_OPERATIONAL_ERROR: Self = Self(3);
    /// The RD request is not valid.
    pub const INVALID_RD_REQUEST: Self = Self(4);
}

impl fmt::Display for NakCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::PSN_SEQUENCE_ERROR => f.write_str("PSN sequence error"),
            Self::INVALID_REQUEST => f.write_str("invalid request"),
            Self::REMOTE_ACCESS_ERROR => f.write_str("remote access error"),
            Self::REMOTE_OPERATIONAL_ERROR => f.write_str("remote operational error"),
            Self::INVALID_RD_REQUEST => f.write_str("invalid RD request"),
            Self(code) => write!(f, "0x{code:02x}"),
        }
    }
}

/// The RNR NAK timer field, five bits (table 45).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct RnrTimer(pub u8);

/// Units of 10 microseconds. Code 0 is the longest.
const RNR_TENS_OF_MICROSECONDS: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
    3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

impl RnrTimer {
    /// How long the requester shall wait before it tries again.
    #[inline]
    pub const fn nanoseconds(self) -> u64 {
        RNR_TENS_OF_MICROSECONDS[(self.0 & 31) as usize] as u64 * 10_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_seen_from_rxe() {
        assert_eq!(Syndrome::ACK.0, 0x1f);
        assert_eq!(Syndrome::nak(NakCode::PSN_SEQUENCE_ERROR).0, 0x60);
        assert_eq!(Syndrome::nak(NakCode::REMOTE_ACCESS_ERROR).0, 0x62);
    }

    #[test]
    fn every_byte_has_one_meaning() {
        for byte in 0..=255 {
            let syndrome = Syndrome(byte);
            let back = match syndrome.kind() {
                SyndromeKind::Ack { credits } => Syndrome::ack(credits),
                SyndromeKind::RnrNak(timer) => Syndrome::rnr(timer),
                SyndromeKind::Nak(code) => Syndrome::nak(code),
                SyndromeKind::Reserved => {
                    assert!(byte & 0x80 != 0 || byte >> 5 == 2);
                    syndrome
                }
            };
            assert_eq!(back, syndrome);
            assert!(!syndrome.to_string().is_empty());
        }
    }

    #[test]
    fn rnr_times() {
        assert_eq!(RnrTimer(0).nanoseconds(), 655_360_000);
        assert_eq!(RnrTimer(1).nanoseconds(), 10_000);
        assert_eq!(RnrTimer(12).nanoseconds(), 640_000);
        assert_eq!(RnrTimer(31).nanoseconds(), 491_520_000);
    }
}
