//! A net and the process that keeps it: start, find and end it, and serve its cards on virtual PCI slots.

pub mod daemon;
pub mod keeper;
pub mod lag;
pub mod link;
pub mod runtime;
pub mod serve;
pub mod wire;
