//! A card that a process serves over a UNIX socket (`verbena serve`), without QEMU: the vfio-user client.
//!
//! BAR accesses and doorbells are messages ([`link`]). The driver's own memory is a file in memory that the
//! server maps; the user's stays where it is, and the card's accesses to it come as messages that a thread
//! of this backend answers ([`memory`]).

mod card;
mod link;
mod memory;

pub use card::VfioUserCard;
