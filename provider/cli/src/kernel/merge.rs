//! TCP that has come in frames, put together for the kernel (generic receive offload): it then looks up a connection once for
//! many of them.
//!
//! A message is of frames that follow one another, and that the kernel would cut it into again: they differ in lengths,
//! identification, checksums and sequence numbers only, and in a push by the last one. All have as much data, but the last may have
//! less.

use std::io::IoSlice;
use std::ops::Range;

use model::wire::checksum::{Checksums, Partial};
use model::wire::sum::checksum;

use super::queue::BATCH;
use super::tap::Cut;

/// Bytes of Ethernet's header.
const ETHERNET: usize = 14;
/// Bytes of the longest headers: of Ethernet, IPv6 and TCP.
const HEADERS: usize = ETHERNET + 40 + 60;
/// Most bytes behind Ethernet's header, by the length field of IP.
const LONGEST: usize = u16::MAX as usize;
/// Most pieces of a message, with what goes before it.
pub const PIECES: usize = BATCH + 4;
/// Flags of TCP (RFC 9293 3.1).
const PSH: u8 = 1 << 3;
const ACK: u8 = 1 << 4;

/// A frame that has come.
#[derive(Clone, Copy, Default)]
pub struct Frame<'a> {
    /// Without its check sequence.
    pub bytes: &'a [u8],
    /// Checksums that the card has found right.
    pub right: Checksums,
}

/// The first of some frames, or several of them as one.
pub struct Message<'a> {
    frames: &'a [Frame<'a>],
    /// Its headers, if it is of several.
    headers: [u8; HEADERS],
    /// The checksum that is left to the kernel, which takes it for right; `None`: the frame is as it came.
    pub partial: Option<Partial>,
    /// How it is to be cut into frames again, if it is of several.
    pub cut: Option<Cut>,
    /// Those are of IPv4, not IPv6.
    pub is_ipv4: bool,
}

/// The headers of a frame of TCP that may be a part of a message.
struct Headers {
    is_ipv4: bool,
    tcp: usize,
    data: usize,
    sequence: u32,
    pushes: bool,
}

fn get16(bytes: &[u8], at: usize) -> usize {
    usize::from(bytes[at]) << 8 | usize::from(bytes[at + 1])
}

impl Headers {
    /// Of IPv4 that must not be fragmented, whose identification says nothing then (RFC 6864 4.1), or of IPv6; with data, and no flag
    /// but those of usual data.
    fn of(frame: &Frame<'_>) -> Option<Headers> {
        let Frame { bytes, right } = frame;
        let packet = bytes.get(ETHERNET..)?;
        let (is_ipv4, length) = match (&bytes[12..ETHERNET], packet) {
            ([8, 0], [0x45, _, _, _, _, _, 0x40, 0, _, 6, ..]) if right.ip => (true, get16(packet, 2)),
            ([0x86, 0xdd], [0x60..=0x6f, _, _, _, _, _, 6, ..]) => (false, 40 + get16(packet, 4)),
            _ => return None,
        };
        // No padding.
        let tcp = ETHERNET + if is_ipv4 { 20 } else { 40 };
        let header = bytes.get(tcp..tcp + 20).filter(|_| right.l4 && length == packet.len())?;
        let data = tcp + usize::from(header[12] >> 4) * 4;
        let plain = header[13] & !PSH == ACK && (tcp + 20..bytes.len()).contains(&data);
        let sequence = u32::from_be_bytes(*header[4..].first_chunk()?);
        plain.then_some(Headers { is_ipv4, tcp, data, sequence, pushes: header[13] & PSH != 0 })
    }

    /// The bytes that all frames of a message have alike.
    fn alike(&self) -> [Range<usize>; 6] {
        let (ip, tcp) = (ETHERNET, self.tcp);
        let [a, b] = match self.is_ipv4 {
            true => [0..ip + 2, ip + 6..ip + 10],
            false => [0..ip + 4, ip + 6..ip + 8],
        };
        let addresses = tcp - if self.is_ipv4 { 8 } else { 32 };
        // The flags are known.
        [a, b, addresses..tcp + 4, tcp + 8..tcp + 13, tcp + 14..tcp + 16, tcp + 18..self.data]
    }
}

