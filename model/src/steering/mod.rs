//! Which raw packet queue pairs a frame comes to that arrives at a port: its fields, and the rules of the port.
//!
//! [`parse`] reads the fields of any bytes; [`rules`] keeps the flow rules of a card and finds those that take a frame,
//! in this order: sniffers, members of the frame's multicast address, the rules with values by priority, the defaults,
//! and the kernel of the machine, which gets what is left.
//! [`mod@toeplitz`] spreads frames over work queues.
//! Who sends and receives the frames is in [`crate::frames`].

#[cfg(test)]
mod any_tests;
mod copies;
mod parse;
mod rules;
mod toeplitz;

pub(crate) use copies::{Copies, Copy};
pub(crate) use parse::Fields;
pub(crate) use rules::{Rules, Taken};
pub(crate) use toeplitz::toeplitz;
