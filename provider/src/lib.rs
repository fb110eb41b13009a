//! The rdma-core provider: what libibverbs loads to drive a Verbena card.
//!
//! Built as `libverbena.so` and found by libibverbs through a `.driver` file. [`abi`] is how the two
//! meet, [`verbs`] is the translation between libibverbs' structs and the driver, [`cm`] is the device of librdmacm. A message begins at
//! `ibv_post_send`, in [`verbs::post`].

// Programs may have closed standard error: `model::tell!`.
#![deny(clippy::print_stderr)]

pub mod abi;
pub mod cm;
pub mod verbs;
