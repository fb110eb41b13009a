//! The management datagrams of a record, and whether the card's are those that Linux sends in its place, byte for byte.

use std::collections::HashMap;
use std::path::Path;

use model::wire::{frame, Network};
use tests::guest::Rxe;

use super::fields::{As, As::*, Class, Field, IPV4, IPV6, LOCAL_ID, MAD, MESSAGES, TRANSPORT};

/// Bytes of a datagram, and of its header.
const BYTES: usize = 256;
const HEADER: usize = 24;

/// A datagram and the headers before it, from IP to DETH.
#[derive(Clone)]
pub struct Datagram {
    /// The card's, not rxe's.
    ours: bool,
    /// Of the side that wants to connect.
    active: bool,
    headers: Vec<u8>,
    mad: [u8; BYTES],
}

/// All datagrams about one request.
pub struct Exchange {
    /// The service that was asked for: port space and port.
    pub service: u64,
    /// The card asked for it, not rxe.
    pub ours: bool,
    v6: bool,
    /// Addresses of the side that asked, and of the other, as many bytes as they have.
    ends: [Vec<u8>; 2],
    datagrams: Vec<Datagram>,
}

const REQ: u8 = 0x10;
const MRA: u8 = 0x11;
const REJ: u8 = 0x12;
/// A reason of a REJ: the program does not want the connection.
const CONSUMER: [u8; 2] = [0, 28];
const SIDR_REQ: u8 = 0x17;
const SIDR_REP: u8 = 0x18;

impl Datagram {
    fn attribute(&self) -> u8 {
        self.mad[17]
    }

    /// A program's REJ to a REQ. Linux has its own number for the connection only after its handler of the REQ has returned:
    /// a program that is faster says 0.
    fn rejects_a_request(&self) -> bool {
        let reason = &self.mad[HEADER + 10..HEADER + 12];
        self.attribute() == REJ && !self.active && reason == CONSUMER
    }

    fn message(&self) -> (&'static str, &'static [Field]) {
        let found = MESSAGES.iter().find(|message| message.0 == self.attribute());
        let found = found.unwrap_or_else(|| panic!("attribute {:#x}: {:02x?}", self.attribute(), self.mad));
        (found.1, found.2)
    }

    /// Its fields with their bytes, from the IP header on.
    fn fields(&self) -> Vec<(&'static str, As, &[u8])> {
        let network = if self.headers[0] >> 4 == 4 { IPV4 } else { IPV6 };
        let parts = [(&self.headers[..], [network, TRANSPORT]), (&self.mad[..], [MAD, self.message().1])];
        let mut fields = Vec::new();
        for (mut bytes, tables) in parts {
            for &(name, length, how) in tables.into_iter().flatten() {
                let (field, rest) = bytes.split_at(length);
                let how = if name == LOCAL_ID && self.rejects_a_request() { Counted } else { how };
                fields.push((name, how, field));
                bytes = rest;
            }
            assert!(bytes.is_empty(), "{} bytes of a {} in no field", bytes.len(), self.message().0);
        }
        fields
    }
}

/// The exchanges of a record, in the order of their requests.
pub fn exchanges(record: &Path) -> Vec<Exchange> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    // By an end and its number for it.
    let mut known: HashMap<(Vec<u8>, [u8; 4]), usize> = HashMap::new();
    for frame in frames(record) {
        let Ok(read) = frame::decode(&frame) else { continue };
        let Ok(mad) = <[u8; BYTES]>::try_from(read.payload) else { continue };
        if mad[..4] != [1, 7, 2, 3] {
            continue;
        }
        let v6 = matches!(read.path.network, Network::V6(_));
        let (src, dst) = match v6 {
            true => (read.ip_header[8..24].to_vec(), read.ip_header[24..40].to_vec()),
            false => (read.ip_header[12..16].to_vec(), read.ip_header[16..20].to_vec()),
        };
        let word = |at: usize| *mad[HEADER + at..].first_chunk().expect("four bytes");
        // Ethernet before, ICRC after the datagram.
        let headers = frame[14..frame.len() - BYTES - 4].to_vec();
        let ours = read.path.src_mac != Rxe::MAC;
        let mut datagram = Datagram { ours, active: true, headers, mad };
        let at = match mad[17] {
            REQ | SIDR_REQ => {
                let key = (src.clone(), word(0));
                let again = known.get(&key).is_some_and(|&at| exchanges[at].datagrams[0].mad == mad);
                if !again {
                    known.insert(key.clone(), exchanges.len());
                    let service = mad[HEADER + 8..].first_chunk().map_or(0, |id| u64::from_be_bytes(*id));
                    exchanges.push(Exchange { service, ours, v6, ends: [src, dst], datagrams: Vec::new() });
                }
                known[&key]
            }
            SIDR_REP => {
                datagram.active = false;
                known[&(dst, word(0))]
            }
            _ => {
                let (active, passive) = (known.get(&(src, word(0))), known.get(&(dst, word(4))));
                datagram.active = active.is_some();
                *active.or(passive).unwrap_or_else(|| panic!("of no exchange: {mad:02x?}"))
            }
        };
        // What was sent again, because the machine was busy, says nothing new.
        let sent = &mut exchanges[at].datagrams;
        if !sent.iter().any(|other| other.mad == datagram.mad && other.ours == datagram.ours) {
            sent.push(datagram);
        }
    }
    exchanges
}

impl Exchange {
    /// The names of its messages, those of the side that asked with a star.
    pub fn messages(&self) -> Vec<String> {
        let star = |active| if active { "*" } else { "" };
        self.datagrams.iter().map(|it| format!("{}{}", it.message().0, star(it.active))).collect()
    }

