//! Checks of what must be installed: libibverbs of the right private ABI, the
//! provider, and the stock programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::finding::Finding;
use crate::launch::in_path;
use crate::launch::mounts::{self, CONFIG_DIR};
use crate::launch::provider_so;
use contract::release;

/// Version of libibverbs' private ABI that the provider is made for.
const PRIVATE_ABI: u32 = 34;

/// What helps against another release.
const REMEDY: &str = "use the libibverbs of rdma-core 44, which Debian 12 has";

/// All checks of this file.
pub fn checks() -> Vec<Finding> {
    vec![
        libibverbs(),
        driver_file(),
        provider(),
        program("perftest", "ib_write_bw", "perftest"),
        program("ibverbs-utils", "ibv_devinfo", "ibverbs-utils"),
    ]
}

fn libibverbs() -> Finding {
    let name = "libibverbs";
    let Some(path) = find_library("libibverbs.so.1") else {
        return Finding::fail(name, "libibverbs.so.1 is not installed", "apt-get install libibverbs1");
    };
    let shown = path.display();
    let bytes = fs::read(&path);
    let newer = bytes.as_ref().is_ok_and(|bytes| has_symbol(bytes, release::NEWER_SYMBOL));
    if let Some(why) = release::refused(&path, newer) {
        return Finding::fail(name, why, REMEDY);
    }
    match bytes.map(|bytes| private_abi(&bytes)) {
        Ok(Some(PRIVATE_ABI)) => Finding::ok(name, format!("{shown}, private ABI {PRIVATE_ABI}")),
        Ok(Some(other)) => Finding::fail(
            name,
            format!("{shown} has private ABI {other}, the provider is made for {PRIVATE_ABI}"),
            REMEDY,
        ),
        Ok(None) => Finding::fail(
            name,
            format!("{shown} names no private ABI"),
            "install the distribution's libibverbs1",
        ),
        Err(error) => Finding::fail(name, format!("{shown}: {error}"), "make it readable"),
    }
}

/// Whether a library has this name among its strings.
fn has_symbol(library: &[u8], name: &str) -> bool {
    library.windows(name.len() + 2).any(|window| {
        window[0] == 0 && window[name.len() + 1] == 0 && &window[1..=name.len()] == name.as_bytes()
    })
}

/// The NN of the version node IBVERBS_PRIVATE_NN.
fn private_abi(library: &[u8]) -> Option<u32> {
    let start = b"IBVERBS_PRIVATE_";
    library.windows(start.len()).enumerate().find_map(|(at, window)| {
        let rest = (window == start).then(|| &library[at + start.len()..])?;
        let digits: String =
            rest.iter().take_while(|byte| byte.is_ascii_digit()).map(|&byte| char::from(byte)).collect();
        digits.parse().ok()
    })
}

fn find_library(name: &str) -> Option<PathBuf> {
    // As the loader would: LD_LIBRARY_PATH, then its cache.
    let listed = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    if let Some(path) = std::env::split_paths(&listed).map(|dir| dir.join(name)).find(|path| path.is_file()) {
        return Some(path);
    }
    ["/sbin/ldconfig", "/usr/sbin/ldconfig", "ldconfig"]
        .iter()
        .find_map(|ldconfig| Command::new(ldconfig).arg("-p").output().ok())
        .and_then(|output| from_cache(&String::from_utf8_lossy(&output.stdout), name))
}

fn from_cache(cache: &str, name: &str) -> Option<PathBuf> {
    cache.lines().find_map(|line| {
        let (left, path) = line.split_once(" => ")?;
        let same = left.split_whitespace().next() == Some(name);
        // Another processor's library may be in the cache too.
        (same && !left.contains("x32")).then(|| PathBuf::from(path.trim()))
    })
}

fn driver_file() -> Finding {
    let name = "driver file";
    if !Path::new(CONFIG_DIR).is_dir() {
        return Finding::warn(
            name,
            format!("{CONFIG_DIR} is missing"),
            "apt-get install libibverbs1 (`run` names the provider by RDMAV_DRIVERS meanwhile)",
        );
    }
    let up = mounts::ours().is_ok_and(|points| points.iter().any(|p| p == Path::new(CONFIG_DIR)));
    let found = if up { "mounted by `verbena up` or `verbena run`" } else { "is mounted for each run" };
    Finding::ok(name, format!("{CONFIG_DIR} is there; verbena.driver {found}"))
}

fn provider() -> Finding {
    let name = "provider";
    match provider_so::find() {
        Ok(path) => Finding::ok(name, path.display().to_string()),
        Err(error) => Finding::fail(name, format!("{error:#}"), "cargo build --release"),
    }
}

fn program(name: &'static str, program: &str, package: &str) -> Finding {
    if in_path(program) {
        Finding::ok(name, format!("{program} is installed"))
    } else {
        Finding::warn(name, format!("{program} is not installed"), format!("apt-get install {package}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_abi_is_read_from_the_version_node() {
        let library = b"\x7fELF..IBVERBS_1.14\0IBVERBS_PRIVATE_34\0ibv_open";
        assert_eq!(private_abi(library), Some(34));
        assert_eq!(private_abi(b"IBVERBS_1.14"), None);
        assert!(has_symbol(b"..\0ibv_wr_opcode_str\0", release::NEWER_SYMBOL));
        assert!(!has_symbol(b"..\0ibv_wr_opcode_string\0", release::NEWER_SYMBOL));
    }

    #[test]
    fn the_loaders_cache_is_understood() {
        let cache = "120 libs found in cache\n\
            \tlibibverbs.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libibverbs.so.1\n";
        assert_eq!(
            from_cache(cache, "libibverbs.so.1").unwrap(),
            Path::new("/lib/x86_64-linux-gnu/libibverbs.so.1")
        );
        assert!(from_cache(cache, "libibverbs.so").is_none());
    }
}
