//! The card as software: how it behaves, and when.
//!
//! [`device`] is the card itself. [`attach`] is how the driver uses one: with the wall clock its caller's thread runs the
//! card, in simulated time ([`sim`]) its actions are events. `docs/message.md` follows one message through these modules.
//!
//! | module | one idea |
//! |---|---|
//! | [`device`] | the card core: registers, queues, keys, requester and responder; no threads, clocks or sockets |
//! | [`packet`], [`encapsulation`], [`wire`] | a packet between two cards in memory, its encapsulation, and its bytes |
//! | [`port_name`] | names of ports on command lines: `verbena0/1` |
//! | [`mod@env`], [`dma`] | what the card core needs from its surroundings |
//! | [`plain`], `bits`, `named` | types for which every bit pattern is valid, as shared memory requires; sets as words; values with names |
//! | `zeroed` | memory that begins as zeros, and costs only what is used of it |
//! | `islands` | which queue pairs share a lock, and which threads may run at the same time |
//! | `repair`, `panics` | repair of the cards after a process died; panics that must not go on |
//! | `allocations`, `eventually` | for tests: counts of allocations, waits with a limit |
//! | `remark` | lines on standard error |
//! | [`passing`] | file descriptors sent over a socket |
//! | `claimed` | output files that only one net writes |
//! | [`world`], [`address`], [`gids`], [`gid_options`] | the cards of a segment, the addresses of their ports, and their GID tables |
//! | [`express`], [`here`], [`journal`] | the short path of plain messages by the wall clock, and crash recovery |
//! | [`link`] | the wire that carries frames: faults, capture, ports that lead outside |
//! | [`cm`] | the connection manager |
//! | `cables` | which ports reach each other while some have no link |
//! | [`lacp`], `bonds` | bonded ports: LACP, and which port a packet leaves by |
//! | `frames`, `steering` | whole frames of raw packet queue pairs, and who gets them |
//! | [`segment`] | the shared memory that the cards are in, its members, and registered memory |
//! | [`attach`] | the backend through which the driver uses a card in its own process, by either clock |
//! | [`net`], [`cells`] | what the segment holds of a net: the cards, and what is touched without the lock |
//! | [`sim`], [`profile`] | simulated time: events, and the card's numbers that they follow from |
//! | [`congestion`] | a switch's options, and the rates of cards that receive congestion notifications |
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
mod named;
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
mod zeroed;
