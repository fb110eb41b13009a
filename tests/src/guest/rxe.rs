//! A guest with Linux rxe, the kernel's RoCE in software, on a network interface.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Machine, Options};
use crate::stock::free_port;

/// How long bringing up rxe may take on a busy machine.
const BRING_UP: Duration = Duration::from_secs(120);
/// Ethernet addresses of the interfaces: rxe's, and that of the way for TCP.
const MACS: [&str; 2] = ["02:00:00:00:00:64", "02:00:00:00:00:65"];

/// How the frames of rxe's interface travel on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Each in a UNIX datagram.
    Datagrams,
    /// In a UNIX stream, which the guest connects to.
    Stream,
}

/// A guest whose `eth0` has the rxe device `rxe0`. Its `eth1` leads to this machine's loopback, for the TCP of programs
/// that shake hands.
pub struct Rxe {
    machine: Machine,
    dir: tempfile::TempDir,
    tcp: u16,
    link: Link,
}

impl Rxe {
    /// rxe's IPv4 address and the length of its network's prefix.
    pub const IPV4: (&'static str, u8) = ("198.18.0.100", 24);
    /// rxe's IPv6 address and the length of its network's prefix.
    pub const IPV6: (&'static str, u8) = ("fd56:42::100", 64);
    /// Where programs in the guest find this machine's loopback.
    pub const HOST: &'static str = "10.0.2.2";

    /// Boots the guest and brings up rxe; panics if that fails. `program` is there as `guest-card`.
    pub fn boot(program: &Path, link: Link) -> Rxe {
        let dir = tempfile::tempdir().expect("a directory");
        let tcp = free_port();
        let at = |name: &str| dir.path().join(name).display().to_string();
        let mut options = Options::default();
        let (guest, peer) = (at("guest"), at("card"));
        let roce = match link {
            Link::Datagrams => format!(
                "dgram,id=roce,local.type=unix,local.path={guest},remote.type=unix,remote.path={peer}"
            ),
            Link::Stream => {
                format!("stream,id=roce,server=off,addr.type=unix,addr.path={peer},reconnect-ms=200")
            }
        };
        // Both sides of a test have the same port number, since perftest has one option for both.
        let user = format!("user,id=tcp,hostfwd=tcp:127.0.0.1:{tcp}-:{tcp}");
        for (netdev, id, mac, mtu) in [(roce, "roce", MACS[0], ",host_mtu=4200"), (user, "tcp", MACS[1], "")]
        {
            let device = format!("virtio-net-pci,netdev={id},mac={mac}{mtu}");
            options.arguments.extend(["-netdev".into(), netdev, "-device".into(), device]);
        }
        let mut machine = Machine::boot(program.to_str().expect("a plain path"), &options);
        let ((v4, v4_len), (v6, v6_len)) = (Rxe::IPV4, Rxe::IPV6);
        // No duplicate address detection: nobody may be there yet to be asked.
        machine.good(
            &format!(
                "grep -q {} /sys/class/net/eth0/address && \
                 for module in crc32_generic rdma_rxe rdma_ucm; do modprobe $module || exit 1; done; \
                 echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad; \
                 ip addr add {v4}/{v4_len} dev eth0 && ip addr add {v6}/{v6_len} dev eth0 && \
                 ip link set eth0 up && rdma link add rxe0 type rxe netdev eth0 && \
                 ip addr add 10.0.2.15/24 dev eth1 && ip link set eth1 up",
                MACS[0]
            ),
            BRING_UP,
        );
        Rxe { machine, dir, tcp, link }
    }

    /// The UNIX socket that the guest's frames go to.
    pub fn peer(&self) -> PathBuf {
        self.path("card")
    }

    /// The medium of a port that is on the link.
    pub fn medium(&self) -> String {
        match self.link {
            Link::Datagrams => format!("dgram:{},{}", self.peer().display(), self.path("guest").display()),
            Link::Stream => format!("stream:{}", self.peer().display()),
        }
    }

    /// The TCP port that leads to the same port of the guest, on this machine's loopback.
    pub fn tcp(&self) -> u16 {
        self.tcp
    }

    /// The guest.
    pub fn machine(&mut self) -> &mut Machine {
        &mut self.machine
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::join(self.dir.path(), name)
    }
}
