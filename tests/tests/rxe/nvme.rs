//! NVMe over Fabrics beside Linux: the kernel's host on the target of the examples, and a host from PyPI on the kernel's target.

use std::process::Command;

use super::pairs::Beside;
use super::{LONG, SHORT};
use tests::guest::Link;
use tests::place_for;
use tests::stock::{example, fetched, repository, Program};

const NQN: &str = "nqn.2014-08.org.example:disk";
/// Bytes of the disk that the card serves.
const DISK: u64 = 16 << 20;

fn target(beside: &Beside, disk: &str, own: &str) -> Program {
    let target = example("nvme-target");
    let listen = format!("{own}:4420");
    let arguments = ["--file", disk, "--nqn", NQN, "--listen", &listen];
    let mut target = beside.here_with(target.to_str().expect("a plain path"), &arguments);
    target.expect(" blocks, at ", SHORT);
    target
}

/// What `nvme connect` writes. A lost connection is made again after a second.
fn connect(beside: &mut Beside, to: &str) {
    let options = format!(
        "transport=rdma,traddr={to},trsvcid=4420,nqn={NQN},hostnqn=nqn.2014-08.org.example:host,\
         hostid=12345678-1234-1234-1234-123456789abc,nr_io_queues=2,reconnect_delay=1"
    );
    let line = format!(
        "modprobe nvme-rdma && echo {options} >/dev/nvme-fabrics && \
         for i in $(seq 600); do [ -e /dev/nvme0n1 ] && exit; sleep 0.1; done; dmesg | tail; exit 1"
    );
    beside.rxe.machine().good(&line, LONG);
}

/// The kernel of the guest writes and reads, and goes on when the target was killed in the middle and comes back.
#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn the_kernels_host_on_the_cards_target() {
    let mut beside = Beside::start(Link::Datagrams);
    let (ours, _) = beside.addresses(false);
    let (_directory, path) = place_for("disk");
    std::fs::File::create(&path).and_then(|file| file.set_len(DISK)).expect("a file");
    let disk = path.to_str().expect("UTF-8");
    let mut served = target(&beside, disk, &ours);
    connect(&mut beside, &ours);
    let machine = beside.rxe.machine();
    // Data in capsules, in one segment and in many; what is read comes from the target, not from the page cache.
    let write = "head -c 8388608 /dev/urandom >/tmp/data && dd if=/tmp/data of=/dev/nvme0n1 bs=1M count=4 conv=fsync && \
                 dd if=/tmp/data of=/dev/nvme0n1 bs=4k skip=1024 seek=1024 count=64 oflag=direct";
    machine.good(write, LONG);
    let compare = "echo 3 >/proc/sys/vm/drop_caches; dd if=/dev/nvme0n1 bs=256k count=16 | cmp -n 4194304 - /tmp/data && \
                   dd if=/dev/nvme0n1 bs=4k skip=1024 count=64 iflag=direct | cmp -n 262144 - /tmp/part";
    machine.good("dd if=/tmp/data of=/tmp/part bs=4k skip=1024 count=64", SHORT);
    machine.good(compare, LONG);
    let data = machine.good("head -c 4456448 /tmp/data | sha256sum | cut -c 1-64", SHORT);
    assert_eq!(sha256(disk, 4_456_448), data.trim());
    // Longer than it takes to kill the target.
    let endless = "(i=0; while [ $i -lt 6 ] || [ ! -e /tmp/enough ]; do dd if=/tmp/data of=/dev/nvme0n1 bs=64k conv=fsync || \
                   exit; i=$((i+1)); echo $i >/tmp/rounds; done; echo good >/tmp/written) >/tmp/dd 2>&1 &";
    machine.good(endless, SHORT);
    let round = "for i in $(seq 480); do [ -e /tmp/rounds ] && exit; sleep 0.5; done; cat /tmp/dd; exit 1";
    machine.good(round, LONG);
    served.signal(libc::SIGKILL);
    served.wait(SHORT);
    served = target(&beside, disk, &ours);
    served.expect("controller 1: queue 2 connected", LONG);
    let rest = "touch /tmp/enough; for i in $(seq 480); do [ -e /tmp/written ] && break; sleep 0.5; done; \
                cat /tmp/dd; dmesg | tail; cat /tmp/written";
    beside.rxe.machine().good(rest, LONG);
    let data = beside.rxe.machine().good("sha256sum /tmp/data | cut -c 1-64", SHORT);
    assert_eq!(sha256(disk, 8 << 20), data.trim());
    beside.rxe.machine().good("echo 1 >/sys/class/nvme/nvme0/delete_controller", LONG);
    served.expect("controller 1 is gone: disconnected", SHORT);
}

/// Of a file's first bytes.
fn sha256(path: &str, bytes: u64) -> String {
    let line = format!("head -c {bytes} {path} | sha256sum | cut -c 1-64");
    let output = Command::new("sh").args(["-c", &line]).output().expect("sha256sum runs");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The target of the guest's kernel serves a file there.
#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn a_host_on_the_kernels_target() {
    let mut beside = Beside::start(Link::Datagrams);
    let (_, theirs) = beside.addresses(false);
    let serve = format!(
        "modprobe nvmet-rdma && mount -t configfs none /sys/kernel/config && truncate -s 8M /tmp/disk && \
         cd /sys/kernel/config/nvmet && mkdir subsystems/{NQN} && echo 1 >subsystems/{NQN}/attr_allow_any_host && \
         mkdir subsystems/{NQN}/namespaces/1 && cd subsystems/{NQN}/namespaces/1 && echo -n /tmp/disk >device_path && \
         echo 1 >buffered_io && echo 1 >enable && cd ../../../../ports && mkdir 1 && cd 1 && echo rdma >addr_trtype && \
         echo ipv4 >addr_adrfam && echo {theirs} >addr_traddr && echo 4420 >addr_trsvcid && \
         ln -s /sys/kernel/config/nvmet/subsystems/{NQN} subsystems/"
    );
    beside.rxe.machine().good(&serve, LONG);
    let python = fetched("nvmeof/setup");
    let script = repository().join("tests/python/nvme.py");
    let arguments = [script.to_str().expect("UTF-8"), "brief", theirs, NQN];
    let ended = beside.here_with(python.to_str().expect("a plain path"), &arguments).wait(LONG);
    assert!(ended.good() && ended.said.contains("Linux"), "{}: {}", ended.how(), ended.said);
    let there = beside.rxe.machine().good("sync; sha256sum /tmp/disk | cut -c 1-64", SHORT);
    assert!(ended.said.contains(&format!("SHA-256: {}", there.trim())), "{}\nthe file: {there}", ended.said);
}
