//! The card as software: how it behaves, and when.
//!
//! | module | one idea |
//! |---|---|
//! | [`device`] | the card core: registers, queues, keys, requester and responder; no threads, clocks or sockets |
//! | [`packet`], [`encapsulation`], [`wire`] | a packet between two cards in memory, its encapsulation, and its bytes |
//! | [`port_name`] | what people call ports |
//! | [`mod@env`], [`dma`] | what the card core needs from its surroundings |
//! | [`plain`], `bits` | types for which every pattern of bytes is a value: what the segment holds; sets as words |
//! | `islands` | what has to be run by one thread at a time, and what at the same time |
//! | `repair`, `panics` | the cards after a death, panics that end here |
//! | `allocations`, `eventually` | what tests count, and how they wait |
//! | `remark` | lines on standard error |
//! | [`passing`] | file descriptors beside bytes on a socket |
//! | `claimed` | files that one net writes and no other |
//! | [`world`], [`address`], [`gids`], [`gid_options`] | the cards of a segment, the addresses of their ports, and their GID tables |
//! | [`express`], [`here`], [`journal`] | the short path of plain messages by the wall clock, and crash recovery |
//! | [`link`] | the wire that carries frames: faults, capture |
//! | `cables` | which ports reach each other while some have no link |
//! | [`lacp`], `bonds` | ports that are one: what they negotiate, and by which of them packets go |
//! | `frames`, `steering` | whole frames of raw packet queue pairs, and who gets them |
//! | [`segment`] | the shared memory that the cards are in, its members, and registered memory |
//! | [`attach`] | the backend through which the driver uses a card in its own process, by either clock |
//! | [`net`], [`cells`] | what the segment holds of a net: the cards, and what is touched without the lock |
//! | [`sim`], [`profile`] | simulated time: events, and the card's numbers that they follow from |
//! | [`congestion`] | a switch's options, and the rates of cards that are told of congestion |
//! | [`serve`] | a card behind a socket, as a PCI function |

// A panic where nobody reads standard error would end a keeper: `tell!` goes on.
#![cfg_attr(not(test), deny(clippy::print_stderr))]

#[macro_use]
mod remark;

pub mod address;
#[cfg(test)]
mod allocations;
pub mod attach;
mod bits;
mod bonds;
mod cables;
mod cells;
mod claimed;
pub mod cm;
pub mod congestion;
pub mod device;
pub mod dma;
pub mod encapsulation;
pub mod env;
#[cfg(test)]
mod eventually;
pub mod express;
mod frames;
pub mod gid_options;
pub mod gids;
pub mod here;
mod islands;
pub mod journal;
pub mod lacp;
pub mod link;
mod net;
pub mod packet;
mod panics;
pub mod passing;
pub mod plain;
pub mod port_name;
pub mod profile;
mod repair;
pub mod segment;
pub mod serve;
pub mod sim;
mod steering;
pub mod wire;
pub mod world;
