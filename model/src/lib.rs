//! The card as software: how it behaves, and when.
//!
//! [`device`] is the card core, free of threads, clocks and sockets; [`mod@env`] says what it asks of its
//! surroundings; [`world`] runs the cards of a segment; [`segment`] is the shared memory that they live
//! in; [`attach`] is the backend through which the driver uses a card in its own process; [`link`] is the wire
//! that carries frames instead of values; [`serve`] puts a card behind a socket, as a PCI function.

pub mod address;
#[cfg(test)]
mod allocations;
pub mod attach;
pub mod device;
pub mod env;
pub mod here;
pub mod journal;
pub mod link;
pub mod packet;
pub mod plain;
pub mod profile;
pub mod segment;
pub mod serve;
pub mod sim;
pub mod time;
pub mod wire;
pub mod world;
