//! Whole-system tests: what they share.
//!
//! [`Net`] is a net of modelled cards with its keeper in this process; [`Peer`] is one side of a
//! connection, through the driver; [`Buffer`] is page-aligned memory to register.
#![allow(unsafe_code)]

mod buffer;
mod net;
mod peer;

pub use buffer::Buffer;
pub use net::Net;
pub use peer::{connect, Options, Peer};
