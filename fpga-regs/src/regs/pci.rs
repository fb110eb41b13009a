//! What PCI configuration space says of the card.

constants! {
    /// PCI vendor.
    VENDOR_ID: u16 = 0x1bd4;
    /// PCI device.
    DEVICE_ID: u16 = 0xf10a;
    /// PCI class code: Ethernet controller.
    CLASS_CODE: u32 = 0x02_0000;
    /// The register [`ID`](super::ID) of this card.
    ID_VALUE: u32 = (DEVICE_ID as u32) << 16 | VENDOR_ID as u32;
    /// Major version of this definition: software refuses another one.
    VERSION_MAJOR: u16 = 1;
    /// Minor version of this definition: a higher one only adds.
    VERSION_MINOR: u16 = 2;
    /// The register [`VERSION`](super::VERSION) of this definition.
    VERSION_VALUE: u32 = (VERSION_MAJOR as u32) << 16 | VERSION_MINOR as u32;
    /// Bytes of BAR0 (64 bits, not prefetchable).
    BAR0_BYTES: u32 = 0x10_0000;
    /// The BAR that holds the MSI-X table and its pending bits.
    MSIX_BAR: u8 = 2;
    /// Bytes of that BAR.
    MSIX_BAR_BYTES: u32 = 0x4000;
    /// Offset of the MSI-X table in that BAR.
    MSIX_TABLE: u32 = 0x0000;
    /// Offset of the pending bits in that BAR.
    MSIX_PBA: u32 = 0x2000;
    /// Most interrupt vectors of a function.
    MAX_VECTORS: u32 = 32;
    /// Most event queues of a function.
    MAX_EQS: u32 = 32;
    /// Ports of the card.
    PORTS: u32 = 2;
}
