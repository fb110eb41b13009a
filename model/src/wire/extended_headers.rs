//! Extended transport headers: what follows the BTH, as the opcode says.

use super::bytes::{get24, get32, get64, put24, put32, put64};
use super::Syndrome;

/// Headers of so many bytes: each field is big-endian, at its byte. What is between them is sent as zero.
macro_rules! headers {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident[$bytes:literal] {
            $( $(#[doc = $about:literal])+ $field:ident: $type:ty = $at:literal $get:ident $put:ident, )+
        }
    )+) => {$(
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $name {
            $( $(#[doc = $about])+ pub $field: $type, )+
        }

        impl $name {
            /// Size of the header.
            pub const BYTES: usize = $bytes;

            /// Reads the header.
            #[inline]
            pub fn decode(b: &[u8; Self::BYTES]) -> Self {
                Self { $($field: $get(b, $at),)+ }
            }

            /// Writes the header.
            #[inline]
            pub fn encode(&self, out: &mut [u8; Self::BYTES]) {
                *out = [0; Self::BYTES];
                $($put(out, $at, self.$field);)+
            }
        }
    )+};
}

#[inline(always)]
fn get_syndrome<const N: usize>(b: &[u8; N], at: usize) -> Syndrome {
    Syndrome(b[at])
}

#[inline(always)]
fn put_syndrome<const N: usize>(b: &mut [u8; N], at: usize, syndrome: Syndrome) {
    b[at] = syndrome.0;
}

headers! {
    /// Datagram extended transport header (9.3.3): in every UD packet.
    Deth[8] {
        /// Queue key that the destination QP must hold.
        qkey: u32 = 0 get32 put32,
        /// Source QP, 24 bits.
        src_qp: u32 = 5 get24 put24,
    }

    /// XRC extended transport header (annex A14.3.2): in every request packet, after the BTH.
    Xrceth[4] {
        /// The responder's shared receive queue (24 bits).
        srq: u32 = 1 get24 put24,
    }

    /// RDMA extended transport header (9.3.4): where a WRITE or READ goes.
    Reth[16] {
        /// Address at the responder.
        virtual_address: u64 = 0 get64 put64,
        /// R_Key of the responder's memory.
        rkey: u32 = 8 get32 put32,
        /// Length of the whole message.
        dma_length: u32 = 12 get32 put32,
    }

    /// ACK extended transport header (9.3.5): in acknowledgements and READ responses.
    Aeth[4] {
        /// Acknowledged, refused or not ready.
        syndrome: Syndrome = 0 get_syndrome put_syndrome,
        /// Message sequence number: how many messages the responder has completed, 24 bits.
        msn: u32 = 1 get24 put24,
    }

    /// Atomic extended transport header (9.3.6): the operands of the request.
    AtomicEth[28] {
        /// Address at the responder, a multiple of eight.
        virtual_address: u64 = 0 get64 put64,
        /// R_Key of the responder's memory.
        rkey: u32 = 8 get32 put32,
        /// The value to swap in, or to add.
        swap_add: u64 = 12 get64 put64,
        /// The value to compare with (compare and swap only).
        compare: u64 = 20 get64 put64,
    }

    /// Atomic ACK extended transport header (9.5.3): the old value, in the response.
    AtomicAckEth[8] {
        /// What the memory held before the operation.
        original: u64 = 0 get64 put64,
    }

    /// Invalidate extended transport header (9.3.8).
    Ieth[4] {
        /// The R_Key that the responder shall invalidate.
        rkey: u32 = 0 get32 put32,
    }
}

/// Immediate data (9.3.7), opaque to the transport: kept in the order of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ImmDt {
    /// The four bytes as they are on the wire.
    pub bytes: [u8; 4],
}

impl ImmDt {
    /// Size of the header.
    pub const BYTES: usize = 4;

    /// From the `__be32` that verbs users hand over, which is the wire's order in memory.
    #[inline]
    pub const fn from_be_bits(value: u32) -> Self {
        Self { bytes: value.to_ne_bytes() }
    }

    /// The `__be32` of verbs.
    #[inline]
    pub const fn be_bits(&self) -> u32 {
        u32::from_ne_bytes(self.bytes)
    }

    /// Reads the header.
    #[inline]
    pub fn decode(b: &[u8; Self::BYTES]) -> Self {
        Self { bytes: *b }
    }

    /// Writes the header.
    #[inline]
    pub fn encode(&self, out: &mut [u8; Self::BYTES]) {
        *out = self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_in_order() {
        let header = AtomicEth {
            virtual_address: 0x0102_0304_0506_0708,
            rkey: 0x090a_0b0c,
            swap_add: 0x0d0e_0f10_1112_1314,
            compare: 0x1516_1718_191a_1b1c,
        };
        let mut out = [0; AtomicEth::BYTES];
        header.encode(&mut out);
        let expected: [u8; AtomicEth::BYTES] = std::array::from_fn(|i| i as u8 + 1);
        assert_eq!(out, expected);
        assert_eq!(AtomicEth::decode(&out), header);
    }

    #[test]
    fn the_users_htonl_is_the_wires_order() {
        let imm = ImmDt::from_be_bits(0x1122_3344u32.to_be());
        assert_eq!(imm.bytes, [0x11, 0x22, 0x33, 0x44]);
        assert_eq!(imm.be_bits(), 0x1122_3344u32.to_be());
    }
}
