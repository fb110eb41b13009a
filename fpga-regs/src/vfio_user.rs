//! The vfio-user protocol, version 0.0: the messages of a served card over a UNIX stream socket.
//!
//! Source: the vfio-user protocol specification of QEMU (`docs/interop/vfio-user.rst`) and the structures
//! of `linux/vfio.h` that it refers to. All fields are little endian. A message is a [`Header`], one of
//! the structures below, and data; file descriptors are passed beside it (SCM_RIGHTS).

/// Declares a structure of the wire, checks its size and gives it `encode` and `decode`.
macro_rules! message {
    ($(#[$doc:meta])* $name:ident: $size:literal { $($(#[$fdoc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name {
            $($(#[$fdoc])* pub $field: $type,)*
        }

        const _: () = assert!($name::BYTES == $size);

        impl $name {
            /// Bytes on the wire.
            pub const BYTES: usize = 0 $(+ size_of::<$type>())*;

            /// As bytes.
            pub fn encode(&self) -> [u8; $name::BYTES] {
                let mut bytes = [0; $name::BYTES];
                let mut at = 0;
                $(
                    let field = self.$field.to_le_bytes();
                    bytes[at..at + field.len()].copy_from_slice(&field);
                    at += field.len();
                )*
                debug_assert!(at == Self::BYTES);
                bytes
            }

            /// From the first bytes of a slice, with the rest of it; `None` if there are too few.
            pub fn decode(bytes: &[u8]) -> Option<($name, &[u8])> {
                let (mut head, rest) = (bytes.get(..Self::BYTES)?, &bytes[Self::BYTES..]);
                let message = $name {
                    $($field: {
                        let (field, tail) = head.split_at(size_of::<$type>());
                        head = tail;
                        <$type>::from_le_bytes(field.try_into().ok()?)
                    },)*
                };
                debug_assert!(head.is_empty());
                Some((message, rest))
            }
        }
    };
}

message! {
    /// First part of every message.
    Header: 16 {
        /// Chosen by the sender of a command; the reply repeats it.
        id: u16,
        /// [`Command`].
        command: u16,
        /// Bytes of the whole message, this header included.
        size: u32,
        /// [`flag`].
        flags: u32,
        /// In a reply with [`flag::ERROR`]: an errno.
        error: u32,
    }
}

/// Bits of [`Header::flags`].
pub mod flag {
    /// The type: 0 a command, 1 a reply.
    pub const TYPE: u32 = 0xf;
    /// A reply.
    pub const REPLY: u32 = 1;
    /// A command to which no reply is wanted.
    pub const NO_REPLY: u32 = 1 << 4;
    /// A reply that says that the command failed.
    pub const ERROR: u32 = 1 << 5;
}

open_enum! {
    /// What a message asks for ([`Header::command`]).
    Command: u16 {
        /// First message of a client: [`Version`] and capabilities as JSON.
        VERSION = 1,
        /// [`DmaMap`], with a descriptor or without.
        DMA_MAP = 2,
        /// [`DmaUnmap`].
        DMA_UNMAP = 3,
        /// [`DeviceInfo`].
        DEVICE_INFO = 4,
        /// [`RegionInfo`].
        REGION_INFO = 5,
        /// Descriptors of a region that need no message.
        REGION_IO_FDS = 6,
        /// [`IrqInfo`].
        IRQ_INFO = 7,
        /// [`SetIrqs`], with descriptors.
        SET_IRQS = 8,
        /// [`RegionAccess`]; in the reply the bytes follow.
        REGION_READ = 9,
        /// [`RegionAccess`] and bytes.
        REGION_WRITE = 10,
        /// From the server: [`DmaAccess`]; in the reply the bytes follow.
        DMA_READ = 11,
        /// From the server: [`DmaAccess`] and bytes; the reply is a header.
        DMA_WRITE = 12,
        /// Resets the function.
        DEVICE_RESET = 13,
        /// Dirty pages of a migration.
        DIRTY_PAGES = 14,
        /// Several region writes.
        REGION_WRITE_MULTI = 15,
    }
}

/// Major version of the protocol.
pub const MAJOR: u16 = 0;
/// Minor version of the protocol: QEMU refuses another one than this.
pub const MINOR: u16 = 0;

message! {
    /// Versions; a JSON text that ends with a zero byte follows.
    Version: 4 {
        /// [`MAJOR`].
        major: u16,
        /// [`MINOR`].
        minor: u16,
    }
}

message! {
    /// Memory that the card may reach from now on.
    DmaMap: 32 {
        /// Bytes of this structure.
        argsz: u32,
        /// [`dma_flag`].
        flags: u32,
        /// Offset of the memory in the passed file.
        offset: u64,
        /// IOVA of the first byte.
        address: u64,
        /// Bytes.
        size: u64,
    }
}

/// Bits of [`DmaMap::flags`].
pub mod dma_flag {
    /// The card may read.
    pub const READ: u32 = 1;
    /// The card may write.
    pub const WRITE: u32 = 2;
}

message! {
    /// Memory that the card may reach no longer. The reply repeats it.
    DmaUnmap: 24 {
        /// Bytes of this structure and what follows.
        argsz: u32,
        /// [`unmap_flag`].
        flags: u32,
        /// IOVA of the first byte.
        address: u64,
        /// Bytes.
        size: u64,
    }
}

/// Bits of [`DmaUnmap::flags`].
pub mod unmap_flag {
    /// The reply is to contain which pages were written.
    pub const DIRTY_BITMAP: u32 = 1;
    /// All that is mapped; address and size are zero.
    pub const ALL: u32 = 2;
}

message! {
    /// What the device is (VFIO_DEVICE_GET_INFO).
    DeviceInfo: 16 {
        /// Bytes of this structure.
        argsz: u32,
        /// 1: can be reset; 2: is a PCI device.
        flags: u32,
        /// Regions.
        regions: u32,
        /// Interrupt types.
        irqs: u32,
    }
}

message! {
    /// A region (VFIO_DEVICE_GET_REGION_INFO).
    RegionInfo: 32 {
        /// Bytes of this structure.
        argsz: u32,
        /// 1: can be read; 2: can be written; 4: can be mapped.
        flags: u32,
        /// Which.
        index: u32,
        /// Offset of the capabilities, 0: none.
        cap_offset: u32,
        /// Bytes of the region; 0: it does not exist.
        size: u64,
        /// For mapping.
        offset: u64,
    }
}

message! {
    /// An interrupt type (VFIO_DEVICE_GET_IRQ_INFO).
    IrqInfo: 16 {
        /// Bytes of this structure.
        argsz: u32,
        /// 1: by eventfd; 8: the number of vectors in use cannot be changed one by one.
        flags: u32,
        /// Which.
        index: u32,
        /// Vectors.
        count: u32,
    }
}

message! {
    /// Assigns or fires interrupts (VFIO_DEVICE_SET_IRQS). Data or descriptors follow.
    SetIrqs: 20 {
        /// Bytes of this structure and its data.
        argsz: u32,
        /// [`irq_flag`].
        flags: u32,
        /// Interrupt type.
        index: u32,
        /// First vector.
        start: u32,
        /// Vectors.
        count: u32,
    }
}

/// Bits of [`SetIrqs::flags`].
pub mod irq_flag {
    /// No data: all vectors of the range.
    pub const DATA_NONE: u32 = 1;
    /// A byte a vector.
    pub const DATA_BOOL: u32 = 2;
    /// A descriptor a vector; none at all takes them away.
    pub const DATA_EVENTFD: u32 = 4;
    /// Masks.
    pub const MASK: u32 = 8;
    /// Unmasks.
    pub const UNMASK: u32 = 16;
    /// Assigns or fires.
    pub const TRIGGER: u32 = 32;
}

message! {
    /// An access to a region. The reply repeats it.
    RegionAccess: 16 {
        /// In the region.
        offset: u64,
        /// [`region`].
        region: u32,
        /// Bytes.
        count: u32,
    }
}

message! {
    /// An access of the card to memory of the client. The bytes follow. (Before 11.1.3 QEMU had a count of
    /// four bytes.)
    DmaAccess: 16 {
        /// IOVA.
        address: u64,
        /// Bytes.
        count: u64,
    }
}

/// Numbers of the regions of a PCI device (VFIO_PCI_*_REGION_INDEX).
pub mod region {
    /// BAR0; the others follow.
    pub const BAR0: u32 = 0;
    /// BAR2.
    pub const BAR2: u32 = 2;
    /// Configuration space.
    pub const CONFIG: u32 = 7;
    /// How many there are.
    pub const COUNT: u32 = 9;
}

/// Numbers of the interrupt types of a PCI device (VFIO_PCI_*_IRQ_INDEX).
pub mod irq {
    /// MSI-X.
    pub const MSIX: u32 = 2;
    /// How many there are.
    pub const COUNT: u32 = 5;
}

/// The most data bytes that one message of either side carries here (`max_data_xfer_size`).
pub const MAX_DATA: usize = 1 << 20;
/// The most descriptors that one message carries here (`max_msg_fds`).
pub const MAX_FDS: usize = 16;
/// The largest message that is accepted.
pub const MAX_MESSAGE: usize = MAX_DATA + 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_specification() {
        let header =
            Header { id: 0x0102, command: Command::DMA_MAP.0, size: 48, flags: flag::NO_REPLY, error: 0 };
        let bytes = header.encode();
        assert_eq!(bytes, [2, 1, 2, 0, 48, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Header::decode(&bytes), Some((header, &[][..])));
        assert_eq!(Header::decode(&bytes[..15]), None);
        let access = RegionAccess { offset: 0x1_0000_0018, region: 7, count: 4 };
        let mut bytes = access.encode().to_vec();
        assert_eq!(bytes, [0x18, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 0]);
        bytes.extend([9, 9]);
        assert_eq!(RegionAccess::decode(&bytes), Some((access, &[9, 9][..])));
    }
}
