//! A card that a process serves over a UNIX socket (`verbena serve`), without QEMU: the vfio-user client.
//!
//! BAR accesses and doorbells are messages ([`link`]). The driver's own memory is a file that the
//! server maps. The user's memory stays in place: the card accesses it by messages, which a thread
//! of this backend answers ([`memory`]).

mod card;
mod link;
mod memory;

pub use card::VfioUserCard;
