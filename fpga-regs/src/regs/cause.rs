//! Why the card failed.

open_enum! {
    /// Code in ERROR_CAUSE and in the event DEVICE_FATAL.
    ErrorCause: u16 {
        /// The card is well.
        NONE = 0x00,
        /// A DMA read was refused or timed out.
        DMA_READ = 0x01,
        /// A DMA write was refused.
        DMA_WRITE = 0x02,
        /// A base address is not aligned, or a ring's size is not allowed.
        ADMIN_RING = 0x10,
        /// The doorbell names an index outside the ring.
        ADMIN_DOORBELL = 0x11,
        /// The reply ring is full: software does not consume.
        ADMIN_OVERRUN = 0x12,
        /// An event queue is full: software does not consume.
        EQ_OVERRUN = 0x20,
        /// A context in the card's memory does not make sense.
        CONTEXT = 0x30,
        /// The card's memory has an error that cannot be corrected.
        MEMORY = 0x31,
        /// A table of the card is used up where that must not be.
        TABLE = 0x32,
        /// The card's own watchdog ran out.
        WATCHDOG = 0x40,
        /// Too hot.
        TEMPERATURE = 0x41,
        /// A reset did not finish.
        RESET = 0x42,
        /// Software asked for an error to test itself.
        INJECTED = 0x50,
        /// Anything else.
        INTERNAL = 0xff,
    }
}
