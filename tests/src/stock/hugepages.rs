//! Huge pages, without which DPDK has no secondary processes.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// Where root says how many there are.
const POOL: &str = "/proc/sys/vm/nr_hugepages";

/// Huge pages of the kernel's, with a place where programs find them. Both go when this is dropped, after the programs. A test
/// that is killed leaves them; the next one uses those of its pages that are in no file.
pub struct HugePages {
    directory: TempDir,
    before: u64,
}

impl HugePages {
    /// So many that are free: those that are missing are made.
    pub fn free(count: u64) -> HugePages {
        let known = |word| number("/proc/meminfo", word);
        let before = number(POOL, "");
        let wanted = known("HugePages_Total:") + count.saturating_sub(known("HugePages_Free:"));
        let made = fs::write(POOL, wanted.to_string());
        let free = known("HugePages_Free:");
        let directory = tempfile::tempdir().expect("a directory");
        let mut mount = Command::new("mount");
        mount.args(["-t", "hugetlbfs", "nodev"]).arg(directory.path());
        let mounted = mount.status().is_ok_and(|status| status.success());
        let pages = HugePages { directory, before };
        let remedy = match made {
            Ok(()) if mounted => {
                "memory is fragmented: run it again later, or after a restart of the machine"
            }
            _ => "run it as root, in a container with --privileged",
        };
        assert!(
            mounted && free >= count,
            "this test needs {count} huge pages, of which {free} are free ({POOL}: {made:?}), and hugetlbfs (mounted: {mounted}): \
             {remedy}"
        );
        pages
    }

    /// The directory for EAL's `--huge-dir`.
    pub fn path(&self) -> String {
        self.directory.path().display().to_string()
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        // Another test's programs may have been started with the same mounts, and then keep what is in them.
        for file in fs::read_dir(self.directory.path()).into_iter().flatten().flatten() {
            let _ = fs::remove_file(file.path());
        }
        let _ = Command::new("umount").arg("--lazy").arg(self.directory.path()).status();
        let _ = fs::write(POOL, self.before.to_string());
    }
}

/// The number behind a word of a file.
fn number(file: impl AsRef<Path>, word: &str) -> u64 {
    let text = fs::read_to_string(&file).expect("a file of the kernel");
    let behind =
        text.split_once(word).map(|(_, behind)| behind.split_whitespace().next().unwrap_or_default());
    behind.and_then(|number| number.parse().ok()).unwrap_or(0)
}
