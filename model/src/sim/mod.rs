//! Simulated time: the cards of a segment as a discrete-event simulation in picoseconds.
//!
//! The same [`Device`](crate::device::Device) that wall-clock mode runs answers here when its profile says so:
//! [`env::SimEnv`] turns each of its effects into an event, [`engine`] executes events in the total order
//! (time, origin, sequence), [`send`] and [`port`] decide when a send queue and a port may go on, and
//! [`actors`] keeps the clocks of the programs and how far simulated time may pass them.
//!
//! All of it lies in the segment ([`Sim`]), has fixed capacity and is idle when zero. Whoever holds the
//! segment's lock may run it.

pub mod actors;
mod engine;
mod env;
mod event;
mod idle;
mod landing;
mod port;
mod send;
mod signal;
mod slab;
mod state;
mod streams;
mod those;
pub mod trace;
mod wire;

pub use engine::{Engine, Outcome};
pub(crate) use env::{SimEnv, Step};
pub use event::Event;
pub(crate) use signal::{pending as signal_pending, Undisturbed};
pub use state::{Sim, FOREVER};
pub use streams::{Key as StreamKey, Wait};
pub use those::Those;
