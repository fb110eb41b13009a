//! Command capsules: 64 bytes of command, and data behind them if the command says so.

use crate::rdma::Remote;
use crate::status::Status;

/// Bytes of a command.
pub const COMMAND: usize = 64;
/// Bytes of data that fit in a capsule behind the command.
pub const IN_CAPSULE: usize = 4096;

/// Opcode of the commands of NVMe over Fabrics, on any queue.
pub const FABRICS: u8 = 0x7f;
/// Kinds of those: fabrics command types.
pub mod fabrics {
    #![allow(missing_docs)]
    pub const PROPERTY_SET: u8 = 0x00;
    pub const CONNECT: u8 = 0x01;
    pub const PROPERTY_GET: u8 = 0x04;
}

/// A command, with its fields at the offsets of the specification.
#[derive(Clone, Copy)]
pub struct Command([u8; COMMAND]);

/// What has come in one message.
pub struct Capsule {
    /// The command.
    pub command: Command,
    /// Data in the capsule.
    pub data: Vec<u8>,
}

/// Where the data of a command is.
pub enum Data {
    /// In the capsule, from there on.
    InCapsule(usize),
    /// In the host's memory. The second field is the key that the completion takes back.
    Host(Remote, Option<u32>),
}

impl Capsule {
    /// None if the message is too short for a command.
    pub fn parse(message: &[u8]) -> Option<Capsule> {
        let (command, data) = message.split_first_chunk()?;
        Some(Capsule { command: Command(*command), data: data.to_vec() })
    }
}

impl Command {
    /// A field of N bytes.
    fn field<const N: usize>(&self, offset: usize) -> [u8; N] {
        std::array::from_fn(|n| self.0[offset + n])
    }

    /// The byte at an offset.
    pub fn u8(&self, offset: usize) -> u8 {
        self.0[offset]
    }

    /// The two bytes at an offset.
    pub fn u16(&self, offset: usize) -> u16 {
        u16::from_le_bytes(self.field(offset))
    }

    /// The four bytes at an offset.
    pub fn u32(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.field(offset))
    }

    /// The eight bytes at an offset.
    pub fn u64(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.field(offset))
    }

    /// Command dword N, as the specification numbers them.
    pub fn dword(&self, n: usize) -> u32 {
        self.u32(4 * n)
    }

    /// What to do.
    pub fn opcode(&self) -> u8 {
        self.u8(0)
    }

    /// The kind of a fabrics command.
    pub fn fabrics_type(&self) -> Option<u8> {
        (self.opcode() == FABRICS).then(|| self.u8(4))
    }

    /// The host's number for it, which the completion repeats.
    pub fn id(&self) -> u16 {
        self.u16(2)
    }

    /// The namespace.
    pub fn namespace(&self) -> u32 {
        self.u32(4)
    }

    /// Commands are not fused here, and their data is described by SGLs, as NVMe over Fabrics wants it.
    pub fn check_flags(&self) -> Result<(), Status> {
        match self.u8(1) & 0b1100_0011 {
            0b0100_0000 => Ok(()),
            _ => Err(Status::FIELD),
        }
    }

    /// Where the data is, of which the command needs so many bytes.
    pub fn data(&self, needed: usize) -> Result<Data, Status> {
        let (length, data) = match (self.u8(39) >> 4, self.u8(39) & 0xf) {
            // Data block, by offset.
            (0x0, 0x1) => {
                (self.u32(32), Data::InCapsule(usize::try_from(self.u64(24)).unwrap_or(usize::MAX)))
            }
            // Keyed data block, by address; 0xf: the key is to be invalidated.
            (0x4, sub @ (0x0 | 0xf)) => {
                let remote = Remote { address: self.u64(24), key: self.u32(35) };
                (self.u32(32) & 0xff_ffff, Data::Host(remote, (sub == 0xf).then_some(remote.key)))
            }
            (0x0 | 0x4, _) => return Err(Status::FIELD),
            _ => return Err(Status::SGL_TYPE),
        };
        match length as usize == needed {
            true => Ok(data),
            false => Err(Status::SGL_LENGTH),
        }
    }
}