impl<'a> Message<'a> {
    /// The message that some frames begin with, of which there is one at least.
    pub fn first_of(frames: &'a [Frame<'a>]) -> Message<'a> {
        let first = &frames[0];
        let partial = Partial::of(first.bytes).filter(|_| first.right.l4);
        let alone =
            Message { frames: &frames[..1], headers: [0; HEADERS], partial, cut: None, is_ipv4: false };
        let (Some(partial), Some(headers)) = (partial, Headers::of(first)) else { return alone };
        let mss = first.bytes.len() - headers.data;
        let (mut count, mut bytes, mut last) = (1, first.bytes.len(), headers.pushes);
        let mut pushes = last;
        while let Some(next) = frames.get(count).filter(|_| !last) {
            let Some(of_next) = Headers::of(next) else { break };
            let data = next.bytes.len() - of_next.data;
            let follows = of_next.sequence == headers.sequence.wrapping_add((bytes - headers.data) as u32);
            let same = |range: Range<usize>| first.bytes[range.clone()] == next.bytes[range];
            let fits = data <= mss && bytes - ETHERNET + data <= LONGEST;
            if !(follows && fits && of_next.data == headers.data && headers.alike().into_iter().all(same)) {
                break;
            }
            (count, bytes, pushes) = (count + 1, bytes + data, of_next.pushes);
            last = pushes || data < mss;
        }
        if count == 1 {
            return alone;
        }
        let Headers { is_ipv4, data: header, .. } = headers;
        let cut = Some(Cut { header, mss: mss as u16 });
        let mut message = Message { frames: &frames[..count], cut, is_ipv4, ..alone };
        message.partial = Some(message.write(&headers, partial, bytes, pushes));
        message
    }

    /// Writes the headers of `bytes` in all; gives the checksum that is left.
    fn write(&mut self, of: &Headers, first: Partial, bytes: usize, pushes: bool) -> Partial {
        let before = self.frames[0].bytes;
        let headers = &mut self.headers[..of.data];
        headers.copy_from_slice(&before[..of.data]);
        let packet = bytes - ETHERNET;
        let (at, length) = if of.is_ipv4 { (ETHERNET + 2, packet) } else { (ETHERNET + 4, packet - 40) };
        headers[at..at + 2].copy_from_slice(&(length as u16).to_be_bytes());
        if of.is_ipv4 {
            headers[ETHERNET + 10..ETHERNET + 12].fill(0);
            let sum = checksum(&headers[ETHERNET..of.tcp]);
            headers[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&sum.to_be_bytes());
        }
        headers[of.tcp + 13] |= if pushes { PSH } else { 0 };
        // The pseudo-header has the length of all.
        let sum = u32::from(first.pseudo) + (bytes - before.len()) as u32;
        Partial { pseudo: (sum + (sum >> 16)) as u16, ..first }
    }

    /// The frames that it is of.
    pub fn count(&self) -> usize {
        self.frames.len()
    }

    /// Its bytes, with the partial checksum `sum`, in pieces.
    pub fn pieces<'b>(&'b self, sum: &'b [u8; 2], pieces: &mut Vec<IoSlice<'b>>) {
        let headers = self.cut.map_or(self.frames[0].bytes, |cut| &self.headers[..cut.header]);
        match self.partial {
            None => pieces.push(IoSlice::new(headers)),
            Some(Partial { field, .. }) => {
                let (before, after) = (&headers[..field], &headers[field + 2..]);
                pieces.extend([before, sum, after].map(IoSlice::new));
            }
        }
        if let Some(cut) = self.cut {
            pieces.extend(self.frames.iter().map(|frame| IoSlice::new(&frame.bytes[cut.header..])));
        }
    }
}

#[cfg(test)]
mod tests {
    use model::wire::segments::{Part, Template};
    use proptest::prelude::*;

    use super::*;

