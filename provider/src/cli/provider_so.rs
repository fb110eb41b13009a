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
        return path
            .canonicalize()
            .with_context(|| format!("{OVERRIDE} names {}", path.display()));
    }
    let exe = env::current_exe().context("finding the verbena binary")?;
    let dir = exe
        .parent()
        .context("the verbena binary has no directory")?;
    match candidates(dir).into_iter().find(|path| path.is_file()) {
        Some(path) => path
            .canonicalize()
            .with_context(|| format!("opening {}", path.display())),
        None => bail!(
            "the provider libverbena.so is not beside {}; build it with \
             `cargo build --release -p provider`, or name it in {OVERRIDE}",
            exe.display()
        ),
    }
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
    fn a_suffixed_library_comes_first() {
        let names = candidates(Path::new("/x"));
        assert_eq!(names[0], Path::new("/x/libverbena-rdmav34.so"));
        assert_eq!(names[1], Path::new("/x/libverbena.so"));
    }
}
