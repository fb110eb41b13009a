//! The few bits of PCI configuration space that matter: the identity, and bus mastering.

use vfio_bindings::bindings::vfio::VFIO_PCI_CONFIG_REGION_INDEX;
use vfio_ioctls::VfioDevice;

use crate::card::CardError;

/// Configuration space in 16-bit words.
pub(in crate::backend) trait Config {
    fn read16(&self, at: u64) -> u16;
    fn write16(&self, at: u64, value: u16);
}

impl Config for VfioDevice {
    fn read16(&self, at: u64) -> u16 {
        // A failed read is only logged and leaves the bytes unchanged: all ones, as on PCI.
        let mut bytes = [0xff; 2];
        self.region_read(VFIO_PCI_CONFIG_REGION_INDEX, &mut bytes, at);
        u16::from_le_bytes(bytes)
    }

    fn write16(&self, at: u64, value: u16) {
        self.region_write(VFIO_PCI_CONFIG_REGION_INDEX, &value.to_le_bytes(), at);
    }
}

const VENDOR: u64 = 0x00;
const COMMAND: u64 = 0x04;
const COMMAND_MEMORY: u16 = 1 << 1;
const COMMAND_MASTER: u16 = 1 << 2;

/// Lets the card answer memory accesses and do DMA: vfio-pci takes both away when it opens a device.
pub(in crate::backend) fn enable(config: &impl Config) -> Result<(), CardError> {
    if config.read16(VENDOR) == u16::MAX {
        return Err(CardError::Gone);
    }
    let want = COMMAND_MEMORY | COMMAND_MASTER;
    config.write16(COMMAND, config.read16(COMMAND) | want);
    if config.read16(COMMAND) & want != want {
        return Err(CardError::Setup(
            "the card does not take the bus master bit: another program may be resetting it, try again"
                .into(),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    struct Fake {
        words: RefCell<[u16; 8]>,
        writable: u16,
    }

    impl Config for Fake {
        fn read16(&self, at: u64) -> u16 {
            self.words.borrow()[at as usize / 2]
        }

        fn write16(&self, at: u64, value: u16) {
            self.words.borrow_mut()[at as usize / 2] = value & self.writable;
        }
    }

    fn fake(vendor: u16, command: u16, writable: u16) -> Fake {
        Fake { words: RefCell::new([vendor, 0xf10a, command, 0, 0, 0, 0, 0]), writable }
    }

    #[test]
    fn bus_master_is_added_to_what_is_set() {
        let config = fake(0x1bd4, 0x0400, 0xffff);
        enable(&config).unwrap();
        assert_eq!(config.read16(COMMAND), 0x0406);
    }

    #[test]
    fn a_card_that_is_gone_or_refuses() {
        assert!(matches!(enable(&fake(0xffff, 0xffff, 0)), Err(CardError::Gone)));
        let error = enable(&fake(0x1bd4, 0, COMMAND_MEMORY)).unwrap_err();
        assert!(error.to_string().contains("bus master"));
    }
}
