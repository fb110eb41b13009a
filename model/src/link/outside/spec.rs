//! Which medium a port has, as text: `verbena0/1=udp:10.0.0.1`, `verbena1/2=net`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

use crate::packet::PortId;
use crate::port_name::{self, NoPort};

/// What a port is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MediumSpec {
    /// The other ports of the net.
    Net,
    /// RoCEv2 in UDP, by sockets of this address of the machine.
    Udp(IpAddr),
    /// Ethernet frames in datagrams between two UNIX sockets.
    Dgram {
        /// The port's.
        local: PathBuf,
        /// The peer's.
        remote: PathBuf,
    },
    /// Ethernet frames in a stream to whoever connects to this UNIX socket.
    Stream(PathBuf),
    /// The other end of this network interface.
    Tap(String),
    /// The link of this network interface, beside the kernel.
    Packet(String),
}

/// A port and its medium.
///
/// As text: the [name](port_name) of the port; `=`; the medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    /// The port.
    pub port: PortId,
    /// What it is connected to.
    pub medium: MediumSpec,
}

/// Why a text names no port and medium.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortSpecError {
    /// Not of the form.
    #[error("`{0}`: a port is PORT=MEDIUM, like verbena0/1=udp:10.0.0.1")]
    Form(String),
    /// No such port.
    #[error(transparent)]
    Port(#[from] NoPort),
    /// No such medium.
    #[error("`{0}`: a medium is net, udp:ADDRESS, dgram:LOCAL,REMOTE, stream:PATH, tap:NAME or packet:NAME")]
    Medium(String),
    /// Not an address that a socket can have.
    #[error(
        "`{0}` is not one IPv4 or IPv6 address of this machine, like 10.0.0.1 or fd00::1: no name, brackets or port"
    )]
    Address(String),
    /// An address that others on the same link have, too, and that another link may have.
    #[error(
        "`{0}` is a link-local address, which does not say on which interface it is: use a global or a unique \
         local one, as `ip -6 addr show scope global` lists them"
    )]
    LinkLocal(String),
}

impl FromStr for PortSpec {
    type Err = PortSpecError;

    fn from_str(text: &str) -> Result<PortSpec, PortSpecError> {
        let (port, medium) = text.split_once('=').ok_or_else(|| PortSpecError::Form(text.to_owned()))?;
        let port = port_name::of_net(port)?;
        Ok(PortSpec { port, medium: medium.parse()? })
    }
}

impl fmt::Display for PortSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", port_name::text(self.port), self.medium)
    }
}

impl FromStr for MediumSpec {
    type Err = PortSpecError;

    fn from_str(text: &str) -> Result<MediumSpec, PortSpecError> {
        let wrong = || PortSpecError::Medium(text.to_owned());
        // The keeper has another directory.
        let path = |text: &str| std::path::absolute(text).map_err(|_| wrong());
        match text.split_once(':') {
            None if text == "net" => Ok(MediumSpec::Net),
            Some(("udp", address)) => {
                let wrong = || PortSpecError::Address(address.to_owned());
                // Such an address may come with its interface.
                let (alone, _) = address.split_once('%').unwrap_or((address, ""));
                if alone.parse::<Ipv6Addr>().is_ok_and(|ip| ip.is_unicast_link_local()) {
                    return Err(PortSpecError::LinkLocal(address.to_owned()));
                }
                let address: IpAddr = address.parse().map_err(|_| wrong())?;
                // The GID of a port: one that others can send to.
                let usable = !address.is_unspecified() && !address.is_multicast();
                usable.then_some(MediumSpec::Udp(address)).ok_or_else(wrong)
            }
            Some(("dgram", paths)) => {
                let (local, remote) = paths.split_once(',').ok_or_else(wrong)?;
                Ok(MediumSpec::Dgram { local: path(local)?, remote: path(remote)? })
            }
            Some(("stream", socket)) => Ok(MediumSpec::Stream(path(socket)?)),
            Some(("tap", name)) if !name.is_empty() => Ok(MediumSpec::Tap(name.to_owned())),
            Some(("packet", name)) if !name.is_empty() => Ok(MediumSpec::Packet(name.to_owned())),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for MediumSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MediumSpec::Net => f.write_str("net"),
            MediumSpec::Udp(address) => write!(f, "udp:{address}"),
            MediumSpec::Dgram { local, remote } => {
                write!(f, "dgram:{},{}", local.display(), remote.display())
            }
            MediumSpec::Stream(path) => write!(f, "stream:{}", path.display()),
            MediumSpec::Tap(name) => write!(f, "tap:{name}"),
            MediumSpec::Packet(name) => write!(f, "packet:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_as_text() {
        for text in [
            "verbena0/1=net",
            "verbena0/1=udp:10.0.0.1",
            "verbena15/2=udp:fd00::1",
            "verbena1/1=dgram:/a,/b",
            "verbena0/2=stream:/a/b",
            "verbena0/1=tap:tap0",
            "verbena0/1=packet:eth0",
        ] {
            assert_eq!(text.parse::<PortSpec>().unwrap().to_string(), text);
        }
        for (short, port) in [("3=net", 0), ("3.1=net", 0), ("3.2=net", 1)] {
            assert_eq!(short.parse::<PortSpec>().unwrap().port, PortId { card: 3, port });
        }
    }

    #[test]
    fn what_is_not_a_port() {
        let error = |text: &str| text.parse::<PortSpec>().unwrap_err();
        assert_eq!(error("udp:10.0.0.1"), PortSpecError::Form("udp:10.0.0.1".into()));
        for port in ["16", "0.0", "0.3", "", "x", "0.1.1"] {
            assert_eq!(error(&format!("{port}=net")), PortSpecError::Port(NoPort(port.into())));
        }
        for medium in ["nets", "udp", "tcp:1.2.3.4", "", "dgram:/a", "dgram:,", "stream:", "tap:", "packet:"]
        {
            assert_eq!(error(&format!("0={medium}")), PortSpecError::Medium(medium.into()));
        }
        for address in ["fe80::1", "fe80::1%eth0", "febf::2"] {
            assert_eq!(error(&format!("0=udp:{address}")), PortSpecError::LinkLocal(address.into()));
        }
        for address in ["0.0.0.0", "224.0.0.1", "10.0.0", "::", "10.0.0.1:4791"] {
            assert_eq!(error(&format!("0=udp:{address}")), PortSpecError::Address(address.into()));
        }
    }
}
