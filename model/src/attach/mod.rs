//! The backend through which a driver uses a modelled card in its own process, in wall-clock mode.
//!
//! The cards of a net lie in a shared [`Segment`]. Whoever has work runs them: a doorbell is a store
//! to the segment and then, under a try-lock, a call of the card. Where the lock is busy the work is
//! left to its holder, who looks for it after unlocking ([`runner`]).

mod bells;
mod card;
mod keeper;
mod limits;
mod net;
mod queue;
mod runner;
mod wall;

pub use card::{OpenError, SegmentCard};
pub use keeper::{default_socket, run_keeper, NetOptions};
pub use limits::limits;
