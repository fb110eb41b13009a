//! The journal of a segment is one word for crash recovery: which queue pair is being changed.

use crate::env::Env;

/// An environment whose process may die at any instruction.
pub trait Journal: Env {
    /// Writes a word of the journal, before what it names is changed.
    fn note(&mut self, word: u64);
}

/// Something is being changed.
const OPEN: u64 = 1 << 63;
/// Its peer too.
const PAIR: u64 = 1 << 62;

/// The word for work on a queue pair.
#[inline(always)]
pub fn one(card: u16, qpn: u32) -> u64 {
    OPEN | u64::from(card) << 32 | u64::from(qpn)
}

/// The word for work on a queue pair and its peer.
#[inline(always)]
pub fn pair(card: u16, qpn: u32) -> u64 {
    PAIR | one(card, qpn)
}

/// The card and the QPN in a word, and whether the peer is changed too; `None` when nothing is.
pub fn read(word: u64) -> Option<(u16, u32, bool)> {
    (word & OPEN != 0).then_some(((word >> 32) as u16, word as u32, word & PAIR != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_were_written() {
        assert_eq!(read(0), None);
        assert_eq!(read(one(0, 0)), Some((0, 0, false)));
        assert_eq!(read(one(15, 0xff_ffff)), Some((15, 0xff_ffff, false)));
        assert_eq!(read(pair(15, 0xff_ffff)), Some((15, 0xff_ffff, true)));
    }
}