    /// Leaves out that somebody asked for patience, as it may be where the machine is busy.
    pub fn without_patience(mut self) -> Exchange {
        self.datagrams.retain(|datagram| datagram.attribute() != MRA);
        self
    }

    /// Every field as it is compared, with its name and bytes.
    fn normal(&self) -> Vec<(String, Vec<u8>, Vec<u8>)> {
        let mut choices: HashMap<(Class, Vec<u8>), u8> = HashMap::new();
        let mut counts: HashMap<Class, u8> = HashMap::new();
        let mut normal = Vec::new();
        for datagram in &self.datagrams {
            for (name, how, bytes) in datagram.fields() {
                let mut choose = |class| match bytes.iter().all(|&byte| byte == 0) {
                    true => vec![0],
                    false => vec![*choices.entry((class, bytes.to_vec())).or_insert_with(|| {
                        let count = counts.entry(class).or_default();
                        *count += 1;
                        *count
                    })],
                };
                let said = match how {
                    Same => bytes.to_vec(),
                    Choice(class) => choose(class),
                    Address => self.end(bytes),
                    Label => self.label(datagram, bytes),
                    Counted => Vec::new(),
                    SourcePort => vec![u8::from(bytes[0] >= 0xc0)],
                    Known(ours, theirs) => {
                        vec![u8::from(bytes == [if datagram.ours { ours } else { theirs }])]
                    }
                };
                normal.push((format!("{}: {name}", datagram.message().0), said, bytes.to_vec()));
            }
        }
        normal
    }

    /// An address as an end of the exchange, with what is before it.
    fn end(&self, bytes: &[u8]) -> Vec<u8> {
        let (before, address) = bytes.split_at(bytes.len() - if self.v6 { 16 } else { 4 });
        match self.ends.iter().position(|end| end == address) {
            Some(end) => [before, &[end as u8]].concat(),
            None => bytes.to_vec(),
        }
    }

    /// A flow label, by whether it is that of the two ports, and the rate.
    fn label(&self, datagram: &Datagram, bytes: &[u8]) -> Vec<u8> {
        let word = u32::from_be_bytes(*bytes.first_chunk().expect("four bytes"));
        const PORT: usize = HEADER + 142;
        let port = u32::from(datagram.mad[PORT]) << 8 | u32::from(datagram.mad[PORT + 1]);
        let right = (port * 31 + (self.service & 0xffff) as u32) & 0xf_ffff;
        vec![u8::from(word >> 12 == right), (word >> 8) as u8 & 0xf, word as u8]
    }

    /// Where the card's exchange differs from that of rxe in the same place, each with the bytes of both.
    pub fn differences(&self, theirs: &Exchange) -> Vec<String> {
        assert!(self.ours != theirs.ours && self.service == theirs.service && self.v6 == theirs.v6);
        let (mine, other) = (self.messages(), theirs.messages());
        if mine != other {
            return vec![format!("messages {mine:?}, Linux' {other:?}")];
        }
        let (mine, other) = (self.normal(), theirs.normal());
        let pairs = mine.iter().zip(&other).filter(|(mine, other)| mine.1 != other.1);
        pairs.map(|(mine, other)| format!("{}: {:02x?} and {:02x?}", mine.0, mine.2, other.2)).collect()
    }

    /// What was asked for, for all exchanges about the same to have the same place.
    pub fn kind(&self) -> (u64, bool) {
        (self.service, self.v6)
    }

    /// Fails unless a changed byte of each field that is compared is found, in each datagram of a kind that is not among
    /// those `seen`.
    pub fn expect_changes_to_be_found(&self, theirs: &Exchange, seen: &mut Vec<&'static str>) {
        for index in 0..self.datagrams.len() {
            let datagram = &self.datagrams[index];
            let kind = datagram.message().0;
            if !datagram.ours || seen.contains(&kind) {
                continue;
            }
            seen.push(kind);
            let mut changed =
                Exchange { datagrams: self.datagrams.clone(), ends: self.ends.clone(), ..*self };
            let mut at = 0;
            for (name, how, bytes) in self.datagrams[index].fields() {
                if matches!(how, Same | Address | Label | Known(..)) {
                    for byte in at..at + bytes.len() {
                        let datagram = &mut changed.datagrams[index];
                        let headers = datagram.headers.len();
                        let place = match byte < headers {
                            true => &mut datagram.headers[byte],
                            false => &mut datagram.mad[byte - headers],
                        };
                        let is_kind = byte == headers + 17 || byte == 0;
                        let before = *place;
                        *place ^= if is_kind { 0 } else { 0x10 };
                        let found = is_kind || !changed.differences(theirs).is_empty();
                        assert!(found, "a change of byte {byte}, {name}, is not found");
                        let datagram = &mut changed.datagrams[index];
                        match byte < headers {
                            true => datagram.headers[byte] = before,
                            false => datagram.mad[byte - headers] = before,
                        }
                    }
                }
                at += bytes.len();
            }
        }
    }
}

/// The whole frames of a pcap file, Ethernet first. Its last record may still be half written.
pub fn frames(record: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(record).expect("the record");
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
    assert_eq!((word(0), word(20)), (0xa1b2_c3d4, 1), "a pcap file of Ethernet frames");
    let mut frames = Vec::new();
    let mut at = 24;
    while at + 16 <= bytes.len() {
        let (kept, length) = (word(at + 8), word(at + 12));
        let Some(frame) = bytes.get(at + 16..at + 16 + kept) else { break };
        if kept == length {
            frames.push(frame.to_vec());
        }
        at += 16 + kept;
    }
    frames
}
