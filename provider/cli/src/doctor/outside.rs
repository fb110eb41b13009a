//! Checks of ports that lead to other machines by UDP: the address, the sockets, the way to a peer.

use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};

use model::link::outside::{ask, interface_of, mtu_of, path_mtu, Answer};
use model::link::{MediumSpec, PortSpec};
use model::wire::udp::ROCE_PORT;
use rustix::net::sockopt;

use super::finding::Finding;

const ADDRESS: &str = "udp address";
const MTU: &str = "udp MTU";
const BUFFER: &str = "udp buffer";
const PEER: &str = "udp peer";

/// Bytes of an IP packet with a payload of 4096.
const FULL: u32 = 4200;
/// Room for received packets (bytes) that a port asks for, and from which on their loss is unlikely.
const WANTED: usize = 32 << 20;
const ENOUGH: usize = 4 << 20;
/// What programs ask for that do not look, such as `ibv_rc_pingpong`.
const COMMON: u32 = 1024;

/// All checks of this file, of these ports and of their ways to these machines.
pub fn checks(ports: &[PortSpec], peers: &[IpAddr]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for spec in ports {
        let MediumSpec::Udp(address) = spec.medium else {
            let remedy = "only ports of the medium udp: are checked here";
            findings.push(Finding::warn(ADDRESS, format!("{spec} is not checked"), remedy));
            continue;
        };
        let (finding, free) = bindable(address);
        findings.push(finding);
        // Without an address nothing else is worth a look.
        let Some(free) = free else { continue };
        findings.extend([interface(address), buffer()]);
        findings.extend(peers.iter().map(|&to| peer(address, to, free)));
    }
    findings
}

/// Whether the port's socket can be had, and whether it is free; `None` without such an address.
fn bindable(address: IpAddr) -> (Finding, Option<bool>) {
    match UdpSocket::bind((address, ROCE_PORT)) {
        Ok(_) => {
            let interface =
                interface_of(address).ok().flatten().map_or("this machine".to_owned(), |it| it.name);
            let found = format!("{address} ({interface}): UDP port {ROCE_PORT} is free");
            (Finding::ok(ADDRESS, found), Some(true))
        }
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let found = format!("{address}: UDP port {ROCE_PORT} is in use");
            let remedy =
                "by a net that is up (`nets` above), by a program of a net whose keeper was killed (`ss -ulpn` lists \
                          programs), or by the kernel's rdma_rxe (`rdma link` lists its devices, `rdma link del` ends one): end \
                          it, or use another address";
            (Finding::warn(ADDRESS, found, remedy), Some(false))
        }
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
            let remedy = "`ip addr` lists them; one of IPv6 that is `tentative` will be in two seconds. The address by which others see a machine behind NAT is not its own: both \
                          machines need addresses that reach each other without NAT, in one network or by a VPN";
            (Finding::fail(ADDRESS, format!("{address} is no address of this machine"), remedy), None)
        }
        Err(error) => (Finding::fail(ADDRESS, format!("{address}: {error}"), "use another address"), None),
    }
}

/// What the interface has room for.
fn interface(address: IpAddr) -> Finding {
    let interface = interface_of(address).ok().flatten();
    let Some((name, bytes)) = interface.and_then(|it| mtu_of(&it.name).ok().map(|bytes| (it.name, bytes)))
    else {
        let found = format!("no interface has {address}: packets of the path MTU {}", path_mtu(1500));
        return Finding::warn(MTU, found, "`verbena run --mtu` sets another");
    };
    let mtu = path_mtu(bytes);
    let found = format!("{name} has MTU {bytes}: packets of the path MTU {mtu}");
    if mtu < COMMON {
        let remedy = format!(
            "programs that want {COMMON}, as ibv_rc_pingpong does, need an option (-m {mtu}), or \
             `ip link set {name} mtu 1500` where the network allows it"
        );
        return Finding::warn(MTU, found, remedy);
    }
    let more = match mtu {
        4096 => String::new(),
        _ => format!(
            "; 4096 from `ip link set {name} mtu {FULL}` on, if all that is between the machines has it"
        ),
    };
    Finding::ok(MTU, found + &more)
}

