//! What the Verbena card looks like from PCIe: BAR map, registers, doorbells,
//! queue entries and admin commands. Data only: no I/O.
//!
//! Everything is declared once with a macro (`layout!` for bytes in
//! memory, `word!` for register values, `registers!` for the BAR). The
//! same declaration gives the accessors, the tables for [`decode`] and the
//! pages `docs/registers.md`, `docs/wqe.md` and `docs/admin.md`, and is checked for size and
//! overlap at compile time.
//!
//! The definition has a push window since version 1.0. No card announces it yet, and the driver has no code for it; the
//! fields and the feature bit are kept, because a minor version only adds.
//!
//! ```
//! use fpga_regs::{decode, WqeBuilder, WqeOpcode};
//!
//! let wqe = WqeBuilder::new(WqeOpcode::WRITE)
//!     .ctrl(|ctrl| ctrl.with_signaled(true))
//!     .remote(0x1000, 0x777)
//!     .inline(b"hello");
//! let bytes = wqe.build()?;
//! assert_eq!(bytes.len(), 64);
//! let text = decode::wqe(&bytes).to_string();
//! assert!(text.contains("rkey         1911 (0x777)"));
//! assert!(text.contains("68656c6c6f  inline  hello"));
//! # Ok::<(), fpga_regs::EncodeError>(())
//! ```
//!
//! | file | one idea |
//! |---|---|
//! | `layout`, `word`, `open` | the macros: bytes in memory, register values, open enums and flag sets |
//! | `field`, `field_text`, `catalog` | what is declared, as tables |
//! | `regs`, `doorbell` | BAR0 |
//! | `wqe`, `wqe_segment`, `encode`, `recv` | work requests |
//! | `cqe`, `eqe`, `syndrome` | what the card reports |
//! | `admin`, `commands`, `context`, `attributes`, `limits` | admin commands and their contexts |
//! | `flow`, `rss` | contexts for whole Ethernet frames: flow rules, indirection tables, the hash |
//! | `lag` | the context of bonded ports |
//! | `decode`, `export` | as text; as C, SystemVerilog, SystemRDL and golden vectors |
//! | `vfio_user` | the messages of a served card |
//! | `accessors` | a test of all accessors |
#![forbid(unsafe_code)]

#[macro_use]
mod open;
#[macro_use]
mod layout;
#[macro_use]
mod word;

#[cfg(test)]
mod accessors;
pub mod admin;
mod attributes;
pub mod catalog;
pub mod commands;
pub mod context;
pub mod cqe;
pub mod decode;
pub mod doorbell;
pub mod encode;
pub mod eqe;
pub mod export;
pub mod field;
mod field_text;
pub mod flow;
pub mod lag;
pub mod limits;
pub mod recv;
pub mod regs;
pub mod rss;
pub mod syndrome;
pub mod vfio_user;
pub mod wqe;
pub mod wqe_segment;

pub use admin::*;
pub use context::*;
pub use cqe::*;
pub use doorbell::*;
pub use encode::{EncodeError, WqeBuilder};
pub use eqe::*;
pub use field::{Field, Format, Kind, Named, Names};
pub use flow::*;
pub use lag::*;
pub use limits::*;
pub use recv::*;
pub use rss::*;
pub use syndrome::*;
pub use wqe::*;
pub use wqe_segment::{wqe_bytes, Segment, Service};
