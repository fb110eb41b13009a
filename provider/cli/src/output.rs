//! Standard output: everything that the command prints goes through here, and failures to print are reported.
//!
//! A reader may leave early, as `head` does. That is no failure: nothing more is printed, and the command does the rest
//! of its work in silence. Any other error, such as a full disk, is reported at the end, and the command fails.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

/// Why nothing more is printed.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints a line.
macro_rules! say {
    ($($text:tt)*) => {
        $crate::output::print(format_args!("{}\n", format_args!($($text)*)))
    };
}

/// Prints text at once, unless it has [failed] before.
pub fn print(text: Arguments<'_>) {
    let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    if failed.is_none() {
        let mut out = io::stdout().lock();
        *failed = out.write_fmt(text).and_then(|()| out.flush()).err();
    }
}

/// Nothing more can be printed: the reader has left, or writing has failed.
pub fn failed() -> bool {
    FAILED.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// The end of a command that ended with `code`.
pub fn finish(code: u8) -> Result<u8> {
    match FAILED.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("writing to standard output")
        }
        _ => Ok(code),
    }
}
