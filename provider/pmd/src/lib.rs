//! DPDK's poll-mode driver for the card: `librte_net_verbena.so`, which EAL loads as a plugin.
//!
//! The card's ports become Ethernet ports of DPDK. A transmit queue is a raw packet queue pair, a receive queue is a receive
//! work queue, over which an RX-hash queue pair spreads the frames of the port's rules (RSS). Frames are copied between the
//! program's mbufs and memory of the queue; all else of the data path is that of the crate `driver`.
//!
//! | file | idea |
//! |---|---|
//! | [`abi`] | DPDK's private structures, by hand, and its functions |
//! | `bus` | how ports appear without an argument, and which |
//! | `port` | an open port of a card, and its filters |
//! | `ops`, `hash`, `info`, `queues` | what ethdev calls: to change a port; about RSS; to ask of it, and of its queues |
//! | `dev` | how these get at the port |
//! | `secondary` | what ethdev calls in DPDK's secondary processes, which have the primary one do it |
//! | `flow` | `rte_flow`: a program's rules |
//! | `spread` | which receive queue gets a frame |
//! | `rx`, `tx`, `raw`, `counters` | the data path, its queue pairs, and what went through it |
//! | `kinds` | what kind of packet a frame is |
//! | `turns` | which places of a receive queue the card has |
//! | `watch` | who takes the card's events, and tells the program that the link has changed |
//! | `interrupts` | descriptors on which a thread sleeps until a frame comes |
//! | `headers` | where the card finds the headers of a frame, and checksums that are elsewhere |
//! | `cut` | TCP that the card cuts into frames |
//! | `slots` | the memory that the card reads and writes |
//! | `locks` | programs that would lock all memory |

// What calls DPDK needs a program that has one: cargo's test programs have nothing of it. The tests of that are in
// tests/tests/stock/dpdk.rs.
#![cfg_attr(test, allow(dead_code))]

pub mod abi;
#[cfg(not(test))]
mod bus;
mod counters;
mod cut;
mod dev;
mod flow;
mod hash;
mod headers;
mod info;
mod interrupts;
mod kinds;
#[cfg(test)]
mod layout_tests;
mod locks;
mod ops;
mod port;
mod queues;
mod raw;
mod rx;
#[cfg(not(test))]
mod secondary;
mod slots;
mod spread;
mod turns;
mod tx;
mod watch;
