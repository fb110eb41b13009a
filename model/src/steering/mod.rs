//! Which raw packet queue pairs a frame comes to that arrives at a port: its fields, and the rules of the port.
//!
//! [`parse`] reads the fields of any bytes; [`rules`] keeps the flow rules of a card and finds those that take a frame,
//! in this order: sniffers, members of the frame's multicast address, the rules with values by priority, the defaults.
//! Who sends and receives the frames is in [`crate::frames`].

mod copies;
mod parse;
mod rules;

pub(crate) use copies::Copies;
pub(crate) use parse::{Fields, LOOKED_AT};
pub(crate) use rules::Rules;
