//! A port's state and counters, read from its registers.

use fpga_regs::regs::{self, gid, port, FeatureSet, Link};
use fpga_regs::{AdminOpcode, Command, GidType, PortAttrMask, PortContext};

use crate::card::Card;
use crate::device::Device;
use crate::error::{within, Error, Result};

/// A port, from [`Device::query_port`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortInfo {
    /// The link is up.
    pub link_up: bool,
    /// State of port and cable.
    pub link: Link,
    /// Largest path MTU now, in bytes.
    pub mtu_active: u32,
    /// Largest path MTU that the port can do, in bytes.
    pub mtu_max: u32,
    /// Speed in Mb/s.
    pub speed_mbps: u32,
    /// Ethernet address.
    pub mac: [u8; 6],
    /// Counters by name.
    pub counters: Vec<(&'static str, u64)>,
}

impl PortInfo {
    /// The counter of that name, one of the port's registers. A debug build panics if there is none; else it is 0.
    pub fn counter(&self, name: &str) -> u64 {
        let found = self.counters.iter().find(|counter| counter.0 == name);
        debug_assert!(found.is_some(), "no counter {name}");
        found.map_or(0, |counter| counter.1)
    }
}

impl<C: Card> Device<C> {
    /// Checks a port's number, counted from 1.
    pub(crate) fn check_port(&self, number: u8) -> Result<()> {
        let ports = self.limits().ports();
        if number == 0 || u32::from(number) > ports {
            return Err(Error::Invalid(format!("port {number}: the card has ports 1 to {ports}")));
        }
        Ok(())
    }

    /// The state of a port, counted from 1.
    pub fn query_port(&self, number: u8) -> Result<PortInfo> {
        self.check_port(number)?;
        let base = port::base(u32::from(number) - 1);
        let card = self.card();
        let link = Link(card.read32(base + port::LINK));
        let mut counters = Vec::new();
        for counter in port::counters() {
            counters.push((counter.name, card.read64(base + counter.offset)));
        }
        Ok(PortInfo {
            link_up: link.up(),
            link,
            mtu_active: card.read32(base + port::MTU),
            mtu_max: card.read32(base + port::MTU_MAX),
            speed_mbps: card.read32(base + port::SPEED),
            mac: fpga_regs::mac_from_u64(card.read64(base + port::MAC)),
            counters,
        })
    }

    /// What packets of a GID are like: whether they are of RoCE version 1, and the VLAN that they are in.
    pub fn gid_kind(&self, number: u8, index: u32) -> Result<(bool, Option<u16>)> {
        self.check_port(number)?;
        let base = port::gid_entry(u32::from(number) - 1, index);
        let card = self.card();
        let vlan = regs::GidVlan(card.read32(base + gid::GID_VLAN));
        let v1 = regs::GidAttr(card.read32(base + gid::GID_ATTR)).kind() == GidType::ROCE_V1;
        Ok((v1, vlan.present().then_some(vlan.id())))
    }

    /// What a port, counted from 1, does when receives are missing: whether it stops sending whole frames when a receiver asks
    /// for that, and whether it asks senders. Then what comes waits; otherwise it is lost, and counted (`RX_NO_RECV`). All users
    /// of the port are in it; [`PortInfo::link`] says how it is.
    pub fn set_pause(&self, number: u8, stops: bool, asks: bool) -> Result<()> {
        self.need(FeatureSet::PAUSE, "pause that can be set")?;
        let context = PortContext::new().with_rx_pause(stops).with_tx_pause(asks);
        self.set_port(number, PortAttrMask::PAUSE, &context)
    }

    /// Enables a port, counted from 1, or disables it: then neither it nor the port at the other end of its cable has a link. All
    /// users of the port are in it, and it stays so when this one ends.
    pub fn set_enabled(&self, number: u8, enabled: bool) -> Result<()> {
        self.need(FeatureSet::PORT_ENABLE, "ports that can be disabled")?;
        self.set_port(number, PortAttrMask::ENABLED, &PortContext::new().with_enabled(enabled))
    }

    fn set_port(&self, number: u8, mask: PortAttrMask, to: &PortContext) -> Result<()> {
        self.check_port(number)?;
        let command =
            Command::of(AdminOpcode::SET_PORT).with_object(number.into()).with_param0(mask.0.into());
        self.admin().run(command, to.as_bytes()).map(drop)
    }

    /// The GID at an index of a port's table; all zero if the entry is empty.
    pub fn gid(&self, number: u8, index: u32) -> Result<[u8; 16]> {
        self.check_port(number)?;
        let entries = self.limits().gid_table_len().min(gid::GID_ENTRIES);
        within("GID index", index, entries.saturating_sub(1))?;
        let base = port::gid_entry(u32::from(number) - 1, index);
        let card = self.card();
        let mut bytes = [0; 16];
        if regs::GidAttr(card.read32(base + gid::GID_ATTR)).valid() {
            for (word, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                let value = card.read32(base + gid::GID + 4 * word as u32);
                chunk.copy_from_slice(&value.to_le_bytes());
            }
        }
        Ok(bytes)
    }
}
