//! Virtual time for a program that knows nothing of it: preloaded, this library makes every clock
//! that the program reads virtual, and tells a timeline when the program waits.
//!
//! `LD_PRELOAD` with the path of `libverbena_clock.so` is all the environment that it needs. While
//! nobody has attached a timeline ([`abi`]) the process has a clock of its own, which only goes on
//! by what the program reads and sleeps.

// Unit tests enter parts only: what replaces a function of the C library stays out of the harness.
#![cfg_attr(test, allow(dead_code))]

pub mod abi;
mod address;
mod alarm;
mod cpuinfo;
mod exempt;
#[path = "../../src/abi/got.rs"]
mod got;
mod io;
mod lock;
mod next;
mod patch;
mod poll;
mod process;
mod read_clock;
mod seed;
mod signals;
mod sigstack;
mod sigwait;
mod sleep;
mod spin;
mod start;
mod stream;
mod sys;
mod threads;
mod timeline;
mod tsc;
mod wait;

/// The names of all functions that are replaced.
const REPLACED: &[&[&str]] = &[
    alarm::REPLACED,
    cpuinfo::REPLACED,
    io::REPLACED,
    lock::REPLACED,
    poll::REPLACED,
    process::REPLACED,
    read_clock::REPLACED,
    seed::REPLACED,
    signals::REPLACED,
    sigstack::REPLACED,
    sigwait::REPLACED,
    sleep::REPLACED,
    threads::REPLACED,
];
