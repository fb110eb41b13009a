//! What can be asked of a net's wire.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::faults::Faults;

use super::outside::{MediumSpec, PortSpec};
use crate::congestion::{CcOptions, SwitchOptions};
use crate::gid_options::GidOptions;
use crate::packet::PortId;

/// How packets travel between the cards of a net.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wire {
    /// As values, payload by reference.
    #[default]
    Fast,
    /// As RoCEv2 frames, byte for byte.
    Exact,
}

impl FromStr for Wire {
    type Err = String;

    fn from_str(text: &str) -> Result<Wire, String> {
        match text {
            "fast" => Ok(Wire::Fast),
            "exact" => Ok(Wire::Exact),
            _ => Err(format!("`{text}` is neither `fast` nor `exact`")),
        }
    }
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wire::Fast => "fast",
            Wire::Exact => "exact",
        })
    }
}

/// A record of all frames, as tcpdump and Wireshark read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The file, which a new net overwrites.
    pub path: PathBuf,
    /// Bytes of each frame that are kept.
    pub snaplen: u32,
    /// The card whose view it is: what it sends and receives, when it does. `None`: all frames of the net, as
    /// they are sent.
    pub card: Option<u8>,
}

impl Capture {
    /// Longer than any frame.
    pub const WHOLE: u32 = 65_535;
}

/// All options of a wire. The default is the fast wire, not recorded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkOptions {
    /// How packets travel.
    pub wire: Wire,
    /// What happens to frames (exact wire).
    pub faults: Faults,
    /// Whether and where frames are recorded.
    pub capture: Option<Capture>,
    /// Path MTU that the ports are set to; `None`: as the cards' profile says.
    pub mtu: Option<u32>,
    /// Response time-out of the connection manager, 4.096 us * 2^n; `None`: 20, as Linux has it.
    pub cm_timeout: Option<u8>,
    /// Ports that are connected to something else than the other ports of the net.
    pub ports: Vec<PortSpec>,
    /// What the ports' GID tables have beside their own addresses.
    pub gids: GidOptions,
    /// The switch that connects all ports; `None`: each reaches the others at no cost. Only in simulated time.
    pub switch: Option<SwitchOptions>,
    /// The cards' congestion control. Only in simulated time.
    pub cc: Option<CcOptions>,
}

impl LinkOptions {
    /// What the port is connected to, if not to the other ports of the net.
    pub fn outside(&self, port: PortId) -> Option<&MediumSpec> {
        self.ports.iter().find(|spec| spec.port == port).map(|spec| &spec.medium)
    }
}
