//! The phase budgets of the report: one short traced run for each card, latency test and size.

use std::path::Path;

use anyhow::{Context, Result};

use crate::args::Clock;
use crate::measured::run::Job;
use crate::trace;
use crate::trace::budget::{latency, Latency};
use crate::trace::messages::{by_size, messages, Pattern};

use super::matrix::port;

pub const SIZES: [u32; 3] = [8, 256, 4096];
/// The tests, and what is theirs.
pub const TESTS: [(&str, &str); 3] =
    [("ib_write_lat", "WRITE"), ("ib_send_lat", "SEND"), ("ib_read_lat", "READ")];
/// Enough that the mean is that of the steady state; the runs are deterministic.
const ITERATIONS: &str = "50";

/// One of them.
#[derive(Clone, Debug)]
pub struct CardBudget {
    pub card: String,
    /// As in [`TESTS`].
    pub verb: &'static str,
    pub bytes: u32,
    pub latency: Latency,
}

/// Runs one test and divides its latency.
pub fn measure(
    card: &str,
    test: &str,
    verb: &'static str,
    bytes: u32,
    mtu: u32,
    dir: &Path,
) -> Result<CardBudget> {
    let path = dir.join("trace.vbtrace");
    let options = ["-s", &bytes.to_string(), "-m", &mtu.to_string(), "-n", ITERATIONS].map(str::to_owned);
    let job = Job {
        card: Some(card.to_owned()),
        clock: Clock::Virtual,
        launcher: vec![port(mtu)],
        trace: Some(path.clone()),
        test: test.to_owned(),
        options: options.to_vec(),
    };
    job.run(dir, |_| {})?;
    let trace = trace::read(&path)?;
    let sizes = by_size(messages(&trace));
    let latency = sizes.get(&bytes).and_then(|messages| latency(messages, Pattern::of(messages)));
    let latency = latency.with_context(|| {
        format!("`{}`: its trace has no messages of {bytes} bytes sent one at a time", job.line())
    })?;
    Ok(CardBudget { card: card.to_owned(), verb, bytes, latency })
}
