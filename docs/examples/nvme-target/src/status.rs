//! What a command can end with.

/// Type and code of a status as the completion has them, and what the completion's first bytes say beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    code: u16,
    detail: u32,
}

/// Do Not Retry: the same command would fail again.
const FINAL: u16 = 1 << 14;

impl Status {
    /// The opcode is not supported.
    pub const OPCODE: Status = Status::of(0x01);
    /// A field is not supported, or contradicts another.
    pub const FIELD: Status = Status::of(0x02);
    /// The target could not do it.
    pub const INTERNAL: Status = Status::of(0x06);
    /// There is no such namespace.
    pub const NAMESPACE: Status = Status::of(0x0b);
    /// It comes too early or too late.
    pub const SEQUENCE: Status = Status::of(0x0c);
    /// The SGL's length is not that of the data.
    pub const SGL_LENGTH: Status = Status::of(0x0f);
    /// An SGL of this type is not supported.
    pub const SGL_TYPE: Status = Status::of(0x11);
    /// Data in the capsule would end after it.
    pub const SGL_OFFSET: Status = Status::of(0x16);
    /// The namespace ends before.
    pub const LBA_RANGE: Status = Status::of(0x80);
    /// More asynchronous events are waited for than the controller said.
    pub const EVENT_LIMIT: Status = Status::of(0x105);
    /// There is no such log page.
    pub const LOG_PAGE: Status = Status::of(0x109);
    /// Connect has another format.
    pub const CONNECT_FORMAT: Status = Status::of(0x180);
    /// No controller is free, or the queue is connected already.
    pub const CONNECT_BUSY: Status = Status::of(0x181);
    /// The namespace could not be written.
    pub const WRITE_FAULT: Status = Status::of(0x280);
    /// The namespace could not be read.
    pub const READ_ERROR: Status = Status::of(0x281);

    const fn of(code: u16) -> Status {
        Status { code: code | FINAL, detail: 0 }
    }

    /// A parameter of Connect is invalid: the one at this offset of the command.
    pub const fn connect_command(offset: u16) -> Status {
        Status { code: 0x182 | FINAL, detail: offset as u32 }
    }

    /// As above, at this offset of the data.
    pub const fn connect_data(offset: u16) -> Status {
        Status { code: 0x182 | FINAL, detail: 1 << 16 | offset as u32 }
    }
}

/// A completion, 16 bytes: the result of a command, with the place in its queue.
pub fn completion(result: Result<u64, Status>, sq_head: u16, queue: u16, command: u16) -> [u8; 16] {
    let (result, status) = match result {
        Ok(result) => (result, 0),
        Err(status) => (status.detail.into(), status.code),
    };
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&result.to_le_bytes());
    for (at, value) in [(8, sq_head), (10, queue), (12, command), (14, status << 1)] {
        bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    bytes
}
