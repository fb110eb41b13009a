//! `verbena doctor`: what can be wrong on this machine, and the remedy.

mod finding;
mod launch;
pub mod libraries;
mod machine;

use anyhow::Result;
use clap::Args;

use finding::State;

/// Options of `verbena doctor`.
#[derive(Args)]
pub struct DoctorArgs {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// Runs every check; exit code 1 when one failed.
pub fn doctor(args: DoctorArgs) -> Result<u8> {
    let mut findings = launch::checks();
    findings.extend(libraries::checks());
    findings.extend(machine::checks());
    if args.json {
        say!("{}", serde_json::to_string_pretty(&findings)?);
    } else {
        for finding in &findings {
            say!("{}", finding.line());
        }
    }
    let failed = findings.iter().any(|finding| finding.state == State::Fail);
    Ok(failed.into())
}
