//! How libibverbs and this provider meet: the private driver ABI, registration, and the one call
//! that libibverbs makes past its providers.

pub mod private;
pub mod register;
pub mod write_hook;
