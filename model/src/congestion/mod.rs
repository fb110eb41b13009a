//! Congestion: what a switch does about it, and how a card reduces its rate.
//!
//! Only simulated time has rates, so only there ([`crate::sim`]) is any of this used: the switch itself is
//! `sim/switch`, the pacing `sim/flows`. Here is what does not depend on events.
//!
//! | file | one idea |
//! |---|---|
//! | [`options`] | `--switch` and `--cc` as text |
//! | `units` | sizes, times, rates and fractions as text |
//! | [`dcqcn`] | the rate of a queue pair that is told of congestion |

pub mod dcqcn;
pub mod options;
mod units;

pub use options::{CcOptions, Pfc, SpecError, SwitchOptions};
pub use units::bytes;
