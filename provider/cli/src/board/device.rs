//! Which card a command works on: `sim`, `sim:DEFECT`, `verbena0`, `vfio:PCI`, `vfio-user:PATH`.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{ensure, Context, Result};
use clap::Args;
use driver::backend::vfio::Vfio;
use driver::backend::vfio_user::VfioUserCard;
use driver::Card;
use model::device::defect::Defect;

use super::pci::ConfigSpace;
use super::record::Recorder;
use super::sim;
use crate::args::CardName;
use crate::net::runtime::default_net;

/// A card of any backend.
pub type AnyCard = Arc<dyn Card>;

/// Options that name a card.
#[derive(Args, Clone, Debug)]
pub struct DeviceArgs {
    /// The card: verbena0, ... of a running net; vfio:PCI in a slot; vfio-user:PATH of a server; sim, a new model, or
    /// sim:DEFECT, a defective one
    #[arg(long, value_name = "DEVICE", default_value = "sim")]
    pub device: DeviceName,
    /// The net (default: VERBENA_NET, else `default`)
    #[arg(long, value_name = "NAME")]
    pub net: Option<String>,
    /// What `verbena record` writes.
    #[arg(skip)]
    pub record: Option<PathBuf>,
}

/// Names a card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// A modelled card, with what is wrong with it.
    Sim(Defect),
    /// A card of a running net.
    OfNet(CardName),
    /// A card in a slot, by its PCI address.
    Vfio(String),
    /// A card that another process serves, by its socket.
    VfioUser(PathBuf),
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        match (kind, rest) {
            ("sim", "") => Ok(DeviceName::Sim(Defect::None)),
            ("sim", name) => Defect::named(name).map(DeviceName::Sim).ok_or_else(|| {
                let known: Vec<String> =
                    Defect::ALL.iter().map(|(_, name, what)| format!("\n  {name}: {what}")).collect();
                format!("there is no defect `{name}`; known:{}", known.concat())
            }),
            ("vfio", address) if !address.is_empty() => Ok(DeviceName::Vfio(address.to_owned())),
            ("vfio-user", path) if !path.is_empty() => Ok(DeviceName::VfioUser(path.into())),
            _ => text.parse().map(DeviceName::OfNet).map_err(|_| {
                "a device is sim, sim:DEFECT, verbena0, vfio:PCI (as vfio:0000:01:00.0) or vfio-user:PATH"
                    .into()
            }),
        }
    }
}

/// An open card.
pub struct Opened {
    pub card: AnyCard,
    /// Its PCI configuration space, where it has one.
    pub config: Option<ConfigSpace>,
    /// What was opened, for people.
    pub name: String,
    /// Writes what is done with the card.
    recorder: Option<Arc<Recorder>>,
}

impl DeviceArgs {
    /// The net of verbena0, ...
    pub fn net(&self) -> String {
        self.net.clone().unwrap_or_else(default_net)
    }

    pub fn open(&self) -> Result<Opened> {
        ensure!(
            self.net.is_none() || matches!(self.device, DeviceName::OfNet(_)),
            "--net goes with a card of a net, as --device verbena0"
        );
        let mut config = None;
        let (card, name): (AnyCard, String) = match &self.device {
            DeviceName::OfNet(name) => {
                let net = self.net();
                (Arc::new(sim::joined(&net, *name)?), format!("{name} of net `{net}`"))
            }
            DeviceName::Sim(defect) => {
                let card = sim::private(*defect)?;
                let defect = Defect::ALL.iter().find(|(known, ..)| known == defect);
                let name = defect.map_or("modelled card".to_owned(), |(_, _, what)| {
                    format!("modelled card with a defect: {what}")
                });
                (Arc::new(card), name)
            }
            DeviceName::Vfio(address) => {
                let card = Vfio::open(address).with_context(|| format!("opening {address} through VFIO"))?;
                config = ConfigSpace::of_slot(address);
                (Arc::new(card), format!("card in slot {address}"))
            }
            DeviceName::VfioUser(path) => {
                let card = VfioUserCard::open(path).with_context(|| format!("opening {}", path.display()))?;
                config = Some(ConfigSpace::of_bytes(&card.config_space()));
                (Arc::new(card), format!("card served at {}", path.display()))
            }
        };
        let Some(file) = &self.record else {
            return Ok(Opened { card, config, name, recorder: None });
        };
        let recorder = Arc::new(Recorder::new(card, file, &name)?);
        Ok(Opened { card: recorder.clone(), config, name, recorder: Some(recorder) })
    }
}

impl Opened {
    /// Completes the record, if there is one.
    pub fn finish(self) -> Result<()> {
        match self.recorder {
            Some(recorder) => recorder.finish(),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices() {
        let parse = |text: &str| text.parse::<DeviceName>();
        assert_eq!(parse("sim"), Ok(DeviceName::Sim(Defect::None)));
        assert_eq!(parse("sim:cqe-phase"), Ok(DeviceName::Sim(Defect::CqePhase)));
        assert_eq!(parse("vfio:0000:01:00.0"), Ok(DeviceName::Vfio("0000:01:00.0".into())));
        assert_eq!(parse("vfio-user:/run/c.sock"), Ok(DeviceName::VfioUser("/run/c.sock".into())));
        assert!(parse("sim:nosuch").unwrap_err().contains("stuck-reset: a reset never ends"));
        assert_eq!(parse("verbena1"), Ok(DeviceName::OfNet(CardName(1))));
        for wrong in ["", "vfio", "vfio:", "pci:1", "verbena0/1"] {
            assert!(parse(wrong).unwrap_err().contains("a device is sim"), "{wrong}");
        }
    }
}
