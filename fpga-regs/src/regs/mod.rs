//! BAR0, register by register.
//!
//! | offset | what |
//! |---|---|
//! | 0x0000 | [`global`]: identity, control, admin queue, event queues, interrupts |
//! | 0x1000 + p * 0x1000 | [`port`] p + 1 |
//! | 0x10000 + n * 0x1000 | doorbell [`page`] `n` |
//!
//! Each block is declared once; the declaration gives the offset constants and the
//! table of [`describe()`]. Registers of 64 bits are read and written as a whole.
//!
//! | file | one idea |
//! |---|---|
//! | `block`, `register` | the macro `registers!`, and a register as a table entry |
//! | `pci` | the PCI identity |
//! | `global`, `port`, `gid`, `page` | the blocks |
//! | `values`, `cause` | values of registers; causes of failure |
//! | `describe` | from an offset to a register's name |

#[macro_use]
mod block;
mod cause;
mod describe;
pub mod gid;
pub mod global;
pub mod page;
pub mod pci;
pub mod port;
mod register;
mod values;

pub use cause::*;
pub use describe::{describe, locate, registers, Located};
pub use global::*;
pub use pci::*;
pub use register::{Mode, Register};
pub use values::*;
