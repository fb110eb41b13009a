//! Cards that are there already, named by `--device`: what the launcher has to show of them.

use anyhow::{Context, Result};
use driver::backend::vfio::Vfio;
use driver::Device;
use model::gids::GidEntry;

/// A card in a slot, and what libibverbs reads of it before it is opened.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SlotCard {
    /// As it was named: `vfio:` and a PCI address.
    pub name: String,
    pub guid: [u8; 8],
    pub firmware: u64,
    pub ports: Vec<SlotPort>,
}

/// A port of a card in a slot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SlotPort {
    pub gids: Vec<GidEntry>,
    /// The network interface that has them, if the program sees it.
    pub interface: Option<String>,
    /// Traffic flows.
    pub up: bool,
    /// Speed in Mb/s.
    pub mbps: u32,
}

/// Checks the form of a `--device`.
pub fn parse(text: &str) -> std::result::Result<String, String> {
    match text.strip_prefix("vfio:") {
        Some(address) if !address.is_empty() => Ok(text.to_owned()),
        _ => Err("write vfio: and a PCI address, as in vfio:0000:01:00.0 (see verbena list)".into()),
    }
}

/// Opens a card, brings it up, and reads what there is to show.
pub fn look(name: &str) -> Result<SlotCard> {
    let address = name.strip_prefix("vfio:").unwrap_or(name);
    let read = || -> driver::Result<SlotCard> {
        let device = Device::open(Vfio::open(address)?)?;
        let limits = device.limits();
        let mut ports = Vec::new();
        for port in 1..=limits.ports() as u8 {
            let table = (0..limits.gid_table_len()).map(|index| {
                let (v1, vlan) = device.gid_kind(port, index)?;
                let gid = device.gid(port, index)?;
                Ok(GidEntry { gid, vlan: vlan.unwrap_or(0), v1: v1.into() })
            });
            let gids = table.collect::<driver::Result<_>>()?;
            let info = device.query_port(port)?;
            ports.push(SlotPort { gids, interface: None, up: info.link_up, mbps: info.speed_mbps });
        }
        let (guid, firmware) = (device.node_guid().to_be_bytes(), limits.fw_ver());
        Ok(SlotCard { name: name.to_owned(), guid, firmware, ports })
    };
    read().with_context(|| format!("--device {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_named_by_its_kind_and_place() {
        assert_eq!(parse("vfio:0000:01:00.0"), Ok("vfio:0000:01:00.0".into()));
        for wrong in ["0000:01:00.0", "vfio:", "verbena0", ""] {
            assert!(parse(wrong).unwrap_err().contains("vfio:0000:01:00.0"), "{wrong}");
        }
    }

    #[test]
    fn a_card_that_is_not_there_is_told() {
        let error = format!("{:#}", look("vfio:ffff:00:00.0").unwrap_err());
        assert!(error.contains("no PCI device ffff:00:00.0"), "{error}");
    }
}
