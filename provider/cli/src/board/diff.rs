//! `verbena diff`: two dumps of `verbena regs --json`, register by register.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use super::regs::{changes, Value};

/// Options of `verbena diff`.
#[derive(Args, Clone, Debug)]
pub struct DiffArgs {
    /// A dump; - is standard input
    pub before: PathBuf,
    /// Another one
    pub after: PathBuf,
    /// Compare also what differs by nature: clock, heartbeat, temperature
    #[arg(long)]
    pub all: bool,
}

/// Prints what differs; exit code 1 if something does.
pub fn diff(args: DiffArgs) -> Result<u8> {
    let (before, after) = (load(&args.before)?, load(&args.after)?);
    let mut lines = Vec::new();
    for (offset, value) in &before {
        match after.get(offset) {
            None => lines.push(format!("{} is in the first dump only", value.name)),
            Some(other) if other.value != value.value => lines.extend(changes(value, other)),
            Some(_) => {}
        }
    }
    let new = after.iter().filter(|(offset, _)| !before.contains_key(offset));
    lines.extend(new.map(|(_, value)| format!("{} is in the second dump only", value.name)));
    if !args.all {
        lines.retain(|line| !varies(line));
    }
    lines.iter().for_each(|line| say!("{line}"));
    Ok((!lines.is_empty()).into())
}

/// Whether a line is about something that is another at each look.
fn varies(line: &str) -> bool {
    ["TIME:", "HEALTH.heartbeat:", "HEALTH.temperature:"].iter().any(|start| line.starts_with(start))
}

fn load(path: &Path) -> Result<BTreeMap<u32, Value>> {
    let mut text = String::new();
    if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).context("reading standard input")?;
    } else {
        text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    }
    let values: Vec<Value> = serde_json::from_str(&text)
        .with_context(|| format!("{} is not what `verbena regs --json` prints", path.display()))?;
    Ok(values.into_iter().map(|value| (value.offset, value)).collect())
}
