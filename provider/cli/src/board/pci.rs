//! PCI configuration space, as sysfs shows it (PCI Local Bus Specification 3.0, section 6.1).

use std::fs;
use std::path::Path;

/// The first bytes of configuration space; without privilege sysfs shows 64.
pub struct ConfigSpace {
    bytes: Vec<u8>,
    /// It is on a bus, where BARs have addresses.
    pub on_a_bus: bool,
}

/// Command register: the card may do DMA.
pub const BUS_MASTER: u16 = 1 << 2;
/// Command register: the card answers at its BARs.
pub const MEMORY: u16 = 1 << 1;

impl ConfigSpace {
    /// Of a device by its address; nothing if sysfs does not show it.
    pub fn of_slot(address: &str) -> Option<ConfigSpace> {
        let file = Path::new("/sys/bus/pci/devices").join(address).join("config");
        fs::read(file).ok().map(|bytes| ConfigSpace { bytes, on_a_bus: true })
    }

    /// Of a card that is served without a bus.
    pub fn of_bytes(bytes: &[u8]) -> ConfigSpace {
        ConfigSpace { bytes: bytes.to_vec(), on_a_bus: false }
    }

    fn word(&self, at: usize) -> u16 {
        let bytes = self.bytes.get(at..at + 2).and_then(|bytes| bytes.try_into().ok());
        u16::from_le_bytes(bytes.unwrap_or([0xff; 2]))
    }

    pub fn id(&self) -> (u16, u16) {
        (self.word(0x00), self.word(0x02))
    }

    pub fn command(&self) -> u16 {
        self.word(0x04)
    }

    pub fn status(&self) -> u16 {
        self.word(0x06)
    }

    /// Class, subclass and programming interface, in 24 bits.
    pub fn class(&self) -> u32 {
        u32::from(self.word(0x0a)) << 8 | u32::from(self.word(0x08) >> 8)
    }

    /// The low half of BAR0.
    pub fn bar0(&self) -> u32 {
        u32::from(self.word(0x12)) << 16 | u32::from(self.word(0x10))
    }
}
