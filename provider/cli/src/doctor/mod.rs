//! `verbena doctor`: what can be wrong on this machine, and the remedy.

mod finding;
mod launch;
pub mod libraries;
mod machine;
mod outside;

use std::net::IpAddr;

use anyhow::Result;
use clap::Args;
use model::link::PortSpec;

use finding::State;

/// Options of `verbena doctor`.
#[derive(Args)]
pub struct DoctorArgs {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    /// Check a port that leads to other machines, as for `verbena run`: verbena0/1=udp:ADDRESS; may be repeated
    #[arg(long, value_name = "PORT=MEDIUM")]
    port: Vec<PortSpec>,
    /// Check the way from these ports to another machine, whose net is up; may be repeated
    #[arg(long, value_name = "ADDRESS", requires = "port")]
    peer: Vec<IpAddr>,
}

/// Runs every check; exit code 1 when one failed.
pub fn doctor(args: DoctorArgs) -> Result<u8> {
    let mut findings = launch::checks();
    findings.extend(libraries::checks());
    findings.extend(machine::checks());
    findings.extend(outside::checks(&args.port, &args.peer));
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
