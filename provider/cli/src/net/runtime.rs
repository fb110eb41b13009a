//! Where a user's nets live: a private directory with one socket a net.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{bail, ensure, Context, Result};
use model::segment::{AttachError, Segment};
use rustix::io::Errno;
use rustix::net::{connect, socket_with, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

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
                let option = if name == default_net() { String::new() } else { format!("--net {name} ") };
                let start = || format!("start something on it (verbena run {option}PROGRAM)");
                let remedy = elsewhere(&net).unwrap_or_else(start);
                bail!("net `{name}` is not running in {}: {remedy}", net.dir().display())
            }
            asked => Ok(asked.map(|()| net)?),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.join(socket_name(&self.name))
    }
}

/// Where else a net of this name runs, and what to do then.
fn elsewhere(net: &Net) -> Option<String> {
    let names = |path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let user = |name: &str| name.parse::<u32>().ok();
    let of_logins = names("/run/user").filter_map(|name| user(name.to_str()?));
    let of_others = names("/tmp").filter_map(|name| user(name.to_str()?.strip_prefix("verbena-")?));
    let of_logins = of_logins.map(|uid| (uid, PathBuf::from(format!("/run/user/{uid}/verbena"))));
    let of_others = of_others.map(|uid| (uid, PathBuf::from(format!("/tmp/verbena-{uid}"))));
    // Others may put anything in /tmp: only a user's own directory is looked into.
    let is_own =
        |uid: u32, dir: &Path| fs::symlink_metadata(dir).is_ok_and(|it| it.is_dir() && it.uid() == uid);
    let (uid, dir) = of_logins.chain(of_others).find(|(uid, dir)| {
        dir != net.dir() && is_own(*uid, dir) && runs(&dir.join(socket_name(&net.name)))
    })?;
    Some(advice(&dir, uid, rustix::process::geteuid().as_raw()))
}

/// Whether a keeper listens there. Its socket is of another type than this one, and it is not woken; whatever else is there is not
/// waited for.
fn runs(socket: &Path) -> bool {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let Ok(address) = SocketAddrUnix::new(socket) else { return false };
    let Ok(ours) = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None) else { return false };
    connect(&ours, &address) == Err(Errno::PROTOTYPE)
}

/// What user `me` does who wants a net in the directory of user `uid`.
fn advice(dir: &Path, uid: u32, me: u32) -> String {
    match dir.parent() {
        _ if uid != me => {
            format!("user {} has one in {}: run this as that user", user_name(uid), dir.display())
        }
        Some(runtime) if dir.ends_with("verbena") => {
            format!("yours is in {}: set XDG_RUNTIME_DIR={}", dir.display(), runtime.display())
        }
        _ => format!("yours is in {}: unset XDG_RUNTIME_DIR", dir.display()),
    }
}

/// A user's name, or the number of one who is not in the file.
fn user_name(uid: u32) -> String {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut names = users.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then_some(name)
    });
    names.next().map_or_else(|| uid.to_string(), str::to_owned)
}

fn socket_name(net: &str) -> String {
    format!("{net}.sock")
}

fn check_name(name: &str) -> Result<()> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    ensure!(
        !name.is_empty() && name.len() <= 40 && !name.starts_with('.') && name.chars().all(good),
        "`{name}` is no net name: up to 40 letters, digits, `-`, `_` and `.`"
    );
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

    #[test]
    fn who_looks_for_anothers_net_is_told_whose_it_is() {
        let (login, own) = (Path::new("/run/user/7/verbena"), Path::new("/tmp/verbena-7"));
        let others = "user root has one in /tmp/verbena-0: run this as that user";
        assert_eq!(advice(Path::new("/tmp/verbena-0"), 0, 7), others);
        assert!(advice(login, 4_000_000_007, 0).starts_with("user 4000000007 has one in /run/user/7/verbena"));
        assert_eq!(advice(login, 7, 7), "yours is in /run/user/7/verbena: set XDG_RUNTIME_DIR=/run/user/7");
        assert_eq!(advice(own, 7, 7), "yours is in /tmp/verbena-7: unset XDG_RUNTIME_DIR");
    }
}
