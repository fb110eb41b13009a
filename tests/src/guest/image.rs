//! The files of the guest, packed as an initramfs.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Kit;

/// Modules by file name, with what they need.
#[rustfmt::skip]
const MODULES: &[&str] = &[
    "irqbypass", "vfio", "vfio_iommu_type1", "vfio-pci-core", "vfio-pci",
    "overlay", "failover", "net_failover", "virtio_net",
    // rxe, its verbs and its connection manager.
    "ib_core", "ib_uverbs", "udp_tunnel", "ip6_udp_tunnel", "crc32_generic", "rdma_rxe",
    "configfs", "ib_cm", "iw_cm", "rdma_cm", "rdma_ucm",
    // Bonding and VLANs; the interfaces of a net's ports.
    "tls", "bonding", "llc", "stp", "garp", "mrp", "8021q", "veth",
    // NVMe over RDMA, host and target.
    "nvme-keyring", "nvme-auth", "nvme-core", "nvme-fabrics", "nvme-rdma", "nvmet", "nvmet-rdma",
];

/// Programs of this machine that the guest has too, from Debian's packages.
#[rustfmt::skip]
const PROGRAMS: &[&str] = &[
    "ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw",
    "ib_write_lat", "ib_read_lat", "ib_send_lat", "ib_atomic_lat",
    "ibv_devices", "ibv_devinfo",
    "ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong",
    "rping", "ucmatose", "udaddy", "rdma",
];

/// What libibverbs uses rxe by, from Debian's ibverbs-providers.
const RXE: [&str; 2] =
    ["/etc/libibverbs.d/rxe.driver", "/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so"];

/// Packs a tree with `own` programs (path here, name there), into a file without a name: it goes with the process.
pub fn pack(kit: &Kit, own: &[(PathBuf, &str)]) -> File {
    let dir = tempfile::tempdir().expect("a directory");
    let tree = dir.path().join("tree");
    let busybox = tree.join("bin/busybox");
    put(&kit.busybox(), &busybox);
    put(&crate::stock::repository().join("tests/guest/init"), &tree.join("init"));
    modules(kit, &tree);
    // What the launcher shows the cards with.
    for empty in ["etc/libibverbs.d", "tmp", "proc", "sys", "dev", "run"] {
        fs::create_dir_all(tree.join(empty)).expect("a directory");
    }
    fs::write(tree.join("etc/hosts"), "127.0.0.1 localhost\n").expect("etc/hosts");
    symlink("../bin/busybox", {
        fs::create_dir_all(tree.join("sbin")).expect("a directory");
        tree.join("sbin/modprobe")
    })
    .expect("a link");
    let mut libraries = BTreeSet::new();
    for program in PROGRAMS {
        crate::stock::need(program);
        let path = Path::new("/usr/bin").join(program);
        libraries.extend(needs(&path));
        put(&path, &tree.join(format!("usr/bin/{program}")));
    }
    for file in RXE {
        put(Path::new(file), &tree.join(file.trim_start_matches('/')));
    }
    for (here, there) in own {
        libraries.extend(needs(here));
        put(here, &tree.join("usr/bin").join(there));
    }
    for library in libraries {
        put(&library, &tree.join(library.strip_prefix("/").expect("ldd gives absolute paths")));
    }
    let image = tempfile::tempfile().expect("a file");
    let find = Command::new("find").arg(".").current_dir(&tree).stdout(Stdio::piped()).spawn();
    let find = find.expect("find runs").stdout.expect("its output");
    let packed = Command::new(kit.busybox())
        .args(["cpio", "-o", "-H", "newc"])
        .current_dir(&tree)
        .stdin(find)
        .stdout(image.try_clone().expect("the image"))
        .output()
        .expect("busybox runs");
    assert!(packed.status.success(), "cpio: {}", String::from_utf8_lossy(&packed.stderr));
    image
}

fn put(from: &Path, to: &Path) {
    fs::create_dir_all(to.parent().expect("a file in a directory")).expect("a directory");
    fs::copy(from, to)
        .unwrap_or_else(|error| panic!("copying {} to {}: {error}", from.display(), to.display()));
}

/// The libraries of a program and its loader, as the loader finds them.
fn needs(program: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output().expect("ldd runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && !said.contains("not found"),
        "ldd {}: {said}{}",
        program.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    let paths = said.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    paths.map(PathBuf::from).collect()
}

fn modules(kit: &Kit, tree: &Path) {
    let place = tree.join("lib/modules").join(&kit.release);
    fs::create_dir_all(&place).expect("a directory");
    let found =
        Command::new("find").arg(kit.modules()).args(["-name", "*.ko.xz"]).output().expect("find runs");
    for line in String::from_utf8_lossy(&found.stdout).lines() {
        let name = Path::new(line).file_name().expect("a file").to_string_lossy().into_owned();
        let name = name.trim_end_matches(".ko.xz");
        if MODULES.contains(&name) {
            let unpacked = Command::new(kit.busybox()).args(["xz", "-dc"]).arg(line).output();
            let unpacked = unpacked.expect("busybox runs");
            assert!(unpacked.status.success(), "{line} cannot be unpacked");
            fs::write(place.join(format!("{name}.ko")), unpacked.stdout).expect("a module");
        }
    }
    let listed = Command::new(kit.busybox())
        .args(["depmod", "-b"])
        .arg(tree)
        .arg(&kit.release)
        .output()
        .expect("busybox runs");
    assert!(listed.status.success(), "depmod: {}", String::from_utf8_lossy(&listed.stderr));
}
