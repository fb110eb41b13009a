//! A served PCI function: its regions, what a reset does, and what configuration space switches on and off.

use std::os::fd::OwnedFd;
use std::sync::Mutex;

use fpga_regs::regs::{locate, Control, BAR0_BYTES, CONTROL, MSIX_BAR, MSIX_BAR_BYTES, MSIX_PBA};
use fpga_regs::vfio_user::{region, unmap_flag, DmaMap, DmaUnmap};
use fpga_regs::DOORBELL_BASE;

use super::config::{Config, CONFIG_BYTES};
use super::interrupts::Interrupts;
use super::maps::{DmaMode, Maps};
use super::refused::Refused;
use crate::attach::ServedCard;
use crate::panics::lock;

/// See the module.
pub struct Function<'a> {
    card: &'a ServedCard,
    interrupts: &'a Interrupts,
    /// Read also while something is done to the function.
    config: &'a Mutex<Config>,
    /// The MSI-X table as software left it. A vfio-user client has a table of its own and assigns eventfds.
    msix: Box<[u8; MSIX_BAR_BYTES as usize]>,
    /// What the client has mapped.
    maps: Maps,
}

impl<'a> Function<'a> {
    /// A function in the state after power-on.
    pub fn new(
        card: &'a ServedCard,
        interrupts: &'a Interrupts,
        config: &'a Mutex<Config>,
        mode: DmaMode,
    ) -> Function<'a> {
        let msix = Box::new([0; MSIX_BAR_BYTES as usize]);
        Function { card, interrupts, config, msix, maps: Maps::new(mode) }
    }

    /// Bytes of a region; 0 if it does not exist.
    pub fn region_bytes(index: u32) -> u64 {
        match index {
            region::BAR0 => u64::from(BAR0_BYTES),
            _ if index == u32::from(MSIX_BAR) => u64::from(MSIX_BAR_BYTES),
            region::CONFIG => CONFIG_BYTES as u64,
            _ => 0,
        }
    }

    /// Lets the card reach memory of the client.
    pub fn map(&mut self, map: &DmaMap, mut fds: Vec<OwnedFd>) -> Result<(), Refused> {
        if fds.len() > 1 {
            return Err(Refused::invalid("more than one descriptor"));
        }
        self.maps.add(self.card.segment(), map, fds.pop())
    }

    /// Takes that back.
    pub fn unmap(&mut self, unmap: &DmaUnmap) -> Result<(), Refused> {
        match unmap.flags & unmap_flag::ALL {
            0 => self.maps.remove(self.card.segment(), unmap.address, unmap.size),
            _ => self.maps.remove(self.card.segment(), 0, u64::MAX),
        }
    }

    /// Reads from a region; the caller has checked the range.
    pub fn read(&self, index: u32, offset: u64, to: &mut [u8]) {
        if index == region::CONFIG {
            lock(self.config).read(offset as usize, to);
        } else if !lock(self.config).memory_enabled() {
            // Nobody answers.
            to.fill(0xff);
        } else if index == region::BAR0 {
            self.read_bar0(offset as u32, to);
        } else {
            let mut msix = self.msix.clone();
            let pba = MSIX_PBA as usize;
            msix[pba..pba + 8].copy_from_slice(&self.interrupts.pending().to_le_bytes());
            to.copy_from_slice(&msix[offset as usize..offset as usize + to.len()]);
        }
    }

    /// Writes to a region; the caller has checked the range.
    pub fn write(&mut self, index: u32, offset: u64, from: &[u8]) -> Result<(), Refused> {
        if index == region::CONFIG {
            let reset = lock(self.config).write(offset as usize, from);
            return match reset {
                true => self.reset(),
                false => self.follow(),
            };
        }
        if !lock(self.config).memory_enabled() {
            return Ok(());
        }
        if index == region::BAR0 {
            return self.write_bar0(offset as u32, from);
        }
        let table = 0..crate::attach::VECTORS * 16;
        for (at, &byte) in (offset as usize..).zip(from).filter(|(at, _)| table.contains(at)) {
            self.msix[at] = byte;
        }
        Ok(())
    }

    /// Does what configuration space says.
    fn follow(&mut self) -> Result<(), Refused> {
        let master = lock(self.config).bus_master();
        self.interrupts.enable(master);
        self.maps.enable(self.card.segment(), master)
    }

    /// A function level reset: no DMA is in flight when it returns, and no queue exists.
    pub fn reset(&mut self) -> Result<(), Refused> {
        lock(self.config).reset();
        // DMA ends first: what the reset of the queues still writes is not for the client.
        self.follow()?;
        self.write_register(CONTROL, u64::from(Control(0).with_reset(true).0))?;
        self.msix.fill(0);
        self.interrupts.reset(self.card, false);
        Ok(())
    }

    /// The client has gone. After an error something of it is left, and this is to be called again.
    pub fn close(&mut self) -> Result<(), Refused> {
        self.interrupts.reset(self.card, true);
        self.reset()?;
        self.maps.clear(self.card.segment())
    }

    fn write_register(&self, at: u32, value: u64) -> Result<(), Refused> {
        let kept =
            || Refused::new(libc::EIO, format!("another program kept the cards: {at:#x} is not written"));
        self.card.write(at, value).then_some(()).ok_or_else(kept)
    }

    /// Registers are read as a whole; the access may want a part of one, or several.
    fn read_bar0(&self, offset: u32, to: &mut [u8]) {
        let mut at = offset;
        let end = offset + to.len() as u32;
        while at < end {
            // Doorbell pages read zero.
            let (start, bytes, value) = match locate(at).filter(|_| at < DOORBELL_BASE) {
                Some(found) if found.register.bytes == 8 => (at & !7, 8, self.card.read(at & !7)),
                Some(_) => (at & !3, 4, self.card.read(at & !3)),
                None => (at & !3, 4, 0),
            };
            let value = &value.to_le_bytes()[(at - start) as usize..bytes];
            let take = value.len().min((end - at) as usize);
            to[(at - offset) as usize..][..take].copy_from_slice(&value[..take]);
            at += take as u32;
        }
        self.interrupts.look(self.card);
    }

    /// A register is written as a whole, by one access of its own size; longer accesses are several of those
    /// (the push window).
    fn write_bar0(&mut self, offset: u32, from: &[u8]) -> Result<(), Refused> {
        let mut at = offset;
        let mut left = from;
        while !left.is_empty() {
            let wide = locate(at).is_some_and(|found| found.register.bytes == 8);
            let bytes = if wide { 8 } else { 4 };
            if at % bytes != 0 || left.len() < bytes as usize {
                return Err(Refused::invalid("registers are written as a whole"));
            }
            let (word, rest) = left.split_at(bytes as usize);
            let mut value = [0; 8];
            value[..word.len()].copy_from_slice(word);
            self.write_register(at, u64::from_le_bytes(value))?;
            at += bytes;
            left = rest;
        }
        // Saves the other thread's waking up, mostly.
        self.interrupts.look(self.card);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use fpga_regs::regs::SCRATCH;
    use fpga_regs::vfio_user::dma_flag;

    use super::*;
    use crate::attach::PrivateNet;

    const SOON: Duration = Duration::from_secs(20);

    /// Of a client that goes while somebody else has the cards nothing is left once they have them no longer.
    #[test]
    fn what_cannot_be_undone_is_tried_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let open = |socket: &Path| ServedCard::open(socket, 0);
        let (_net, card) = PrivateNet::start(&directory.path().join("net/sock"), 1, open).expect("a net");
        let interrupts = Interrupts::new(&card);
        for _ in 0..2 {
            let config = Mutex::new(Config::new());
            let mut function = Function::new(&card, &interrupts, &config, DmaMode::Shared);
            function.write(region::CONFIG, 4, &[6]).expect("on");
            let mut scratch = [0; 4];
            function.read(region::BAR0, SCRATCH.into(), &mut scratch);
            assert_eq!(scratch, [0; 4], "as after a reset");
            function.write(region::BAR0, SCRATCH.into(), &[1; 4]).expect("written");
            for address in [1 << 20, 1 << 21] {
                let file = tempfile::tempfile().expect("a file");
                file.set_len(4096).expect("sized");
                let flags = dma_flag::READ | dma_flag::WRITE;
                let map = DmaMap { argsz: 32, flags, offset: 0, address, size: 4096 };
                function.map(&map, vec![file.into()]).expect("nothing is mapped there");
            }
            // For this thread, which has it already, that fails at once.
            let held = card.segment().lock(SOON).expect("the lock");
            assert!(function.close().is_err());
            drop(held);
            function.close().expect("closed");
        }
        let config = Mutex::new(Config::new());
        let mut function = Function::new(&card, &interrupts, &config, DmaMode::Shared);
        let held = card.segment().lock(SOON).expect("the lock");
        assert!(function.reset().is_err(), "the register was not written");
        drop(held);
    }
}
