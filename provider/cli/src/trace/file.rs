//! The trace file (`VBTRACE1`): what every block of the simulated cards did, and when.
//!
//! Little endian. A header of 64 bytes: magic, `u32` record size, `u32` number of cards, `u64`
//! reserved, 16 bytes of the profile's name, zeros. Then records of 40 bytes (or more: the size in
//! the header counts, what follows the known 40 bytes is skipped): `u64` start and end in
//! picoseconds, `u8` phase, card, port and flags, `u32` QPN, WQE index or PSN, bytes, running number
//! of the message of that card and QP, process slot.

use std::io::{self, Read};

use model::sim::trace::{Phase as Written, HEADER, MAGIC, PLACED, RECORD, RESPONDER};

/// More than any version would want: a file that says so is damaged.
const LARGEST_RECORD: usize = 4096;

/// What a span is about. The values are those of the file; unknown ones are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Phase(pub u8);

#[allow(missing_docs)]
impl Phase {
    pub const POST: Phase = Phase(Written::Post.0);
    pub const DOORBELL: Phase = Phase(Written::Doorbell.0);
    pub const WQE_FETCH: Phase = Phase(Written::WqeFetch.0);
    pub const PAYLOAD_FETCH: Phase = Phase(Written::PayloadFetch.0);
    pub const TX: Phase = Phase(Written::Tx.0);
    pub const WIRE: Phase = Phase(Written::Wire.0);
    pub const RX: Phase = Phase(Written::Rx.0);
    pub const DMA_WRITE: Phase = Phase(Written::DmaWrite.0);
    pub const ACK: Phase = Phase(Written::Ack.0);
    pub const CQE: Phase = Phase(Written::Cqe.0);
    pub const POLL: Phase = Phase(Written::Poll.0);
    pub const READ_RESPONSE: Phase = Phase(Written::ReadResponse.0);
    pub const INTERRUPT: Phase = Phase(Written::Interrupt.0);
}

impl Phase {
    /// Number of known phases.
    pub const COUNT: usize = 13;

    /// For people.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; Phase::COUNT] = [
            "post",
            "doorbell",
            "WQE fetch",
            "payload fetch",
            "TX",
            "wire",
            "RX",
            "DMA write",
            "ACK",
            "CQE",
            "poll",
            "read response",
            "interrupt",
        ];
        NAMES.get(usize::from(self.0)).copied().unwrap_or("unknown")
    }

    /// True for what the program's processor does rather than a card.
    pub fn of_host(self) -> bool {
        [Phase::POST, Phase::DOORBELL, Phase::POLL].contains(&self)
    }
}

/// One record: something was busy with a message for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Start, in picoseconds of simulated time.
    pub start: u64,
    /// End; never before the start.
    pub end: u64,
    /// What was done.
    pub phase: Phase,
    /// Card of the requester.
    pub card: u8,
    /// Port, from 0.
    pub port: u8,
    /// Bit 0: on the responder. Bit 1: the upper four bits have the number of the card it was on.
    pub flags: u8,
    /// QP of the requester.
    pub qpn: u32,
    /// WQE index, or PSN for packets.
    pub index: u32,
    /// Bytes: of the message for what is done once a message, else of the packet or transfer.
    pub bytes: u32,
    /// Running number of the message of that card and QP.
    pub message: u32,
    /// Slot of the process.
    pub process: u32,
}

impl Span {
    /// True when the responder did it.
    pub fn at_responder(&self) -> bool {
        self.flags & RESPONDER != 0
    }

    /// Card that did it, where the file says so.
    pub fn place(&self) -> Option<u8> {
        match self.flags {
            flags if flags & PLACED != 0 => Some(flags >> 4),
            flags if flags & RESPONDER == 0 => Some(self.card),
            _ => None,
        }
    }
}

/// A whole file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Number of cards.
    pub cards: u32,
    /// Name of their profile.
    pub profile: String,
    /// As written.
    pub spans: Vec<Span>,
    /// The last record was cut off: the run was killed while it wrote.
    pub cut: bool,
}

/// Why a file is no trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Could not be read.
    #[error("reading the trace: {0}")]
    Io(#[from] io::Error),
    /// Another kind of file.
    #[error(
        "it is no trace: it does not begin with VBTRACE1 (traces come from --trace FILE in virtual time)"
    )]
    Magic,
    /// A size that cannot be.
    #[error("its header says records of {0} bytes; they have at least {RECORD}")]
    RecordSize(u32),
    /// Time goes backwards within a record.
    #[error("record {0} ends at {2} ps, before its start at {1} ps: the file is damaged")]
    Backwards(usize, u64, u64),
}

impl Trace {
    /// Reads a whole file.
    pub fn read(mut source: impl Read) -> Result<Trace, TraceError> {
        let mut bytes = Vec::new();
        source.read_to_end(&mut bytes)?;
        if bytes.len() < HEADER || !bytes.starts_with(MAGIC) {
            return Err(TraceError::Magic);
        }
        let size = u32_at(&bytes, 8);
        let step = size as usize;
        if !(RECORD..=LARGEST_RECORD).contains(&step) {
            return Err(TraceError::RecordSize(size));
        }
        let name = bytes[24..40].split(|byte| *byte == 0).next().unwrap_or_default();
        let records = bytes[HEADER..].chunks_exact(step);
        let cut = !records.remainder().is_empty();
        let spans = records.enumerate().map(|(number, record)| span(number, record));
        Ok(Trace {
            cards: u32_at(&bytes, 12),
            profile: String::from_utf8_lossy(name).into_owned(),
            spans: spans.collect::<Result<_, _>>()?,
            cut,
        })
    }
}

fn span(number: usize, record: &[u8]) -> Result<Span, TraceError> {
    let span = Span {
        start: u64_at(record, 0),
        end: u64_at(record, 8),
        phase: Phase(record[16]),
        card: record[17],
        port: record[18],
        flags: record[19],
        qpn: u32_at(record, 20),
        index: u32_at(record, 24),
        bytes: u32_at(record, 28),
        message: u32_at(record, 32),
        process: u32_at(record, 36),
    };
    match span.end < span.start {
        true => Err(TraceError::Backwards(number, span.start, span.end)),
        false => Ok(span),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