    /// Headers of TCP with 12 bytes of options, and data.
    fn message(ipv6: bool, data: usize) -> (Vec<u8>, usize) {
        let mut message = vec![2; 12];
        if ipv6 {
            message.extend([0x86, 0xdd, 0x60, 1, 2, 3, 0, 0, 6, 64]);
            message.extend([7; 32]);
        } else {
            message.extend([8, 0, 0x45, 0, 0, 0, 1, 2, 0x40, 0, 64, 6, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
        }
        message.extend([0, 1, 0, 2, 0xff, 0xff, 0xff, 0, 0, 0, 0, 9, 0x80, ACK | PSH, 16, 0, 0, 0, 0, 0]);
        message.extend([1; 12]);
        let header = message.len();
        message.extend((0..data).map(|n| (n * 7 / 5) as u8));
        (message, header)
    }

    /// The frames that the card makes of it.
    fn frames(message: &[u8], header: usize, mss: usize) -> Vec<Vec<u8>> {
        let template = Template::of(&message[..header]).expect("TCP");
        let data = message[header..].chunks(mss);
        let count = data.len();
        let frame = |(nth, data): (usize, &[u8])| {
            let mut frame = [&message[..header], data].concat();
            let part = Part { nth: nth as u32, offset: (nth * mss) as u32, last: nth + 1 == count };
            template.finish(&mut frame, part);
            frame
        };
        data.enumerate().map(frame).collect()
    }

    fn came(frames: &[Vec<u8>]) -> Vec<Frame<'_>> {
        frames.iter().map(|bytes| Frame { bytes, right: Checksums::right(bytes) }).collect()
    }

    /// What the kernel gets, with the checksum completed.
    fn given(message: &Message<'_>) -> Vec<u8> {
        let sum = message.partial.map_or([0; 2], |partial| partial.pseudo.to_be_bytes());
        let mut pieces = Vec::new();
        message.pieces(&sum, &mut pieces);
        assert!(pieces.len() < PIECES);
        let mut bytes = pieces.iter().flat_map(|piece| piece.iter().copied()).collect::<Vec<u8>>();
        if let Some(Partial { start, field, .. }) = message.partial {
            let sum = checksum(&bytes[start..]).to_be_bytes();
            bytes[field..field + 2].copy_from_slice(&sum);
        }
        bytes
    }

    proptest! {
        /// What the card cuts is the same again when it is put together.
        #[test]
        fn a_message_survives_being_cut(ipv6: bool, data in 1usize..60_000, mss in 1000usize..9000) {
            let (mut whole, header) = message(ipv6, data);
            let cut = frames(&whole, header, mss);
            let came = came(&cut);
            let merged = Message::first_of(&came);
            prop_assert_eq!(merged.count(), cut.len());
            prop_assert_eq!(merged.cut, (cut.len() > 1).then_some(Cut { header, mss: mss as u16 }));
            prop_assert_eq!(merged.is_ipv4, cut.len() > 1 && !ipv6);
            Template::of(&whole[..header]).expect("TCP").finish(&mut whole, Part { nth: 0, offset: 0, last: true });
            prop_assert_eq!(given(&merged), whole);
        }
    }

    /// Each of these keeps the second of three frames from being put behind the first.
    #[test]
    fn what_differs_is_not_put_together() {
        for ipv6 in [false, true] {
            let (whole, header) = message(ipv6, 3000);
            let good = frames(&whole, header, 1000);
            assert_eq!(Message::first_of(&came(&good)).count(), 3);
            let tcp = header - 32;
            let ip_version = [(14, 0x46), (20, 0), (14 + 8, 63), (26, 1)];
            let ip_version = if ipv6 { [(15, 9), (20, 17), (21, 1), (30, 1)] } else { ip_version };
            let of_tcp =
                [(0, 9), (3, 9), (7, 9), (11, 8), (12, 0x70), (13, ACK | 1), (14, 1), (19, 1), (25, 2)];
            let places = of_tcp.map(|(at, byte)| (tcp + at, byte));
            for (at, byte) in [(0, 3), (8, 3)].into_iter().chain(ip_version).chain(places) {
                let mut frames = good.clone();
                frames[1][at] = byte;
                Checksums { ip: true, l4: true }.fill(&mut frames[1]);
                assert_eq!(Message::first_of(&came(&frames)).count(), 1, "byte {at}, IPv6 {ipv6}");
            }
            let mut wrong = good.clone();
            wrong[1][header] ^= 1;
            assert_eq!(Message::first_of(&came(&wrong)).count(), 1, "its checksum is wrong");
            let mut padded = good.clone();
            padded[1].push(0);
            assert_eq!(Message::first_of(&came(&padded)).count(), 1, "there is more than the packet");
            let swapped = [good[0].clone(), good[2].clone(), good[1].clone()];
            assert_eq!(Message::first_of(&came(&swapped)).count(), 1, "another order");
        }
    }

    /// A push and a short frame are the last ones.
    #[test]
    fn nothing_follows_the_last_frame() {
        let (whole, header) = message(false, 3000);
        let mut pushed = frames(&whole, header, 1000);
        pushed[1][header - 32 + 13] |= PSH;
        Checksums { ip: false, l4: true }.fill(&mut pushed[1]);
        assert_eq!(Message::first_of(&came(&pushed)).count(), 2);
        let mut frames = frames(&whole, header, 1000);
        let mut short = frames[1].clone();
        short.truncate(short.len() - 1);
        let length = (short.len() - 14) as u16;
        short[16..18].copy_from_slice(&length.to_be_bytes());
        Checksums { ip: true, l4: true }.fill(&mut short);
        frames[1] = short;
        assert_eq!(Message::first_of(&came(&frames)).count(), 2);
    }

    /// Those of a frame whose checksum is wrong, or that has none, are the kernel's to look at.
    #[test]
    fn a_frame_that_is_alone_is_as_it_came() {
        let (whole, header) = message(true, 100);
        let mut frame = frames(&whole, header, 1000);
        assert_eq!(given(&Message::first_of(&came(&frame))), frame[0]);
        assert!(Message::first_of(&came(&frame)).partial.is_some());
        frame[0][header] ^= 1;
        let came = came(&frame);
        let message = Message::first_of(&came);
        assert_eq!((message.partial, given(&message)), (None, frame[0].clone()));
        for bytes in [&[][..], &[1; 13], &[2; 60]] {
            let right = Checksums { ip: true, l4: true };
            let odd = [Frame { bytes, right }];
            assert_eq!(given(&Message::first_of(&odd)), bytes);
        }
    }
}
