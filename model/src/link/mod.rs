//! The exact wire: every packet as the RoCEv2 frame that it would be on a cable.
//!
//! On the *fast* wire packets travel as [`Packet`](crate::packet::Packet) values, trains of them in one
//! piece, payload by reference. On the *exact* wire ([`exact`]) each train is cut into single packets of
//! the path MTU, each is encoded to bytes with its ICRC ([`frames`]), suffers what faults were asked for
//! ([`faults`]), is decoded, checked, and delivered from those bytes. Either wire can be recorded
//! ([`capture`]): on the fast one frames are made for the record only.
//!
//! A capture shows each frame once, as its sender sent it: a frame that is then lost or damaged is in it
//! whole, one that arrives twice is in it once.

mod area;
pub mod capture;
pub mod exact;
pub mod faults;
pub mod frames;
pub mod options;
pub mod route;

#[cfg(test)]
mod frames_tests;

pub use area::LinkArea;
pub use exact::{LinkEnv, Tap};
pub use options::{Capture, Faults, FaultsError, LinkOptions, Wire};
