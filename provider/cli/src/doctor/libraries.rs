//! Checks of what must be installed: libibverbs of the right private ABI, the
//! libraries of this command, and the stock programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::finding::Finding;
use crate::launch::in_path;
use crate::launch::mounts::{self, CONFIG_DIR};
use crate::launch::provider_so;
use contract::release;

/// All checks of this file.
pub fn checks() -> Vec<Finding> {
    vec![
        libibverbs(),
        driver_file(),
        own(),
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
    match fs::read(&path).map(|bytes| release::private_abi(&bytes)) {
        Ok(Some(abi)) if release::SUPPORTED.iter().any(|(known, _)| *known == abi) => {
            Finding::ok(name, format!("{shown}, private ABI {abi}"))
        }
        Ok(Some(other)) => Finding::fail(name, release::refusal(&path, other), "use one of these releases"),
        Ok(None) => Finding::fail(
            name,
            format!("{shown} names no private ABI"),
            "install the distribution's libibverbs1",
        ),
        Err(error) => Finding::fail(name, format!("{shown}: {error}"), "make it readable"),
    }
}

/// The library of that name that programs get.
pub fn find_library(name: &str) -> Option<PathBuf> {
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
    if !mounts::has_config_dir() {
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

/// The libraries that belong to this command.
fn own() -> Finding {
    let name = "libraries";
    let mut said = Vec::new();
    let mut lost = [false; 3];
    for ((without, found), lost) in provider_so::all().into_iter().zip(&mut lost) {
        *lost = found.is_err();
        said.push(match found {
            Ok(path) => path.display().to_string(),
            Err(error) => format!("{error:#}, so {without}"),
        });
    }
    let said = said.join("; ");
    match lost {
        [false, false, false] => Finding::ok(name, said),
        [provider, ..] if provider => Finding::fail(name, said, provider_so::REMEDY),
        _ => Finding::warn(name, said, provider_so::REMEDY),
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
