//! The namespace: blocks in a file, or in memory.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{memfd_create, MemfdFlags};

/// Bytes of a block, as a power of two.
pub const BLOCK_SHIFT: u8 = 9;
/// Bytes of a block.
pub const BLOCK: usize = 1 << BLOCK_SHIFT;

/// The number of the only one.
pub const NUMBER: u32 = 1;

/// The namespace of the target.
pub struct Namespace {
    file: File,
    blocks: u64,
}

impl Namespace {
    /// A file. It fails if the file is not made of blocks, besides the errors of `open`.
    pub fn open(path: &Path) -> io::Result<Namespace> {
        Namespace::of(OpenOptions::new().read(true).write(true).open(path)?)
    }

    /// So many bytes of memory, all zero. The kernel has a file for that too.
    pub fn in_memory(bytes: u64) -> io::Result<Namespace> {
        let file = File::from(memfd_create("namespace", MemfdFlags::CLOEXEC)?);
        file.set_len(bytes)?;
        Namespace::of(file)
    }

    fn of(file: File) -> io::Result<Namespace> {
        let bytes = file.metadata()?.len();
        if bytes == 0 || bytes % BLOCK as u64 != 0 {
            let why = format!("{bytes} bytes are no number of blocks of {BLOCK} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(Namespace { file, blocks: bytes / BLOCK as u64 })
    }

    /// How many there are.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Copies blocks from `first` on. The caller knows that they exist.
    pub fn read(&self, first: u64, to: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(to, first * BLOCK as u64)
    }

    /// Overwrites blocks from `first` on, in the kernel's cache. The caller knows that they exist.
    pub fn write(&self, first: u64, from: &[u8]) -> io::Result<()> {
        self.file.write_all_at(from, first * BLOCK as u64)
    }

    /// Waits until all that was written is on the disk.
    pub fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}
