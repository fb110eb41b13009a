//! The device of librdmacm, `/dev/infiniband/rdma_cm`: its commands go to the connection manager of the net.
//!
//! There is no such file. [`imports`] answers what librdmacm does with it, and [`session`] is this process's part in the
//! manager: event channels, and the thread that makes them readable.

pub mod imports;
pub mod session;
