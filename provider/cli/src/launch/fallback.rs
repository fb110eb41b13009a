//! The way without namespaces: environment variables and links in /dev.

use std::fs;
use std::os::unix::fs::{symlink, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{ensure, Context, Result};

use super::mounts::NODE_DIR;
use super::sysfs::link;
use super::tree::{Tree, DRIVER_STEM, LIVE};
use crate::files;

/// Variables for the program.
pub type Variables = Vec<(&'static str, PathBuf)>;

/// Variable that names the driver where there is no driver file.
pub const DRIVERS: &str = "RDMAV_DRIVERS";

/// Writes the tree below `dir` and says which variables lead to it.
pub fn prepare(tree: &Tree<'_>, dir: &Path) -> Result<Variables> {
    // Cards in slots have no net, and no end.
    let trees = if tree.slots.is_empty() { directory(tree.socket) } else { dir.join("slots") };
    files::make_directory(&trees)?;
    let root = trees.join(name(tree)?);
    let config = root.join("ibverbs.d");
    if !root.is_dir() {
        // Programs may start at once: fill a directory aside, then rename it.
        let aside = tempfile::Builder::new()
            .prefix("new-")
            .tempdir_in(&trees)
            .context("making a directory for the fake sysfs")?;
        tree.write(aside.path(), &config)?;
        link_live(tree, aside.path())?;
        let aside = aside.keep();
        if fs::rename(&aside, &root).is_err() {
            let _ = fs::remove_dir_all(&aside);
        }
        ensure!(root.is_dir(), "{} could not be made", root.display());
    }
    make_nodes(Path::new(NODE_DIR), tree.cards)?;
    Ok(vec![("SYSFS_PATH", root.join("sys")), (DRIVERS, config.join("verbena").join(DRIVER_STEM))])
}

/// Leads to the files that the keeper writes.
fn link_live(tree: &Tree<'_>, root: &Path) -> Result<()> {
    let Some(live) = tree.live() else { return Ok(()) };
    for card in (0..tree.cards).map(|card| format!("verbena{card}")) {
        let at = root.join("sys/class/infiniband").join(&card).join(LIVE);
        fs::remove_dir(&at).with_context(|| format!("removing {}", at.display()))?;
        link(&live.join(&card), &at)?;
    }
    Ok(())
}

/// Where the trees of the net are whose socket this is. They end with the net: the next of this name may be another.
pub fn directory(socket: &Path) -> PathBuf {
    socket.with_extension("sysfs")
}

/// One for each content: cards in slots change, and builds of this program.
fn name(tree: &Tree<'_>) -> Result<String> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let build = fs::metadata("/proc/self/exe").context("looking at this program's file")?;
    let mut hasher = DefaultHasher::new();
    (tree.slots, tree.provider, build.ino(), build.mtime(), build.mtime_nsec()).hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}

fn make_nodes(dir: &Path, cards: u8) -> Result<()> {
    for card in 0..cards {
        let node = dir.join(format!("uverbs{card}"));
        if is_null_device(&node) {
            continue;
        }
        let made = fs::create_dir_all(dir).and_then(|()| symlink("/dev/null", &node));
        made.with_context(|| {
            format!(
                "{} must lead to /dev/null, and could not be made; as root: \
                 mkdir -p {} && ln -s /dev/null {}; in a container that forbids it: docker run \
                 --device /dev/null:{} for each card, or --security-opt seccomp=unconfined, which allows namespaces",
                node.display(),
                dir.display(),
                node.display(),
                node.display()
            )
        })?;
    }
    Ok(())
}

fn is_null_device(node: &Path) -> bool {
    let null = (1 << 8) | 3;
    fs::metadata(node).is_ok_and(|meta| meta.file_type().is_char_device() && meta.rdev() == null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_links_to_null() {
        let dir = tempfile::tempdir().unwrap();
        let nodes = dir.path().join("infiniband");
        make_nodes(&nodes, 2).unwrap();
        assert!(is_null_device(&nodes.join("uverbs1")));
        make_nodes(&nodes, 2).unwrap();
        fs::remove_file(nodes.join("uverbs0")).unwrap();
        fs::write(nodes.join("uverbs0"), "").unwrap();
        let error = make_nodes(&nodes, 2).unwrap_err();
        assert!(format!("{error:#}").contains("ln -s /dev/null"));
    }
}
