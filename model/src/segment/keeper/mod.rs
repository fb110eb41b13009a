//! The file and its members: the keeper creates a segment, hands it out and cleans up after members that end.
//!
//! | file | idea |
//! |---|---|
//! | `serve` | the keeper's loop |
//! | `client` | a connection, and what it is for |
//! | `beside` | a thread that works beside it |
//! | `stray` | locks that nobody holds |
//! | `listen`, [`protocol`] | its socket, and what is said there |
//! | `create`, [`attach`] | a new segment; joining one |
//! | `options`, `error` | what a keeper is started with; why it did not run |

pub mod attach;
mod beside;
mod client;
pub(super) mod create;
mod error;
mod listen;
mod options;
pub mod protocol;
mod serve;
mod stray;

pub use attach::Hold;
pub use error::KeeperError;
pub use options::{Beside, KeeperOptions, OnAlone, OnLook, OnMemberGone, OnTimer, Watch, MAX_SOCKETS};
pub use serve::run;
#[cfg(test)]
pub(super) use serve::GREETING;
