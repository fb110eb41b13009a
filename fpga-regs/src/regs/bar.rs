//! BAR0 as a whole, for backends that map it.

use super::gid::{GidEntry, GID_ENTRIES};
use super::global::Global;
use super::page::DoorbellPage;
use super::pci::{BAR0_BYTES, PORTS};
use super::port::{PortRegisters, GID_TABLE, PORT_BASE, PORT_BYTES};
use crate::doorbell::{DOORBELL_BASE, DOORBELL_PAGES};
use std::mem::offset_of;

/// A port: its registers and its GID table.
#[repr(C)]
pub struct Port {
    /// The registers.
    pub registers: PortRegisters,
    /// The GID table.
    pub gid: [GidEntry; GID_ENTRIES as usize],
    _rest: [u8; 0x600],
}

/// BAR0: volatile cells at the places of the registers. A backend that has
/// mapped the BAR casts the mapping's address to `*const Bar0`.
#[repr(C)]
pub struct Bar0 {
    /// Identity, control, admin queue, event queues, interrupts.
    pub global: Global,
    /// The ports.
    pub port: [Port; PORTS as usize],
    _gap: [u8; 0xd000],
    /// The doorbell pages.
    pub page: [DoorbellPage; DOORBELL_PAGES as usize],
    _rest: [u8; 0xb0000],
}

const _: () = {
    assert!(offset_of!(Port, gid) == GID_TABLE as usize);
    assert!(size_of::<Port>() == PORT_BYTES as usize);
    assert!(offset_of!(Bar0, port) == PORT_BASE as usize);
    assert!(offset_of!(Bar0, page) == DOORBELL_BASE as usize);
    assert!(size_of::<Bar0>() == BAR0_BYTES as usize);
};
