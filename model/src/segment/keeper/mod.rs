//! The file and its members: the keeper creates a segment, hands it out and cleans up after members that end.

pub mod attach;
mod create;
mod error;
mod listen;
mod options;
pub mod protocol;
mod serve;

pub use attach::Hold;
pub use error::KeeperError;
pub use options::{Beside, KeeperOptions, OnMemberGone, OnTimer, Watch, MAX_SOCKETS};
pub use serve::run;
#[cfg(test)]
pub(super) use serve::GREETING;
