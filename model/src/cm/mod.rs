//! The connection manager of a net: what Linux has in its kernel as `ib_cm`, `rdma_cm` and `rdma_ucm`, as state of the segment.
//!
//! It has no thread. A command of a program runs it ([`command`]), and so does a datagram for QP 1 of a card or a
//! deadline ([`receive`], [`lifetime`]): whoever executes the packet or the timer executes the manager. All that it sends are packets
//! like others, so faults, captures and simulated time apply to them.
//!
//! | file | idea |
//! |---|---|
//! | `mad` | the datagrams, to the bit |
//! | `address` | socket addresses and the GIDs that they mean |
//! | `tables` | what it holds |
//! | `ids` | identifiers, events, sending |
//! | `bind` | ports, listeners, the way to an address |
//! | `connect`, `end` | what a program does with a connection |
//! | `receive` | what comes |
//! | `lifetime` | what happens without a message: time-outs, the death of a process |
//! | `command`, `option`, `query` | the commands of librdmacm, and what they ask for |
//! | `param` | structures of that interface |
//! | `tests` | whole connections without cards |

pub mod address;
pub mod bind;
pub mod command;
pub mod connect;
pub mod end;
pub mod ids;
pub mod lifetime;
pub mod mad;
pub mod option;
pub mod param;
pub mod query;
pub mod receive;
pub mod tables;
#[cfg(test)]
mod tests;
