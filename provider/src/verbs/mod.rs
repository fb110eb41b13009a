//! The verbs: translation between libibverbs' structs and the driver, and nothing else.
//!
//! | file | idea |
//! |---|---|
//! | `open`, `context`, `ops` | `ibv_open_device`, an open device, the list of operations |
//! | `device` | what the device and its ports can do |
//! | [`card`], `in_view` | which backend the driver uses; the cards that a program sees |
//! | `pd`, `parent_domain`, `ah` | protection domains, other handles of them, address handles |
//! | `mr`, `mw`, `bind` | memory regions; memory windows of both types |
//! | `dm` | the card's own memory |
//! | `prefetch` | advice about memory that is found on demand |
//! | `cq`, `cq_ex` | completion queues: `ibv_poll_cq`, and the extended form |
//! | `qp`, `qp_modify`, `srq` | queue pairs, their attributes and multicast groups, shared receive queues |
//! | `flow`, `counters` | which frames a raw packet queue pair receives; how many these were |
//! | `wq`, `rss` | receive work queues; indirection tables of them, and who spreads frames over these |
//! | `xrc` | XRC domains, and the SRQs and receiving queue pairs of one |
//! | [`post`] | `ibv_post_send` and `ibv_post_recv`: the data path |
//! | `qp_ex`, `wr_builder` | the `ibv_wr_*` calls, and the chain that they build |
//! | `events`, `event_state`, `event_pipe` | the event thread, what an event is about, the pipes that programs read |
//! | `acknowledged` | which events of an object its program has acknowledged |
//! | `timeline` | simulated time: answers to the clock library |
//! | `object` | the objects of pointers that programs have; how they end, at the latest with their context |
//! | `fork` | what a forked child finds |
//! | `errno` | errors, and the wall against panics |

pub mod acknowledged;
pub mod ah;
pub mod bind;
pub mod card;
pub mod context;
pub mod counters;
pub mod cq;
pub mod cq_ex;
pub mod device;
pub mod dm;
pub mod errno;
pub mod event_pipe;
pub mod event_state;
pub mod events;
pub mod flow;
pub mod fork;
pub mod in_view;
pub mod mr;
pub mod mw;
pub mod object;
pub mod open;
pub mod ops;
pub mod parent_domain;
pub mod pd;
pub mod post;
pub mod prefetch;
pub mod qp;
pub mod qp_ex;
pub mod qp_modify;
pub mod rss;
pub mod srq;
pub mod timeline;
pub mod wq;
pub mod wr_builder;
pub mod xrc;
