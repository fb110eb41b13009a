//! How software uses the Verbena card: bring-up, admin queue, memory regions, queues, work requests.
//!
//! Everything is generic over [`Card`], the backend: a card in a slot through VFIO, a served card through vfio-user, the
//! model in the same process, or a fake in tests. [`Device::open`] brings a card up; [`Pd`], [`Cq`], [`Qp`] and the rest
//! are created from it. [`Qp`] posts ([`SendPost`], [`RecvPost`]), [`Cq`] polls.
//!
//! | file | one idea |
//! |---|---|
//! | `card`, `forward`, `error` | the backend traits, forwarding them to a wrapped backend, and errors |
//! | `bringup`, `admin`, `events`, `device` | from power-on to a working function, and whether it still is one |
//! | `pd`, `mr`, `mw`, `dm`, `ah`, `mcast`, `port` | protection, memory, addresses, ports |
//! | `object` | objects without memory of their own, destroyed once |
//! | `flow`, `rss` | which frames a raw packet QP receives; spreading them over work queues |
//! | `lag` | bonding of a card's two ports |
//! | `dma`, `rings` | DMA memory and its pools |
//! | `slots` | registered memory for Ethernet frames, in slots |
//! | `ring`, `spin` | rings of entries that the card writes; the lock of a queue |
//! | `qp`, `qp_size`, `qp_attr`, `qp_state`, `qp_modify` | queue pairs and their states |
//! | `xrc` | domains of extended reliable connections |
//! | `wr`, `put` | work requests, and the stores that write WQEs |
//! | `sq`, `sq_ring`, `sq_shape`, `sq_write` | posting sends |
//! | `rq`, `rq_ring` | posting receives |
//! | `srq`, `srq_ring` | the same to a shared queue |
//! | `wc`, `cq`, `cq_ring`, `cq_poll`, `qp_table` | reaping completions |
//! | `backend` | VFIO and the vfio-user client |

mod admin;
mod ah;
pub mod backend;
mod bringup;
mod card;
mod cq;
mod cq_poll;
mod cq_ring;
mod device;
mod dm;
mod dma;
mod error;
mod events;
mod flow;
mod forward;
mod lag;
mod mcast;
mod mr;
mod mw;
mod object;
mod pd;
mod port;
mod put;
mod qp;
mod qp_attr;
mod qp_modify;
mod qp_size;
pub mod qp_state;
mod qp_table;
mod ring;
mod rings;
mod rq;
mod rq_ring;
mod rss;
mod slots;
mod spin;
mod sq;
mod sq_ring;
mod sq_shape;
mod sq_write;
mod srq;
mod srq_ring;
mod wc;
mod wr;
mod xrc;

pub use ah::{multicast_mac, Ah, AhAttr};
pub use card::{Card, CardError, DmaMemory, Hints, Interrupts, Memory, Registers};
pub use cq::{Cq, CqOptions};
pub use device::Device;
pub use dm::Dm;
pub use dma::Lender;
pub use error::{CqError, Error, PostError, Result};
pub use events::Event;
pub use flow::{Flow, FlowCount};
pub use mr::{Mr, PageList, Region};
pub use mw::Mw;
pub use pd::Pd;
pub use port::PortInfo;
pub use qp::Qp;
pub use qp_attr::{AttrMask, Offloads, QpAttr, QpCaps, QpInit};
pub use rq::RecvPost;
pub use rss::Table;
pub use slots::Slots;
pub use spin::on_long_wait;
pub use sq::SendPost;
pub use srq::{Srq, SrqAttr, SrqAttrMask, SrqPost};
pub use wc::{Wc, WcFlags};
pub use wr::{Bind, Data, InlineSges, Segmented, SendFlags, SendWr, Sge};
pub use xrc::Xrcd;

/// Locks a mutex, even if a thread panicked while holding it.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
