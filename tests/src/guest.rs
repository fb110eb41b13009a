//! A guest: a stock kernel under QEMU with cards on virtual PCI slots with an emulated IOMMU.
//!
//! | file | one idea |
//! |---|---|
//! | `kit` | QEMU and kernel, as `tests/guest/fetch` unpacks them |
//! | `image` | the files of the guest, packed as an initramfs |
//! | `machine` | a running guest |
//! | `shell` | commands in it |
//! | `rxe` | a guest with Linux rxe on its network interface |
//! | `served` | a card that `verbena serve` serves, for a slot |

mod image;
mod kit;
mod machine;
mod rxe;
mod served;
mod shell;

pub use kit::Kit;
pub use machine::{Machine, Options};
pub use rxe::{Link, Rxe};
pub use served::Served;
pub use shell::{Said, Shell};