/// Room for what comes while nobody reads.
fn buffer() -> Finding {
    match room() {
        Ok(bytes) if bytes < ENOUGH => Finding::warn(
            BUFFER,
            format!(
                "sockets get room for {} KiB: large transfers lose packets, and wait for time-outs",
                bytes >> 10
            ),
            format!("sysctl net.core.rmem_max={WANTED}"),
        ),
        Ok(bytes) => Finding::ok(BUFFER, format!("sockets get room for {} MiB", bytes >> 20)),
        Err(error) => Finding::warn(BUFFER, format!("{error}"), "as for `udp address`"),
    }
}

/// Bytes that a socket has room for, as the kernel gives it; what it says is twice that, for its own needs.
fn room() -> std::io::Result<usize> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    if sockopt::set_socket_recv_buffer_size_force(&socket, WANTED).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, WANTED)?;
    }
    Ok(sockopt::socket_recv_buffer_size(&socket)? / 2)
}

/// The way to another machine, and whether its port answers.
fn peer(from: IpAddr, to: IpAddr, free: bool) -> Finding {
    if from.is_ipv4() != to.is_ipv4() {
        let remedy = "give both machines addresses of one kind";
        return Finding::fail(PEER, format!("{from} and {to} are of different IP versions"), remedy);
    }
    let bytes = match route_mtu(from, to) {
        Ok(bytes) => bytes,
        Err(error) => {
            let remedy = format!("`ip route get {to} from {from}` has to name an interface");
            return Finding::fail(PEER, format!("no way from {from} to {to}: {error}"), remedy);
        }
    };
    let mtu = path_mtu(bytes);
    let own = interface_of(from).ok().flatten().and_then(|it| mtu_of(&it.name).ok()).map_or(mtu, path_mtu);
    if mtu < own {
        return Finding::warn(
            PEER,
            format!("the way to {to} has MTU {bytes}, less than the interface: packets of the path MTU {own} are lost"),
            format!("--mtu {mtu} on both machines"),
        );
    }
    if !free {
        let remedy = "end the net of this machine, and start that of the other";
        return Finding::warn(
            PEER,
            format!("{to} is not asked: UDP port {ROCE_PORT} is in use here"),
            remedy,
        );
    }
    match ask(from, to) {
        Ok(Answer::Right) => Finding::ok(PEER, format!("{to} answers, by UDP port {ROCE_PORT} both ways; path MTU {mtu}")),
        Ok(Answer::Nobody) => Finding::fail(
            PEER,
            format!("{to} says that nobody has its UDP port {ROCE_PORT}"),
            format!(
                "start a program there with `verbena run --port verbena0/1=udp:{to}`; if one runs, a firewall \
                 refuses the port ({FIREWALL})"
            ),
        ),
        Ok(Answer::Changed) => Finding::fail(
            PEER,
            format!("packets from {to} are changed on their way: their ICRC is wrong"),
            "RoCEv2's check covers addresses and ports, so NAT, load balancers and proxies break it: use addresses that \
             reach each other without, or a VPN",
        ),
        Ok(Answer::Silence) => Finding::fail(
            PEER,
            format!("no answer from {to}"),
            format!(
                "look at, in this order: `ping {to}`; a program there with `verbena run --port verbena0/1=udp:{to}`; the \
                 firewalls of both machines, which have to let UDP port {ROCE_PORT} in ({FIREWALL}); NAT between them, which does \
                 not work"
            ),
        ),
        Err(error) if error.kind() == ErrorKind::HostUnreachable => Finding::fail(
            PEER,
            format!("{to} is not there, or it or a router on the way refuses: {error}"),
            format!("`ping {to}`; if that answers, a firewall there refuses UDP port {ROCE_PORT} ({FIREWALL})"),
        ),
        Err(error) => Finding::fail(
            PEER,
            format!("asking {to}: {error}"),
            format!(
                "`Operation not permitted` is a firewall of this machine, `Permission denied` one there or on the way \
                 ({FIREWALL})"
            ),
        ),
    }
}

/// Lines that open the port in usual firewalls.
const FIREWALL: &str = "`ufw allow 4791/udp`, `firewall-cmd --add-port=4791/udp`, or \
     `nft insert rule inet filter input udp dport 4791 accept`; in a cloud the security group";

/// Bytes of the longest packet that the route to an address takes, as far as the kernel knows.
fn route_mtu(from: IpAddr, to: IpAddr) -> std::io::Result<u32> {
    let socket = UdpSocket::bind((from, 0))?;
    socket.connect((to, ROCE_PORT))?;
    Ok(match to {
        IpAddr::V4(_) => sockopt::ip_mtu(&socket)?,
        IpAddr::V6(_) => sockopt::ipv6_mtu(&socket)?,
    })
}
