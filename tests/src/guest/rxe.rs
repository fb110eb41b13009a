//! A guest with Linux rxe, the kernel's RoCE in software, on a network interface.

use std::path::PathBuf;
use std::time::Duration;

use super::{Machine, Options};
use crate::stock::free_port;

/// How long bringing up rxe may take on a busy machine.
const BRING_UP: Duration = Duration::from_secs(120);
/// Ethernet address of the way for TCP.
const TCP_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x65];

/// Bytes of a frame that are recorded: more than a management datagram has.
const KEPT: usize = 400;

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
    /// The TCP port that leads to the same port of the guest, on this machine's loopback.
    pub tcp: u16,
    link: Link,
}

impl Rxe {
    /// rxe's IPv4 address and the length of its network's prefix.
    pub const IPV4: (&'static str, u8) = ("198.18.0.100", 24);
    /// rxe's IPv6 address and the length of its network's prefix.
    pub const IPV6: (&'static str, u8) = ("fd56:42::100", 64);
    /// Where programs in the guest find this machine's loopback.
    pub const HOST: &'static str = "10.0.2.2";

    /// rxe's link-local address, which follows from its Ethernet address, with its scope.
    pub const LINK_LOCAL: &'static str = "fe80::ff:fe00:64%eth0";
    /// rxe's Ethernet address.
    pub const MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x64];

    /// Boots the guest and brings up rxe; panics if that fails. All guests of a test process have the same `programs`, each
    /// by its name here.
    pub fn boot(programs: &[PathBuf], link: Link) -> Rxe {
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
        let text = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
        for (netdev, id, mac, mtu) in [(roce, "roce", Rxe::MAC, ",host_mtu=4200"), (user, "tcp", TCP_MAC, "")]
        {
            let mac = text(mac);
            let device = format!("virtio-net-pci,netdev={id},mac={mac}{mtu}");
            options.arguments.extend(["-netdev".into(), netdev, "-device".into(), device]);
        }
        let record = format!("filter-dump,id=record,netdev=roce,file={},maxlen={KEPT}", at("record"));
        options.arguments.extend(["-object".into(), record]);
        let name =
            |path: &'_ PathBuf| path.file_name().expect("a file").to_str().expect("a plain name").to_owned();
        let programs: Vec<_> =
            programs.iter().map(|path| (path.to_str().expect("a plain path"), name(path))).collect();
        let programs: Vec<_> = programs.iter().map(|(here, name)| (*here, name.as_str())).collect();
        let mut machine = Machine::boot(&programs, &options);
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
                text(Rxe::MAC)
            ),
            BRING_UP,
        );
        Rxe { machine, dir, tcp, link }
    }

    /// The UNIX socket that the guest's frames go to.
    pub fn peer(&self) -> PathBuf {
        self.path("card")
    }

    /// The frames of the link so far, both ways, up to 400 bytes of each, as QEMU saw them: a pcap file.
    pub fn record(&self) -> PathBuf {
        self.path("record")
    }

    /// The medium of a port that is on the link.
    pub fn medium(&self) -> String {
        match self.link {
            Link::Datagrams => format!("dgram:{},{}", self.peer().display(), self.path("guest").display()),
            Link::Stream => format!("stream:{}", self.peer().display()),
        }
    }

    /// The guest.
    pub fn machine(&mut self) -> &mut Machine {
        &mut self.machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}
