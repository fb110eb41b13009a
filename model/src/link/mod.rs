//! The exact wire: every packet as the RoCEv2 frame that it would be on a cable.
//!
//! On the *fast* wire packets travel as [`Packet`](crate::packet::Packet) values, trains of them in one
//! piece, payload by reference. On the *exact* wire ([`exact`]; in simulated time `sim/wire.rs`) each train
//! is cut into single packets of the path MTU, each is encoded to bytes with its ICRC ([`frames`]) and given
//! to a [`medium`]; from the bytes that arrive it is decoded, checked and delivered. Faults ([`faults`]) and
//! capture ([`capture`]) wrap the medium. A capture of the fast wire makes frames for the record only.
//!
//! A capture of the whole net shows each frame once, as its sender sent it: a frame that is then lost or damaged is in it
//! whole, one that arrives twice is in it once. A capture at one card shows what that card sends and receives.
//!
//! | file | idea |
//! |---|---|
//! | `options` | what a net's wire can be started with |
//! | `area` | those options, and the state of faults and capture, in the segment |
//! | `medium` | what carries frames, and what wraps it |
//! | [`faults`] | the fate of a frame, by rules and the seed |
//! | `capture` | the pcap file |
//! | [`live`] | captures of a running net |
//! | `frames`, `route` | packets to frames and back; the addresses of a packet's frames |
//! | `exact`, `late` | the medium that takes no time; frames that a fault delays there |
//! | `outside` | media that leave the segment, for ports that have one |

mod area;
pub mod capture;
pub mod exact;
pub mod faults;
pub mod frames;
pub(crate) mod late;
pub mod live;
pub(crate) mod medium;
pub mod options;
pub mod outside;
pub mod route;

#[cfg(test)]
mod frames_tests;

pub use area::LinkArea;
pub(crate) use area::Mode;
pub use exact::{LinkEnv, WireEnd};
pub use faults::{Faults, FaultsError, RuleUse};
pub use options::{Capture, LinkOptions, Wire};
pub use outside::{MediumSpec, PortSpec};
