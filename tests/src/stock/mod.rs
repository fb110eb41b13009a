//! Stock programs as separate processes: what their tests share.
//!
//! | file | idea |
//! |---|---|
//! | `binary` | [`verbena`] finds, and first builds, the command; [`need`] says what to install |
//! | `compile` | programs of our own in C |
//! | `dpdk` | [`Dpdk`], which DPDK the programs are of |
//! | `hugepages` | [`HugePages`], for DPDK's secondary processes |
//! | `matrix` | `verbena matrix`, for some of its rows |
//! | `net` | [`StockNet`], a net of modelled cards that only this test uses |
//! | `pair` | [`Pair`] runs a server and its client and shows what both said when one of them fails; [`until_answered`] runs them again where the machine was too busy |
//! | `perftest` | perftest's own table, read and checked |
//! | `port` | TCP ports |
//! | `process` | what /proc says about processes |
//! | `program` | [`Program`], a running program that never outlives the test |
//! | `simulated` | perftest in simulated time, on profiles of cards |
//! | `testpmd` | [`Testpmd`], DPDK's `dpdk-testpmd` on ports of the cards |

use std::sync::{Mutex, MutexGuard, PoisonError};

mod binary;
mod compile;
mod dpdk;
mod hugepages;
mod matrix;
mod net;
mod pair;
mod perftest;
mod port;
mod process;
mod program;
mod simulated;
mod testpmd;

pub use binary::{example, fetched, need, peers, repository, target_dir, verbena, verbena_in};
pub use compile::{compile, compile_c, compile_c_into, Compiled};
pub use dpdk::Dpdk;
pub use hugepages::HugePages;
pub use matrix::matrix;
pub use net::StockNet;
pub use pair::{until_answered, Both, Pair};
pub use perftest::{check_report, first_row, rows, until_calibrated, Kind};
pub use port::{free_port, wait_until_listening};
pub use process::{cpu_time, descendants, involuntary_switches, keepers, running, signal, status, stopped};
pub use program::{words, wrapped, Ended, Program};
pub use simulated::{changed_profile, only_the_wire, simulated_perftest, table};
pub use testpmd::{EalFiles, Testpmd};

pub use crate::{wait_for, LIMIT};

/// The number before some words of what a program said, where they come first.
#[track_caller]
pub fn number_before(said: &str, words: &str) -> f64 {
    let before = said.split_once(words).map_or("", |(before, _)| before);
    let number = before.rsplit([' ', '\n', ',', '(']).find(|word| !word.is_empty());
    let number = number.and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("no number before `{words}` in:\n{said}"))
}

/// Runs something for a second, and for longer where that was too short for a machine that did not run all of it meanwhile.
pub fn long_enough<T>(mut run: impl FnMut(&'static str) -> T, too_short: impl Fn(&T) -> bool) -> T {
    for seconds in ["1", "5"] {
        let ended = run(seconds);
        if !too_short(&ended) {
            return ended;
        }
    }
    run("20")
}

/// Of the tests of a binary that hold this, one at a time runs: its programs spin, or what they do is timed.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
