//! Which raw packet queue pairs a frame comes to that arrives at a port: its fields, and the rules of the port.
//!
//! | file | idea |
//! |---|---|
//! | `parse` | the fields of a frame of any bytes |
//! | `rules` | the flow rules of a card, and which of them take a frame: sniffers, members of its multicast address, the rules with values by priority, the defaults, and the kernel of the machine, which gets what is left |
//! | `vlans` | the VLANs that functions take by rules that ask for it |
//! | `toeplitz` | the hash that spreads frames over work queues |
//! | `copies` | who gets a frame |
//!
//! Who sends and receives the frames is in [`crate::frames`].

#[cfg(test)]
mod any_tests;
mod copies;
mod parse;
mod rules;
mod toeplitz;
mod vlans;

pub(crate) use copies::{Copies, Copy};
pub(crate) use parse::Fields;
pub(crate) use rules::{Rules, Taken};
pub(crate) use toeplitz::toeplitz;
pub(crate) use vlans::VLANS;
