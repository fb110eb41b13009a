//! Base transport header, the first header of every InfiniBand transport packet.

use super::bytes::{get16, get24, put16, put24};
use super::BthOpcode;

const SOLICITED: u8 = 1 << 7;
const MIGRATION: u8 = 1 << 6;
const FECN: u8 = 1 << 7;
const BECN: u8 = 1 << 6;
const ACK_REQUEST: u8 = 1 << 7;

/// Base transport header (9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bth {
    /// What this packet is, and so which headers follow.
    pub opcode: BthOpcode,
    /// SE: the responder's completion shall raise an event.
    pub solicited: bool,
    /// M: migration state (1 is migrated; rxe sends 0).
    pub migration: bool,
    /// Bytes, 0 to 3, that pad the payload to a multiple of four. [`super::frame`] sets it.
    pub pad_count: u8,
    /// TVer: version of the transport header, 0.
    pub tver: u8,
    /// Partition key.
    pub pkey: u16,
    /// F: the packet met congestion. Not covered by the ICRC.
    pub fecn: bool,
    /// B: a packet of the opposite direction met congestion. Not covered by the ICRC.
    pub becn: bool,
    /// Destination QP, 24 bits.
    pub dest_qp: u32,
    /// A: the responder shall acknowledge this packet.
    pub ack_request: bool,
    /// Reserved, 7 bits: in a NAK of a sequence error, the packets that are missing, if the card has kept what follows
    /// (an extension of this card's; 127 stands for more). All others send 0, and ignore it.
    pub missing: u8,
    /// Packet sequence number, 24 bits.
    pub psn: u32,
}

impl Bth {
    /// Size of the header.
    pub const BYTES: usize = 12;

    /// Reads the header.
    #[inline]
    pub fn decode(b: &[u8; Self::BYTES]) -> Self {
        Self {
            opcode: BthOpcode(b[0]),
            solicited: b[1] & SOLICITED != 0,
            migration: b[1] & MIGRATION != 0,
            pad_count: b[1] >> 4 & 3,
            tver: b[1] & 15,
            pkey: get16(b, 2),
            fecn: b[4] & FECN != 0,
            becn: b[4] & BECN != 0,
            dest_qp: get24(b, 5),
            ack_request: b[8] & ACK_REQUEST != 0,
            missing: b[8] & !ACK_REQUEST,
            psn: get24(b, 9),
        }
    }

    /// Writes the header. Bits beyond a field's width are cut off.
    #[inline]
    pub fn encode(&self, out: &mut [u8; Self::BYTES]) {
        let bit = |set: bool, mask: u8| if set { mask } else { 0 };
        out[0] = self.opcode.0;
        out[1] = bit(self.solicited, SOLICITED)
            | bit(self.migration, MIGRATION)
            | (self.pad_count & 3) << 4
            | self.tver & 15;
        put16(out, 2, self.pkey);
        out[4] = bit(self.fecn, FECN) | bit(self.becn, BECN);
        put24(out, 5, self.dest_qp);
        out[8] = bit(self.ack_request, ACK_REQUEST) | self.missing & !ACK_REQUEST;
        put24(out, 9, self.psn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_bits() {
        let none = Bth::default();
        let cases = [
            (Bth { opcode: BthOpcode(0xa5), ..none }, 0, 0xa5),
            (Bth { solicited: true, ..none }, 1, 0x80),
            (Bth { migration: true, ..none }, 1, 0x40),
            (Bth { pad_count: 3, ..none }, 1, 0x30),
            (Bth { tver: 15, ..none }, 1, 0x0f),
            (Bth { pkey: 0x8000, ..none }, 2, 0x80),
            (Bth { pkey: 0x0001, ..none }, 3, 0x01),
            (Bth { fecn: true, ..none }, 4, 0x80),
            (Bth { becn: true, ..none }, 4, 0x40),
            (Bth { dest_qp: 0x12_0000, ..none }, 5, 0x12),
            (Bth { dest_qp: 0x00_0034, ..none }, 7, 0x34),
            (Bth { ack_request: true, ..none }, 8, 0x80),
            (Bth { missing: 127, ..none }, 8, 0x7f),
            (Bth { psn: 0x56_0000, ..none }, 9, 0x56),
            (Bth { psn: 0x00_0078, ..none }, 11, 0x78),
        ];
        for (bth, at, value) in cases {
            let mut out = [0; Bth::BYTES];
            bth.encode(&mut out);
            let mut expected = [0; Bth::BYTES];
            expected[at] = value;
            assert_eq!(out, expected, "{bth:?}");
            assert_eq!(Bth::decode(&out), bth);
        }
    }

    #[test]
    fn reserved_bits_are_ignored() {
        let mut b = [0; Bth::BYTES];
        b[4] = 0x3f;
        assert_eq!(Bth::decode(&b), Bth::default());
    }
}
