//! Finds out that the program spins on memory, and advances virtual time to the next write.
//!
//! A timer of the machine checks each thread now and then ([`tick`]). If the thread has called
//! nothing since the last check, it is stepped through its next instructions ([`step`]), which are
//! decoded just as far as to know what they write ([`decode`]). A thread that comes to the same
//! place with the same registers and has written nothing new can only do the same again, until
//! another thread writes to its memory. That is a proof, not a guess: when the check came, and how fast the
//! machine is, make no difference to the virtual time at which the program continues.

mod decode;
mod step;
pub mod tick;

use crate::signals;
use contract::clock::TICK_SIGNAL;

/// Sets up the handlers of this thread's process.
pub fn start() {
    signals::handle(TICK_SIGNAL, tick::on_tick, 0);
    signals::handle(libc::SIGTRAP, tick::on_trap, 0);
}
