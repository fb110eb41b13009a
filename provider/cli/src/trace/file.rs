//! The trace file (`VBTRACE1`, `docs/trace.md`): what every block of the simulated cards did, and when.
//!
//! Little endian. A header of 64 bytes: magic, `u32` record size, `u32` number of cards, `u64` reserved, 16
//! bytes of the profile's name, zeros. Then records: a [`Span`] each, and what follows it up to the size in the
//! header, which is skipped.

use std::io::{self, Read};

use model::sim::trace::{Span, HEADER, MAGIC, RECORD};

/// More than any version would want: a file that says so is damaged.
const LARGEST_RECORD: usize = 4096;

/// A whole file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    pub cards: u32,
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
        "it is no trace: it does not begin with VBTRACE1 (traces come from --trace FILE with --clock virtual)"
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
        let spans = records.enumerate().map(|(number, record)| {
            let span = Span::decode(record.first_chunk().expect("a whole record"));
            match span.end < span.start {
                true => Err(TraceError::Backwards(number, span.start, span.end)),
                false => Ok(span),
            }
        });
        Ok(Trace {
            cards: u32_at(&bytes, 12),
            profile: String::from_utf8_lossy(name).into_owned(),
            spans: spans.collect::<Result<_, _>>()?,
            cut,
        })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
