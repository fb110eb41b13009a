//! The messages between a member and the keeper on the socket.
//!
//! One packet each way (SOCK_SEQPACKET): the member sends its purpose, the
//! keeper answers with the segment's sizes and, in the same packet, the memfd
//! and the eventfd. A process that only holds the segment gets the programs' namespaces instead, if there are any.
//! No message follows; the connection ends when the member does.

/// First word of both messages.
const MAGIC: u32 = u32::from_le_bytes(*b"VRBN");
/// Changes whenever the messages or the segment's layout change.
pub const PROTOCOL_VERSION: u32 = 0x2_0000 + crate::segment::layout::LAYOUT_VERSION;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A process that uses the cards.
    Member = 1,
    /// A process that only wants the segment to stay.
    Hold,
    /// A process that looks at the cards: a member for which the segment does not stay.
    Watch,
    /// A process that asks whether the keeper runs. The segment does not stay for it.
    Ask,
}

/// First packet, from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The client's version.
    pub version: u32,
    /// What it wants.
    pub kind: Kind,
}

impl Hello {
    /// Size on the wire.
    pub const BYTES: usize = 16;

    /// To the wire.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        words([MAGIC, self.version, self.kind as u32, 0])
    }

    /// From the wire; `None` if that is no such message.
    pub fn decode(bytes: &[u8]) -> Option<Hello> {
        let [magic, version, kind, _]: [u32; 4] = from_words(bytes)?;
        let all = [Kind::Member, Kind::Hold, Kind::Watch, Kind::Ask];
        let kind = all.into_iter().find(|known| *known as u32 == kind)?;
        (magic == MAGIC).then_some(Hello { version, kind })
    }
}

/// The keeper's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict(pub u32);

impl Verdict {
    /// Accepted.
    pub const ACCEPTED: Verdict = Verdict(0);
    /// The client has another version; `version` is the keeper's.
    pub const OTHER_VERSION: Verdict = Verdict(1);
    /// Another user's process.
    pub const OTHER_USER: Verdict = Verdict(2);
    /// No free member index.
    pub const FULL: Verdict = Verdict(3);
}

/// The keeper's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// Version of the keeper.
    pub version: u32,
    /// The decision.
    pub verdict: Verdict,
    /// Its index.
    pub member: u16,
    /// The segment stays for nobody else.
    pub alone: bool,
    /// Size of the segment file.
    pub total_bytes: u64,
}

impl Welcome {
    /// Size on the wire.
    pub const BYTES: usize = 24;

    /// To the wire.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        words([
            MAGIC,
            self.version,
            self.verdict.0,
            u32::from(self.member) | u32::from(self.alone) << 16,
            self.total_bytes as u32,
            (self.total_bytes >> 32) as u32,
        ])
    }

    /// From the wire; `None` if that is no such message.
    pub fn decode(bytes: &[u8]) -> Option<Welcome> {
        let [magic, version, verdict, member, low, high]: [u32; 6] = from_words(bytes)?;
        (magic == MAGIC).then_some(Welcome {
            version,
            verdict: Verdict(verdict),
            member: member as u16,
            alone: member >> 16 != 0,
            total_bytes: u64::from(low) | u64::from(high) << 32,
        })
    }
}

fn words<const WORDS: usize, const BYTES: usize>(words: [u32; WORDS]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

fn from_words<const WORDS: usize>(bytes: &[u8]) -> Option<[u32; WORDS]> {
    if bytes.len() != WORDS * 4 {
        return None;
    }
    let mut words = [0; WORDS];
    for (word, from) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_le_bytes(from.try_into().ok()?);
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_the_wire() {
        for kind in [Kind::Member, Kind::Hold, Kind::Watch, Kind::Ask] {
            let hello = Hello { version: PROTOCOL_VERSION, kind };
            assert_eq!(Hello::decode(&hello.encode()), Some(hello));
        }
        for verdict in [Verdict::ACCEPTED, Verdict::FULL, Verdict(77)] {
            for alone in [false, true] {
                let total_bytes = 1 << 40 | 0x1234_5000;
                let welcome = Welcome { version: 3, verdict, member: 255, alone, total_bytes };
                assert_eq!(Welcome::decode(&welcome.encode()), Some(welcome));
            }
        }
    }

    #[test]
    fn other_bytes_are_not_messages() {
        assert_eq!(Hello::decode(b""), None);
        assert_eq!(Hello::decode(b"GET / HTTP/1.1\r\n"), None);
        assert_eq!(Welcome::decode(&[0; Welcome::BYTES]), None);
        assert_eq!(Hello::decode(&[0; 17]), None);
    }
}
