//! Cards in wall-clock time: a thread that has work runs them at once, with the lock of an island or of all the cards.
//!
//! | module | one idea |
//! |---|---|
//! | [`card`] | the driver's backend |
//! | [`runner`] (`runner_tests`, `panic_tests`) | runs the cards until nothing is left to do |
//! | [`doorbell`] | the doorbell of a send queue: the express lane, without the rest |
//! | [`arrivals`] | packets from outside |
//! | [`part`] | the work of a run of an island, or of all the cards |
//! | [`mod@env`], [`memory`] | what the cards ask of their surroundings, answered at once |
//! | [`wire`] | from port to port |
//! | [`polling`] | what a program that polls receives itself |
//! | [`pending`] | queue pairs that another thread was in the way of |
//! | [`timers`] | the timers of queue pairs |
//! | [`lane`] | what the express lane asks of them |
//! | [`queue`], [`scratch`] | the work of one run, and what a process keeps between runs |
//! | [`raw`] | whole frames of raw packet queue pairs |
//! | [`routes`] | what this process knows of connections, for the express lane |

pub(super) mod arrivals;
pub(super) mod card;
mod doorbell;
mod env;
#[cfg(test)]
mod env_tests;
mod lane;
mod memory;
#[cfg(test)]
mod panic_tests;
mod part;
mod pending;
mod polling;
mod queue;
mod raw;
mod routes;
pub(super) mod runner;
mod scratch;
mod timers;
mod wire;
