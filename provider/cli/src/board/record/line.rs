//! One event of a record as a line of text: a word, numbers, and bytes in hex as `verbena decode` takes them.

use std::fmt;
use std::str::FromStr;

pub const HEADER: &str = "verbena-record 1";

/// A value as one word: numbers in hex with 0x, bytes as hex digits.
trait Word: Sized {
    fn show(&self) -> String;
    fn read(word: &str) -> Result<Self, String>;
}

impl Word for u64 {
    fn show(&self) -> String {
        format!("{self:#x}")
    }

    fn read(word: &str) -> Result<u64, String> {
        let digits = word.strip_prefix("0x").ok_or_else(|| format!("`{word}` does not start with 0x"))?;
        u64::from_str_radix(digits, 16).map_err(|error| format!("`{word}`: {error}"))
    }
}

impl Word for u32 {
    fn show(&self) -> String {
        u64::from(*self).show()
    }

    fn read(word: &str) -> Result<u32, String> {
        u32::try_from(u64::read(word)?).map_err(|error| format!("`{word}`: {error}"))
    }
}

impl Word for bool {
    fn show(&self) -> String {
        u64::from(*self).show()
    }

    fn read(word: &str) -> Result<bool, String> {
        Ok(u64::read(word)? != 0)
    }
}

impl Word for Vec<u8> {
    fn show(&self) -> String {
        match self.is_empty() {
            true => "-".to_owned(),
            false => self.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }

    fn read(word: &str) -> Result<Vec<u8>, String> {
        match word {
            "-" => Ok(Vec::new()),
            _ => fpga_regs::decode::parse_hex(word).map_err(|error| error.to_string()),
        }
    }
}

/// Declares the events: variant, first word of its line, and the other words in order.
macro_rules! lines {
    ($($(#[$doc:meta])* $variant:ident = $word:literal { $($field:ident: $type:ty),* })*) => {
        /// What happened.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Line {
            $($(#[$doc])* $variant { $($field: $type),* },)*
        }

        impl fmt::Display for Line {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Line::$variant { $($field),* } => {
                        out.write_str($word)?;
                        $(write!(out, " {}", $field.show())?;)*
                        Ok(())
                    })*
                }
            }
        }

        impl FromStr for Line {
            type Err = String;

            fn from_str(text: &str) -> Result<Line, String> {
                let mut words = text.split_ascii_whitespace();
                let kind = words.next().ok_or("an empty line")?;
                let mut next = || words.next().ok_or_else(|| format!("`{kind}` needs more"));
                let line = match kind {
                    $($word => Line::$variant { $($field: Word::read(next()?)?),* },)*
                    other => return Err(format!("`{other}` is no event of a record")),
                };
                match words.next() {
                    Some(more) => Err(format!("`{more}` is too much")),
                    None => Ok(line),
                }
            }
        }
    };
}

lines! {
    /// Memory was given to the card.
    Memory = "memory" { iova: u64, len: u64 }
    /// Memory was taken back.
    Gone = "gone" { iova: u64 }
    /// A register was read; repeated reads of one value between two other events are one line.
    Read = "read" { at: u32, value: u64 }
    /// A register was written.
    Write = "write" { at: u32, value: u64 }
    /// A command was put into the admin queue, with the contents of its mailbox.
    Command = "command" { index: u32, bytes: Vec<u8>, input: Vec<u8> }
    /// A reply came, with the contents of the mailbox for results.
    Reply = "reply" { index: u32, bytes: Vec<u8>, output: Vec<u8> }
    /// A send WQE was posted.
    Wqe = "wqe" { qpn: u32, index: u32, bytes: Vec<u8> }
    /// A receive WQE was posted.
    Recv = "recv" { qpn: u32, index: u32, bytes: Vec<u8> }
    /// A receive WQE was posted to an SRQ.
    SrqRecv = "srq" { srqn: u32, index: u32, bytes: Vec<u8> }
    /// A doorbell was rung.
    Bell = "bell" { at: u32, value: u64 }
    /// A completion came.
    Cqe = "cqe" { cqn: u32, index: u32, bytes: Vec<u8> }
    /// An event came.
    Eqe = "eqe" { eqn: u32, index: u32, bytes: Vec<u8> }
    /// An interrupt was waited for.
    Interrupt = "interrupt" { vector: u32, fired: bool }
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
