//! Commands of I/O queues: Read, Write, Flush.

use crate::capsule::Command;
use crate::controller::{Controller, MOST_DATA};
use crate::namespace::{Namespace, BLOCK, NUMBER};
use crate::status::Status;
use crate::step::Step;

const FLUSH: u8 = 0x00;
const WRITE: u8 = 0x01;
const READ: u8 = 0x02;

const ALL_NAMESPACES: u32 = u32::MAX;
/// Force Unit Access, in dword 12: on the disk when the completion comes.
const DURABLE: u32 = 1 << 30;

/// First block and bytes of a Read or Write, within the namespace.
fn range(namespace: &Namespace, command: &Command) -> Result<(u64, usize), Status> {
    if command.namespace() != NUMBER {
        return Err(Status::NAMESPACE);
    }
    let (first, blocks) = (command.u64(40), u64::from(command.u16(48)) + 1);
    let length = blocks as usize * BLOCK;
    match () {
        () if first.checked_add(blocks).is_none_or(|end| end > namespace.blocks()) => Err(Status::LBA_RANGE),
        () if length > MOST_DATA => Err(Status::FIELD),
        () => Ok((first, length)),
    }
}

/// Does a command as far as it can be done without the host's data.
pub fn begin(namespace: &Namespace, command: &Command, data: &mut [u8]) -> Result<Step, Status> {
    match command.opcode() {
        READ => {
            let (first, length) = range(namespace, command)?;
            namespace.read(first, &mut data[..length]).map_err(|_| Status::READ_ERROR)?;
            Ok(Step::Deliver { length, result: 0 })
        }
        WRITE => Ok(Step::Fetch(range(namespace, command)?.1)),
        FLUSH if [NUMBER, ALL_NAMESPACES].contains(&command.namespace()) => {
            namespace.flush().map_err(|_| Status::WRITE_FAULT)?;
            Ok(Step::Done(0))
        }
        FLUSH => Err(Status::NAMESPACE),
        _ => Err(Status::OPCODE),
    }
}

/// Does the rest of a Write, whose data is here.
pub fn write(
    namespace: &Namespace,
    controller: &Controller,
    command: &Command,
    data: &[u8],
) -> Result<u64, Status> {
    let (first, length) = range(namespace, command)?;
    namespace.write(first, &data[..length]).map_err(|_| Status::WRITE_FAULT)?;
    if command.dword(12) & DURABLE != 0 || !controller.caches_writes() {
        namespace.flush().map_err(|_| Status::WRITE_FAULT)?;
    }
    Ok(0)
}
