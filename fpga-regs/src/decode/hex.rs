//! Bytes from hexadecimal text.

use std::fmt;

/// Why text is not hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HexError {
    /// This character, in this line, counted from 1.
    Character(char, usize),
    /// A group of digits, in this line, has half a byte too many.
    HalfByte(usize),
    /// No digit at all.
    Empty,
}

impl fmt::Display for HexError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Character(found, line) => {
                write!(out, "line {line}: {found:?} is not a hexadecimal digit")
            }
            Self::HalfByte(line) => write!(out, "line {line}: an odd number of digits"),
            Self::Empty => write!(out, "no hexadecimal digits"),
        }
    }
}

impl std::error::Error for HexError {}

/// Reads bytes in the order of memory. Blanks, commas, colons, underscores and
/// `0x` between them mean nothing; `#` starts a comment up to the line's end.
pub fn parse_hex(text: &str) -> Result<Vec<u8>, HexError> {
    let mut bytes = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let groups = line.split(|c: char| c.is_whitespace() || ",:_".contains(c));
        for group in groups {
            let digits = group.strip_prefix("0x").or_else(|| group.strip_prefix("0X")).unwrap_or(group);
            parse_group(digits, number + 1, &mut bytes)?;
        }
    }
    if bytes.is_empty() {
        return Err(HexError::Empty);
    }
    Ok(bytes)
}

/// The digits of one group.
fn parse_group(digits: &str, line: usize, bytes: &mut Vec<u8>) -> Result<(), HexError> {
    let digit = |c: char| c.to_digit(16).map(|digit| digit as u8).ok_or(HexError::Character(c, line));
    let nibbles = digits.chars().map(digit).collect::<Result<Vec<u8>, _>>()?;
    if nibbles.len() % 2 != 0 {
        return Err(HexError::HalfByte(line));
    }
    bytes.extend(nibbles.chunks(2).map(|pair| pair[0] << 4 | pair[1]));
    Ok(())
}
