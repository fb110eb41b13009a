//! Ports whose medium is outside of the segment: packets leave the net as RoCEv2 frames, and come from there.
//!
//! The keeper opens the media, and passes the descriptors to the processes of the net: whoever runs a queue pair sends
//! its packets. Frames that come are received by a thread of the keeper (`attach/ports.rs`) or by a program that polls
//! (`attach/wall/polling.rs`), which brings them to the cards. What comes is trusted by nobody: every packet is checked, and counted if it is dropped.
//!
//! | file | idea |
//! |---|---|
//! | `spec` | which medium a port has, as text |
//! | `area` | what the segment holds of such ports, and what they drop |
//! | `opened`, `medium` | what a medium does; which there are |
//! | `identity` | who the cards of a net are to others |
//! | `outbox`, `batch` | frames on their way out; those that leave together |
//! | `arrivals` | frames that have come |
//! | `udp`, `udp_reader`, `udp_groups`, `message` | UDP sockets; what comes by them; those of multicast groups; their system calls |
//! | `reading` | who reads what has come: a program that polls, or the keeper |
//! | `question` | whether a RoCE port at an address answers |
//! | `ethernet` | what media of Ethernet frames have in common |
//! | `station`, `neighbours` | who a port is on a link of such frames, or several that are one; ARP and neighbour discovery |
//! | `groups` | whom they tell which multicast groups they receive |
//! | `given`, `inbox`, `alarm` | what processes give them to send; where that waits; when they are to go on |
//! | `dgram`, `stream` | such frames in UNIX sockets, as QEMU has them |
//! | `tap`, `packet`, `uncut` | such frames at the other end of a network interface, and on its link; messages that it has not cut |
//! | `interface_link` | whether a network interface, or the one with an address, has a link |
//!
//! A new medium is a file here, a variant of [`MediumSpec`] and [`Kind`], and its arms in `medium`.

mod alarm;
#[cfg(test)]
mod any_tests;
mod area;
mod arrivals;
mod batch;
mod dgram;
mod ethernet;
mod given;
mod groups;
mod identity;
mod inbox;
mod interface_link;
pub(crate) mod medium;
mod message;
mod neighbours;
mod opened;
mod outbox;
mod packet;
mod question;
mod reading;
mod spec;
mod station;
mod stream;
mod tap;
mod udp;
mod udp_groups;
mod udp_reader;
mod uncut;

pub use area::{Drop, Kind, OutsideArea, OutsidePort, Role, Setting};
pub use arrivals::{Arrival, Arrivals};
pub(crate) use batch::MAX_FRAMES;
pub use identity::{guids, own_gids};
pub use medium::{open, PortError};
pub use message::{interface_of, mtu_of, Interface};
pub use opened::{path_mtu, Opened, Receiver};
pub(crate) use outbox::Outbox;
pub use question::{ask, Answer};
pub use reading::FRESH;
pub use spec::{MediumSpec, PortSpec, PortSpecError};
pub use station::SharedStation;
pub use tap::{open_tap, tap_name};
pub use udp_reader::Reader;
