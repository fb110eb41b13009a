//! `verbena card`: the card profiles, their numbers and where those come from.

use std::fmt::Write as _;
use std::path;

use anyhow::{ensure, Result};
use clap::{Args, Subcommand};
use model::profile::expect::{Expect, Kind};
use model::profile::{builtin, Loaded, Number, Profile, BUILTIN, NUMBERS, SECTIONS};

/// Options of `verbena card`.
#[derive(Args)]
pub struct CardCommand {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Name the profiles that come with Verbena
    List,
    /// Print every number of a profile with its unit and source, and what follows from them
    Show {
        /// Name of a profile, or a file: a path with a `/`, or a name that ends in .toml
        profile: String,
        /// Say also what each number means and how it is used
        #[arg(long)]
        explain: bool,
        /// Print the profile's file itself: the start of one's own
        #[arg(long, conflicts_with = "explain")]
        toml: bool,
    },
    /// Check profile files
    Check {
        /// Files (paths with a `/`, or names that end in .toml), or names of profiles
        #[arg(required = true, value_name = "FILE")]
        files: Vec<String>,
    },
    /// Print the numbers in which two profiles differ
    Diff {
        /// Name or file
        a: String,
        /// Name or file
        b: String,
    },
}

/// The value of `--card`: a profile's name, or the whole path of its file, which the keeper of the net reads
/// from another directory.
pub fn profile_name(given: &str) -> std::io::Result<String> {
    if !given.contains('/') && !given.ends_with(".toml") {
        return Ok(given.to_owned());
    }
    let path = path::absolute(given)?.into_os_string().into_string();
    path.map_err(|_| std::io::Error::other("its path is not UTF-8"))
}

pub fn card(args: CardCommand) -> Result<u8> {
    let text = match args.action {
        Action::List => list()?,
        Action::Show { profile, toml: true, .. } => source(&profile)?,
        Action::Show { profile, explain, .. } => show(&Profile::load(&profile)?, explain),
        Action::Check { files } => return check(&files),
        Action::Diff { a, b } => diff(&Profile::load(&a)?, &Profile::load(&b)?),
    };
    say!("{}", text.trim_end());
    Ok(0)
}

fn list() -> Result<String> {
    let mut text = String::new();
    for (name, _) in BUILTIN {
        let loaded = Profile::load(name)?;
        let _ = writeln!(text, "{name:<8}  {} {}", loaded.about, counts(&loaded));
    }
    Ok(text)
}

fn counts(loaded: &Loaded) -> String {
    let estimates = loaded.notes.iter().filter(|note| note.is_estimate()).count();
    let fitted = loaded.notes.iter().filter(|note| note.is_fitted()).count();
    format!("({} numbers, {estimates} of them estimates, {fitted} fitted)", loaded.notes.len())
}

/// The text of a profile that loads.
fn source(name: &str) -> Result<String> {
    Profile::load(name)?;
    match builtin(name) {
        Some(text) => Ok(text.to_owned()),
        None => Ok(std::fs::read_to_string(name)?),
    }
}

fn check(files: &[String]) -> Result<u8> {
    let mut refused = Vec::new();
    for file in files {
        match Profile::load(file) {
            Ok(loaded) => say!("{file}: good: {} {}", loaded.name, counts(&loaded)),
            Err(error) => refused.push(error.to_string()),
        }
    }
    ensure!(refused.is_empty(), "{}", refused.join("\n"));
    Ok(0)
}

fn show(loaded: &Loaded, explain: bool) -> String {
    let mut text = format!("{}: {}\n", loaded.name, loaded.about);
    for (section, about) in SECTIONS {
        let _ = writeln!(text, "\n[{section}] {}", about.trim());
        for (number, note) in NUMBERS.iter().zip(&loaded.notes).filter(|(n, _)| n.section == *section) {
            let value = with_unit(number, note.value);
            let _ = writeln!(text, "  {:<22} {value:>15}  {}", number.key, note.source);
            if explain {
                let _ = writeln!(text, "      {}", number.about.trim());
            }
        }
    }
    text + &follows(&loaded.profile)
}

fn with_unit(number: &Number, value: f64) -> String {
    format!("{value} {}", number.unit).trim_end().to_owned()
}

/// What the numbers mean for a program.
fn follows(profile: &Profile) -> String {
    let expect = Expect(profile);
    let mut text =
        "\nWhat follows, for one QP (perftest's defaults, inline up to 220 B in latency tests):\n".to_owned();
    let _ = writeln!(
        text,
        "  {:>9} {:>14} {:>13} {:>17} {:>16}",
        "bytes", "ib_send_bw", "", "ib_write_lat", "ib_read_lat"
    );
    for bytes in [2u32, 64, 128, 256, 512, 1024, 4096, 65536, 1 << 20] {
        let rate = expect.message_rate(Kind::Send, bytes, 1000);
        let read = if bytes <= profile.limits.mtu {
            format!("{:.2} us", expect.read_latency_ps(bytes) as f64 / 1e6)
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "  {bytes:>9} {:>8.1} MiB/s {:>9.4} M/s {:>14.2} us {read:>16}",
            rate * f64::from(bytes) / f64::from(1 << 20),
            rate / 1e6,
            expect.write_latency_ps(bytes, 220) as f64 / 1e6,
        );
    }
    text
}

fn diff(a: &Loaded, b: &Loaded) -> String {
    let mut text = format!("{:<28} {:>15} {:>15}\n", "", a.name, b.name);
    let mut differ = 0;
    for (number, (in_a, in_b)) in NUMBERS.iter().zip(a.notes.iter().zip(&b.notes)) {
        if (number.get)(&a.profile) == (number.get)(&b.profile) {
            continue;
        }
        differ += 1;
        let (left, right) = (with_unit(number, in_a.value), with_unit(number, in_b.value));
        let _ = writeln!(text, "{:<28} {left:>15} {right:>15}", number.name());
    }
    match differ {
        0 => format!("{} and {} have the same numbers.", a.name, b.name),
        1 => text + "1 number differs.",
        _ => text + &format!("{differ} of {} numbers differ.", NUMBERS.len()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_file_is_found_from_everywhere() {
        assert_eq!(profile_name("cx4lx").unwrap(), "cx4lx");
        assert_eq!(profile_name("/a/mine.toml").unwrap(), "/a/mine.toml");
        let here = std::env::current_dir().unwrap();
        for given in ["mine.toml", "./mine.toml"] {
            assert_eq!(Path::new(&profile_name(given).unwrap()), here.join("mine.toml"));
        }
    }
}
