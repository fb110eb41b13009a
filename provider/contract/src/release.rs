//! Which release of rdma-core a libibverbs is of. The private ABI has had the same number from release 40 to 56, but
//! the structs that a provider shares with the library changed meanwhile (`ibv_qp_ex` grew with 44 and 45).

use std::path::Path;

/// The release that the provider is made for.
pub const KNOWN: u32 = 44;

/// A function that libibverbs exports from release 49 on.
pub const NEWER_SYMBOL: &str = "ibv_wr_opcode_str";

/// The release that a library's file is named by: 44 of `libibverbs.so.1.14.44.0`. Links are followed.
pub fn of_file(path: &Path) -> Option<u32> {
    let file = std::fs::canonicalize(path).ok()?;
    let version = file.file_name()?.to_str()?.strip_prefix("libibverbs.so.1.")?;
    version.split('.').nth(1)?.parse().ok()
}

/// Why the provider cannot work with a library, in words; `newer`: it exports [`NEWER_SYMBOL`].
pub fn refused(path: &Path, newer: bool) -> Option<String> {
    let what = match of_file(path) {
        Some(KNOWN) => return None,
        Some(release) => format!("is of rdma-core {release}"),
        None if newer => format!("is of rdma-core 49 or newer (it has {NEWER_SYMBOL})"),
        // A file that does not say.
        None => return None,
    };
    Some(format!("{} {what}, whose structs differ from those of rdma-core {KNOWN}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_known_by_its_file_or_by_what_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let library = |name: &str| {
            let file = dir.path().join(name);
            std::fs::write(&file, "").unwrap();
            let link = dir.path().join("libibverbs.so.1");
            let _ = std::fs::remove_file(&link);
            if name != "libibverbs.so.1" {
                std::os::unix::fs::symlink(&file, &link).unwrap();
            }
            link
        };
        assert_eq!(refused(&library("libibverbs.so.1.14.44.0"), false), None);
        for other in ["libibverbs.so.1.14.43.0", "libibverbs.so.1.14.45.0", "libibverbs.so.1.15.56.1"] {
            let words = refused(&library(other), false).expect(other);
            assert!(words.contains("differ from those of rdma-core 44"), "{words}");
        }
        assert!(refused(&library("libibverbs.so.1.15.50.0"), true).unwrap().contains("rdma-core 50,"));
        let _ = std::fs::remove_file(dir.path().join("libibverbs.so.1"));
        let nameless = library("libibverbs.so.1");
        assert_eq!(refused(&nameless, false), None);
        assert!(refused(&nameless, true).unwrap().contains("49 or newer"));
    }
}
