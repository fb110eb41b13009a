//! What can be asked of the GID tables of a net: addresses, also in VLANs, and RoCE version 1.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use crate::address::{fixed_owner, gid_of, Gid};
use crate::gids::{GidEntry, GID_TABLE_LEN};
use crate::link::{MediumSpec, PortSpec};
use crate::packet::{PortId, MAX_CARDS};
use crate::port_name::{self, NoPort};

/// An address that a port has beside its own.
///
/// As text: the [name](port_name) of the port; `=`; the address; `,vlan=` and the number of the VLAN, if it is in
/// one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GidSpec {
    /// The port.
    pub port: PortId,
    /// Its address.
    pub address: IpAddr,
    /// Its VLAN; 0: it is in none.
    pub vlan: u16,
}

/// Why a text names no port and address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GidSpecError {
    /// Not of the form.
    #[error("`{0}`: a GID is PORT=ADDRESS, like verbena0/1=10.0.0.1 or verbena1/2=fd00::1,vlan=107")]
    Form(String),
    /// No such port.
    #[error(transparent)]
    Port(#[from] NoPort),
    /// Not an address that a port can have.
    #[error("`{0}` is not one IPv4 or IPv6 address of a host")]
    Address(String),
    /// Not a VLAN.
    #[error("`{0}`: VLANs are vlan=1 to vlan=4094")]
    Vlan(String),
}

impl FromStr for GidSpec {
    type Err = GidSpecError;

    fn from_str(text: &str) -> Result<GidSpec, GidSpecError> {
        let (port, rest) = text.split_once('=').ok_or_else(|| GidSpecError::Form(text.to_owned()))?;
        let port = port_name::of_net(port)?;
        let (address, vlan) =
            rest.split_once(',').map_or((rest, None), |(address, vlan)| (address, Some(vlan)));
        let wrong = || GidSpecError::Address(address.to_owned());
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        if address.is_unspecified() || address.is_multicast() {
            return Err(wrong());
        }
        let number = |text: &str| {
            let number = text.strip_prefix("vlan=").and_then(|number| number.parse().ok());
            number.filter(|vlan| (1..4095).contains(vlan)).ok_or_else(|| GidSpecError::Vlan(text.to_owned()))
        };
        Ok(GidSpec { port, address, vlan: vlan.map(number).transpose()?.unwrap_or(0) })
    }
}

impl fmt::Display for GidSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", port_name::text(self.port), self.address)?;
        match self.vlan {
            0 => Ok(()),
            vlan => write!(f, ",vlan={vlan}"),
        }
    }
}

impl GidSpec {
    /// The entry that it makes.
    pub fn entry(&self) -> GidEntry {
        GidEntry { vlan: self.vlan, ..GidEntry::new(gid_of(self.address)) }
    }
}

/// What the ports' GID tables have beside the entries of the ports' own addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GidOptions {
    /// Further addresses.
    pub more: Vec<GidSpec>,
    /// Every address has an entry of RoCE version 1, too.
    pub roce_v1: bool,
}

/// Why a port cannot have what is asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GidOptionsError {
    /// Its medium carries RoCEv2 with the machine's own address, and nothing else.
    #[error(
        "--gid {0}: port {1} is a UDP socket of this machine, which has one address, without a VLAN; use another medium, such \
         as tap: or packet:"
    )]
    Udp(GidSpec, PortSpec),
    /// The same of RoCE version 1.
    #[error(
        "--roce-v1: port {0} is a UDP socket of this machine, which carries RoCE version 2 only; use another medium, such as \
         tap: or packet:"
    )]
    UdpV1(PortSpec),
    /// A GID belongs to one port, once.
    #[error("--gid {0}: {1} has it already")]
    Taken(GidSpec, String),
    /// There are too many.
    #[error("--gid {0}: a port's table has room for {GID_TABLE_LEN} GIDs, its own two and those of RoCE version 1 among them")]
    Full(GidSpec),
}

impl GidOptions {
    /// Whether ports with these media can have this.
    pub fn check(&self, ports: &[PortSpec]) -> Result<(), GidOptionsError> {
        let udp = |spec: &&PortSpec| matches!(spec.medium, MediumSpec::Udp(_));
        if let Some(spec) = ports.iter().find(udp).filter(|_| self.roce_v1) {
            return Err(GidOptionsError::UdpV1(spec.clone()));
        }
        for (nth, more) in self.more.iter().enumerate() {
            let by_udp = ports.iter().filter_map(|spec| match spec.medium {
                MediumSpec::Udp(address) => Some((spec.port, GidEntry::new(gid_of(address)))),
                _ => None,
            });
            let gid = gid_of(more.address);
            // A port that leads outside has other addresses.
            let inside = |port: &PortId| {
                usize::from(port.card) < MAX_CARDS && ports.iter().all(|spec| spec.port != *port)
            };
            let by_itself = fixed_owner(&gid).filter(inside).map(|port| (port, GidEntry::new(gid)));
            let before = self.more[..nth].iter().map(|spec| (spec.port, spec.entry()));
            let mut before = before.chain(by_udp).chain(by_itself);
            let same = |(_, entry): &(PortId, GidEntry)| (entry.gid, entry.vlan) == (gid, more.vlan);
            if let Some((port, _)) = before.find(same) {
                return Err(GidOptionsError::Taken(more.clone(), port_name::text(port)));
            }
            if let Some(spec) = ports.iter().filter(udp).find(|spec| spec.port == more.port) {
                return Err(GidOptionsError::Udp(more.clone(), spec.clone()));
            }
            let entries = 2 + self.of(more.port).count();
            if entries * (1 + usize::from(self.roce_v1)) > GID_TABLE_LEN {
                return Err(GidOptionsError::Full(more.clone()));
            }
        }
        Ok(())
    }

