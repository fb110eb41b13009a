//! Building blocks of simulated time: no I/O, fixed capacity, zero bytes are their idle state, so that they
//! live in the segment. Times are picoseconds.

pub mod cache;
pub mod heap;
pub mod pcie;
