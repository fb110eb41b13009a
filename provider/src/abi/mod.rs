//! How libibverbs and this provider meet: the private driver ABI of each release, registration, and the one call that
//! libibverbs makes past its providers.

mod layout;
pub mod libibverbs;
pub mod private;
pub mod register;
pub mod write_hook;
