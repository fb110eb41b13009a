//! The Toeplitz hash of a frame's addresses and ports (Microsoft, "RSS Hashing Functions"): which work queue gets it.
#![allow(unsafe_code)]

use std::arch::x86_64::{_mm_clmulepi64_si128, _mm_cvtsi128_si64, _mm_cvtsi64_si128};

use fpga_regs::{carryless_product, toeplitz_by, HashFields, HASH_KEY};

use super::parse::{Fields, DST_IP, PORTS, PROTOCOL, SRC_IP, SRC_PORT, VERSION};
use crate::wire::ipv4::PROTOCOL_TCP;

/// Words of the longest input: two addresses of IPv6, two ports.
const INPUT: usize = HASH_KEY / 4 - 1;

/// What is hashed.
struct Input {
    words: [u32; INPUT],
    len: usize,
}

impl Input {
    #[inline(always)]
    fn add<const N: usize>(&mut self, wanted: bool, words: [u32; N]) {
        if wanted {
            self.words[self.len..self.len + N].copy_from_slice(&words);
            self.len += N;
        }
    }
}

/// The hash of those of the fields that a frame has; 0 if it has none of them.
pub(crate) fn toeplitz(key: &[u8; HASH_KEY], frame: &Fields, fields: HashFields) -> u32 {
    let mut input = Input { words: [0; INPUT], len: 0 };
    let on = |field| fields.contains(field);
    let word = |at| u32::from_be_bytes(frame.get(at));
    let address = |at| [0, 4, 8, 12].map(|n| word(at + n));
    match frame.get::<1>(VERSION) {
        [4] => {
            input.add(on(HashFields::SRC_IPV4), [word(SRC_IP + 12)]);
            input.add(on(HashFields::DST_IPV4), [word(DST_IP + 12)]);
        }
        [6] => {
            input.add(on(HashFields::SRC_IPV6), address(SRC_IP));
            input.add(on(HashFields::DST_IPV6), address(DST_IP));
        }
        _ => {}
    }
    if frame.get(PORTS) == [1] {
        let (source, destination) = match frame.get(PROTOCOL) {
            [PROTOCOL_TCP] => (HashFields::SRC_PORT_TCP, HashFields::DST_PORT_TCP),
            _ => (HashFields::SRC_PORT_UDP, HashFields::DST_PORT_UDP),
        };
        // Both are one word. A port alone is the first half of one.
        let both = word(SRC_PORT);
        let ports = match (on(source), on(destination)) {
            (true, true) => both,
            (true, false) => both & !0xffff,
            (false, true) => both << 16,
            (false, false) => 0,
        };
        input.add(on(source) || on(destination), [ports]);
    }
    let input = &input.words[..input.len];
    match is_x86_feature_detected!("pclmulqdq") {
        // SAFETY: the processor has it.
        true => unsafe { by_instruction(key, input) },
        false => toeplitz_by(carryless_product, key, input.iter().copied()),
    }
}
/// The hash by carry-less multiplication.
#[allow(unused_unsafe)] // Rust 1.85 needs it, later ones do not.
#[target_feature(enable = "pclmulqdq")]
unsafe fn by_instruction(key: &[u8; HASH_KEY], input: &[u32]) -> u32 {
    let product = |a: u32, b: u64| {
        // SAFETY: as the caller promises; the others are of every x86-64.
        unsafe {
            let [a, b] = [u64::from(a), b].map(|factor| _mm_cvtsi64_si128(factor as i64));
            _mm_cvtsi128_si64(_mm_clmulepi64_si128::<0>(a, b)) as u64
        }
    };
    toeplitz_by(product, key, input.iter().copied())
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use fpga_regs::SUITE_KEY;

    use super::*;

    /// "Verifying the RSS Hash Calculation": destination, source, hash of the addresses, and with the ports of TCP.
    const SUITE: [(&str, u16, &str, u16, u32, u32); 8] = [
        ("161.142.100.80", 1766, "66.9.149.187", 2794, 0x323e8fc2, 0x51ccc178),
        ("65.69.140.83", 4739, "199.92.111.2", 14230, 0xd718262a, 0xc626b0ea),
        ("12.22.207.184", 38024, "24.19.198.95", 12898, 0xd2d0a5de, 0x5c2b394a),
        ("209.142.163.6", 2217, "38.27.205.30", 48228, 0x82989176, 0xafc7327f),
        ("202.188.127.2", 1303, "153.39.163.191", 44251, 0x5d1809c5, 0x10e828a2),
        ("3ffe:2501:200:3::1", 1766, "3ffe:2501:200:1fff::7", 2794, 0x2cc18cd5, 0x40207d3d),
        ("ff02::1", 4739, "3ffe:501:8::260:97ff:fe40:efab", 14230, 0x0f0c461c, 0xdde51bbf),
        (
            "fe80::200:f8ff:fe21:67cf",
            38024,
            "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
            44251,
            0x4b61e985,
            0x02d1feef,
        ),
    ];

    /// A TCP or UDP frame without anything that is not looked at.
    fn frame(source: (&str, u16), destination: (&str, u16), protocol: u8) -> Fields {
        let mut frame = vec![0; 12];
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        match (ip(source.0), ip(destination.0)) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                frame.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0]);
                frame.extend([from.octets(), to.octets()].concat());
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, protocol, 64]);
                frame.extend([from.octets(), to.octets()].concat());
            }
            _ => panic!("one version of IP"),
        }
        frame.extend([source.1.to_be_bytes(), destination.1.to_be_bytes()].concat());
        frame.resize(frame.len() + 16, 0);
        Fields::of(&frame)
    }

    const ADDRESSES: HashFields = HashFields(0b1111);

    #[test]
    fn the_hashes_are_those_of_the_verification_suite() {
        for (destination, to_port, source, from_port, addresses, with_ports) in SUITE {
            for protocol in [6, 17] {
                let frame = frame((source, from_port), (destination, to_port), protocol);
                assert_eq!(toeplitz(&SUITE_KEY, &frame, ADDRESSES), addresses, "{destination}");
                assert_eq!(toeplitz(&SUITE_KEY, &frame, HashFields::ALL), with_ports, "{destination}");
                let tcp = ADDRESSES | HashFields::SRC_PORT_TCP | HashFields::DST_PORT_TCP;
                let expected = if protocol == 6 { with_ports } else { addresses };
                assert_eq!(toeplitz(&SUITE_KEY, &frame, tcp), expected, "ports of TCP only");
            }
        }
    }

    #[test]
    fn a_symmetric_key_gives_both_directions_one_hash() {
        let key: [u8; HASH_KEY] = std::array::from_fn(|n| [0x6d, 0x5a][n % 2]);
        for (destination, to_port, source, from_port, ..) in SUITE {
            let there = frame((source, from_port), (destination, to_port), 6);
            let back = frame((destination, to_port), (source, from_port), 6);
            assert_eq!(
                toeplitz(&key, &there, HashFields::ALL),
                toeplitz(&key, &back, HashFields::ALL),
                "{destination}"
            );
        }
    }

    /// All fragments of a packet go to one queue, though only the first has its ports.
    #[test]
    fn fragments_are_hashed_without_ports() {
        let addresses = [198, 18, 0, 1, 198, 18, 0, 2];
        let ipv4 = |fragment: [u8; 2]| {
            let start = [&[0; 12][..], &[8, 0, 0x45, 0, 0, 40, 0, 0], &fragment, &[64, 17, 0, 0]].concat();
            Fields::of(&[&start[..], &addresses, &[7; 20]].concat())
        };
        let ipv6 = |fragment: [u8; 2]| {
            let start = [&[0; 12][..], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 28, 44, 64], &[0xab; 32]].concat();
            Fields::of(&[&start[..], &[17, 0], &fragment, &[0, 0, 0, 1], &[7; 20]].concat())
        };
        let both = |frame: &Fields| [HashFields::ALL, ADDRESSES].map(|on| toeplitz(&SUITE_KEY, frame, on));
        // A part with more after it, one between, the last.
        for (whole, parts) in [
            (ipv4([0x40, 0]), [[0x20, 0], [0x20, 1], [0, 2]].map(ipv4)),
            (ipv6([0, 6]), [[0, 1], [0, 9], [0, 16]].map(ipv6)),
        ] {
            let [with_ports, addresses] = both(&whole);
            assert_ne!(with_ports, addresses);
            for part in parts {
                assert_eq!(both(&part), [addresses; 2]);
            }
        }
    }

    #[test]
    fn what_a_frame_does_not_have_is_left_out() {
        assert_eq!(toeplitz(&SUITE_KEY, &Fields::of(&[0xff; 60]), HashFields::ALL), 0);
        let frame = frame(("1.2.3.4", 5), ("6.7.8.9", 10), 6);
        assert_eq!(toeplitz(&SUITE_KEY, &frame, HashFields::empty()), 0);
        assert_eq!(toeplitz(&SUITE_KEY, &frame, HashFields::SRC_IPV6 | HashFields::SRC_PORT_UDP), 0);
    }
}
