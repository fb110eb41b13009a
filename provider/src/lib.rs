//! The rdma-core provider: what libibverbs loads to drive a Verbena card.
//!
//! Built as `libverbena.so`, which libibverbs finds through a `.driver` file. [`abi`] declares the structs that libibverbs
//! shares with its providers, and registers with it. [`verbs`] translates between these structs and the driver. [`cm`] stands
//! in for the kernel's device of librdmacm. A message begins at `ibv_post_send`, in [`verbs::post`].

// Programs may have closed standard error: `model::tell!`.
#![deny(clippy::print_stderr)]

pub mod abi;
pub mod cm;
pub mod verbs;
