//! What is built and loaded apart and still has to agree: the provider, the command, the clock library and the model.
//!
//! | module | who |
//! |---|---|
//! | [`release`] | provider and `verbena doctor`: the releases of libibverbs that the provider can be loaded by |
//! | [`shown`] | provider and launcher: what libibverbs and sysfs say of a port |

pub mod release;
pub mod shown;
