//! How packets travel on a net: the options, and what is written down about a running net.

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure, Context, Result};
use clap::Args;
use model::congestion::{CcOptions, SwitchOptions};
use model::gid_options::{GidOptions, GidSpec};
use model::link::faults::grammar;
use model::link::{Capture, Faults, FaultsError, LinkOptions, MediumSpec, PortSpec, Wire};

use crate::args::CardName;

/// Options of the wire between the cards.
#[derive(Args, Clone, Debug, Default)]
pub struct WireArgs {
    /// How packets travel: `fast`, or `exact` as RoCEv2 frames byte for byte (default for a new
    /// net: fast)
    #[arg(long, value_name = "WIRE")]
    pub wire: Option<Wire>,
    /// Faults of the exact wire, as loss=0.01,seed=7 or "drop data qp=17 nth=3, down=2ms..5ms", or @FILE with such
    /// parts (--help says more)
    #[arg(long, long_help = grammar(), value_name = "FAULTS", value_parser = faults)]
    pub fault: Option<Faults>,
    /// Largest path MTU of the ports: 256, 512, 1024, 2048 or 4096 (default for a new net: 4096, in
    /// simulated time that of the card's profile)
    #[arg(long, value_name = "BYTES", value_parser = mtu)]
    pub mtu: Option<u32>,
    /// Response time-out of the connection manager, 4.096 us * 2^N (default 20, about 4 s, as in Linux)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=20))]
    pub cm_timeout: Option<u8>,
    /// What a port is connected to, as verbena0/1=MEDIUM: `net`, the other ports of the net (default); `udp:ADDRESS`, RoCEv2
    /// in UDP on this address of the machine; or, with Ethernet frames, `dgram:LOCAL,REMOTE` (two UNIX sockets),
    /// `stream:SOCKET`, `tap:INTERFACE` or `packet:INTERFACE`; may be repeated
    #[arg(long, value_name = "PORT=MEDIUM")]
    pub port: Vec<PortSpec>,
    /// A further address of a port, as verbena0/1=10.0.0.1, or verbena0/1=10.0.0.1,vlan=107 in a VLAN: an entry of its GID
    /// table; may be repeated
    #[arg(long, value_name = "PORT=ADDRESS[,vlan=N]")]
    pub gid: Vec<GidSpec>,
    /// Every address has a GID of RoCE version 1, too, after those of version 2
    #[arg(long)]
    pub roce_v1: bool,
    /// Connect the ports by a switch, with queues: `default`, or kmin=BYTES,kmax=BYTES,pmax=P,seed=N and either buffer=BYTES or
    /// pfc,xoff=BYTES,xon=BYTES,headroom=BYTES, each part optional; needs --clock virtual (default: each port reaches the
    /// others at no cost)
    #[arg(long, value_name = "SWITCH")]
    pub switch: Option<SwitchOptions>,
    /// Congestion control of the cards: `dcqcn` or `dcqcn-mlx`, then parameters that differ, as dcqcn,g=1/256,ai=40Mb/s;
    /// needs --switch (default none)
    #[arg(long, value_name = "CONTROL")]
    pub cc: Option<CcOptions>,
    /// Record all frames of the net in a new pcap file, for Wireshark
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// With --pcap: bytes of each frame that are recorded (default: all)
    #[arg(long, value_name = "BYTES", requires = "pcap", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub snaplen: Option<u32>,
    /// With --pcap: record what this card sends and receives, when it does, instead of all frames as they are sent
    #[arg(long, value_name = "CARD", requires = "pcap")]
    pub pcap_at: Option<CardName>,
}

/// How a net's wire is written down for its keeper and for programs that join: as the options that make it.
pub mod written {
    use std::fmt::Display;

    use clap::Parser;
    use model::link::LinkOptions;
    use serde::de::{Deserialize, Deserializer, Error as _};
    use serde::ser::{Error as _, Serialize, Serializer};

    use crate::args::CardName;

    #[derive(Parser)]
    #[command(no_binary_name = true)]
    struct Written {
        #[command(flatten)]
        args: super::WireArgs,
    }

