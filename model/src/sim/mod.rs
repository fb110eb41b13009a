//! Simulated time: the cards of a segment as a discrete-event simulation in picoseconds.
//!
//! The same [`Device`](crate::device::Device) that wall-clock mode runs answers here when its profile says so:
//! [`env::SimEnv`] turns each of its effects into an event, [`engine`] executes events in the total order
//! (time, origin, sequence), [`send`], [`port`] and [`receive`] decide when a send queue and a port may go on, and
//! [`actors`] keeps the clocks of the programs and how far simulated time may pass them. [`pcie`] is the bus, [`cache`] what
//! a card remembers of contexts and translations, [`heap`] the queue of events.
//!
//! All of it lies in the segment ([`Sim`]), has fixed capacity and is idle when zero. Whoever holds the
//! segment's lock may run it.

pub mod actors;
pub mod cache;
mod engine;
mod env;
mod event;
pub mod heap;
mod idle;
mod landing;
pub mod pcie;
mod port;
mod receive;
mod send;
mod signal;
mod slab;
mod state;
mod streams;
mod those;
pub mod trace;
mod watched;
mod wire;

pub use engine::{Engine, Outcome};
pub(crate) use env::{SimEnv, Step};
pub use event::Event;
pub(crate) use signal::{pending as signal_pending, Undisturbed};
pub use state::{Sim, FOREVER};
pub use streams::{Key as StreamKey, Wait};
pub use those::Those;
