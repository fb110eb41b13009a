//! The programs as the simulation sees them: their clocks, what they wait for, and what reaches them.
//!
//! | module | one idea |
//! |---|---|
//! | [`actor`] | a thread of a program, and what it does |
//! | [`actors`] | the clocks of the threads, and how far simulated time may pass them |
//! | [`actor_set`] | some of the threads: those to wake |
//! | [`together`] | programs that begin at the same time |
//! | [`watched`] | the memory that a thread waits for |
//! | [`landing`] | writes on their way to memory |
//! | [`streams`] | bytes between programs carry time |
//! | [`idle`] | every program waits in the kernel |
//! | [`stall`] | simulated time does not advance: how long that may last, and how it ends |
//! | [`signal`] | signals to one thread |

pub mod actor;
pub mod actor_set;
mod actors;
pub mod idle;
pub mod landing;
pub(crate) mod signal;
pub(crate) mod stall;
pub mod streams;
pub mod together;
pub mod watched;
