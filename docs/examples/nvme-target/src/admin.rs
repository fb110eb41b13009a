//! Commands of admin queues: properties, Identify, features, log pages, Keep Alive, Asynchronous Event Request.

use crate::capsule::{fabrics, Command, FABRICS};
use crate::controller::{Controller, MOST_DATA};
use crate::discovery;
use crate::identify::{self, PAGE};
use crate::status::Status;
use crate::step::Step;
use crate::target::Target;

const GET_LOG_PAGE: u8 = 0x02;
const IDENTIFY: u8 = 0x06;
const ABORT: u8 = 0x08;
const SET_FEATURES: u8 = 0x09;
const GET_FEATURES: u8 = 0x0a;
const EVENT_REQUEST: u8 = 0x0c;
const KEEP_ALIVE: u8 = 0x18;

/// Result of an Abort that came too late, as all do here: commands are not interrupted.
const NOT_ABORTED: u64 = 1;

/// Does a command, and puts what the host gets into `data`.
pub fn begin(
    target: &Target,
    controller: &Controller,
    command: &Command,
    data: &mut [u8],
) -> Result<Step, Status> {
    if command.opcode() == FABRICS {
        return property(target, controller, command).map(Step::Done);
    }
    if !controller.is_ready() {
        return Err(Status::SEQUENCE);
    }
    let feature = command.u8(40);
    match command.opcode() {
        IDENTIFY => {
            let page = identify::page(target, controller, command.u8(40), command.namespace())?;
            data[..PAGE].copy_from_slice(&page);
            Ok(Step::Deliver { length: PAGE, result: 0 })
        }
        GET_LOG_PAGE => log_page(target, controller, command, data),
        GET_FEATURES => controller.feature(feature).map(Step::Done),
        SET_FEATURES => controller.set_feature(feature, command.dword(11)).map(Step::Done),
        KEEP_ALIVE => {
            controller.keep_alive();
            Ok(Step::Done(0))
        }
        EVENT_REQUEST => controller.hold_event().map(|()| Step::Hold),
        ABORT => Ok(Step::Done(NOT_ABORTED)),
        _ => Err(Status::OPCODE),
    }
}

fn property(target: &Target, controller: &Controller, command: &Command) -> Result<u64, Status> {
    let size = match command.u8(40) & 7 {
        0 => 4,
        1 => 8,
        _ => return Err(Status::FIELD),
    };
    let offset = command.u32(44);
    match command.fabrics_type() {
        Some(fabrics::PROPERTY_GET) => controller.property(offset, size),
        Some(fabrics::PROPERTY_SET) => {
            if controller.set_property(offset, size, command.u64(48))? {
                // Nothing that was written is lost by a shutdown.
                target.namespace.flush().map_err(|_| Status::INTERNAL)?;
            }
            Ok(0)
        }
        Some(fabrics::CONNECT) => Err(Status::SEQUENCE),
        _ => Err(Status::OPCODE),
    }
}

fn log_page(
    target: &Target,
    controller: &Controller,
    command: &Command,
    data: &mut [u8],
) -> Result<Step, Status> {
    if !controller.discovery || command.u8(40) != discovery::LOG_PAGE {
        return Err(Status::LOG_PAGE);
    }
    let page = discovery::log(target, controller);
    let dwords = u64::from(command.u16(42)) | u64::from(command.u16(44)) << 16;
    let length = usize::try_from((dwords + 1) * 4).unwrap_or(usize::MAX);
    let offset = usize::try_from(command.u64(48)).unwrap_or(usize::MAX);
    let rest = page.get(offset..).ok_or(Status::FIELD)?;
    if length > MOST_DATA {
        return Err(Status::FIELD);
    }
    let there = rest.len().min(length);
    data[..there].copy_from_slice(&rest[..there]);
    data[there..length].fill(0);
    Ok(Step::Deliver { length, result: 0 })
}
