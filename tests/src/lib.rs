//! Whole-system tests: what they share.
//!
//! [`Net`] is a net of modelled cards with its keeper in this process; [`Peer`] is one side of a
//! connection, through the driver; [`Buffer`] is page-aligned memory to register.
//!
//! | file | idea |
//! |---|---|
//! | `net`, `card` | a net of cards, and a card however it is reached |
//! | `pcap` | frames that were recorded |
//! | `place` | places for files |
//! | `peer`, `buffer` | one side of a connection |
//! | `expect`, `events` | what has to come of requests, and what events |
//! | `drops` | frames that were to wait for a receive |
//! | `address` | addresses for ports by UDP |
//! | `seed` | random numbers that can be had again |
//! | `toeplitz` | hashes of frames |
//! | `stock` | stock programs, as processes on a net of their own |
//! | `stop` | threads of which one may fail |
//! | `root` | whether the tests are root's, and namespaces as these may have them |
//! | `wait` | [`wait_for`], until something is so |
//! | `guest` | a virtual machine with VFIO |
#![allow(unsafe_code)]

mod address;
mod buffer;
mod card;
mod drops;
mod events;
mod expect;
pub mod guest;
mod net;
pub mod pcap;
mod peer;
mod place;
mod root;
mod seed;
pub mod stock;
mod stop;
mod toeplitz;
mod wait;

pub use address::loopback_address;
pub use buffer::Buffer;
pub use card::TestCard;
pub use drops::{until_frames_wait, where_frames_wait, Drops};
pub use events::{event_within, expect_async, expect_completion_event, expect_no_event};
pub use expect::{counter, on_one_and_two_cards, Cards, Side};
pub use net::Net;
pub use peer::{connect, datagram, join, Options, Peer, QKEY};
pub use place::place_for;
pub use root::{is_root, unshare};
pub use seed::{seed, Random};
pub use stop::Stop;
pub use toeplitz::SUITE;
pub use wait::{wait_for, Instead, LIMIT};
