//! Configuration space of a served card: what PCI software reads, and what it may change.
//!
//! Source: PCI Express Base Specification 5.0, chapter 7 (type 0 header, power management 7.5.2, MSI-X 7.7.2,
//! PCI Express capability 7.5.3).

use fpga_regs::regs::{
    BAR0_BYTES, CLASS_CODE, DEVICE_ID, MSIX_BAR, MSIX_BAR_BYTES, MSIX_PBA, MSIX_TABLE, VENDOR_ID,
};

use crate::attach::VECTORS;

/// Bytes of configuration space, with the extended part (which holds no capability).
pub const CONFIG_BYTES: usize = 4096;

const COMMAND: usize = 0x04;
const STATUS: usize = 0x06;
const CAPABILITIES: usize = 0x34;
const POWER: usize = 0x40;
const PMCSR: usize = POWER + 4;
const MSIX: usize = 0x50;
const EXPRESS: usize = 0x60;
const DEVICE_CONTROL: usize = EXPRESS + 8;

const COMMAND_MEMORY: u16 = 1 << 1;
const COMMAND_MASTER: u16 = 1 << 2;
/// In the PCI Express device control register: starts a function level reset; reads zero.
const INITIATE_FLR: u16 = 1 << 15;

/// See the module.
pub struct Config {
    bytes: Box<[u8; CONFIG_BYTES]>,
    /// Bits that software may change.
    writable: Box<[u8; CONFIG_BYTES]>,
}

impl Config {
    /// As after power-on.
    pub fn new() -> Config {
        let mut config = Config { bytes: Box::new([0; CONFIG_BYTES]), writable: Box::new([0; CONFIG_BYTES]) };
        config.header();
        config.power();
        config.msix();
        config.express();
        config
    }

    fn header(&mut self) {
        self.set16(0x00, VENDOR_ID, 0);
        self.set16(0x02, DEVICE_ID, 0);
        // Memory space, bus master, parity and SERR# reporting, INTx disable.
        self.set16(COMMAND, 0, COMMAND_MEMORY | COMMAND_MASTER | 1 << 6 | 1 << 8 | 1 << 10);
        // There is a list of capabilities.
        self.set16(STATUS, 1 << 4, 0);
        self.set32(0x08, CLASS_CODE << 8 | 1, 0);
        // Cache line size: kept, means nothing in PCI Express.
        self.set16(0x0c, 0, 0x00ff);
        self.bar(0, BAR0_BYTES);
        self.bar(MSIX_BAR as usize, MSIX_BAR_BYTES);
        self.set16(0x2c, VENDOR_ID, 0);
        self.set16(0x2e, DEVICE_ID, 0);
        self.set16(CAPABILITIES, POWER as u16, 0);
        // Interrupt line: kept for firmware. No pin: the card has no INTx.
        self.set16(0x3c, 0, 0x00ff);
    }

    /// A memory BAR of 64 bits, not prefetchable.
    fn bar(&mut self, index: usize, bytes: u32) {
        self.set32(0x10 + 4 * index, 0b100, !(bytes - 1));
        self.set32(0x14 + 4 * index, 0, u32::MAX);
    }

    fn power(&mut self) {
        self.set16(POWER, 0x01 | (MSIX as u16) << 8, 0);
        // Version 1.2 of the interface; D1, D2 and PME# do not exist.
        self.set16(POWER + 2, 0x0003, 0);
        // No soft reset: the way back from D3hot keeps everything.
        self.set16(PMCSR, 1 << 3, 0b11);
    }

    fn msix(&mut self) {
        self.set16(MSIX, 0x11 | (EXPRESS as u16) << 8, 0);
        // Enable and function mask.
        self.set16(MSIX + 2, VECTORS as u16 - 1, 0b11 << 14);
        self.set32(MSIX + 4, MSIX_TABLE | MSIX_BAR as u32, 0);
        self.set32(MSIX + 8, MSIX_PBA | MSIX_BAR as u32, 0);
    }

