//! Finds the libraries that belong to this command: the provider, the clock, DPDK's poll-mode driver.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail, Context, Result};

/// Where packages put the libraries, from the directory of the command.
const INSTALLED: &str = "../lib/verbena";

const PROVIDER: &str = "libverbena.so";
const CLOCK: &str = "libverbena_clock.so";

/// The file name of DPDK's poll-mode driver.
pub const PMD: &str = "librte_net_verbena.so";

/// Names the provider instead of looking for it.
pub const OVERRIDE: &str = "VERBENA_PROVIDER";

/// What helps where one is missing.
pub const REMEDY: &str = "build it with `cargo build --release`, or install Verbena as a package";

/// The provider, as an absolute path.
pub fn find() -> Result<PathBuf> {
    overridden().unwrap_or_else(|| needed(PROVIDER))
}

/// The clock library, as an absolute path.
pub fn find_clock() -> Result<PathBuf> {
    needed(CLOCK)
}

/// DPDK's poll-mode driver, as an absolute path, if it is there.
pub fn find_pmd() -> Option<PathBuf> {
    library(PMD).ok()
}

/// Each of them, as an absolute path or where it was looked for, after what is lost without it.
pub fn all() -> [(&'static str, Result<PathBuf>); 3] {
    [
        ("no program sees the cards", overridden().unwrap_or_else(|| library(PROVIDER))),
        ("`--clock virtual` does not work", library(CLOCK)),
        ("DPDK sees no card", library(PMD)),
    ]
}

fn overridden() -> Option<Result<PathBuf>> {
    let path = PathBuf::from(env::var_os(OVERRIDE)?);
    Some(path.canonicalize().with_context(|| format!("{OVERRIDE} names {}", path.display())))
}

fn needed(name: &str) -> Result<PathBuf> {
    library(name).map_err(|error| anyhow!("{error:#}; {REMEDY}"))
}

fn library(name: &str) -> Result<PathBuf> {
    let exe = env::current_exe().context("finding the verbena binary")?;
    let dir = exe.parent().context("the verbena binary has no directory")?;
    match newest(candidates(dir, name)) {
        Some(path) => path.canonicalize().with_context(|| format!("opening {}", path.display())),
        None => bail!("{name} is neither beside {} nor in {INSTALLED} from there", exe.display()),
    }
}

/// The first of the newest. There may be an older provider beside a binary that cargo built: `cargo test`
/// renews only the one in `deps`.
fn newest(paths: Vec<PathBuf>) -> Option<PathBuf> {
    let modified = |path: &PathBuf| path.metadata().and_then(|meta| meta.modified()).ok();
    let mut found: Vec<PathBuf> = paths.into_iter().filter(|path| path.is_file()).collect();
    found.sort_by_key(|path| std::cmp::Reverse(modified(path)));
    found.into_iter().next()
}

fn candidates(dir: &Path, name: &str) -> Vec<PathBuf> {
    ["", "deps", INSTALLED].iter().map(|place| dir.join(place).join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_taken_and_the_first_of_equals() {
        let dir = tempfile::tempdir().unwrap();
        let base = std::time::SystemTime::now();
        let make = |name: &str, age: u64| {
            let path = dir.path().join(name);
            let file = std::fs::File::create(&path).unwrap();
            let time = base - std::time::Duration::from_secs(age);
            file.set_modified(time).unwrap();
            path
        };
        std::fs::create_dir_all(dir.path().join("bin")).unwrap();
        std::fs::create_dir_all(dir.path().join("lib/verbena")).unwrap();
        let find = || newest(candidates(&dir.path().join("bin"), "libverbena.so"));
        assert_eq!(find(), None);
        let installed = make("lib/verbena/libverbena.so", 10);
        assert_eq!(find().map(|path| path.canonicalize().unwrap()), Some(installed));
        std::fs::create_dir(dir.path().join("bin/deps")).unwrap();
        let tested = make("bin/deps/libverbena.so", 5);
        assert_eq!(find(), Some(tested));
        let built = make("bin/libverbena.so", 5);
        assert_eq!(find(), Some(built));
    }
}
