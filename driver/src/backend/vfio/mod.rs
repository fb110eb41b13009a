//! A card in a PCI slot, through VFIO.
//!
//! | file | one idea |
//! |---|---|
//! | `preflight` | what can be wrong before anything is opened, and the remedy |
//! | `advice` | what a failed VFIO call means |
//! | `iova` | which I/O addresses are free |
//! | `dma` | memory and its I/O addresses |
//! | `own` | the driver's own memory |
//! | `shared` | user memory that several regions hold |
//! | `memlock` | the limit of locked memory |
//! | `iommu` | the kernel's side of it: a container, or an iommufd |
//! | `config` | the few bits of PCI configuration space that matter |
//! | `bar` | volatile access to BAR0 |
//! | `irq` | MSI-X vectors as eventfds |
//! | `card` | all of it as a [`crate::Card`] |

mod advice;
mod bar;
mod card;
pub(super) mod config;
mod dma;
mod iommu;
pub(super) mod iova;
pub(super) mod irq;
mod memlock;
mod own;
mod preflight;
mod shared;

pub use bar::Bar;
pub use card::Vfio;
pub use preflight::{preflight, Found};
