//! Packets of any pieces: what is copied of those that are whole, and that others are known before a byte is read.
#![allow(unsafe_code)]

use std::ptr::null_mut;

use proptest::prelude::*;

use super::mbuf::Mbuf;

/// Bytes of a buffer, which fill its page to the end: what is read behind them is not there.
const BUFFER: usize = 256;
const PAGE: usize = 4096;

/// A page behind which no memory is.
struct Edge(*mut u8);

impl Edge {
    fn new() -> Edge {
        // SAFETY: new mappings, the second of which nobody may touch.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let at = libc::mmap(null_mut(), 2 * PAGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(at.byte_add(PAGE), PAGE, libc::PROT_NONE), 0);
            Edge(at.cast())
        }
    }

    /// The last bytes of the page.
    fn buffer(&self) -> *mut u8 {
        self.0.wrapping_add(PAGE - BUFFER)
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        // SAFETY: our mapping.
        unsafe { libc::munmap(self.0.cast(), 2 * PAGE) };
    }
}

/// Where the data of a piece begins, and its bytes.
type Piece = (u16, u16);

fn right_piece() -> impl Strategy<Value = Piece> {
    (0..=BUFFER as u16).prop_flat_map(|off| (Just(off), 0..=BUFFER as u16 - off))
}

fn any_piece() -> impl Strategy<Value = Piece> {
    prop_oneof![4 => right_piece(), 1 => (any::<u16>(), any::<u16>())]
}

/// A packet of these pieces, which says that it has `count` and `length`.
struct Packet {
    mbufs: Vec<Mbuf>,
    _edges: Vec<Edge>,
    /// All that is in its pieces, one after the other, as far as they are within their buffers.
    bytes: Vec<u8>,
}

impl Packet {
    fn new(pieces: &[Piece]) -> Packet {
        // SAFETY: integers and pointers, which are filled in below.
        let mut mbufs: Vec<Mbuf> = pieces.iter().map(|_| unsafe { std::mem::zeroed() }).collect();
        let edges: Vec<Edge> = pieces.iter().map(|_| Edge::new()).collect();
        let mut bytes = Vec::new();
        for (n, &(off, length)) in pieces.iter().enumerate() {
            // SAFETY: the buffer of the piece.
            let buffer = unsafe { std::slice::from_raw_parts_mut(edges[n].buffer(), BUFFER) };
            for (at, byte) in buffer.iter_mut().enumerate() {
                *byte = (n * 31 + at * 7) as u8;
            }
            let (off, length) = (usize::from(off), usize::from(length));
            bytes.extend(buffer.get(off..off + length).unwrap_or(&[]));
        }
        let first = mbufs.as_mut_ptr();
        for (n, (mbuf, &(off, length))) in mbufs.iter_mut().zip(pieces).enumerate() {
            mbuf.buf_addr = edges[n].buffer();
            mbuf.buf_len = BUFFER as u16;
            mbuf.nb_segs = 1;
            (mbuf.data_off, mbuf.data_len) = (off, length);
            mbuf.next = if n + 1 == pieces.len() { null_mut() } else { first.wrapping_add(n + 1) };
        }
        Packet { mbufs, _edges: edges, bytes }
    }

    fn says(mut self, count: u16, length: u32) -> Packet {
        (self.mbufs[0].nb_segs, self.mbufs[0].pkt_len) = (count, length);
        self
    }

    fn is_whole(&self) -> bool {
        // SAFETY: live mbufs.
        unsafe { Mbuf::is_whole(self.mbufs.as_ptr()) }
    }
}

proptest! {
    /// A packet that is right is whole, also with pieces behind it that it does not count, and any part of it is copied.
    #[test]
    fn a_right_packet_is_copied(
        pieces in proptest::collection::vec(right_piece(), 1..6),
        behind in proptest::collection::vec(any_piece(), 0..2),
        (skip, length) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
    ) {
        let bytes = Packet::new(&pieces).bytes;
        let all = [pieces.clone(), behind].concat();
        let packet = Packet::new(&all).says(pieces.len() as u16, bytes.len() as u32);
        prop_assert!(packet.is_whole());
        let skip = skip.index(bytes.len() + 1);
        let length = length.index(bytes.len() - skip + 1);
        let mut to = vec![0xee; length + 1];
        // SAFETY: a whole packet, which has these bytes.
        unsafe { Mbuf::copy(packet.mbufs.as_ptr(), skip as u32, to.as_mut_ptr(), length as u32) };
        prop_assert_eq!(&to[..length], &bytes[skip..][..length]);
        prop_assert_eq!(to[length], 0xee);
    }

    /// Of any packet it is known whether all that it says is there.
    #[test]
    fn a_packet_that_lies_is_not_whole(
        pieces in proptest::collection::vec(any_piece(), 1..5),
        count in prop_oneof![3 => 0..6_u16, 1 => any::<u16>()],
        (honest, length) in (any::<bool>(), prop_oneof![0..1000_u32, any::<u32>()]),
    ) {
        let counted = pieces.iter().take(usize::from(count));
        let sum: u32 = counted.clone().map(|&(_, length)| u32::from(length)).sum();
        let length = if honest { sum } else { length };
        let within = |&(off, length): &Piece| usize::from(off) + usize::from(length) <= BUFFER;
        let there = usize::from(count) <= pieces.len();
        let right = there && counted.clone().all(within) && sum == length;
        prop_assert_eq!(Packet::new(&pieces).says(count, length).is_whole(), right);
    }
}

#[test]
fn each_lie_is_seen() {
    let two = || -> Vec<Piece> { vec![(0, 100), (56, 200)] };
    for (pieces, count, length, whole) in [
        (two(), 2, 300, true),
        // More pieces than there are, fewer, none; another length.
        (two(), 3, 300, false),
        (two(), 1, 300, false),
        (two(), 0, 300, false),
        (two(), 2, 299, false),
        (two(), 2, u32::MAX, false),
        // One byte behind the buffer; an end that is beyond sixteen bits.
        (vec![(57, 200)], 1, 200, false),
        (vec![(0xff00, 0x101)], 1, 0x101, false),
    ] {
        let said = format!("{count} pieces of {length} bytes: {pieces:?}");
        assert_eq!(Packet::new(&pieces).says(count, length).is_whole(), whole, "{said}");
    }
}