    fn express(&mut self) {
        self.set16(EXPRESS, 0x10, 0);
        // Version 2, endpoint.
        self.set16(EXPRESS + 2, 2, 0);
        // Payloads of 256 bytes, role-based error reporting, function level reset.
        self.set32(EXPRESS + 4, 1 | 1 << 15 | 1 << 28, 0);
        // Relaxed ordering, no snoop, read requests of 512 bytes.
        self.set16(DEVICE_CONTROL, 1 << 4 | 1 << 11 | 2 << 12, 0x7fff);
        // 8 GT/s, 8 lanes; so is the link.
        self.set32(EXPRESS + 0x0c, 3 | 8 << 4, 0);
        self.set16(EXPRESS + 0x10, 0, 0x0fc3);
        self.set16(EXPRESS + 0x12, 3 | 8 << 4, 0);
        self.set16(EXPRESS + 0x28, 0, 0x001f);
        self.set32(EXPRESS + 0x2c, 0b111 << 1, 0);
        self.set16(EXPRESS + 0x30, 3, 0);
    }

    fn set16(&mut self, at: usize, value: u16, writable: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        self.writable[at..at + 2].copy_from_slice(&writable.to_le_bytes());
    }

    fn set32(&mut self, at: usize, value: u32, writable: u32) {
        self.set16(at, value as u16, writable as u16);
        self.set16(at + 2, (value >> 16) as u16, (writable >> 16) as u16);
    }

    fn get16(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    /// Bytes from `at` on; the caller checks the range.
    pub fn read(&self, at: usize, to: &mut [u8]) {
        to.copy_from_slice(&self.bytes[at..at + to.len()]);
    }

    /// Writes bytes from `at` on; the caller checks the range. True: a function level reset was asked for.
    pub fn write(&mut self, at: usize, from: &[u8]) -> bool {
        for (i, &byte) in from.iter().enumerate() {
            let mask = self.writable[at + i];
            self.bytes[at + i] = self.bytes[at + i] & !mask | byte & mask;
        }
        let high = DEVICE_CONTROL + 1;
        (at..at + from.len()).contains(&high) && from[high - at] & (INITIATE_FLR >> 8) as u8 != 0
    }

    /// As after a function level reset (6.6.2): what software has set is gone, also the BARs' addresses.
    pub fn reset(&mut self) {
        *self = Config::new();
    }

    fn awake(&self) -> bool {
        self.get16(PMCSR) & 0b11 == 0
    }

    /// The card answers accesses to its BARs.
    pub fn memory_enabled(&self) -> bool {
        self.awake() && self.get16(COMMAND) & COMMAND_MEMORY != 0
    }

    /// The card may do DMA and send interrupts.
    pub fn bus_master(&self) -> bool {
        self.awake() && self.get16(COMMAND) & COMMAND_MASTER != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get32(config: &Config, at: usize) -> u32 {
        let mut bytes = [0; 4];
        config.read(at, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    #[test]
    fn bars_say_their_size() {
        let mut config = Config::new();
        for (at, bytes) in [(0x10, BAR0_BYTES), (0x18, MSIX_BAR_BYTES)] {
            config.write(at, &u32::MAX.to_le_bytes());
            config.write(at + 4, &u32::MAX.to_le_bytes());
            assert_eq!(get32(&config, at), !(bytes - 1) | 0b100);
            assert_eq!(get32(&config, at + 4), u32::MAX);
        }
    }

    #[test]
    fn capabilities_form_a_list() {
        let config = Config::new();
        let mut at = get32(&config, CAPABILITIES) as usize & 0xff;
        let mut found = Vec::new();
        while at != 0 {
            let head = get32(&config, at);
            found.push(head as u8);
            at = (head >> 8) as usize & 0xff;
        }
        assert_eq!(found, [0x01, 0x11, 0x10]);
    }

    #[test]
    fn only_what_is_writable_changes_and_a_reset_takes_it_back() {
        let mut config = Config::new();
        config.write(0, &[0; 4]);
        assert_eq!(get32(&config, 0), 0xf10a_1bd4);
        assert!(!config.bus_master() && !config.memory_enabled());
        config.write(COMMAND, &0xffff_u16.to_le_bytes());
        assert!(config.bus_master() && config.memory_enabled());
        assert_eq!(config.get16(COMMAND), 0x0546);
        config.write(PMCSR, &[3]);
        assert!(!config.bus_master() && !config.memory_enabled(), "asleep");
        config.write(PMCSR, &[0]);
        assert!(config.bus_master());
        assert!(config.write(DEVICE_CONTROL, &0xa810_u16.to_le_bytes()), "asks for a reset");
        assert_eq!(config.get16(DEVICE_CONTROL), 0x2810, "which does not stay set");
        assert!(!config.write(DEVICE_CONTROL, &[0xff]));
        config.reset();
        assert!(!config.bus_master());
    }
}
