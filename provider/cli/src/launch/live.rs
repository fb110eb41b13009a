//! The files that change while programs run, which the net's keeper writes: GID tables, counters, and how links are.
//!
//! They are in a directory of the net, `verbenaN/P` for port P of card N, which is mounted into each program's view. These
//! are hundreds of small files, and a disk may keep a program waiting for each: they lie in memory where there is a tmpfs.

use std::collections::HashMap;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::ErrorKind;
use std::os::unix::fs::{symlink, DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use model::attach::{Counted, COUNTED_WITHIN};
use model::packet::PortId;

use super::sysfs;
use crate::counters::{Counter, HARDWARE, LINK_DOWNED, NEVER, PORT};

/// Where it is for the net whose socket this is.
pub fn directory(socket: &Path) -> PathBuf {
    socket.with_extension("live")
}

pub fn of_port(directory: &Path, port: PortId) -> PathBuf {
    directory.join(format!("verbena{}/{}", port.card, port.port + 1))
}

/// Where directories of nets are whose runtime directory is on a disk.
const MEMORY: &str = "/dev/shm";
/// How names in [`MEMORY`] begin.
const PREFIX: &str = "verbena-live-";
/// From linux/magic.h.
const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;

/// Makes it anew, or a link to one in memory: then gives where that is.
fn make(directory: &Path) -> Result<Option<PathBuf>> {
    remove(directory);
    let in_memory = |path: &Path| rustix::fs::statfs(path).is_ok_and(|fs| fs.f_type == TMPFS_MAGIC);
    if !directory.parent().is_some_and(in_memory) && in_memory(Path::new(MEMORY)) {
        let name = directory.file_stem().unwrap_or_default().to_string_lossy();
        // Other nets of this name may be here, of other runtime directories.
        let random = RandomState::new().build_hasher().finish();
        let real = Path::new(MEMORY).join(format!("{PREFIX}{random:016x}-{name}"));
        if fs::DirBuilder::new().mode(0o700).create(&real).is_ok() {
            if symlink(&real, directory).is_ok() {
                return Ok(Some(real));
            }
            let _ = fs::remove_dir(&real);
        }
    }
    on_disk(directory)?;
    Ok(None)
}

fn on_disk(directory: &Path) -> Result<()> {
    fs::create_dir(directory).with_context(|| format!("making {}", directory.display()))
}

/// Removes the directory of a net that has ended, and what it leads to.
pub fn remove(directory: &Path) {
    match fs::read_link(directory) {
        Ok(real) => {
            let ours = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(PREFIX);
            if real.parent() == Some(Path::new(MEMORY)) && real.file_name().is_some_and(ours) {
                let _ = fs::remove_dir_all(real);
            }
            let _ = fs::remove_file(directory);
        }
        Err(error) if error.kind() == ErrorKind::InvalidInput => drop(fs::remove_dir_all(directory)),
        Err(_) => {}
    }
}

/// The counters of all ports, as files.
#[derive(Debug)]
pub struct Counters {
    directory: PathBuf,
    /// What the directory leads to; removed with this, as the link may be gone before.
    in_memory: Option<PathBuf>,
    /// What is in the files, where it is not 0: by port, directory and name.
    written: HashMap<(PortId, &'static str, &'static str), u64>,
    /// Whether the links are up, where that has changed.
    links: HashMap<PortId, bool>,
}

impl Counters {
    /// Makes the directory of a new net, with all counters at 0.
    pub fn show(directory: PathBuf, cards: u8) -> Result<Counters> {
        let in_memory = make(&directory)?;
        let (written, links) = (HashMap::new(), HashMap::new());
        let mut counters = Counters { directory, in_memory, written, links };
        if counters.show_zeros(cards).is_err() && counters.in_memory.is_some() {
            // It may be full: containers have little of it.
            remove(&counters.directory);
            on_disk(&counters.directory)?;
            counters.in_memory = None;
            counters.show_zeros(cards)?;
        }
        Ok(counters)
    }

    fn show_zeros(&self, cards: u8) -> Result<()> {
        PortId::of_cards(cards.into()).try_for_each(|port| {
            let directory = of_port(&self.directory, port);
            write_zeros(&directory)?;
            sysfs::write_link(&directory, true)
        })
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        self.in_memory.iter().for_each(|real| drop(fs::remove_dir_all(real)));
    }
}

/// Writes the counters of a port, all 0.
pub fn write_zeros(dir: &Path) -> Result<()> {
    let names = |table: &'static [Counter]| table.iter().map(|counter| counter.name);
    for name in names(&PORT).chain(NEVER).chain([LINK_DOWNED]) {
        sysfs::put(&dir.join("counters").join(name), "0")?;
    }
    for name in names(&HARDWARE) {
        sysfs::put(&dir.join("hw_counters").join(name), "0")?;
    }
    // How old a value may be, in milliseconds.
    sysfs::put(&dir.join("hw_counters/lifespan"), &COUNTED_WITHIN.as_millis().to_string())
}

/// Writes another value. In place, where nothing of the old one stays: another file each time would keep the disk busy.
fn write(file: &Path, old: u64, new: u64) -> Result<()> {
    let text = |value| format!("{value}\n");
    if text(new).len() < text(old).len() {
        return sysfs::replace(file, Some(&text(new)));
    }
    Ok(fs::OpenOptions::new().write(true).open(file)?.write_all_at(text(new).as_bytes(), 0)?)
}

impl Counted for Counters {
    fn counted(&mut self, port: PortId, (up, changes): (bool, u16), counters: &[u64]) -> bool {
        let mut changed = false;
        let shown = self.links.entry(port).or_insert(true);
        if *shown != up {
            changed = true;
            // As below.
            if sysfs::write_link(&of_port(&self.directory, port), up).is_ok() {
                *shown = up;
            }
        }
        for (directory, table) in [("counters", PORT.as_slice()), ("hw_counters", &HARDWARE)] {
            let values = table.iter().map(|counter| (counter.name, counter.of(counters)));
            // Every other change is that to down; the first one is not, of a port that began without a link.
            let downs = (u64::from(changes) + u64::from(!up)) / 2;
            let downed = (directory == "counters").then_some((LINK_DOWNED, downs));
            for (name, value) in values.chain(downed) {
                let written = self.written.entry((port, directory, name)).or_default();
                if *written != value {
                    changed = true;
                    let file = of_port(&self.directory, port).join(directory).join(name);
                    // Left as it was, it is tried again. The keeper has nobody to tell; the registers are right.
                    if write(&file, *written, value).is_ok() {
                        *written = value;
                    }
                }
            }
        }
        changed
    }
}
