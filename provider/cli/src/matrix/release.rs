//! The columns of the matrix: where the programs of a release are, and how they are started.

use std::env::consts::ARCH;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use contract::release::private_abi;

use crate::doctor::libraries::find_library;
use crate::launch::in_path;

/// The programs of this machine.
pub const INSTALLED: &str = "installed";

/// A release of the stock programs.
pub struct Release {
    name: String,
    /// Of rdma-core, and the private ABI.
    version: String,
    /// Nothing for those of this machine.
    root: Option<Root>,
}

/// A directory that packages are unpacked in: their programs run with their own loader and libraries.
struct Root {
    programs: PathBuf,
    loader: PathBuf,
    libraries: PathBuf,
}

impl Release {
    /// The release of that name or directory.
    pub fn find(name: &str) -> Result<Release> {
        const LIBRARY: &str = "libibverbs.so.1";
        if name == INSTALLED {
            let library = find_library(LIBRARY).context("libibverbs.so.1 is not installed")?;
            return Ok(Release { name: name.to_owned(), version: version(&library)?, root: None });
        }
        let dir = fs::canonicalize(name).with_context(|| {
            format!("{name} is neither `{INSTALLED}` nor a directory; tests/releases/fetch makes some")
        })?;
        let root = Root::find(&dir)?;
        let version = version(&root.libraries.join(LIBRARY))?;
        let name = dir.file_name().map_or(name.into(), |last| last.to_string_lossy().into_owned());
        Ok(Release { name, version, root: Some(root) })
    }

    /// Its name and version.
    pub fn title(&self) -> String {
        format!("{} ({})", self.name, self.version)
    }

    /// The words that start a program, if it is there.
    pub fn program(&self, program: &str) -> Option<Vec<OsString>> {
        let Some(root) = &self.root else {
            return in_path(program).then(|| vec![program.into()]);
        };
        let path = root.programs.join(program);
        let (loader, libraries) = (root.loader.clone(), root.libraries.clone());
        let words = || vec![loader.into(), "--library-path".into(), libraries.into(), path.clone().into()];
        path.is_file().then(words)
    }
}

impl Root {
    fn find(dir: &Path) -> Result<Root> {
        let usr = dir.join("usr");
        let libraries = usr.join(format!("lib/{ARCH}-linux-gnu"));
        let loader = [usr.join("lib64"), libraries.clone(), usr.join("lib")].iter().find_map(|dir| {
            let mut entries = fs::read_dir(dir).ok()?.flatten();
            entries.find(|entry| entry.file_name().to_string_lossy().starts_with("ld-linux"))
        });
        let Some(loader) = loader else {
            bail!("{} has no loader: the package libc6 is not unpacked there", dir.display())
        };
        Ok(Root { programs: usr.join("bin"), loader: loader.path(), libraries })
    }
}

/// The version that the file of a library is named by (44.0 of `libibverbs.so.1.14.44.0`), and its private ABI.
fn version(library: &Path) -> Result<String> {
    let file = fs::canonicalize(library).with_context(|| format!("{} is missing", library.display()))?;
    let bytes = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let abi = private_abi(&bytes).map_or("no private ABI".to_owned(), |abi| format!("ABI {abi}"));
    Ok(match name.rsplitn(3, '.').collect::<Vec<_>>()[..] {
        [minor, major, _] if name.starts_with("libibverbs") => format!("rdma-core {major}.{minor}, {abi}"),
        _ => abi,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unpacked_release_has_its_own_loader() {
        let dir = tempfile::tempdir().unwrap();
        let words = |error: Result<Release>| format!("{:#}", error.err().unwrap());
        let name = dir.path().to_str().unwrap();
        assert!(words(Release::find(name)).contains("has no loader"));
        let libraries = dir.path().join(format!("usr/lib/{ARCH}-linux-gnu"));
        let put = |path: &Path, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(&dir.path().join("usr/lib64/ld-linux-x86-64.so.2"), "");
        assert!(words(Release::find(name)).contains("libibverbs.so.1 is missing"));
        put(&libraries.join("libibverbs.so.1.18.65.0"), "\0IBVERBS_PRIVATE_65\0");
        std::os::unix::fs::symlink("libibverbs.so.1.18.65.0", libraries.join("libibverbs.so.1")).unwrap();
        put(&dir.path().join("usr/bin/ibv_devices"), "");
        let release = Release::find(name).unwrap();
        assert!(release.title().ends_with("(rdma-core 65.0, ABI 65)"), "{}", release.title());
        assert!(release.program("ib_write_bw").is_none());
        let words = release.program("ibv_devices").unwrap();
        assert!(words[0].to_string_lossy().ends_with("usr/lib64/ld-linux-x86-64.so.2"), "{words:?}");
        assert_eq!(words[2..], [libraries.into_os_string(), dir.path().join("usr/bin/ibv_devices").into()]);
        assert!(words.len() == 4 && Release::find("no such directory").is_err());
    }
}
