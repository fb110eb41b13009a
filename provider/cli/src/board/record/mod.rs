//! `verbena record` and `verbena replay`: what was done with a card and what it did, and how the model does
//! the same.
//!
//! A record holds every register access and every queue entry, in order, as text ([`line`]). It does not
//! hold the data of messages: those are zero when it is replayed.
//!
//! | file | one idea |
//! |---|---|
//! | `line` | one event as a line of text |
//! | `rings` | where the queues are, and what is new in them ||
//! | `recorder` | a card that notes what is done with another |
//! | `translate` | addresses and numbers of the record as those of the model |
//! | `compare` | what differs between two entries, by field |
//! | `player` | the events of a record, done to the model |
//! | `replay` | the record against the model |

mod compare;
mod line;
mod player;
mod recorder;
mod replay;
mod rings;
mod translate;

use std::path::PathBuf;

use anyhow::{ensure, Result};
use clap::{Args, Subcommand};

pub use recorder::Recorder;
pub use replay::{replay, ReplayArgs};

use super::device::DeviceArgs;
use super::{bench, poke, probe, regs, selftest};

/// Options of `verbena record`.
#[derive(Args, Clone, Debug)]
pub struct RecordArgs {
    /// The file to write
    pub file: PathBuf,
    #[command(subcommand)]
    pub command: Recorded,
}

/// What can be recorded.
#[derive(Subcommand, Clone, Debug)]
pub enum Recorded {
    /// Record `verbena probe`
    Probe(probe::ProbeArgs),
    /// Record `verbena regs`
    Regs(regs::RegsArgs),
    /// Record `verbena poke`
    Poke(poke::PokeArgs),
    /// Record `verbena selftest`
    Selftest(selftest::SelftestArgs),
    /// Record `verbena bench`
    Bench(bench::BenchArgs),
}

/// Runs a command and writes what it does with the card.
pub fn record(args: RecordArgs) -> Result<u8> {
    ensure!(!args.file.is_dir(), "{} is a directory: name a file to write", args.file.display());
    let recorded = |device| DeviceArgs { record: Some(args.file.clone()), ..device };
    let code = match args.command {
        Recorded::Probe(args) => probe::probe(probe::ProbeArgs { device: recorded(args.device), ..args }),
        Recorded::Regs(args) => regs::regs(regs::RegsArgs { device: recorded(args.device), ..args }),
        Recorded::Poke(args) => poke::poke(poke::PokeArgs { device: recorded(args.device), ..args }),
        Recorded::Selftest(args) => {
            selftest::selftest(selftest::SelftestArgs { device: recorded(args.device), ..args })
        }
        Recorded::Bench(args) => bench::bench(bench::BenchArgs { device: recorded(args.device), ..args }),
    }?;
    model::tell!("recorded in {}: verbena replay {0} compares it with the model", args.file.display());
    Ok(code)
}
