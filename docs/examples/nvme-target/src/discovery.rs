//! The discovery service: where the subsystem is.

use crate::controller::{Controller, QUEUE_ENTRIES};
use crate::identify::text;
use crate::target::Target;

/// Identifier of its log page.
pub const LOG_PAGE: u8 = 0x70;

const HEADER: usize = 1024;
const ENTRY: usize = 1024;

const RDMA: u8 = 1;
const IPV4: u8 = 1;
const IPV6: u8 = 2;
/// A subsystem that stores something.
const STORAGE: u8 = 2;
/// Any controller.
const DYNAMIC: u16 = 0xffff;
/// Queue pairs are connected, by RoCE v2, through the connection manager.
const RDMA_ADDRESS: [u8; 3] = [1, 4, 1];

/// The log page: a header and one entry, with the address at which the host has found us.
pub fn log(target: &Target, controller: &Controller) -> Vec<u8> {
    let mut page = vec![0; HEADER + ENTRY];
    // One generation, one entry.
    page[0] = 1;
    page[8] = 1;
    let entry = &mut page[HEADER..];
    entry[0] = RDMA;
    entry[1] = if controller.address.is_ipv4() { IPV4 } else { IPV6 };
    entry[2] = STORAGE;
    entry[6..8].copy_from_slice(&DYNAMIC.to_le_bytes());
    entry[8..10].copy_from_slice(&QUEUE_ENTRIES.to_le_bytes());
    text(&mut entry[32..64], &controller.address.port().to_string(), b' ');
    text(&mut entry[256..512], &target.nqn, 0);
    text(&mut entry[512..768], &controller.address.ip().to_string(), b' ');
    entry[768..771].copy_from_slice(&RDMA_ADDRESS);
    page
}