    /// Writes it down.
    pub fn serialize<S: Serializer>(link: &LinkOptions, to: S) -> Result<S::Ok, S::Error> {
        fn add(args: &mut Vec<String>, option: &str, values: impl IntoIterator<Item = impl Display>) {
            args.extend(values.into_iter().map(|value| format!("--{option}={value}")));
        }
        let mut args = Vec::new();
        add(&mut args, "wire", [link.wire]);
        add(&mut args, "fault", link.faults.any().then_some(&link.faults));
        add(&mut args, "mtu", link.mtu);
        add(&mut args, "cm-timeout", link.cm_timeout);
        add(&mut args, "port", &link.ports);
        add(&mut args, "gid", &link.gids.more);
        args.extend(link.gids.roce_v1.then(|| "--roce-v1".to_owned()));
        add(&mut args, "switch", link.switch);
        add(&mut args, "cc", link.cc);
        if let Some(capture) = &link.capture {
            let path = capture.path.to_str().ok_or_else(|| S::Error::custom("--pcap is not UTF-8"))?;
            add(&mut args, "pcap", [path]);
            add(&mut args, "snaplen", [capture.snaplen]);
            add(&mut args, "pcap-at", capture.card.map(|card| CardName(card.into())));
        }
        args.serialize(to)
    }

    /// The options that were written down.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<LinkOptions, D::Error> {
        let written = Written::try_parse_from(Vec::<String>::deserialize(from)?).map_err(D::Error::custom)?;
        written.args.decide().map_err(D::Error::custom)
    }
}

/// What there is to say of a net's wire, after a comma: nothing of the fast wire.
pub fn in_words(link: &LinkOptions) -> String {
    let mut parts = Vec::new();
    parts.extend((link.wire != Wire::Fast).then(|| format!("{} wire", link.wire)));
    parts.extend(link.faults.any().then(|| format!("faults {}", link.faults)));
    parts.extend(link.mtu.map(|mtu| format!("MTU {mtu}")));
    parts.extend(link.cm_timeout.map(|timeout| format!("CM time-out {timeout}")));
    parts.extend(link.ports.iter().map(|port| format!("port {port}")));
    parts.extend(link.gids.more.iter().map(|gid| format!("GID {gid}")));
    parts.extend(link.gids.roce_v1.then(|| "RoCE v1".to_owned()));
    parts.extend(link.switch.map(|switch| format!("switch {switch}")));
    parts.extend(link.cc.map(|cc| cc.to_string()));
    parts.extend(link.capture.as_ref().map(|capture| {
        let seen = capture.card.map(|card| format!(" as verbena{card} sees them")).unwrap_or_default();
        format!("frames recorded in {}{seen}", capture.path.display())
    }));
    parts.iter().map(|part| format!(", {part}")).collect()
}

/// Faults as they are given, or in a file.
fn faults(text: &str) -> Result<Faults, String> {
    let Some(path) = text.strip_prefix('@') else {
        return text.parse().map_err(|error: FaultsError| error.to_string());
    };
    let said = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    said.parse().map_err(|error| format!("{path}: {error}"))
}

pub fn mtu(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(mtu @ (256 | 512 | 1024 | 2048 | 4096)) => Ok(mtu),
        _ => Err("a path MTU is one of 256, 512, 1024, 2048 and 4096".to_owned()),
    }
}

/// The path of an option's file for other processes, in other directories, which will write it.
pub fn whole_path(option: &str, path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("{option} {}", path.display()))
}

impl WireArgs {
    /// The options of a new net. A relative file is taken from here.
    pub fn decide(&self) -> Result<LinkOptions> {
        let faults = self.fault.clone().unwrap_or_default();
        let wire = match self.wire {
            Some(Wire::Fast) if faults.any() => {
                bail!("--fault needs frames: use --wire exact, or leave out --wire")
            }
            _ if faults.any() => Wire::Exact,
            wire => wire.unwrap_or_default(),
        };
        let capture = match &self.pcap {
            Some(path) => Some(Capture {
                path: whole_path("--pcap", path)?,
                snaplen: self.snaplen.unwrap_or(Capture::WHOLE),
                card: self.pcap_at(),
            }),
            None => None,
        };
        let faults = if faults.any() { faults } else { Faults::default() };
        let ports = self.ports()?;
        let gids = GidOptions { more: self.gid.clone(), roce_v1: self.roce_v1 };
        gids.check(&ports)?;
        ensure!(
            self.cc.is_none() || self.switch.is_some(),
            "--cc needs a switch that marks packets: add --switch default"
        );
        let (mtu, cm_timeout, switch, cc) = (self.mtu, self.cm_timeout, self.switch, self.cc);
        Ok(LinkOptions { wire, faults, capture, mtu, cm_timeout, ports, gids, switch, cc })
    }

    /// The card that is recorded.
    fn pcap_at(&self) -> Option<u8> {
        self.pcap_at.map(|CardName(card)| card as u8)
    }

