//! The programs as the simulation sees them: their clocks, what they wait for, and what reaches them.
//!
//! | module | one idea |
//! |---|---|
//! | [`actors`] | the clocks of the threads, and how far simulated time may pass them |
//! | [`actor_set`] | some of the threads: those to wake |
//! | [`watched`] | the memory that a thread waits for |
//! | [`landing`] | writes on their way to memory |
//! | [`streams`] | bytes between programs carry time |
//! | [`idle`] | every program waits in the kernel |
//! | [`stall`] | simulated time does not advance: how long that may last, and how it ends |
//! | [`signal`] | signals to one thread |

pub mod actor_set;
pub mod actors;
pub mod idle;
pub mod landing;
pub(crate) mod signal;
pub(crate) mod stall;
pub mod streams;
pub mod watched;
