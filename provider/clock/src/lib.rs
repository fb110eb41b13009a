//! Virtual time for a program that knows nothing of it: preloaded, this library makes every clock
//! that the program reads virtual, and tells a timeline when the program waits.
//!
//! `LD_PRELOAD` with the path of `libverbena_clock.so` is all the environment that it needs. Until a
//! timeline ([`contract::clock`]) attaches, the process has a clock of its own, which advances only by
//! what the program reads and sleeps.
//!
//! | files | idea |
//! |---|---|
//! | `attach` | what the library exports to a timeline |
//! | `timeline`, `cost` | the process's clock, and what a reading costs |
//! | `read_clock`, `tsc`, `cpuinfo`, `seed` | what the program reads |
//! | `sleep`, `poll`, `lock`, `sigwait`, `wait` | how it waits |
//! | `alarm`, `timerfd`, `signals` | SIGALRM, timers that are descriptors, and the signals that this library uses itself |
//! | `io`, `stream`, `address` | streams between processes, which carry the time |
//! | `threads`, `process`, `start`, `exempt` | what takes part: threads, children, libraries that do not |
//! | [`spin`] | threads that wait by reading memory |
//! | `next`, `sys` | the C library's own functions, and system calls |

// Unit tests enter parts only: what replaces a function of the C library stays out of the harness.
#![cfg_attr(test, allow(dead_code))]

mod address;
mod alarm;
mod attach;
mod cost;
mod cpuinfo;
mod exempt;
mod io;
mod lock;
mod next;
mod poll;
mod process;
mod read_clock;
mod seed;
mod signals;
mod sigwait;
mod sleep;
mod spin;
mod start;
mod stream;
mod sys;
mod threads;
mod timeline;
mod timerfd;
mod tsc;
mod wait;
