//! Simulated time: the cards of a segment as a discrete-event simulation in picoseconds.
//!
//! The same [`Device`](crate::device::Device) that wall-clock mode runs answers here when its profile says so. All of
//! the simulation is in the segment ([`state::Sim`]), has fixed capacity and is idle when zero. Any thread with the
//! segment's lock may run it.
//!
//! | module | one idea |
//! |---|---|
//! | [`state`], [`parts`] | everything that a simulation knows, of the whole and of each card |
//! | [`mod@env`] | each effect of a card becomes an event |
//! | [`control`] | the same for control operations, which take no simulated time |
//! | [`doorbell`] | what a doorbell costs, and when it is understood |
//! | [`event`], [`heap`], [`slab`] | what can happen, the queue of events, and where they are kept |
//! | [`engine`] | executes events in the total order (time, origin, sequence) |
//! | [`send`], [`flows`], [`port`], [`receive`] | when a send queue, its messages, a port and a receiver continue |
//! | [`frames`] | whole frames: who gets them, and how they wait for receives |
//! | [`writes`] | what a card writes to memory |
//! | [`ways`], [`wire`] | by which ports packets go, and as what |
//! | [`mac`], [`switch`], [`fabric`], [`pace`] | with a switch: when a port sends, what the switch does, how several are connected, and the rates of QPs |
//! | [`pcie`], [`cache`] | the bus, and what a card remembers of contexts and translations |
//! | [`trace`] | what is recorded |
//! | [`programs`] | the programs as the simulation sees them |
//! | [`threads`] | a process's threads: how their clocks advance |

pub mod cache;
pub(crate) mod control;
pub(crate) mod doorbell;
pub(crate) mod engine;
pub(crate) mod env;
pub mod event;
pub mod fabric;
mod flows;
mod frames;
pub mod heap;
mod mac;
mod pace;
pub mod parts;
pub mod pcie;
mod port;
pub mod programs;
mod receive;
mod send;
mod slab;
pub mod state;
pub mod switch;
pub(crate) mod threads;
pub mod trace;
mod ways;
mod wire;
mod writes;
