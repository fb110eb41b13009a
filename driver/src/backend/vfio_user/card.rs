//! A served card as the driver's backend.
#![allow(unsafe_code)]

use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{fence, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fpga_regs::regs::{BAR0_BYTES, MAX_VECTORS};
use fpga_regs::vfio_user::{
    dma_flag, irq, irq_flag, region, Command, DeviceInfo, DmaMap, DmaUnmap, IrqInfo, RegionAccess,
    RegionInfo, SetIrqs, MAX_FDS,
};

use super::link::Link;
use super::memory::{OwnMemory, UserMemory};
use crate::backend::vfio::config::{self, Config};
use crate::backend::vfio::irq::Vectors;
use crate::card::{CardError, DmaMemory, Hints, Interrupts, Memory, Registers};

/// Empty polls between two yields of the core: the process that runs the card needs one.
const YIELD_EVERY: u32 = 64;
/// Time between two checks, in a wait for an interrupt, that the server is there.
const LOOK: Duration = Duration::from_millis(200);

/// A card function that is reached through a UNIX socket.
pub struct VfioUserCard {
    // In the order of dropping: the connection, and with it all DMA, before the memory.
    link: Link,
    vectors: Vectors,
    user: Arc<UserMemory>,
    own: OwnMemory,
}

impl VfioUserCard {
    /// Opens the card that is served at `path`.
    pub fn open(path: impl AsRef<Path>) -> Result<VfioUserCard, CardError> {
        let path = path.as_ref();
        let user = Arc::new(UserMemory::new());
        let link = Link::connect(path, user.clone())?;
        let found = info(&link)?;
        if found.bar0 != u64::from(BAR0_BYTES) || found.vectors == 0 {
            return Err(CardError::Setup(format!(
                "what is served at {} is not a Verbena card: BAR0 of {} bytes, {} MSI-X vectors",
                path.display(),
                found.bar0,
                found.vectors
            )));
        }
        link.command("a reset", Command::DEVICE_RESET, &[], &[])?;
        // After the reset, which clears it.
        config::enable(&link)?;
        let vectors = Vectors::new(found.vectors.min(MAX_VECTORS))?;
        assign(&link, &vectors)?;
        Ok(VfioUserCard { link, vectors, user, own: OwnMemory::new()? })
    }

    /// Reads configuration space; all ones when the server is gone.
    pub fn read_config(&self, at: u32, to: &mut [u8]) {
        read(&self.link, region::CONFIG, at.into(), to);
    }

    /// Writes configuration space.
    pub fn write_config(&self, at: u32, value: &[u8]) {
        write_config(&self.link, at.into(), value);
    }

    /// The first 64 bytes of PCI configuration space; all ones when the server is gone.
    pub fn config_space(&self) -> [u8; 64] {
        let mut bytes = [0; 64];
        for (index, word) in bytes.chunks_exact_mut(4).enumerate() {
            read(&self.link, region::CONFIG, 4 * index as u64, word);
        }
        bytes
    }

    fn read(&self, offset: u32, to: &mut [u8]) {
        read(&self.link, region::BAR0, offset.into(), to);
    }

    fn write(&self, offset: u32, value: &[u8]) {
        // Earlier stores must be visible to the process that receives the message.
        fence(Ordering::SeqCst);
        post(&self.link, offset, value);
    }

    fn tell(&self, map: &DmaMap, fds: &[i32]) -> Result<(), CardError> {
        self.link.command("a DMA mapping", Command::DMA_MAP, &map.encode(), fds).map(|_| ())
    }

    /// Whether the card can no longer reach it.
    fn forget(&self, address: u64, size: u64) -> bool {
        let unmap = DmaUnmap { argsz: DmaUnmap::BYTES as u32, flags: 0, address, size };
        // Without a server there is no DMA by messages, but a file that it mapped it may still write to.
        self.link.command("the end of a DMA mapping", Command::DMA_UNMAP, &unmap.encode(), &[]).is_ok()
    }
}

/// A read; all ones when the server is gone, as on PCI.
fn read(link: &Link, region: u32, offset: u64, to: &mut [u8]) {
    to.fill(0xff);
    let access = RegionAccess { offset, region, count: to.len() as u32 };
    if let Ok(Ok(reply)) = link.request(Command::REGION_READ, &access.encode(), &[]) {
        if let Some((_, data)) = RegionAccess::decode(&reply) {
            if data.len() == to.len() {
                to.copy_from_slice(data);
            }
        }
    }
}

/// A write of configuration space, which is done when this returns (unless the server is gone).
fn write_config(link: &Link, offset: u64, value: &[u8]) {
    let access = RegionAccess { offset, region: region::CONFIG, count: value.len() as u32 };
    let _ = link.request(Command::REGION_WRITE, &[&access.encode()[..], value].concat(), &[]);
}

/// A posted write to BAR0.
fn post(link: &Link, offset: u32, value: &[u8]) {
    let access = RegionAccess { offset: offset.into(), region: region::BAR0, count: value.len() as u32 };
    let mut body = [0; RegionAccess::BYTES + 8];
    match body.get_mut(..RegionAccess::BYTES + value.len()) {
        Some(body) => {
            body[..RegionAccess::BYTES].copy_from_slice(&access.encode());
            body[RegionAccess::BYTES..].copy_from_slice(value);
            link.post(Command::REGION_WRITE, body);
        }
        None => link.post(Command::REGION_WRITE, &[&access.encode()[..], value].concat()),
    }
}

impl Config for Link {
    fn read16(&self, at: u64) -> u16 {
        let mut bytes = [0; 2];
        read(self, region::CONFIG, at, &mut bytes);
        u16::from_le_bytes(bytes)
    }

    fn write16(&self, at: u64, value: u16) {
        write_config(self, at, &value.to_le_bytes());
    }
}

struct Found {
    bar0: u64,
    vectors: u32,
}

fn info(link: &Link) -> Result<Found, CardError> {
    let short =
        || CardError::Setup("the server's answer is too short: it does not speak vfio-user 0.0".into());
    let device = DeviceInfo { argsz: DeviceInfo::BYTES as u32, ..DeviceInfo::default() };
    let reply = link.command("to describe itself", Command::DEVICE_INFO, &device.encode(), &[])?;
    DeviceInfo::decode(&reply).ok_or_else(short)?;
    let bar0 = RegionInfo { argsz: RegionInfo::BYTES as u32, index: region::BAR0, ..RegionInfo::default() };
    let reply = link.command("to describe BAR0", Command::REGION_INFO, &bar0.encode(), &[])?;
    let (bar0, _) = RegionInfo::decode(&reply).ok_or_else(short)?;
    let msix = IrqInfo { argsz: IrqInfo::BYTES as u32, index: irq::MSIX, ..IrqInfo::default() };
    let reply = link.command("to describe its interrupts", Command::IRQ_INFO, &msix.encode(), &[])?;
    let (msix, _) = IrqInfo::decode(&reply).ok_or_else(short)?;
    Ok(Found { bar0: bar0.size, vectors: msix.count })
}

/// Lets the card fire our eventfds.
fn assign(link: &Link, vectors: &Vectors) -> Result<(), CardError> {
    for (n, chunk) in vectors.fds.chunks(MAX_FDS.min(8)).enumerate() {
        let set = SetIrqs {
            argsz: SetIrqs::BYTES as u32,
            flags: irq_flag::DATA_EVENTFD | irq_flag::TRIGGER,
            index: irq::MSIX,
            start: (n * MAX_FDS.min(8)) as u32,
            count: chunk.len() as u32,
        };
        let fds: Vec<i32> = chunk.iter().map(|fd| fd.as_raw_fd()).collect();
        link.command("interrupts", Command::SET_IRQS, &set.encode(), &fds)?;
    }
    Ok(())
}

impl Registers for VfioUserCard {
    fn read32(&self, offset: u32) -> u32 {
        let mut bytes = [0; 4];
        self.read(offset, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn write32(&self, offset: u32, value: u32) {
        self.write(offset, &value.to_le_bytes());
    }

    fn read64(&self, offset: u32) -> u64 {
        let mut bytes = [0; 8];
        self.read(offset, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn write64(&self, offset: u32, value: u64) {
        self.write(offset, &value.to_le_bytes());
    }

    fn doorbell(&self, offset: u32, value: u64) {
        self.write(offset, &value.to_le_bytes());
    }
}

impl Memory for VfioUserCard {
    fn alloc(&self, bytes: usize) -> Result<DmaMemory, CardError> {
        let memory = self.own.take(bytes)?;
        let (fd, offset) = self.own.place(memory.iova);
        let map = DmaMap {
            argsz: DmaMap::BYTES as u32,
            flags: dma_flag::READ | dma_flag::WRITE,
            offset,
            address: memory.iova,
            size: memory.len as u64,
        };
        self.user.add_own(&memory);
        match self.tell(&map, &[fd]) {
            Ok(()) => Ok(memory),
            Err(error) => {
                self.user.remove_own(&memory);
                self.own.give(&memory);
                Err(error)
            }
        }
    }

    fn free(&self, memory: DmaMemory) {
        let forgotten = self.forget(memory.iova, memory.len as u64);
        self.user.remove_own(&memory);
        // Memory that the card may still reach is never used again.
        if forgotten {
            self.own.give(&memory);
        }
    }

    fn map(&self, addr: *mut u8, len: usize, writable: bool) -> Result<u64, CardError> {
        let added = self.user.add(addr, len, writable).ok_or_else(|| CardError::Map {
            addr: addr as u64,
            len,
            reason: "the range is empty, has no memory everywhere, or no I/O addresses are left".into(),
        });
        let (iova, address, size) = added?;
        let flags = dma_flag::READ | if writable { dma_flag::WRITE } else { 0 };
        let map = DmaMap { argsz: DmaMap::BYTES as u32, flags, offset: 0, address, size };
        // Without a descriptor: the card reads and writes it by messages.
        if let Err(error) = self.tell(&map, &[]) {
            self.user.remove(iova, len);
            return Err(error);
        }
        Ok(iova)
    }

    fn unmap(&self, iova: u64, _addr: *mut u8, len: usize) {
        let (address, size) = UserMemory::pages(iova, len);
        self.forget(address, size);
        // Whatever the server answers: only our own thread accesses this memory.
        self.user.remove(iova, len);
    }
}

impl Interrupts for VfioUserCard {
    fn wait_interrupt(&self, vector: u32, timeout: Duration) -> Result<bool, CardError> {
        let until = Instant::now().checked_add(timeout);
        loop {
            let left = until.map_or(LOOK, |until| until.saturating_duration_since(Instant::now()));
            if self.vectors.wait(vector, left.min(LOOK))? {
                return Ok(true);
            }
            if self.link.is_gone() {
                return Err(CardError::Gone);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(false);
            }
        }
    }
}

impl Hints for VfioUserCard {
    #[inline]
    fn relax(&self, empty_polls: u32) {
        std::hint::spin_loop();
        if empty_polls % YIELD_EVERY == YIELD_EVERY - 1 {
            std::thread::yield_now();
        }
    }
}
