//! What is built and loaded apart and still has to agree: the provider, the command, the clock library and the model.
//!
//! | module | shared by |
//! |---|---|
//! | [`clock`] | clock library, provider and model: whose time a program sees, and how bytes between programs carry it |
//! | [`imports`] | clock library and provider: a function that one loaded library imports is replaced |
//! | [`release`] | provider and command: the releases of libibverbs that the provider can be loaded by |
//! | [`shown`] | provider and launcher: what libibverbs and sysfs say of a port |

pub mod clock;
pub mod imports;
pub mod release;
pub mod shown;
