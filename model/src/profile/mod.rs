//! Card profiles: every number that says how fast a card and its computer are.
//!
//! A profile is a TOML file (`model/profiles/`, `docs/profiles.md`) in which each number has its
//! source: `key = [value, "source"]`. [`Profile::load`] checks it; the result is a plain struct that lives
//! in the segment.
//!
//! | file | idea |
//! |---|---|
//! | `sections` | the numbers, by the part of the card that they belong to |
//! | `numbers` | what a number is called, its unit and its range |
//! | `load`, `check` | reads a profile file; constraints between its numbers |
//! | `rate` | a rate whose times are integers |
//! | `expect` | what follows from a profile without running anything |

mod check;
pub mod expect;
mod load;
mod numbers;
mod rate;
mod sections;

use crate::plain::Plain;

pub use load::{builtin, Loaded, Note, ProfileError, BUILTIN};
pub use numbers::{Number, Unit};
pub use rate::Rate;
pub use sections::*;

/// A card and its computer in numbers: times in picoseconds, rates as [`Rate`], sizes in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Plain)]
pub struct Profile {
    /// Name, padded with zeros.
    pub name: [u8; 16],
    /// The computer.
    pub host: Host,
    /// The slot.
    pub pcie: Pcie,
    /// Send queues and requester.
    pub sq: Sq,
    /// From payload to MAC.
    pub tx: Tx,
    /// Port and cable.
    pub wire: Wire,
    /// From MAC to memory.
    pub rx: Rx,
    /// Completions.
    pub cqe: Cqe,
    /// Caches.
    pub caches: Caches,
    /// Limits.
    pub limits: Limits,
}

impl Profile {
    /// The name as text.
    pub fn name(&self) -> &str {
        let end = self.name.iter().position(|&byte| byte == 0).unwrap_or(self.name.len());
        std::str::from_utf8(&self.name[..end]).unwrap_or("?")
    }

    /// Periods of the core clock, in picoseconds.
    #[inline]
    pub fn cycles(&self, cycles: u32) -> u64 {
        u64::from(cycles) * self.sq.clock_ps
    }
}
