//! Moving memory: a registered buffer's pages become pages of the segment, at the same addresses, and back.
//!
//! [`mover`] registers a buffer: [`plan`] finds the parts that can move, [`pages`] moves those of them that
//! are present ([`present_pages`]) while [`protect`] holds back other threads' writes. [`release`]
//! brings them back. [`maps`] reads the process's list of mappings for all of them.

pub mod maps;
pub mod mover;
pub(super) mod pages;
mod plan;
mod present_pages;
pub mod protect;
pub(super) mod release;
