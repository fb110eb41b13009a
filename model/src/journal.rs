//! The journal of a segment is one word for crash recovery: which queue pair is being changed.

/// Something is being changed.
const OPEN: u64 = 1 << 63;
/// Its peer too.
const PAIR: u64 = 1 << 62;
/// The queue pair is another process's than that which works on it.
const ANOTHERS: u64 = 1 << 61;

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

/// The word for work on a queue pair of another process.
#[inline(always)]
pub fn anothers(card: u16, qpn: u32) -> u64 {
    ANOTHERS | one(card, qpn)
}

/// What a word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The card.
    pub card: u16,
    /// The queue pair's number.
    pub qpn: u32,
    /// Its peer is changed too.
    pub pair: bool,
    /// It is another process's than that which works on it.
    pub anothers: bool,
}

/// Reads a word; `None` when nothing is changed.
pub fn read(word: u64) -> Option<Entry> {
    let has = |bit| word & bit != 0;
    let (card, qpn) = ((word >> 32) as u16, word as u32);
    has(OPEN).then_some(Entry { card, qpn, pair: has(PAIR), anothers: has(ANOTHERS) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_were_written() {
        assert_eq!(read(0), None);
        let entry = |card, qpn, pair, anothers| Some(Entry { card, qpn, pair, anothers });
        assert_eq!(read(one(0, 0)), entry(0, 0, false, false));
        assert_eq!(read(one(15, 0xff_ffff)), entry(15, 0xff_ffff, false, false));
        assert_eq!(read(pair(15, 0xff_ffff)), entry(15, 0xff_ffff, true, false));
        assert_eq!(read(anothers(15, 0xff_ffff)), entry(15, 0xff_ffff, false, true));
    }
}
