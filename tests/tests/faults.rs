//! Scripted faults in simulated time: what the cards send after each, packet by packet, and what losses cost.

#[path = "faults/injected.rs"]
mod injected;
#[path = "faults/scene.rs"]
mod scene;
#[path = "faults/selective.rs"]
mod selective;
#[path = "faults/table.rs"]
mod table;
