//! Where a user's nets live: a private directory with one socket a net.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use model::segment::{AttachError, Segment};

/// The net that is used when none is named.
pub const DEFAULT_NET: &str = "default";
/// Programs of a net find its name in this variable, so that the commands they start mean the same net.
pub const NET_VARIABLE: &str = "VERBENA_NET";

/// The net that is meant when none is named: that of the program that started this one, if any.
pub fn default_net() -> String {
    let inherited = std::env::var(NET_VARIABLE).ok().filter(|name| !name.is_empty());
    inherited.unwrap_or_else(|| DEFAULT_NET.to_owned())
}

/// A user's directory for sockets: mode 0700, owned by the user.
pub fn directory() -> Result<PathBuf> {
    let uid = rustix::process::geteuid().as_raw();
    let dir = location(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from), uid);
    if let Err(error) = DirBuilder::new().mode(0o700).create(&dir) {
        if error.kind() != std::io::ErrorKind::AlreadyExists {
            return Err(error).with_context(|| format!("making {}", dir.display()));
        }
    }
    // In /tmp anyone could have been first: never trust what is not ours.
    let meta = fs::symlink_metadata(&dir).with_context(|| format!("reading {}", dir.display()))?;
    if !meta.is_dir() || meta.uid() != uid || meta.mode() & 0o077 != 0 {
        bail!("{} must be a directory of user {uid} with mode 0700; remove it and try again", dir.display());
    }
    Ok(dir)
}

fn location(xdg: Option<PathBuf>, uid: u32) -> PathBuf {
    // Under sudo the variable may still name another user's directory.
    let own = |dir: &PathBuf| fs::metadata(dir).is_ok_and(|m| m.is_dir() && m.uid() == uid);
    match xdg.filter(own) {
        Some(dir) => dir.join("verbena"),
        None => PathBuf::from(format!("/tmp/verbena-{uid}")),
    }
}

/// A net: the segment of cards that programs share.
#[derive(Clone, Debug)]
pub struct Net {
    name: String,
    dir: PathBuf,
}

impl Net {
    /// The net of that name, of this user.
    pub fn named(name: &str) -> Result<Net> {
        Net::within(directory()?, name)
    }

    /// The net of that name in a directory that another process of the user has found.
    pub fn within(dir: PathBuf, name: &str) -> Result<Net> {
        check_name(name)?;
        Ok(Net { name: name.to_owned(), dir })
    }

    /// The net of that name, of this user, if it runs; else an error that says how to start it.
    pub fn running(name: &str) -> Result<Net> {
        let net = Net::named(name)?;
        match Segment::ask(&net.socket()) {
            Err(AttachError::NoKeeper(_)) => {
                bail!("net `{name}` is not running: start something on it (verbena run --net {name} PROGRAM)")
            }
            asked => Ok(asked.map(|()| net)?),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Directory of its files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The keeper's socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.join(format!("{}.sock", self.name))
    }
}

fn check_name(name: &str) -> Result<()> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 40 || name.starts_with('.') || !name.chars().all(good) {
        bail!("`{name}` is no net name: up to 40 letters, digits, `-`, `_` and `.`");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_the_directory() {
        for bad in ["", ".", "..", "a/b", "a b", &"x".repeat(41)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        assert!(check_name("run-12.a_B").is_ok());
    }

    #[test]
    fn a_foreign_runtime_directory_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let uid = fs::metadata(dir.path()).unwrap().uid();
        let path = dir.path().to_owned();
        assert_eq!(location(Some(path.clone()), uid), path.join("verbena"));
        assert_eq!(location(Some(path), uid + 1), PathBuf::from(format!("/tmp/verbena-{}", uid + 1)));
        assert_eq!(location(None, 7), Path::new("/tmp/verbena-7"));
    }
}
