//! The commands for a person with a new board: each works on a card in a slot, on a served one and on a
//! modelled one, and needs no libibverbs.
//!
//! | file | one idea |
//! |---|---|
//! | `device`, `sim`, `pci` | which card, and how it is opened |
//! | `look` | what is wrong with a card by its registers, and the remedy |
//! | `probe`, `regs`, `diff`, `poke` | registers |
//! | `memory`, `admin`, `pair` | memory, the admin queue by hand, two connected QPs |
//! | `selftest` | is this board well, step by step |
//! | `bench` | how fast it is |
//! | `top` | what it is doing |
//! | `record` | what it did, and how the model would have done it |

mod admin;
pub mod bench;
mod device;
pub mod diff;
mod look;
mod memory;
mod pair;
mod pci;
pub mod poke;
pub mod probe;
pub mod record;
pub mod regs;
pub mod selftest;
mod sim;
pub mod top;
