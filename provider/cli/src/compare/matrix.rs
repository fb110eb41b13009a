//! What is run: groups of perftest runs that belong together.

use anyhow::{bail, Result};
use serde::{Deserialize, Serialize};

/// How much is run.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Set {
    /// Some sizes, each in a run of its own
    #[default]
    Quick,
    /// Every size from 2 B to 8 MiB, 1000 iterations each, as published measurements are made (`-a -n 1000`)
    Full,
}

/// Runs that are shown together, on one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// As on the command line (`--tests`).
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    pub test: &'static str,
    /// What varies within the group.
    pub axis: Axis,
    /// perftest options of all runs, beside size, MTU and iterations.
    options: &'static [&'static str],
    /// Options of `verbena perftest`.
    launcher: &'static [&'static str],
}

impl Group {
    pub fn is_latency(&self) -> bool {
        self.test.ends_with("_lat")
    }
}

/// What varies within a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Message size.
    Size,
    /// MTU, one run each, messages of 64 KiB.
    Mtu,
    /// QPs, one run each, messages of 64 B.
    Qps,
}

const fn sweep(
    name: &'static str,
    title: &'static str,
    test: &'static str,
    options: &'static [&'static str],
) -> Group {
    Group { name, title, test, axis: Axis::Size, options, launcher: &[] }
}

/// All groups. Those of perftest's own names come first: a reference is shown in the first that fits.
pub const GROUPS: [Group; 10] = [
    sweep("send_bw", "SEND bandwidth", "ib_send_bw", &[]),
    sweep("write_bw", "WRITE bandwidth", "ib_write_bw", &[]),
    sweep("read_bw", "READ bandwidth", "ib_read_bw", &[]),
    sweep("send_lat", "SEND latency", "ib_send_lat", &[]),
    sweep("write_lat", "WRITE latency", "ib_write_lat", &[]),
    sweep("read_lat", "READ latency", "ib_read_lat", &[]),
    Group {
        // perftest grants inline to cards that it knows.
        launcher: &["--as", "cx4lx"],
        ..sweep("inline", "WRITE latency, 220 bytes inline", "ib_write_lat", &["-I", "220"])
    },
    sweep("bidir", "WRITE bandwidth, both ways at once", "ib_write_bw", &["-b"]),
    Group { axis: Axis::Mtu, ..sweep("mtu", "Bandwidth by MTU, 64 KiB WRITE", "ib_write_bw", &[]) },
    Group { axis: Axis::Qps, ..sweep("qps", "Message rate by QPs, 64 B WRITE", "ib_write_bw", &[]) },
];

/// Iterations of all runs but those below: as of published measurements, with which the filling of the
/// queues counts.
const ITERATIONS: u32 = 1000;
/// Larger messages need fewer for a steady state, but no fewer than perftest's depth, which would be less then.
const LARGE: u32 = 1 << 16;
const LARGE_ITERATIONS: u32 = 130;
/// One message at a time: each is like the next.
const LATENCY_ITERATIONS: u32 = 100;
/// Sizes of a full run.
const ALL_SIZES: usize = 23;
const BANDWIDTH_SIZES: [u32; 12] =
    [2, 8, 64, 128, 256, 512, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 16, 1 << 20];
const LATENCY_SIZES: [u32; 9] = [2, 8, 64, 128, 256, 512, 1 << 10, 1 << 12, 1 << 16];

/// One run on one card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    pub group: Group,
    pub card: String,
    /// perftest's options.
    pub options: Vec<String>,
    /// Options of `verbena perftest`.
    pub launcher: Vec<String>,
    /// Rows that it will print.
    pub rows: usize,
}

impl Cell {
    /// What identifies it in a golden file.
    pub fn line(&self) -> String {
        format!("{} {}", self.group.test, self.options.join(" "))
    }

    /// The same for people, with what the card presents itself as.
    pub fn title(&self) -> String {
        match self.group.launcher {
            [] => self.line(),
            launcher => format!("verbena perftest {} {}", launcher.join(" "), self.line()),
        }
    }
}

/// The groups of these names; all of them when there are none.
pub fn groups(names: &[String]) -> Result<Vec<Group>> {
    if let Some(unknown) = names.iter().find(|name| !GROUPS.iter().any(|group| group.name == name.as_str())) {
        let known: Vec<_> = GROUPS.iter().map(|group| group.name).collect();
        bail!("there is no group of tests `{unknown}`; known: {}", known.join(", "));
    }
    let wanted = |group: &&Group| names.is_empty() || names.iter().any(|name| name == group.name);
    Ok(GROUPS.iter().filter(wanted).copied().collect())
}

/// The option of `verbena perftest` that gives the ports an MTU: perftest takes no larger one.
pub fn port(mtu: u32) -> String {
    format!("--mtu={mtu}")
}

/// All runs of a group on a card. `mtu` is that of the runs whose MTU does not vary.
pub fn cells(group: Group, card: &str, set: Set, mtu: u32) -> Vec<Cell> {
    let cell = |extra: &[&str], mtu: u32, iterations: u32, rows| {
        let fixed = ["-m", &mtu.to_string(), "-n", &iterations.to_string()].map(str::to_owned);
        let options = extra.iter().chain(group.options).map(|word| (*word).to_owned()).chain(fixed);
        Cell {
            group,
            card: card.to_owned(),
            options: options.collect(),
            launcher: group.launcher.iter().map(|word| (*word).to_owned()).chain([port(mtu)]).collect(),
            rows,
        }
    };
    match group.axis {
        Axis::Size if set == Set::Full => vec![cell(&["-a"], mtu, ITERATIONS, ALL_SIZES)],
        Axis::Size => {
            let sizes: &[u32] = if group.is_latency() { &LATENCY_SIZES } else { &BANDWIDTH_SIZES };
            let one = |&size: &u32| {
                let iterations = match size {
                    _ if group.is_latency() => LATENCY_ITERATIONS,
                    0..=LARGE => ITERATIONS,
                    _ => LARGE_ITERATIONS,
                };
                cell(&["-s", &size.to_string()], mtu, iterations, 1)
            };
            sizes.iter().map(one).collect()
        }
        Axis::Mtu => {
            [256, 512, 1024, 2048, 4096].map(|mtu| cell(&["-s", "65536"], mtu, ITERATIONS, 1)).to_vec()
        }
        Axis::Qps => {
            ["1", "2", "4", "8"].map(|qps| cell(&["-s", "64", "-q", qps], mtu, ITERATIONS, 1)).to_vec()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_groups_are_named() {
        let error = groups(&["write_bw".to_owned(), "nothing".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("`nothing`") && error.contains("send_lat"), "{error}");
        assert_eq!(groups(&[]).unwrap().len(), GROUPS.len());
    }

    #[test]
    fn runs_are_spelt_out() {
        let group = groups(&["inline".to_owned()]).unwrap()[0];
        let full = cells(group, "cx3", Set::Full, 2048);
        assert_eq!(full[0].line(), "ib_write_lat -a -I 220 -m 2048 -n 1000");
        assert_eq!((full.len(), full[0].rows), (1, 23));
        let quick = cells(group, "cx3", Set::Quick, 2048);
        assert_eq!(quick[1].line(), "ib_write_lat -s 8 -I 220 -m 2048 -n 100");
        assert_eq!((quick.len(), quick[0].rows), (LATENCY_SIZES.len(), 1));
        assert_eq!(quick[0].launcher, ["--as", "cx4lx", "--mtu=2048"]);
    }
}
