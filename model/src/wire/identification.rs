//! The IP identification that an ICRC was computed with.
//!
//! The ICRC covers the identification, which a UDP socket does not tell. A CRC is linear: the difference between the
//! ICRC that came and that of a packet with identification 0 is the exclusive or of one word for each bit of the
//! identification. The words depend on the number of bytes that follow it.

use super::{Bth, Ipv4, Udp};

/// Bytes of the IPv4 header after the identification.
const IP_REST: usize = Ipv4::BYTES - 6;
/// Most bytes after the BTH for which words are kept: those of the largest packet.
const LONGEST: usize = 8192;

/// Words in echelon form, with the bits of the identification that they stand for.
type Words = [(u32, u16); 16];

/// Finds identifications. It keeps the words of lengths that came.
#[derive(Default)]
pub struct Identifications {
    by_length: Vec<Option<Box<Words>>>,
}

impl Identifications {
    /// The identification that makes the ICRC differ by `difference` from that of the same packet with identification
    /// 0, where `rest` bytes are between BTH and ICRC. `None`: none does.
    pub fn find(&mut self, difference: u32, rest: usize) -> Option<u16> {
        if difference == 0 {
            return Some(0);
        }
        if rest % 4 != 0 || rest > LONGEST {
            return None;
        }
        let slot = rest / 4;
        if self.by_length.len() <= slot {
            self.by_length.resize(slot + 1, None);
        }
        let words = self.by_length[slot].get_or_insert_with(|| Box::new(words(rest)));
        let mut left = difference;
        let mut id = 0;
        for &(word, bits) in words.iter() {
            if left & highest(word) != 0 {
                left ^= word;
                id ^= bits;
            }
        }
        (left == 0).then_some(id)
    }
}

fn highest(word: u32) -> u32 {
    1 << word.ilog2()
}

/// The words for packets with `rest` bytes between BTH and ICRC.
fn words(rest: usize) -> Words {
    let mut bytes = vec![0; 2 + IP_REST + Udp::BYTES + Bth::BYTES + rest];
    let zero = crc32fast::hash(&bytes);
    let mut words: Words = std::array::from_fn(|bit| {
        let bits = 1 << bit;
        bytes[..2].copy_from_slice(&u16::to_be_bytes(bits));
        (crc32fast::hash(&bytes) ^ zero, bits)
    });
    // Each word's highest bit is in no other word: a burst of 16 bits is never invisible to a CRC of 32.
    for pivot in 0..words.len() {
        let (word, bits) = words[pivot];
        for (at, other) in words.iter_mut().enumerate() {
            if at != pivot && other.0 & highest(word) != 0 {
                *other = (other.0 ^ word, other.1 ^ bits);
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::icrc;
    use super::*;

    #[test]
    fn every_identification_is_found() {
        let mut found = Identifications::default();
        let (udp, bth) = ([7; Udp::BYTES], [9; Bth::BYTES]);
        for rest in [0, 4, 256, 4112] {
            let rest = vec![0x5a; rest];
            let sum = |id: u16| {
                let mut ip = [3; Ipv4::BYTES];
                ip[4..6].copy_from_slice(&id.to_be_bytes());
                icrc::ipv4(&ip, &udp, &bth, &rest)
            };
            let zero = sum(0);
            for id in (0..=u16::MAX).step_by(97).chain(0..64) {
                assert_eq!(found.find(zero ^ sum(id), rest.len()), Some(id));
            }
            // Any other bit is damage.
            let mut ip = [3; Ipv4::BYTES];
            ip[4..6].fill(0);
            for at in [12, 16, 19] {
                ip[at] ^= 1;
                assert_eq!(found.find(zero ^ icrc::ipv4(&ip, &udp, &bth, &rest), rest.len()), None);
                ip[at] ^= 1;
            }
        }
        assert_eq!(found.find(1, 3), None);
        assert_eq!(found.find(1, LONGEST + 4), None);
    }
}
