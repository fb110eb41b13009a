//! One entry of a port's GID table.

use super::values::*;

constants! {
    /// Bytes of an entry.
    GID_ENTRY_BYTES: u32 = 0x20;
    /// Entries of a port's table.
    GID_ENTRIES: u32 = 16;
}

registers! {
    /// An entry of the GID table.
    REGISTERS: 0x20 {
        /// The GID, its 16 bytes in the order of the wire.
        GID (RO u32 x 4 @ 0x00);
        /// Whether the entry may be used, and its kind.
        GID_ATTR (RO u32 as GidAttr @ 0x10);
        /// Its VLAN.
        GID_VLAN (RO u32 as GidVlan @ 0x14);
    }
}
