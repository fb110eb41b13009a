//! One event of a record as a line of text: a word, numbers, and bytes in hex as `verbena decode` takes them.

use std::fmt;
use std::str::FromStr;

/// The first line of a record.
pub const HEADER: &str = "verbena-record 1";

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Memory was given to the card.
    Memory { iova: u64, len: u64 },
    /// Memory was taken back.
    Gone { iova: u64 },
    /// A register was read; repeated reads of one value between two other events are one line.
    Read { at: u32, value: u64 },
    /// A register was written.
    Write { at: u32, value: u64 },
    /// A command was put into the admin queue, with what stands in its mailbox.
    Command { index: u32, bytes: Vec<u8>, input: Vec<u8> },
    /// A reply came, with what stands in the mailbox for results.
    Reply { index: u32, bytes: Vec<u8>, output: Vec<u8> },
    /// A send WQE was posted.
    Wqe { qpn: u32, index: u32, bytes: Vec<u8> },
    /// A receive WQE was posted.
    Recv { qpn: u32, index: u32, bytes: Vec<u8> },
    /// A receive WQE was posted to an SRQ.
    SrqRecv { srqn: u32, index: u32, bytes: Vec<u8> },
    /// A doorbell was rung.
    Bell { at: u32, value: u64 },
    /// A completion came.
    Cqe { cqn: u32, index: u32, bytes: Vec<u8> },
    /// An event came.
    Eqe { eqn: u32, index: u32, bytes: Vec<u8> },
    /// An interrupt was waited for.
    Interrupt { vector: u32, fired: bool },
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return out.write_str("-");
        }
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Memory { iova, len } => write!(out, "memory {iova:#x} {len:#x}"),
            Line::Gone { iova } => write!(out, "gone {iova:#x}"),
            Line::Read { at, value } => write!(out, "read {at:#x} {value:#x}"),
            Line::Write { at, value } => write!(out, "write {at:#x} {value:#x}"),
            Line::Command { index, bytes, input } => {
                write!(out, "command {index:#x} {} {}", Hex(bytes), Hex(input))
            }
            Line::Reply { index, bytes, output } => {
                write!(out, "reply {index:#x} {} {}", Hex(bytes), Hex(output))
            }
            Line::Wqe { qpn, index, bytes } => write!(out, "wqe {qpn:#x} {index:#x} {}", Hex(bytes)),
            Line::Recv { qpn, index, bytes } => write!(out, "recv {qpn:#x} {index:#x} {}", Hex(bytes)),
            Line::SrqRecv { srqn, index, bytes } => write!(out, "srq {srqn:#x} {index:#x} {}", Hex(bytes)),
            Line::Bell { at, value } => write!(out, "bell {at:#x} {value:#x}"),
            Line::Cqe { cqn, index, bytes } => write!(out, "cqe {cqn:#x} {index:#x} {}", Hex(bytes)),
            Line::Eqe { eqn, index, bytes } => write!(out, "eqe {eqn:#x} {index:#x} {}", Hex(bytes)),
            Line::Interrupt { vector, fired } => write!(out, "interrupt {vector:#x} {:#x}", u8::from(*fired)),
        }
    }
}

impl FromStr for Line {
    type Err = String;

    fn from_str(text: &str) -> Result<Line, String> {
        let mut words = text.split_ascii_whitespace();
        let kind = words.next().ok_or("an empty line")?;
        let mut next = || words.next().ok_or_else(|| format!("`{kind}` needs more"));
        let number = |word: &str| {
            let digits = word.strip_prefix("0x").ok_or_else(|| format!("`{word}` does not start with 0x"))?;
            u64::from_str_radix(digits, 16).map_err(|error| format!("`{word}`: {error}"))
        };
        let small = |word: &str| u32::try_from(number(word)?).map_err(|error| format!("`{word}`: {error}"));
        let bytes = |word: &str| match word {
            "-" => Ok(Vec::new()),
            _ => fpga_regs::decode::parse_hex(word).map_err(|error| error.to_string()),
        };
        let line = match kind {
            "memory" => Line::Memory { iova: number(next()?)?, len: number(next()?)? },
            "gone" => Line::Gone { iova: number(next()?)? },
            "read" => Line::Read { at: small(next()?)?, value: number(next()?)? },
            "write" => Line::Write { at: small(next()?)?, value: number(next()?)? },
            "command" => {
                Line::Command { index: small(next()?)?, bytes: bytes(next()?)?, input: bytes(next()?)? }
            }
            "reply" => {
                Line::Reply { index: small(next()?)?, bytes: bytes(next()?)?, output: bytes(next()?)? }
            }
            "wqe" => Line::Wqe { qpn: small(next()?)?, index: small(next()?)?, bytes: bytes(next()?)? },
            "recv" => Line::Recv { qpn: small(next()?)?, index: small(next()?)?, bytes: bytes(next()?)? },
            "srq" => Line::SrqRecv { srqn: small(next()?)?, index: small(next()?)?, bytes: bytes(next()?)? },
            "bell" => Line::Bell { at: small(next()?)?, value: number(next()?)? },
            "cqe" => Line::Cqe { cqn: small(next()?)?, index: small(next()?)?, bytes: bytes(next()?)? },
            "eqe" => Line::Eqe { eqn: small(next()?)?, index: small(next()?)?, bytes: bytes(next()?)? },
            "interrupt" => Line::Interrupt { vector: small(next()?)?, fired: small(next()?)? != 0 },
            other => return Err(format!("`{other}` is no event of a record")),
        };
        match words.next() {
            Some(more) => Err(format!("`{more}` is too much")),
            None => Ok(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_back() {
        let bytes = vec![1, 2, 0xfe];
        for line in [
            Line::Memory { iova: 1 << 40, len: 4096 },
            Line::Gone { iova: 1 << 40 },
            Line::Read { at: 0x24, value: u64::MAX },
            Line::Write { at: 0x20, value: 2 },
            Line::Command { index: 3, bytes: bytes.clone(), input: Vec::new() },
            Line::Reply { index: 3, bytes: bytes.clone(), output: bytes.clone() },
            Line::Wqe { qpn: 0x10002, index: 4, bytes: bytes.clone() },
            Line::Recv { qpn: 2, index: 0, bytes: bytes.clone() },
            Line::SrqRecv { srqn: 1, index: 9, bytes: bytes.clone() },
            Line::Bell { at: 0x10000, value: 7 },
            Line::Cqe { cqn: 1, index: 5, bytes: bytes.clone() },
            Line::Eqe { eqn: 0, index: 6, bytes },
            Line::Interrupt { vector: 3, fired: false },
        ] {
            assert_eq!(line.to_string().parse(), Ok(line));
        }
        for wrong in [
            "",
            "read",
            "read 1 2",
            "read 0x1 0x2 0x3",
            "jump 0x1",
            "wqe 0x1 0x2 xyz",
            "read 0x100000000 0x0",
        ] {
            assert!(wrong.parse::<Line>().is_err(), "{wrong}");
        }
    }
}
