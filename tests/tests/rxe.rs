//! The card beside Linux rxe, the kernel's RoCE in software, in a guest: `tests/guest/run rxe`.
//!
//! Each test boots a guest and does all that it has to in it.

#[path = "rxe/beside.rs"]
mod beside;
#[path = "rxe/fields.rs"]
mod fields;
#[path = "rxe/mads.rs"]
mod mads;
#[path = "rxe/manager.rs"]
mod manager;
#[path = "rxe/nvme.rs"]
mod nvme;
#[path = "rxe/pairs.rs"]
mod pairs;
#[path = "rxe/statuses.rs"]
mod statuses;

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tests::guest::{Link, Rxe};
use tests::stock::compile_c_into;

/// For what takes a second or two.
const SHORT: Duration = Duration::from_secs(60);
/// For what takes ten.
const LONG: Duration = Duration::from_secs(300);

/// The programs of these tests, which run here and in the guest: `tests/c/statuses.c` and `manager.c`.
fn programs() -> &'static [PathBuf] {
    static PROGRAMS: OnceLock<Vec<PathBuf>> = OnceLock::new();
    let compiled = |name| compile_c_into(Path::new(env!("CARGO_TARGET_TMPDIR")), name);
    PROGRAMS.get_or_init(|| ["statuses", "manager"].map(compiled).to_vec())
}

/// Frames that the guest sends arrive in a UNIX datagram each, raw.
#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn rxe_comes_up() {
    let mut rxe = Rxe::boot(programs(), Link::Datagrams);
    let said = rxe.machine().good("ibv_devinfo -v -d rxe0", SHORT);
    let has = |key: &str, value: &str| {
        said.lines().any(|line| line.trim_start().starts_with(key) && line.contains(value))
    };
    assert!(
        has("state:", "PORT_ACTIVE") && has("active_mtu:", "4096") && has("link_layer:", "Ethernet"),
        "{said}"
    );
    for gid in ["::ffff:198.18.0.100", "fd56:42::100"] {
        assert!(has("GID[", gid), "no GID {gid}:\n{said}");
    }
    let here = UnixDatagram::bind(rxe.peer()).expect("a socket where the guest sends to");
    here.set_read_timeout(Some(Duration::from_secs(1))).expect("a limit");
    rxe.machine().run("ping -c 1 -W 1 198.18.0.1", SHORT);
    let until = Instant::now() + SHORT;
    // An ARP request for that address, from the guest.
    let asks =
        |frame: &[u8]| frame[12..22] == [8, 6, 0, 1, 8, 0, 6, 4, 0, 1] && frame[38..42] == [198, 18, 0, 1];
    let mut frame = [0; 4300];
    loop {
        match here.recv(&mut frame) {
            Ok(42..) if asks(&frame) => break,
            _ => assert!(Instant::now() < until, "the guest's question for 198.18.0.1 did not come"),
        }
    }
}
