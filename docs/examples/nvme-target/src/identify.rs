//! What Identify says: of the controller, of the namespace, which namespaces there are.

use crate::capsule::{COMMAND, IN_CAPSULE};
use crate::controller::{Controller, EVENTS, MOST_DATA_SHIFT, QUEUE_ENTRIES, VERSION};
use crate::namespace::{BLOCK_SHIFT, NUMBER};
use crate::status::Status;
use crate::target::{Target, DISCOVERY};

/// Bytes of what Identify says.
pub const PAGE: usize = 4096;

// What is asked about: Controller or Namespace Structure.
const OF_NAMESPACE: u8 = 0x00;
const OF_CONTROLLER: u8 = 0x01;
const NAMESPACES: u8 = 0x02;
const DESCRIPTORS: u8 = 0x03;

/// A controller's pages are of 4 KiB, the unit of the longest transfer.
const PAGE_SHIFT: u8 = 12;
/// SGLs; keyed ones; offsets into the capsule.
const SGLS: u32 = 1 | 1 << 2 | 1 << 20;
/// Log pages can be read from an offset on.
const LOG_OFFSETS: u8 = 1 << 2;
/// Sizes of queue entries as powers of two, the same at least and at most.
const ENTRY_SIZES: [u8; 2] = [0x66, 0x44];
/// How finely Keep Alive time-outs are kept, in units of 100 ms.
const KEEP_ALIVE_UNITS: u16 = 1;
const UUID: u8 = 3;

/// One page that is filled in field by field.
struct Page([u8; PAGE]);

impl Page {
    fn put<const N: usize>(&mut self, offset: usize, bytes: [u8; N]) {
        self.0[offset..offset + N].copy_from_slice(&bytes);
    }
}

/// Puts text into a field, and fills up the rest of it.
pub fn text(field: &mut [u8], text: &str, rest: u8) {
    field.fill(rest);
    field.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
}

/// The page that answers a question.
pub fn page(
    target: &Target,
    controller: &Controller,
    question: u8,
    namespace: u32,
) -> Result<[u8; PAGE], Status> {
    match (question, namespace) {
        (OF_CONTROLLER, _) => Ok(of_controller(target, controller)),
        (OF_NAMESPACE | NAMESPACES | DESCRIPTORS, _) if controller.discovery => Err(Status::FIELD),
        (OF_NAMESPACE, NUMBER) => Ok(of_namespace(target)),
        (NAMESPACES, 0xffff_fffe..) => Err(Status::NAMESPACE),
        (NAMESPACES, after) => Ok(namespaces(after)),
        (DESCRIPTORS, NUMBER) => Ok(descriptors(target)),
        (OF_NAMESPACE | DESCRIPTORS, _) => Err(Status::NAMESPACE),
        _ => Err(Status::FIELD),
    }
}

fn of_controller(target: &Target, controller: &Controller) -> [u8; PAGE] {
    let mut page = Page([0; PAGE]);
    text(&mut page.0[4..24], "1", b' ');
    text(&mut page.0[24..64], "NVMe-oF example in Rust", b' ');
    text(&mut page.0[64..72], env!("CARGO_PKG_VERSION"), b' ');
    page.put(77, [MOST_DATA_SHIFT - PAGE_SHIFT]);
    page.put(78, controller.id.to_le_bytes());
    page.put(80, VERSION.to_le_bytes());
    page.put(259, [EVENTS - 1]);
    page.put(261, [LOG_OFFSETS]);
    page.put(320, KEEP_ALIVE_UNITS.to_le_bytes());
    page.put(512, ENTRY_SIZES);
    page.put(514, QUEUE_ENTRIES.to_le_bytes());
    page.put(536, SGLS.to_le_bytes());
    let name = if controller.discovery { DISCOVERY } else { &target.nqn };
    text(&mut page.0[768..1024], name, 0);
    // Capsules, in units of 16 bytes: of commands, of completions. One SGL descriptor.
    page.put(1792, ((COMMAND + IN_CAPSULE) as u32 / 16).to_le_bytes());
    page.put(1796, 1u32.to_le_bytes());
    page.put(1803, [1]);
    if !controller.discovery {
        // Namespaces, and a volatile cache of what is written.
        page.put(516, 1u32.to_le_bytes());
        page.put(525, [1]);
    }
    page.0
}

fn of_namespace(target: &Target) -> [u8; PAGE] {
    let mut page = Page([0; PAGE]);
    // Size, capacity, use.
    for offset in [0, 8, 16] {
        page.put(offset, target.namespace.blocks().to_le_bytes());
    }
    // The only format: no metadata.
    page.put(128 + 2, [BLOCK_SHIFT]);
    page.0
}

/// The numbers of all namespaces after this one.
fn namespaces(after: u32) -> [u8; PAGE] {
    let mut page = Page([0; PAGE]);
    if after < NUMBER {
        page.put(0, NUMBER.to_le_bytes());
    }
    page.0
}

fn descriptors(target: &Target) -> [u8; PAGE] {
    let mut page = Page([0; PAGE]);
    page.put(0, [UUID, 16]);
    page.put(4, uuid(&target.nqn));
    page.0
}

/// A UUID that is the same whenever a subsystem of this name is served: FNV-1a, as a UUID of version 8.
fn uuid(name: &str) -> [u8; 16] {
    let hash = name.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b)
    });
    let mut uuid = hash.to_be_bytes();
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}
