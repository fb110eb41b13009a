//! Spreading frames over receive work queues (RSS): by a hash of their fields, through an indirection table.

use crate::context::QpContext;
use crate::layout::{load, store};

open_enum! {
    /// How an RX-hash QP computes the hash; the numbers are those of
    /// `ibv_rx_hash_function_flags`.
    HashFunction: u8 {
        /// Toeplitz, with the 40 bytes of `hash_key0` to `hash_key4`.
        TOEPLITZ = 1,
    }
}

flag_set! {
    /// The fields of a frame that are hashed, in this order: source address,
    /// destination address, source port, destination port; the numbers are those
    /// of `ibv_rx_hash_fields`. What a frame does not have is left out: a fragment
    /// has no ports, and the hash of a frame without any of the fields is 0.
    HashFields: u32 {
        /// Source address of IPv4.
        SRC_IPV4 = 0,
        /// Destination address of IPv4.
        DST_IPV4 = 1,
        /// Source address of IPv6.
        SRC_IPV6 = 2,
        /// Destination address of IPv6.
        DST_IPV6 = 3,
        /// Source port of TCP.
        SRC_PORT_TCP = 4,
        /// Destination port of TCP.
        DST_PORT_TCP = 5,
        /// Source port of UDP.
        SRC_PORT_UDP = 6,
        /// Destination port of UDP.
        DST_PORT_UDP = 7,
    }
}

impl HashFields {
    /// All of them.
    pub const ALL: HashFields = HashFields(0xff);
}

/// Bytes of a Toeplitz key.
pub const HASH_KEY: usize = 40;

/// The key of Microsoft's verification suite ("Verifying the RSS Hash Calculation"), which most cards have at first.
pub const SUITE_KEY: [u8; HASH_KEY] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// The Toeplitz hash (Microsoft, "RSS Hashing Functions") of the hashed fields, one after the other, each in network order: at
/// most 36 bytes. A frame goes to the entry of its indirection table that the low bits give.
pub fn toeplitz(key: &[u8; HASH_KEY], input: &[u8]) -> u32 {
    let byte = |word: &[u8], n: usize| word.get(n).copied().unwrap_or(0);
    let word = |word: &[u8]| u32::from_be_bytes(core::array::from_fn(|n| byte(word, n)));
    toeplitz_by(carryless_product, key, input.chunks(4).map(word))
}

/// [`toeplitz`] of at most nine words, of which the last may be filled up with zeros, by a function that gives the product of two
/// polynomials over GF(2), less what is above bit 63: processors have an instruction for that.
#[inline(always)]
pub fn toeplitz_by(
    product: impl Fn(u32, u64) -> u64,
    key: &[u8; HASH_KEY],
    input: impl Iterator<Item = u32>,
) -> u32 {
    // A bit of the input that is set adds the 32 bits of the key that begin at its place. For 32 bits together that is a
    // product of polynomials.
    let places = (0..HASH_KEY - 4).step_by(4);
    places.zip(input).fold(0, |hash, (at, word)| {
        hash ^ (product(word.reverse_bits(), u64::from_be_bytes(load(key, at))) >> 32) as u32
    })
}

/// The product of two polynomials over GF(2), less what is above bit 63.
///
/// Integer products of every fourth bit: at most eight of `a` add up at a place, which the three bits above it hold (Thomas
/// Pornin, "Constant-Time Mul", BearSSL).
pub fn carryless_product(a: u32, b: u64) -> u64 {
    const EVERY_FOURTH: u64 = 0x1111_1111_1111_1111;
    let [a0, a1, a2, a3] = [0, 1, 2, 3].map(|n| u64::from(a) & EVERY_FOURTH << n);
    let [b0, b1, b2, b3] = [0, 1, 2, 3].map(|n| b & EVERY_FOURTH << n);
    let sum = |of: [(u64, u64); 4]| of.into_iter().fold(0, |sum, (a, b)| sum ^ a.wrapping_mul(b));
    sum([(a0, b0), (a1, b3), (a2, b2), (a3, b1)]) & EVERY_FOURTH
        | sum([(a0, b1), (a1, b0), (a2, b3), (a3, b2)]) & EVERY_FOURTH << 1
        | sum([(a0, b2), (a1, b1), (a2, b0), (a3, b3)]) & EVERY_FOURTH << 2
        | sum([(a0, b3), (a1, b2), (a2, b1), (a3, b0)]) & EVERY_FOURTH << 3
}

impl QpContext {
    const HASH_KEY_AT: usize = 128;

    /// The Toeplitz key, its bytes in the order in which they are used.
    pub const fn hash_key(&self) -> [u8; HASH_KEY] {
        load(self.as_bytes(), Self::HASH_KEY_AT)
    }

    /// A copy with the Toeplitz key.
    #[must_use]
    pub const fn with_hash_key(mut self, key: [u8; HASH_KEY]) -> Self {
        store(self.as_mut_bytes(), Self::HASH_KEY_AT, key);
        self
    }
}

layout! {
    /// An indirection table: CREATE_TABLE, MODIFY_TABLE. A frame goes to the work
    /// queue whose place in the table is the low bits of its hash.
    TableContext: 16 {
        /// DMA address of the numbers of the work queues, a u32 for each entry. The
        /// card reads them while it executes the command.
        entries_iova set_entries_iova with_entries_iova (u64 @ 0);
        /// Log2 of the entries.
        log_size set_log_size with_log_size (u8 @ 8);
    }
}

layout! {
    /// Limits of whole Ethernet frames: QUERY_ETHERNET.
    EthernetLimits: 32 {
        /// Most indirection tables.
        max_tables set_max_tables with_max_tables (u32 @ 0);
        /// Most entries of a table.
        max_table_entries set_max_table_entries with_max_table_entries (u32 @ 4);
        /// Most receive work queues. They are QPs, too.
        max_wq set_max_wq with_max_wq (u32 @ 8);
        /// Fields that can be hashed.
        hash_fields set_hash_fields with_hash_fields (u32 @ 12 as HashFields);
        /// Most bytes of data of a RAW_TSO (TSO).
        max_tso set_max_tso with_max_tso (u32 @ 16);
        /// Least rate limit of a QP in kbit/s (PACING).
        min_rate_limit set_min_rate_limit with_min_rate_limit (u32 @ 20);
        /// Largest rate limit of a QP in kbit/s (PACING).
        max_rate_limit set_max_rate_limit with_max_rate_limit (u32 @ 24);
    }
}
