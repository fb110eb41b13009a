//! `verbena selftest`: is this board well? Ordered steps, each of which needs only what those before it
//! have shown to work; the first that fails says where to look.
//!
//! | file | steps |
//! |---|---|
//! | `lab` | what a step has to work with |
//! | `registers` | configuration space, BAR, identity, scratch pattern, reset |
//! | `admin` | admin queue, interrupts |
//! | `dma` | DMA write, DMA read |
//! | `queues` | completion, loopback send: one WQE by hand |
//! | `wire` | link, wire send |
//! | `opcodes`, `stress` | everything else, through the driver |

mod admin;
mod dma;
mod lab;
mod opcodes;
mod queues;
mod registers;
mod stress;
mod wire;

use std::time::Instant;

use anyhow::Result;
use serde::Serialize;

pub use lab::SelftestArgs;
use lab::{Check, Failure, Lab, Stop};

/// One step.
type Step = fn(&mut Lab<'_>) -> Check;

/// All steps in order.
const STEPS: &[(&str, Step)] = &[
    ("config space", registers::config_space),
    ("BAR", registers::bar),
    ("identity", registers::identity),
    ("scratch pattern", registers::scratch),
    ("reset", registers::reset),
    ("admin queue", admin::queue),
    ("interrupts", admin::interrupts),
    ("DMA write", dma::write),
    ("DMA read", dma::read),
    ("completion", queues::completion),
    ("loopback send", queues::loopback),
    ("link", wire::link),
    ("wire send", wire::send),
    ("opcodes", opcodes::opcodes),
    ("stress", stress::stress),
];

/// What a step gave.
#[derive(Serialize)]
struct Report {
    step: &'static str,
    result: &'static str,
    ms: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    note: String,
    #[serde(flatten)]
    failure: Option<Failure>,
}

/// Runs the steps; exit code 1 if one fails.
pub fn selftest(args: SelftestArgs) -> Result<u8> {
    let opened = args.device.open()?;
    if !args.json {
        say!("{}", opened.name);
    }
    let mut lab = Lab {
        opened: &opened,
        args: &args,
        admin: None,
        answers: false,
        kept: Vec::new(),
        kept_memory: Vec::new(),
        device: None,
    };
    let mut reports = Vec::new();
    let mut failures = 0;
    for (number, (name, step)) in STEPS.iter().enumerate() {
        let report = run(name, *step, &mut lab);
        if !args.json {
            print(number + 1, &report);
        }
        failures += usize::from(report.failure.is_some());
        reports.push(report);
        if failures > 0 && !args.keep_going {
            break;
        }
    }
    lab.end_admin();
    drop(lab);
    if args.json {
        let all = serde_json::json!({ "device": opened.name, "passed": failures == 0, "steps": reports });
        say!("{}", serde_json::to_string_pretty(&all)?);
    } else if failures == 0 {
        say!("the card is well");
    } else if args.keep_going {
        say!("{failures} steps failed; mend the first one first");
    } else {
        say!("stopped at the first failure (--keep-going continues)");
    }
    opened.finish()?;
    Ok((failures > 0).into())
}

fn run(name: &'static str, step: Step, lab: &mut Lab<'_>) -> Report {
    let start = Instant::now();
    let check = step(lab);
    let ms = start.elapsed().as_millis() as u64;
    let (result, note, failure) = match check {
        Ok(note) => ("PASS", note, None),
        Err(Stop::Skipped(why)) => ("SKIP", why, None),
        Err(Stop::Failed(failure)) => ("FAIL", String::new(), Some(failure)),
    };
    Report { step: name, result, ms, note, failure }
}

fn print(number: usize, report: &Report) {
    say!("{}", format!("{number:3}  {:<16} {}  {}", report.step, report.result, report.note).trim_end());
    if let Some(failure) = &report.failure {
        say!("       expected  {}", failure.expected);
        say!("       came      {}", failure.came);
        say!("       look at   {}", failure.look);
    }
}
