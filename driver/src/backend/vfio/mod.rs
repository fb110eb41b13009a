//! A card in a PCI slot, through VFIO.
//!
//! | file | one idea |
//! |---|---|
//! | `preflight` | what can be wrong before anything is opened, and the remedy |
//! | `advice` | what a failed VFIO call means |
//! | `iova` | which I/O addresses are free |
//! | `dma` | memory and its I/O addresses |
//! | `config` | the few bits of PCI configuration space that matter |
//! | `bar` | volatile access to BAR0 |
//! | `irq` | MSI-X vectors as eventfds |
//! | `card` | all of it as a [`crate::Card`] |

mod advice;
mod bar;
mod card;
pub(super) mod config;
mod dma;
pub(super) mod iova;
pub(super) mod irq;
mod preflight;

pub use card::Vfio;
pub use preflight::{preflight, Found};
