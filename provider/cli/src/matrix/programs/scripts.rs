//! Programs that take more than a server and a client: shell scripts.

macro_rules! script {
    ($name:literal) => {
        concat!(
            include_str!("../../../matrix/common.sh"),
            include_str!(concat!("../../../matrix/", $name, ".sh"))
        )
    };
}

/// A server is asked until it listens.
pub const QPERF: &str = script!("qperf");
/// A file is copied.
pub const RCOPY: &str = script!("rcopy");
/// A running guest moves from one QEMU to another.
pub const MIGRATION: &str = script!("migration");
/// A server that goes on until it is told to end.
pub const DAPLTEST: &str = script!("dapltest");
/// A disk is served, and tested.
pub const ISER: &str = script!("iser");
/// A monitor and two servers of objects keep an object.
pub const CEPH: &str = script!("ceph");
