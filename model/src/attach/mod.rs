//! The backend through which a driver uses a modelled card in its own process, by either clock.
//!
//! The cards of a net are in a shared [segment](crate::segment). In wall-clock time ([`wall`]) a doorbell is a store
//! to the segment and then, under a try-lock, a call of the card. In simulated time ([`virtual_card`], over
//! [`crate::sim`]) it is an event.
//!
//! | module | one idea |
//! |---|---|
//! | `card` | an opened card, by whichever clock its net has |
//! | [`wall`], [`virtual_card`] | the backend by each clock |
//! | [`stage`] | the backend of many cards whose programs one thread plays |
//! | `function` | what they have in common |
//! | `manager` | calls of the connection manager |
//! | `listeners` | which ports programs listen on, and how many receives wait |
//! | `served` | a card that this process opens for a client |
//! | `keeper` | makes a net, and runs what no program runs |
//! | `private` | a net whose keeper is a thread of the process that uses it |
//! | `cables` | the links of a net's ports, whose cables people pull, and which they disable |
//! | `live` | captures of a running net |
//! | `counted` | what its ports have counted, for files |
//! | `ports` | what the keeper receives from outside |
//! | `limits`, `error` | what the cards can do; why one cannot be opened |

mod cables;
mod card;
mod counted;
mod error;
mod function;
mod keeper;
mod limits;
mod listeners;
mod live;
mod manager;
mod ports;
mod private;
mod served;
mod stage;
mod virtual_card;
mod wall;

pub use crate::sim::programs::stall::{read_patience, PATIENCE_VARIABLE};
pub use crate::sim::programs::streams::Wait;
pub use crate::sim::programs::together::PROGRAMS_VARIABLE;
pub use crate::sim::programs::watched::Watched;
pub use crate::sim::threads::{forked, give_up, on_alarm, Follower, Starting, Timeline};
pub use cables::{cables, enable, plug, LinkState};
pub use card::SegmentCard;
pub use counted::{Counted, COUNTED_WITHIN};
pub use error::OpenError;
pub use keeper::{capture_lost, default_socket, rule_uses, run_keeper, Addresses, NetOptions};
pub use limits::{limits, mbps};
pub use listeners::{listeners, receives_waiting};
pub use live::LiveCapture;
pub use manager::{CloseChannel, Execute, OpenChannel, Task, Waiting};
pub use private::PrivateNet;
pub use served::{ServedCard, VECTORS};
pub use stage::{Buffer, Progress, Stage, StageCard, StageError, StageOptions, Turn};
pub use virtual_card::{simulated_time, trace_lost};