    /// The ports that are not on the net.
    fn ports(&self) -> Result<Vec<PortSpec>> {
        for (index, spec) in self.port.iter().enumerate() {
            ensure!(
                !self.port[..index].iter().any(|other| other.port == spec.port),
                "--port {spec}: this port is given twice"
            );
            // An interface has room for several hosts.
            let shared = matches!(spec.medium, MediumSpec::Net | MediumSpec::Packet(_));
            let same = |other: &&PortSpec| !shared && other.medium == spec.medium;
            if let Some(other) = self.port[..index].iter().find(same) {
                bail!(
                    "--port {spec}: this is what --port {other} is connected to, and one port alone can be"
                );
            }
        }
        Ok(self.port.iter().filter(|spec| spec.medium != MediumSpec::Net).cloned().collect())
    }

    /// What of these options a running net does not have, in words; `None` if it has all.
    pub fn differs(&self, running: &LinkOptions) -> Result<Option<String>> {
        let found = |what: String, option: &str| Ok(Some(format!("{what}: leave out {option}")));
        fn or_none(has: Option<impl ToString>) -> String {
            has.map_or("none".to_owned(), |has| has.to_string())
        }
        if let Some(wire) = self.wire.filter(|wire| *wire != running.wire) {
            return found(format!("the {} wire, not the {wire} one", running.wire), "--wire");
        }
        if let Some(wanted) = &self.fault {
            let has = &running.faults;
            if (has.any() || wanted.any()) && has != wanted {
                let has = or_none(has.any().then_some(has));
                return found(format!("the faults `{has}`, not `{wanted}`"), "--fault");
            }
        }
        if let Some(mtu) = self.mtu.filter(|_| self.mtu != running.mtu) {
            let has = running.mtu.map_or("the cards' own MTU".to_owned(), |mtu| format!("MTU {mtu}"));
            return found(format!("{has}, not {mtu}"), "--mtu");
        }
        if self.cm_timeout.is_some_and(|timeout| Some(timeout) != running.cm_timeout) {
            let has = running
                .cm_timeout
                .map_or("the usual CM time-out".to_owned(), |n| format!("the CM time-out {n}"));
            return found(has, "--cm-timeout");
        }
        for spec in &self.port {
            let medium = running.outside(spec.port).unwrap_or(&MediumSpec::Net).clone();
            let has = PortSpec { port: spec.port, medium };
            if has != *spec {
                return found(format!("port {has}, not {spec}"), "--port");
            }
        }
        if let Some(gid) = self.gid.iter().find(|gid| !running.gids.more.contains(gid)) {
            return found(format!("no GID {gid}"), "--gid");
        }
        if self.roce_v1 && !running.gids.roce_v1 {
            return found("GIDs of RoCE version 2 only".to_owned(), "--roce-v1");
        }
        // By their texts, in which fractions are rounded.
        let (switch, cc) = (or_none(running.switch), or_none(running.cc));
        if let Some(wanted) = self.switch.filter(|wanted| wanted.to_string() != switch) {
            return found(format!("the switch `{switch}`, not `{wanted}`"), "--switch");
        }
        if let Some(wanted) = self.cc.filter(|wanted| wanted.to_string() != cc) {
            return found(format!("the congestion control `{cc}`, not `{wanted}`"), "--cc");
        }
        if let Some(path) = &self.pcap {
            let (wanted, has) = (whole_path("--pcap", path)?, running.capture.as_ref());
            let same = has.is_some_and(|has| {
                wanted == has.path
                    && self.pcap_at.is_none_or(|_| self.pcap_at() == has.card)
                    && self.snaplen.is_none_or(|snaplen| snaplen == has.snaplen)
            });
            if !same {
                return found(format!("the record {}", or_none(has.map(|has| has.path.display()))), "--pcap");
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(wire: Option<Wire>, fault: Option<&str>) -> WireArgs {
        WireArgs { wire, fault: fault.map(|text| faults(text).unwrap()), ..WireArgs::default() }
    }

    #[test]
    fn faults_need_frames() {
        assert_eq!(args(None, None).decide().unwrap(), LinkOptions::default());
        let options = args(None, Some("loss=0.5")).decide().unwrap();
        assert_eq!((options.wire, options.faults.seed), (Wire::Exact, 1));
        assert!(args(Some(Wire::Fast), Some("loss=0.5")).decide().is_err());
        assert_eq!(args(Some(Wire::Fast), Some("seed=1")).decide().unwrap(), LinkOptions::default());
    }

    #[test]
    fn faults_are_read_from_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("script");
        std::fs::write(&file, "# a lost answer\ndrop read-response nth=2\ndelay by=3us ack\n").unwrap();
        let read = faults(&format!("@{}", file.display())).unwrap();
        assert_eq!(read.to_string(), "drop read-response nth=2,delay by=3us ack");
        std::fs::write(&file, "drop everything\n").unwrap();
        let error = faults(&format!("@{}", file.display())).unwrap_err();
        assert!(error.contains("script: unknown word `everything` in `drop everything`"), "{error}");
        assert!(faults("@/nowhere").unwrap_err().starts_with("/nowhere: "));
    }

    #[test]
    fn the_keeper_gets_the_same_options() {
        let mut wanted = args(None, Some("dup=0.1,corrupt=0.25,drop ack nth=3"));
        wanted.switch = Some("kmin=1KB,pfc,seed=2".parse().unwrap());
        wanted.cc = Some("dcqcn,ai=1Mb/s".parse().unwrap());
        wanted.pcap = Some("here.pcap".into());
        wanted.snaplen = Some(96);
        wanted.pcap_at = Some(CardName(1));
        wanted.mtu = Some(2048);
        wanted.cm_timeout = Some(10);
        wanted.port = vec!["0.2=tap:tap0".parse().unwrap()];
        wanted.gid = vec!["1=10.0.0.1,vlan=107".parse().unwrap()];
        wanted.roce_v1 = true;
        for options in [wanted.decide().unwrap(), LinkOptions::default()] {
            let json = written::serialize(&options, serde_json::value::Serializer).unwrap();
            assert_eq!(written::deserialize(json).unwrap(), options);
        }
        assert_eq!(wanted.decide().unwrap().capture.unwrap().card, Some(1));
        let seeded = args(None, Some("loss=0.5,seed=3"));
        assert!(seeded.differs(&seeded.decide().unwrap()).unwrap().is_none());
    }

    #[test]
    fn a_running_net_has_the_ports_or_not() {
        let with = |ports: &[&str]| WireArgs {
            port: ports.iter().map(|port| port.parse().unwrap()).collect(),
            ..WireArgs::default()
        };
        let running = with(&["0=udp:10.0.0.1", "1=net"]).decide().unwrap();
        assert_eq!(in_words(&running), ", port verbena0/1=udp:10.0.0.1");
        let differs = |ports: &[&str]| with(ports).differs(&running).unwrap();
        assert_eq!(differs(&["0.1=udp:10.0.0.1", "0.2=net"]), None);
        let other = "port verbena0/1=udp:10.0.0.1, not verbena0/1=udp:10.0.0.2: leave out --port";
        assert_eq!(differs(&["0=udp:10.0.0.2"]).as_deref(), Some(other));
        let none = "port verbena1/1=net, not verbena1/1=udp:10.0.0.2: leave out --port";
        assert_eq!(differs(&["1=udp:10.0.0.2"]).as_deref(), Some(none));
        assert!(with(&["0=net", "0.1=udp:10.0.0.1"]).decide().is_err());
    }

    #[test]
    fn a_running_net_has_the_wire_or_not() {
        let fast = LinkOptions::default();
        assert_eq!(args(None, None).differs(&fast).unwrap(), None);
        assert_eq!(args(Some(Wire::Fast), None).differs(&fast).unwrap(), None);
        let differs = |args: WireArgs| args.differs(&fast).unwrap().expect("it differs");
        assert_eq!(
            differs(args(Some(Wire::Exact), None)),
            "the fast wire, not the exact one: leave out --wire"
        );
        assert_eq!(
            differs(args(None, Some("loss=0.5"))),
            "the faults `none`, not `loss=0.5`: leave out --fault"
        );
        let recorded = WireArgs { pcap: Some("/x.pcap".into()), ..WireArgs::default() };
        assert_eq!(differs(recorded), "the record none: leave out --pcap");
        let switched = WireArgs { switch: "default".parse().ok(), ..WireArgs::default() };
        assert_eq!(
            differs(switched.clone()),
            "the switch `none`, not `buffer=2MiB,kmin=5KB,kmax=200KB,pmax=0.01,seed=1`: leave out --switch"
        );
        assert_eq!(switched.differs(&switched.decide().unwrap()).unwrap(), None);
        let controlled = WireArgs { cc: "dcqcn".parse().ok(), ..WireArgs::default() };
        assert_eq!(
            controlled.decide().unwrap_err().to_string(),
            "--cc needs a switch that marks packets: add --switch default"
        );
        assert_eq!(differs(controlled), "the congestion control `none`, not `dcqcn`: leave out --cc");
        assert_eq!(in_words(&fast), "");
    }
}
