//! Tests of the driver against a scripted bus and against a small fake card.

mod fake;
mod script;
mod scripted;
mod setup;

mod admin;
mod bringup;
mod cq;
mod doorbells;
mod events;
mod mr;
mod property;
mod qp;
mod ring_bytes;
mod srq;
mod state_table;
mod threads;
