//! The fake sysfs tree, driver file and device nodes that libibverbs finds.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use contract::release;

use super::live;
use super::slots::{SlotCard, SlotPort};
use super::sysfs::{self, link, put, INTERFACES};
use model::address::{gid, gid_of, interface_name, Guids};
use model::attach::{limits, mbps};
use model::link::outside::{self, interface_of};
use model::link::{LinkOptions, MediumSpec};
use model::packet::{PortId, PORTS};
use model::profile::Profile;

/// Name of the provider as the driver file gives it, without suffix.
pub const DRIVER_STEM: &str = "libverbena";

/// Where a card's [live files](live) are mounted, in its directory.
pub const LIVE: &str = "verbena/live";

/// What the tree has to say.
#[derive(Clone, Copy)]
pub struct Tree<'a> {
    pub cards: u8,
    /// Cards in slots, which replace modelled ones.
    pub slots: &'a [SlotCard],
    pub profile: &'a str,
    /// Socket of the net's keeper, for programs without VERBENA_SOCKET.
    pub socket: &'a Path,
    /// The provider to load.
    pub provider: &'a Path,
    /// The program sees the net's own network.
    pub network: bool,
    /// Else the interfaces that it sees of those that `verbena port up` made.
    pub kernel: &'a [(PortId, String)],
    /// What the net's ports are connected to, and what their GID tables have beside their own addresses.
    pub wire: &'a LinkOptions,
}

impl Tree<'_> {
    /// The files that the net's keeper writes, if it does: cards in slots have no keeper.
    pub fn live(&self) -> Option<PathBuf> {
        Some(live::directory(self.socket)).filter(|live| self.slots.is_empty() && live.is_dir())
    }

    /// Writes everything below `root`. `config_dir` is where `root/ibverbs.d`
    /// will be seen by the program: the driver file needs an absolute path.
    pub fn write(&self, root: &Path, config_dir: &Path) -> Result<()> {
        self.write_class(&root.join("sys/class"))?;
        self.write_nodes(&root.join("dev"))?;
        self.write_config(&root.join("ibverbs.d"), config_dir).context("writing the driver file")
    }

    fn write_class(&self, class: &Path) -> Result<()> {
        for card in 0..self.cards {
            self.write_device(&class.join(format!("infiniband/verbena{card}")), card)?;
        }
        let verbs = class.join("infiniband_verbs");
        put(&verbs.join("abi_version"), "6")?;
        // libibverbs lists devices in directory order; which one a tmpfs gives
        // depends on the kernel, so look and turn round if need be.
        for reversed in [false, true] {
            for position in 0..self.cards {
                let card = if reversed { self.cards - 1 - position } else { position };
                write_uverbs(&verbs.join(format!("uverbs{card}")), card)?;
            }
            if reversed || in_order(&verbs)? {
                break;
            }
            for card in 0..self.cards {
                fs::remove_dir_all(verbs.join(format!("uverbs{card}")))?;
            }
        }
        Ok(())
    }

    fn write_device(&self, dir: &Path, card: u8) -> Result<()> {
        let slot = self.slots.get(usize::from(card));
        let guid = slot.map_or_else(|| self.guids().node(card.into()), |slot| slot.guid);
        let firmware = slot.map_or_else(|| limits(None).fw_ver(), |slot| slot.firmware);
        sysfs::write_card(dir, &format!("verbena{card}"), self.profile, &guid, firmware)?;
        // Where a provider without VERBENA_SOCKET in its environment looks.
        put(&dir.join("verbena/socket"), self.socket.to_str().context("socket path is not UTF-8")?)?;
        put(&dir.join("verbena/card"), &card.to_string())?;
        let live = slot.is_none() && self.live().is_some();
        if live {
            fs::create_dir_all(dir.join(LIVE))?;
        }
        if let Some(slot) = slot {
            // Goes before the socket.
            put(&dir.join("verbena/device"), &slot.name)?;
        }
        for port in 0..slot.map_or(PORTS, |slot| slot.ports.len()) as u8 {
            let shown = match slot {
                Some(slot) => slot.ports[usize::from(port)].clone(),
                None => self.modelled(PortId { card: card.into(), port }),
            };
            let (number, at) = (port + 1, dir.join(format!("ports/{}", port + 1)));
            sysfs::write_port(&at, &shown)?;
            let follow = |names: &[&str]| {
                let from = Path::new("../..").join(LIVE).join(number.to_string());
                names.iter().try_for_each(|name| link(&from.join(name), &at.join(name)))
            };
            match live && self.network {
                true => follow(&["gids", "gid_attrs"])?,
                false => sysfs::write_gids(&at, &shown.gids, shown.interface.as_deref())?,
            }
            match live {
                true => follow(&["counters", "hw_counters", "state", "phys_state"])?,
                false => {
                    live::write_zeros(&at)?;
                    sysfs::write_link(&at, shown.up)?;
                }
            }
            if let Some(name) = self.interface(PortId { card: card.into(), port }) {
                link(&Path::new(INTERFACES).join(&name), &dir.join("device/net").join(&name))?;
            }
        }
        Ok(())
    }

    /// The network interface of a port in the net.
    fn interface(&self, port: PortId) -> Option<String> {
        match self.network {
            true => Some(interface_name(port)),
            false => self.kernel.iter().find(|(of, _)| *of == port).map(|(_, name)| name.clone()),
        }
    }

    /// What the net's cards are called.
    fn guids(&self) -> Guids {
        if self.wire.ports.is_empty() {
            Guids::INSIDE
        } else {
            outside::guids(self.socket)
        }
    }

    /// A port of a modelled card.
    fn modelled(&self, port: PortId) -> SlotPort {
        // A profile's file may be gone by now; then the port says what the default one says.
        let profile = Profile::load(self.profile).ok().map(|loaded| loaded.profile);
        let mbps = mbps(profile.as_ref());
        let (own, interface) = match self.wire.outside(port) {
            Some(MediumSpec::Udp(address)) => {
                (vec![gid_of(*address)], interface_of(*address).ok().flatten().map(|it| it.name))
            }
            Some(_) => (outside::own_gids(self.guids(), port).to_vec(), None),
            None => ([0, 1].map(|index| gid(port, index)).to_vec(), self.interface(port)),
        };
        let gids = self.wire.gids.table(port, &own).to_vec();
        SlotPort { gids, interface, up: true, mbps }
    }

    fn write_nodes(&self, dev: &Path) -> Result<()> {
        fs::create_dir_all(dev)?;
        for card in 0..self.cards {
            let node = dev.join(format!("uverbs{card}"));
            link(Path::new("/dev/null"), &node)?;
        }
        Ok(())
    }

    fn write_config(&self, dir: &Path, seen_as: &Path) -> Result<()> {
        let stem = seen_as.join("verbena").join(DRIVER_STEM);
        put(&dir.join("verbena.driver"), &format!("driver {}", stem.display()))?;
        self.link_provider(&dir.join("verbena"))
    }

    /// Links the provider under the names that the releases of libibverbs look for.
    pub fn link_provider(&self, dir: &Path) -> Result<()> {
        for abi in release::OFFERED {
            let library = dir.join(release::file_name(DRIVER_STEM, abi));
            link(self.provider, &library)?;
        }
        Ok(())
    }
}

