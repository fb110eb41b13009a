//! Finds the provider library that belongs to this command.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};

/// Names the provider instead of looking for it.
pub const OVERRIDE: &str = "VERBENA_PROVIDER";

/// The provider, as an absolute path.
pub fn find() -> Result<PathBuf> {
    if let Some(path) = env::var_os(OVERRIDE) {
        let path = PathBuf::from(path);
        return path.canonicalize().with_context(|| format!("{OVERRIDE} names {}", path.display()));
    }
    beside(candidates, "the provider libverbena.so", &format!(", or name it in {OVERRIDE}"))
}

/// The clock library, as an absolute path.
pub fn find_clock() -> Result<PathBuf> {
    const NAME: &str = "libverbena_clock.so";
    let places =
        |dir: &Path| vec![dir.join(NAME), dir.join("../lib").join(NAME), dir.join("deps").join(NAME)];
    beside(places, &format!("{NAME}, which programs need for the virtual clock,"), "")
}

fn beside(places: impl Fn(&Path) -> Vec<PathBuf>, what: &str, hint: &str) -> Result<PathBuf> {
    let exe = env::current_exe().context("finding the verbena binary")?;
    let dir = exe.parent().context("the verbena binary has no directory")?;
    match newest(places(dir)) {
        Some(path) => path.canonicalize().with_context(|| format!("opening {}", path.display())),
        None => bail!("{what} is not beside {}; build it with `cargo build --release`{hint}", exe.display()),
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

fn candidates(dir: &Path) -> Vec<PathBuf> {
    vec![
        dir.join("libverbena-rdmav34.so"),
        dir.join("libverbena.so"),
        dir.join("../lib/libverbena-rdmav34.so"),
        dir.join("../lib/libverbena.so"),
        dir.join("deps/libverbena.so"),
    ]
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
        std::fs::create_dir(dir.path().join("deps")).unwrap();
        assert_eq!(newest(candidates(dir.path())), None);
        let old = make("libverbena.so", 10);
        assert_eq!(newest(candidates(dir.path())), Some(old));
        let new = make("deps/libverbena.so", 5);
        assert_eq!(newest(candidates(dir.path())), Some(new));
        let installed = make("libverbena-rdmav34.so", 5);
        assert_eq!(newest(candidates(dir.path())), Some(installed));
    }
}
