//! Virtual time for a program that knows nothing of it: preloaded, it makes every clock that the
//! program reads virtual.

pub mod abi;
