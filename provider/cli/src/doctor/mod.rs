//! `verbena doctor`: what can be wrong on this machine, and the remedy.

mod launch;
mod libraries;
mod machine;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

/// Options of `verbena doctor`.
#[derive(Args)]
pub struct DoctorArgs {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
enum State {
    Ok,
    Warn,
    Fail,
}

/// What one check found.
#[derive(Clone, Debug, Serialize)]
struct Finding {
    name: &'static str,
    state: State,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Finding {
    fn ok(name: &'static str, found: impl Into<String>) -> Finding {
        Finding { name, state: State::Ok, found: found.into(), remedy: None }
    }

    fn warn(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { name, state: State::Warn, found: found.into(), remedy: Some(remedy.into()) }
    }

    fn fail(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { state: State::Fail, ..Finding::warn(name, found, remedy) }
    }

    fn line(&self) -> String {
        let state = match self.state {
            State::Ok => "OK  ",
            State::Warn => "WARN",
            State::Fail => "FAIL",
        };
        let mut line = format!("{state}  {:<16} {}", self.name, self.found);
        if let Some(remedy) = &self.remedy {
            line += &format!("\n      {:<16} -> {remedy}", "");
        }
        line
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_stands_below_its_finding() {
        let line = Finding::fail("thing", "is broken", "mend it").line();
        assert!(line.starts_with("FAIL  thing            is broken\n"), "{line}");
        assert!(line.ends_with("-> mend it"));
        let json = serde_json::to_string(&Finding::ok("a", "b")).unwrap();
        assert_eq!(json, r#"{"name":"a","state":"OK","found":"b"}"#);
    }
}
