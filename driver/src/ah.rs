//! Address handles: the path to a peer, with its Ethernet address already resolved.

use fpga_regs::{AdminOpcode, AdminStatus, Command, WqeAddress};

use crate::card::Card;
use crate::device::Device;
use crate::error::{refuse_if, Error, Result};

/// The path to a peer, as in `struct ibv_ah_attr`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AhAttr {
    /// A GRH is sent; RoCE always needs one.
    pub grh: bool,
    /// The peer's GID, or a multicast GID.
    pub dgid: [u8; 16],
    /// Index of the own GID.
    pub sgid_index: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Service level, 0 to 7.
    pub sl: u8,
    /// Port, from 1.
    pub port: u8,
    /// Static rate; 0 is the port's speed.
    pub static_rate: u8,
}

/// An address handle for UD sends.
#[derive(Debug, Clone)]
pub struct Ah {
    /// The address segment, without the QPN and the Q_Key.
    pub(crate) address: WqeAddress,
}

impl Ah {
    /// Resolves the Ethernet address and prepares the address segment.
    pub(crate) fn new<C: Card>(dev: &Device<C>, attr: &AhAttr) -> Result<Ah> {
        check(dev, attr)?;
        let dmac = resolve(dev, attr)?;
        let address = WqeAddress::new()
            .with_dgid(attr.dgid)
            .with_dmac(dmac)
            .with_sgid_index(attr.sgid_index)
            .with_port(attr.port)
            .with_flow_label(attr.flow_label)
            .with_traffic_class(attr.traffic_class)
            .with_hop_limit(attr.hop_limit)
            .with_udp_sport(udp_sport(attr.flow_label))
            .with_static_rate(attr.static_rate)
            .with_sl(attr.sl);
        Ok(Ah { address })
    }
}

/// Checks an address vector against the card.
pub(crate) fn check<C: Card>(dev: &Device<C>, attr: &AhAttr) -> Result<()> {
    refuse_if(!attr.grh, "RoCE needs a GRH: set is_global and the GRH's fields")?;
    if dev.gid(attr.port, attr.sgid_index.into())? == [0; 16] {
        return Err(Error::NoGid { port: attr.port, index: attr.sgid_index });
    }
    if attr.flow_label >= 1 << 20 {
        return Err(Error::invalid(format!("flow label {:#x} has more than 20 bits", attr.flow_label)));
    }
    if attr.sl > 7 {
        return Err(Error::invalid(format!("service level {}: RoCE has 0 to 7", attr.sl)));
    }
    refuse_if(attr.dgid == [0; 16], "the destination GID is all zero")?;
    Ok(())
}

/// The Ethernet address of a destination: computed for multicast, else resolved by the card.
pub(crate) fn resolve<C: Card>(dev: &Device<C>, attr: &AhAttr) -> Result<[u8; 6]> {
    if let Some(mac) = multicast_mac(&attr.dgid) {
        return Ok(mac);
    }
    let command = Command::of(AdminOpcode::RESOLVE)
        .with_object(attr.port.into())
        .with_gid(attr.dgid)
        .with_param2(attr.sgid_index.into());
    match dev.admin().run(command, &[]) {
        Ok(reply) => Ok(reply.mac()),
        Err(Error::Refused { status: AdminStatus::NOT_FOUND, .. }) => {
            Err(Error::Unreachable { gid: attr.dgid })
        }
        Err(error) => Err(error),
    }
}

/// The Ethernet group address of a multicast GID; `None` for a unicast one.
pub fn multicast_mac(gid: &[u8; 16]) -> Option<[u8; 6]> {
    let low = [gid[12], gid[13], gid[14], gid[15]];
    let mapped = gid[10] == 0xff && gid[11] == 0xff;
    let ipv4 = mapped && (gid[..10] == [0; 10] || gid[..10] == [0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0]);
    if ipv4 && low[0] >> 4 == 0xe {
        return Some([0x01, 0x00, 0x5e, low[1] & 0x7f, low[2], low[3]]);
    }
    (gid[0] == 0xff).then_some([0x33, 0x33, low[0], low[1], low[2], low[3]])
}

/// The UDP source port for a flow label, as Linux computes it; 0 lets the card choose.
pub(crate) fn udp_sport(flow_label: u32) -> u16 {
    if flow_label == 0 {
        return 0;
    }
    let low = flow_label & 0x3fff;
    let high = (flow_label & 0xfc000) >> 14;
    0xc000 | (low ^ high) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multicast_addresses() {
        let mut gid = [0; 16];
        gid[0] = 0xff;
        gid[1] = 0x0e;
        gid[12..].copy_from_slice(&[0xe0, 1, 2, 3]);
        assert_eq!(multicast_mac(&gid), Some([0x33, 0x33, 0xe0, 1, 2, 3]));
        gid[10..12].copy_from_slice(&[0xff, 0xff]);
        gid[13] = 0x81;
        assert_eq!(multicast_mac(&gid), Some([0x01, 0, 0x5e, 1, 2, 3]));
        let mut unicast = [0; 16];
        unicast[10..].copy_from_slice(&[0xff, 0xff, 198, 18, 0, 1]);
        assert_eq!(multicast_mac(&unicast), None);
    }

    #[test]
    fn source_ports_are_dynamic_ones() {
        assert_eq!(udp_sport(0), 0);
        assert_eq!(udp_sport(1), 0xc001);
        assert_eq!(udp_sport(0xfffff), 0xc000 | (0x3fff ^ 0x3f));
    }
}
