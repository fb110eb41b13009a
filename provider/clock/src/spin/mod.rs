//! Finds out that the program spins on memory, and lets virtual time go on to the next write.
//!
//! A timer of the machine looks at each thread now and then ([`tick`]). If the thread has called
//! nothing since the last look, it is stepped through its next instructions ([`step`]), which are
//! decoded just as far as to know what they write ([`decode`]). A thread that comes to the same
//! place with the same registers and has written nothing new can only do the same again, until
//! somebody else writes to its memory. That is a proof, not a guess: when the look came, and how fast the
//! machine is, make no difference to the virtual time at which the program goes on.

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
