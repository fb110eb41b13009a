//! UDP header.

use super::bytes::{get16, put16};

/// UDP destination port of RoCEv2.
pub const ROCE_PORT: u16 = 4791;

/// UDP header.
///
/// RoCEv2 is sent with checksum 0, on IPv6 too, and the checksum is not checked on receipt:
/// the ICRC covers all that it would.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Udp {
    /// Source port: constant for a flow, so that switches spread flows over their paths.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Length of header and data.
    pub length: u16,
    /// Checksum, 0 for none.
    pub checksum: u16,
}

impl Udp {
    /// Size of the header.
    pub const BYTES: usize = 8;

    /// Reads the header.
    #[inline]
    pub fn decode(b: &[u8; Self::BYTES]) -> Self {
        Self { src_port: get16(b, 0), dst_port: get16(b, 2), length: get16(b, 4), checksum: get16(b, 6) }
    }

    /// Writes the header.
    #[inline]
    pub fn encode(&self, out: &mut [u8; Self::BYTES]) {
        put16(out, 0, self.src_port);
        put16(out, 2, self.dst_port);
        put16(out, 4, self.length);
        put16(out, 6, self.checksum);
    }
}
