//! What is said on standard error.

/// Prints a line to standard error. Unlike `eprintln!` it does not panic where nobody reads it any more: the work goes on.
#[macro_export]
macro_rules! tell {
    ($($text:tt)*) => {{
        let line = format!("{}\n", format_args!($($text)*));
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    }};
}