    /// The further addresses of a port.
    pub fn of(&self, port: PortId) -> impl Iterator<Item = GidEntry> + '_ {
        self.more.iter().filter(move |spec| spec.port == port).map(GidSpec::entry)
    }

    /// The GID table of a port with these addresses of its own, in the order in which its card fills it.
    pub fn table(&self, port: PortId, own: &[Gid]) -> [GidEntry; GID_TABLE_LEN] {
        let all = self.complete(own.iter().map(|gid| (port, GidEntry::new(*gid))).collect());
        let mut all = all.into_iter().filter(|(of, _)| *of == port).map(|(_, entry)| entry);
        std::array::from_fn(|_| all.next().unwrap_or_default())
    }

    /// The entries of ports with these addresses of their own.
    pub fn complete(&self, mut entries: Vec<(PortId, GidEntry)>) -> Vec<(PortId, GidEntry)> {
        entries.extend(self.more.iter().map(|spec| (spec.port, spec.entry())));
        if self.roce_v1 {
            let second = entries.clone();
            entries.extend(
                second.into_iter().map(|(port, entry)| (port, GidEntry { v1: true.into(), ..entry })),
            );
        }
        entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> GidSpec {
        text.parse().unwrap()
    }

    #[test]
    fn gids_as_text() {
        for text in ["verbena0/1=10.0.0.1", "verbena1/2=10.0.0.1,vlan=107", "verbena15/1=fd00::1,vlan=4094"] {
            assert_eq!(spec(text).to_string(), text);
        }
        assert_eq!(spec("1.2=10.0.0.1").to_string(), "verbena1/2=10.0.0.1");
        assert_eq!(spec("0=10.0.0.1,vlan=5").entry().vlan, 5);
        let error = |text: &str| text.parse::<GidSpec>().unwrap_err();
        assert_eq!(error("10.0.0.1"), GidSpecError::Form("10.0.0.1".into()));
        assert_eq!(error("16=10.0.0.1"), GidSpecError::Port(NoPort("16".into())));
        for address in ["", "10.0.0", "0.0.0.0", "224.0.0.1", "ff02::1"] {
            assert_eq!(error(&format!("0={address}")), GidSpecError::Address(address.into()));
        }
        for vlan in ["vlan=0", "vlan=4095", "vlan=x", "107", ""] {
            assert_eq!(error(&format!("0=10.0.0.1,{vlan}")), GidSpecError::Vlan(vlan.into()));
        }
    }

    #[test]
    fn what_a_port_cannot_have() {
        let options = |more: &[&str], roce_v1| GidOptions {
            more: more.iter().map(|text| spec(text)).collect(),
            roce_v1,
        };
        let udp: PortSpec = "0=udp:10.0.0.1".parse().unwrap();
        let ports = [udp.clone(), "1=tap:tap0".parse().unwrap()];
        assert_eq!(options(&["1=10.0.0.2"], false).check(&ports), Ok(()));
        let error = options(&["0=10.0.0.2"], false).check(&ports).unwrap_err();
        assert_eq!(error, GidOptionsError::Udp(spec("0=10.0.0.2"), udp.clone()));
        assert_eq!(options(&[], true).check(&ports), Err(GidOptionsError::UdpV1(udp)));
        let many: Vec<_> = (1..=14).map(|n| format!("0=10.0.0.{n}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert_eq!(options(&many, false).check(&[]), Ok(()));
        assert!(options(&many, true).check(&[]).is_err());
        assert_eq!(options(&many[..6], true).check(&[]), Ok(()));
        for (more, port) in [
            ("1=10.0.0.1", "verbena0/2"),
            ("1=::ffff:10.0.0.1", "verbena0/2"),
            ("0.2=10.0.0.1", "verbena0/2"),
            ("1=10.0.0.3", "verbena0/1"),
            ("0.2=198.18.0.2", "verbena1/1"),
        ] {
            let ports = ["0=udp:10.0.0.3".parse().unwrap()];
            let gids = options(&["0.2=10.0.0.1", "0.2=10.0.0.1,vlan=7", more], false);
            let error = gids.check(&ports).unwrap_err();
            assert_eq!(error, GidOptionsError::Taken(spec(more), port.to_owned()));
        }
    }

    #[test]
    fn a_port_that_leads_outside_has_left_its_own_address() {
        let own = GidOptions { more: vec![spec("1=198.18.0.1")], roce_v1: false };
        assert!(own.check(&[]).is_err());
        assert_eq!(own.check(&["0=tap:tap0".parse().unwrap()]), Ok(()));
    }

    #[test]
    fn version_1_comes_last() {
        let port = PortId { card: 0, port: 0 };
        let own = GidEntry::new([1; 16]);
        let options = GidOptions { more: vec![spec("0=10.0.0.1,vlan=7")], roce_v1: true };
        let entries = options.complete(vec![(port, own)]);
        let seen: Vec<_> = entries.iter().map(|(_, entry)| (entry.vlan, entry.v1.get())).collect();
        assert_eq!(seen, [(0, false), (7, false), (0, true), (7, true)]);
    }
}
