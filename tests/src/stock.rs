//! Stock programs as separate processes: what their tests share.
//!
//! [`verbena`] finds (and first builds) the command, [`StockNet`] is a net of modelled cards that
//! only this test uses, [`Program`] is a running program that never outlives the test, and
//! [`Pair`] runs a server and its client and shows what both said when one of them fails.

mod binary;
mod compile;
mod matrix;
mod net;
mod pair;
mod port;
mod process;
mod program;

pub use binary::{example, need, target_dir, verbena};
pub use compile::{compile, compile_c};
pub use matrix::matrix;
pub use net::StockNet;
pub use pair::{Both, Pair};
pub use port::{free_port, wait_until_listening};
pub use process::{cpu_time, descendants, keepers, running};
pub use program::{Ended, Program};
