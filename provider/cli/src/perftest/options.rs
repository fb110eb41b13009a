//! What the launcher has to know of perftest's own options.

use std::time::Duration;

use anyhow::{bail, Result};
use clap::Command;

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
    /// `-R` or `-z`: the sides meet by the connection manager.
    pub by_address: bool,
    /// `-i`: which port of the cards, from 1.
    pub ib_port: Option<u8>,
}

impl Options {
    /// Reads the options of `test`; refuses those that the launcher chooses itself, and those of its own `command`.
    pub fn read(test: &str, arguments: &[String], command: &Command) -> Result<Options> {
        let mut options = Options::default();
        let ours = own_names(command);
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            for (name, value) in names_and_values(argument) {
                let mut value = || value.or_else(|| rest.next().map(String::as_str));
                match name.as_str() {
                    "-a" | "--all" => options.all_sizes = true,
                    "-h" | "--help" | "-V" | "--version" => options.only_text = true,
                    "--run_infinitely" => options.infinite = true,
                    "-R" | "--rdma_cm" | "-z" | "--com_rdma_cm" | "--comm_rdma_cm" => {
                        options.by_address = true
                    }
                    "-i" | "--ib-port" => options.ib_port = value().and_then(|text| text.parse().ok()),
                    "-D" | "--duration" => {
                        let seconds = value().and_then(|text| text.parse().ok());
                        options.duration = seconds.map(Duration::from_secs);
                    }
                    "-d" | "--ib-dev" => bail!(
                        "leave out `{argument}`: the server gets verbena0 and the client verbena1 \
                         (with --loopback, before the test's name, both get verbena0)"
                    ),
                    "-p" | "--port" => bail!("leave out `{argument}`: a free port is chosen for each run"),
                    "--" => bail!("leave out `--`: what is behind {test} is perftest's anyway"),
                    "--net" => bail!("leave out `{argument}`: each run has a net of its own"),
                    name if ours.iter().any(|ours| name == format!("--{ours}")) => {
                        bail!("`{name}` is no option of perftest's: put it before {test}")
                    }
                    name if !name.starts_with('-') && looks_like_host(name, arguments) => {
                        bail!("leave out `{argument}`: both sides run here, so perftest needs no host name")
                    }
                    name if is_valued(name) => drop(value()),
                    _ => {}
                }
            }
        }
        Ok(options)
    }

    /// Number of rows that the table will have, where that is known.
    pub fn rows(&self) -> Option<u64> {
        (!self.infinite).then_some(if self.all_sizes { ALL_SIZES } else { 1 })
    }
}

/// Long options of the launcher that are none of perftest's, in full or shortened.
fn own_names(command: &Command) -> Vec<&str> {
    let names = command.get_arguments().filter_map(|argument| argument.get_long());
    names.filter(|name| !["port", "mtu", "gid"].contains(name)).collect()
}

/// `-D5`, `--duration=5` and `-D 5` are the same to getopt, and `-FR` are two options.
fn names_and_values(argument: &str) -> Vec<(String, Option<&str>)> {
    if argument.starts_with("--") {
        return match argument.split_once('=') {
            Some((name, value)) => vec![(name.to_owned(), Some(value))],
            None => vec![(argument.to_owned(), None)],
        };
    }
    let Some(letters) = argument.strip_prefix('-') else { return vec![(argument.to_owned(), None)] };
    let mut all = Vec::new();
    for (at, letter) in letters.char_indices() {
        let name = format!("-{letter}");
        let value = &letters[at + letter.len_utf8()..];
        if is_valued(&name) {
            all.push((name, Some(value).filter(|value| !value.is_empty())));
            break;
        }
        all.push((name, None));
    }
    all
}

/// A short option that has a value: those of all programs of perftest.
fn is_valued(name: &str) -> bool {
    const VALUED: &str = "ABDEIJKLMQSTWXYcdfijklmnopqrstuwxy";
    name.strip_prefix('-').is_some_and(|letter| letter.len() == 1 && VALUED.contains(letter))
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
        let ours = ["clock", "card", "loopback", "out", "roce-v1", "mtu", "port", "gid"];
        let command = Command::new("perftest").args(ours.map(|name| clap::Arg::new(name).long(name)));
        Options::read("ib_send_bw", &words, &command)
    }

    #[test]
    fn a_separator_would_end_the_options() {
        assert!(read("-n 100 -- -a").unwrap_err().to_string().contains("leave out `--`"));
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

    #[test]
    fn the_launchers_own_are_told_from_perftests() {
        for line in ["-a --clock virtual", "--card=cx4lx", "-s 8 --loopback", "--out x", "--roce-v1"] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains("put it before ib_send_bw"), "{line}: {error}");
        }
        assert!(read("--net lab").unwrap_err().to_string().contains("a net of its own"));
        assert!(read("--mtu=1024 --gid=1 --report_gbits -W --clock").is_ok());
    }

    #[test]
    fn options_of_one_letter_may_be_one_word() {
        for line in ["-R", "-z -s 8", "-FR", "-aFR", "-n100 -R", "--rdma_cm"] {
            assert!(read(line).unwrap().by_address, "{line}");
        }
        for line in ["-F", "-n R", "-c R", "-WR", "--report-both"] {
            assert!(!read(line).unwrap().by_address, "{line}");
        }
        let options = read("-Fa -i2 -D 5").unwrap();
        assert_eq!(
            (options.all_sizes, options.ib_port, options.duration),
            (true, Some(2), Some(Duration::from_secs(5)))
        );
    }
}
