//! RDMA as Rust has it: who posts a buffer gives it away, and gets it back with the completion.
//!
//! | file | idea |
//! |---|---|
//! | [`owned`] | a thing of the C libraries, freed when it is dropped |
//! | [`listener`] | the connection manager: requests come in, connections end |
//! | [`request`] | somebody who wants to connect |
//! | [`endpoint`] | one side of a connection: identifier, queue pair, completion queue |
//! | [`memory`] | registered memory, in chunks that can be given away |
//! | [`connection`] | posts and completions |

mod connection;
mod endpoint;
mod listener;
mod memory;
mod owned;
mod request;

pub use connection::{Connection, Done, Remote};
pub use endpoint::{Endpoint, Sizes};
pub use listener::Listener;
pub use memory::{chunks, Chunk};
pub use request::Request;
