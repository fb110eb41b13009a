//! `verbena decode`: the bytes of a queue entry as text.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use anyhow::{ensure, Context, Result};
use clap::Args;
use fpga_regs::decode::{entries, parse_hex, Decoded, CONTEXTS, KINDS};

/// Options of `verbena decode`.
#[derive(Args)]
pub struct DecodeArgs {
    /// What the bytes are
    #[arg(value_parser = kinds())]
    kind: String,
    /// Hex digits, or a file of hex text or of bytes; `-` reads standard input
    #[arg(required = true, num_args = 1.., value_name = "HEX|FILE")]
    input: Vec<String>,
}

fn kinds() -> clap::builder::PossibleValuesParser {
    let contexts = CONTEXTS.iter().map(|(kind, _)| *kind);
    KINDS.iter().copied().chain(contexts).collect::<Vec<_>>().into()
}

/// Prints the entry field by field; exit code 1 if bytes are missing, or too many.
pub fn decode(args: DecodeArgs) -> Result<u8> {
    let bytes = read(&args.input)?;
    ensure!(!bytes.is_empty(), "there are no bytes to decode");
    let entries = entries(&args.kind, &bytes)?;
    let texts: Vec<String> = entries.iter().map(Decoded::to_string).collect();
    say!("{}", texts.join("\n").trim_end());
    Ok(entries.iter().any(|entry| entry.wrong_length).into())
}

fn read(input: &[String]) -> Result<Vec<u8>> {
    if let [name] = input {
        if name == "-" {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).context("reading standard input")?;
            return from_content(bytes).context("reading standard input");
        }
        if Path::new(name).is_file() {
            let content = fs::read(name).with_context(|| format!("reading {name}"))?;
            return from_content(content).with_context(|| format!("reading {name}"));
        }
    }
    let joined = input.join(" ");
    parse_hex(&joined).with_context(|| format!("`{joined}` is neither hex nor a file"))
}

/// A file may hold hex text, as a log prints it, or the bytes themselves.
fn from_content(content: Vec<u8>) -> Result<Vec<u8>> {
    let printable = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    match std::str::from_utf8(&content) {
        Ok(text) if content.iter().all(printable) => Ok(parse_hex(text)?),
        _ => Ok(content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_hex_or_bytes() {
        assert_eq!(from_content(b"0a0b # note\n".to_vec()).unwrap(), [10, 11]);
        assert_eq!(from_content(vec![0, 1, 0xfe]).unwrap(), [0, 1, 0xfe]);
        assert!(from_content(b"hello".to_vec()).is_err());
    }

    #[test]
    fn words_of_hex_are_joined() {
        let input = ["0x01", "02:03"].map(str::to_owned);
        assert_eq!(read(&input).unwrap(), [1, 2, 3]);
        let error = read(&["nosuch.bin".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("neither hex nor a file"));
    }
}