fn write_uverbs(dir: &Path, card: u8) -> Result<()> {
    put(&dir.join("ibdev"), &format!("verbena{card}"))?;
    put(&dir.join("abi_version"), "1")?;
    // The number of /dev/null: libibverbs compares it with the node's.
    put(&dir.join("dev"), "1:3")?;
    let target = format!("../../infiniband/verbena{card}/device");
    symlink(target, dir.join("device")).context("making a device link")
}

fn in_order(verbs: &Path) -> Result<bool> {
    let mut last = -1;
    for entry in fs::read_dir(verbs)? {
        let name = entry?.file_name();
        let number = name.to_string_lossy();
        let Some(number) = number.strip_prefix("uverbs") else {
            continue;
        };
        let number: i64 = number.parse()?;
        if number < last {
            return Ok(false);
        }
        last = number;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(cards: u8) -> tempfile::TempDir {
        // A tmpfs where there is one, as in a real run.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dir = dir.unwrap();
        let tree = Tree {
            cards,
            slots: &[],
            profile: "f10a",
            socket: Path::new("/run/x.sock"),
            provider: Path::new("/opt/libverbena.so"),
            network: false,
            kernel: &[],
            wire: &LinkOptions::default(),
        };
        tree.write(dir.path(), Path::new("/etc/libibverbs.d")).unwrap();
        dir
    }

    #[test]
    fn empty_gids_are_unreadable_and_the_driver_file_has_an_absolute_path() {
        let dir = written(2);
        let read = |path: &str| fs::read_to_string(dir.path().join(path));
        let types = "sys/class/infiniband/verbena0/ports/1/gid_attrs/types";
        assert_eq!(read(&format!("{types}/1")).unwrap(), "RoCE v2\n");
        let empty = read(&format!("{types}/15")).unwrap_err();
        assert_eq!(empty.kind(), std::io::ErrorKind::InvalidInput, "as the kernel answers");
        assert_eq!(
            read("ibverbs.d/verbena.driver").unwrap(),
            "driver /etc/libibverbs.d/verbena/libverbena\n"
        );
        for (abi, _) in release::SUPPORTED {
            let link = dir.path().join(format!("ibverbs.d/verbena/libverbena-rdmav{abi}.so"));
            assert_eq!(fs::read_link(link).unwrap(), Path::new("/opt/libverbena.so"));
        }
    }

    #[test]
    fn lists_cards_in_order() {
        let dir = written(9);
        assert!(in_order(&dir.path().join("sys/class/infiniband_verbs")).unwrap());
    }
}
