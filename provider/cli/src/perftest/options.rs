//! What the launcher has to know of perftest's own options.

use std::time::Duration;

use anyhow::{bail, Result};

/// Message sizes of `-a`: 2 to 2^23 bytes.
const ALL_SIZES: u64 = 23;

/// The options that were given to perftest, as far as they matter here.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `-a`: every size.
    pub all_sizes: bool,
    /// `-D`: seconds for each size.
    pub duration: Option<Duration>,
    /// `--run_infinitely`.
    pub infinite: bool,
    /// `-h` or `-V`: no test at all.
    pub only_text: bool,
}

impl Options {
    /// Reads the options; refuses those that the launcher chooses itself.
    pub fn read(arguments: &[String]) -> Result<Options> {
        let mut options = Options::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match name_and_value(argument) {
                ("-a" | "--all", _) => options.all_sizes = true,
                ("-h" | "--help" | "-V" | "--version", _) => options.only_text = true,
                ("--run_infinitely", _) => options.infinite = true,
                ("-D" | "--duration", value) => {
                    let value = value.or_else(|| rest.next().map(String::as_str));
                    let seconds = value.and_then(|text| text.parse().ok());
                    options.duration = seconds.map(Duration::from_secs);
                }
                ("-d" | "--ib-dev", _) => bail!(
                    "leave out `{argument}`: the server gets verbena0 and the client verbena1 \
                     (with --loopback, before the test's name, both get verbena0)"
                ),
                ("-p" | "--port", _) => {
                    bail!("leave out `{argument}`: a free TCP port is chosen for each run")
                }
                (name, _) if !name.starts_with('-') && looks_like_host(name, arguments) => {
                    bail!("leave out `{argument}`: both sides run here, so perftest needs no host name")
                }
                _ => {}
            }
        }
        Ok(options)
    }

    /// Number of rows that the table will have, where that is known.
    pub fn rows(&self) -> Option<u64> {
        (!self.infinite).then_some(if self.all_sizes { ALL_SIZES } else { 1 })
    }
}

/// `-D5`, `--duration=5` and `-D 5` are the same to getopt.
fn name_and_value(argument: &str) -> (&str, Option<&str>) {
    if argument.starts_with("--") {
        return match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument, None),
        };
    }
    let valued = ["-D", "-d", "-p"];
    match valued.iter().find(|name| argument.starts_with(**name)) {
        Some(name) if argument.len() > 2 => (name, Some(&argument[2..])),
        _ => (argument, None),
    }
}

/// A word alone, first of all arguments, can only be a host name.
fn looks_like_host(name: &str, arguments: &[String]) -> bool {
    arguments.first().is_some_and(|first| first == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::read(&words)
    }

    #[test]
    fn durations_in_three_spellings() {
        for line in ["-D 5", "-D5", "--duration=5", "-q 4 --duration 5"] {
            let options = read(line).unwrap();
            assert_eq!(options.duration, Some(Duration::from_secs(5)), "{line}");
        }
    }

    #[test]
    fn rows_follow_from_the_sizes() {
        assert_eq!(read("-a -n 1000").unwrap().rows(), Some(23));
        assert_eq!(read("-s 64").unwrap().rows(), Some(1));
        assert_eq!(read("-D 1 --run_infinitely").unwrap().rows(), None);
    }

    #[test]
    fn what_the_launcher_chooses_is_refused() {
        for line in ["-d mlx5_0", "--ib-dev=mlx5_0", "-p 18515", "-p1", "localhost"] {
            assert!(read(line).is_err(), "{line}");
        }
        assert!(read("-n 1000 -s 64 --report_gbits").is_ok());
    }
}
