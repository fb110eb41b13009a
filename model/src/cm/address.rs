//! Socket addresses as programs give them, and the GIDs that they mean.

use crate::plain::Plain;
use crate::wire::path::{gid_to_ipv4, ipv4_to_gid};

/// `AF_INET`.
pub const INET: u16 = 2;
/// `AF_INET6`.
pub const INET6: u16 = 10;
/// `AF_IB`.
pub const IB: u16 = 27;

/// A `sockaddr_in`, `sockaddr_in6` or `sockaddr_ib`, or zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Plain)]
#[repr(C)]
pub struct Address {
    raw: [u8; 48],
}

impl Address {
    /// No address.
    pub const NONE: Address = Address { raw: [0; 48] };

    /// The address at the beginning of `bytes`.
    pub fn read(bytes: &[u8]) -> Address {
        let mut address = Address::NONE;
        let family = bytes.first_chunk().map_or(0, |family| u16::from_ne_bytes(*family));
        let len = bytes.len().min(size(family));
        address.raw[..len].copy_from_slice(&bytes[..len]);
        address
    }

    /// A wildcard.
    pub fn any(family: u16) -> Address {
        let mut address = Address::NONE;
        address.raw[..2].copy_from_slice(&family.to_ne_bytes());
        address
    }

    /// The address of a GID, of the family that the GID's form suggests.
    pub fn of_gid(gid: &[u8; 16], port: u16) -> Address {
        let family = if gid_to_ipv4(gid).is_some() { INET } else { INET6 };
        Address::any(family).with_gid(gid).with_port(port)
    }

    /// As the program gave it.
    pub fn bytes(&self) -> &[u8] {
        &self.raw[..size(self.family())]
    }

    /// Its family, or 0.
    pub fn family(&self) -> u16 {
        u16::from_ne_bytes([self.raw[0], self.raw[1]])
    }

    /// The IPv6 form of its address; an IPv4 wildcard is all zero, too.
    pub fn ip(&self) -> [u8; 16] {
        let [_, _, _, _, a, b, c, d, ..] = self.raw;
        match self.family() {
            INET if [a, b, c, d] == [0; 4] => [0; 16],
            INET => ipv4_to_gid([a, b, c, d]),
            _ => *self.raw[8..24].first_chunk().expect("sixteen bytes"),
        }
    }

    /// The same with another address.
    pub fn with_gid(mut self, gid: &[u8; 16]) -> Address {
        match self.family() {
            INET => self.raw[4..8].copy_from_slice(&gid[12..]),
            _ => self.raw[8..24].copy_from_slice(gid),
        }
        self
    }

    /// Whether it stands for every address.
    pub fn is_any(&self) -> bool {
        self.ip() == [0; 16]
    }

    /// Whether it is the machine's own: 127.0.0.0/8, `::1`.
    pub fn is_loopback(&self) -> bool {
        let ip = self.ip();
        gid_to_ipv4(&ip).is_some_and(|[a, ..]| a == 127) || u128::from_be_bytes(ip) == 1
    }

    /// Whether it names a multicast group.
    pub fn is_multicast(&self) -> bool {
        crate::wire::path::multicast_mac(&self.ip()).is_some()
    }

    /// Service ID and its mask, of an IB address.
    pub fn service(&self) -> (u64, u64) {
        let word = |at: usize| u64::from_be_bytes(*self.raw[at..].first_chunk().expect("eight bytes"));
        (word(24), word(32))
    }

    /// `sin6_flowinfo`, or 0.
    pub fn flow_info(&self) -> u32 {
        let [_, _, _, _, a, b, c, d, ..] = self.raw;
        if self.family() == INET6 {
            u32::from_be_bytes([a, b, c, d])
        } else {
            0
        }
    }

    /// Its port, or 0.
    pub fn port(&self) -> u16 {
        let (service, mask) = self.service();
        match self.family() {
            INET | INET6 => u16::from_be_bytes([self.raw[2], self.raw[3]]),
            IB => (service & mask) as u16,
            _ => 0,
        }
    }

    /// The same with another port.
    pub fn with_port(mut self, port: u16) -> Address {
        let (service, mask) = self.service();
        match self.family() {
            INET | INET6 => self.raw[2..4].copy_from_slice(&port.to_be_bytes()),
            IB => {
                let service = service & mask & !0xffff | u64::from(port);
                self.raw[24..32].copy_from_slice(&service.to_be_bytes());
                self.raw[32..40].copy_from_slice(&u64::MAX.to_be_bytes());
            }
            _ => {}
        }
        self
    }
}

/// Bytes of an address of a family; 0: there is none.
pub const fn size(family: u16) -> usize {
    match family {
        INET => 16,
        INET6 => 28,
        IB => 48,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(ip: [u8; 4], port: u16) -> Address {
        Address::of_gid(&ipv4_to_gid(ip), port)
    }

    #[test]
    fn addresses_are_sockaddrs() {
        let address = v4([198, 18, 0, 2], 7174);
        assert_eq!(address.bytes(), [2, 0, 0x1c, 0x06, 198, 18, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Address::read(address.bytes()), address);
        assert_eq!((address.port(), address.is_any(), address.is_loopback()), (7174, false, false));
        assert!(v4([127, 0, 0, 1], 1).is_loopback() && v4([0; 4], 1).is_any());
        assert!(v4([239, 1, 2, 3], 0).is_multicast());
        let v6 = Address::of_gid(&crate::address::gid(crate::packet::PortId::default(), 0), 5);
        assert_eq!((v6.family(), v6.bytes().len(), v6.port()), (INET6, 28, 5));
        assert!(Address::read(&[7, 0, 1]).bytes().is_empty());
    }

    #[test]
    fn ports_of_ib_addresses_are_in_the_service() {
        let mut raw = [0; 48];
        raw[0] = 27;
        raw[24..32].copy_from_slice(&0x0106_0000u64.to_be_bytes());
        raw[32..40].copy_from_slice(&0xffff_ffff_ffff_0000u64.to_be_bytes());
        let address = Address::read(&raw);
        assert_eq!((address.port(), address.is_any()), (0, true));
        assert_eq!(address.with_port(77).service(), (0x0106_004d, u64::MAX));
        assert_eq!(address.with_port(77).port(), 77);
    }
}
