//! A port of a card: queues for each core, and which of them gets a frame.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{anyhow, bail, Context, Result};
use driver::Table;
use fpga_regs::{toeplitz, FlowContext, HashFields, SUITE_KEY};
use verbena::verbs::card::{Card, Device, Flow, Qp};
use verbena::verbs::in_view::in_view;

use crate::queues::Queues;

/// Entries of the indirection table.
const ENTRIES: usize = 128;
/// EtherType of ARP (RFC 826).
const ARP: u16 = 0x0806;
/// Which port: `verbena0`, or `verbena0/2` for the second one of the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    card: u32,
    port: u8,
}

impl FromStr for Name {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        let (card, port) = name.split_once('/').unwrap_or((name, "1"));
        // Rust's numbers may have a sign.
        let card = card.strip_prefix("verbena").filter(|number| !number.starts_with('+'));
        let card = card.and_then(|number| number.parse().ok());
        match (card, port) {
            (Some(card), "1") => Ok(Name { card, port: 1 }),
            (Some(card), "2") => Ok(Name { card, port: 2 }),
            _ => bail!("`{name}` is no port: they are called verbena0, verbena0/2, verbena1, ..."),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "verbena{}/{}", self.card, self.port)
    }
}

/// An open port. Frames come while it lives.
pub struct Port {
    /// Its cores.
    pub cores: u16,
    _rules: Vec<Flow>,
    _group: Arc<Qp>,
    _table: Arc<Table<Card>>,
}

impl Port {
    /// Opens a port, with queues for each core. A frame to the port's address goes to the core that its hash says, and ARP
    /// to all of them, as each has a table of neighbours. Other takers of the port get their ARP all the same.
    pub fn open(name: Name, cores: u16) -> Result<(Port, Vec<Queues>)> {
        let cards = in_view();
        let dir = cards.into_iter().find(|card| card.0 == name.card).map(|card| card.1);
        let dir =
            dir.ok_or_else(|| anyhow!("verbena{} is not in view: start with `verbena run`", name.card))?;
        let card = Card::open(&dir, name.card).map_err(|error| anyhow!(error))?;
        if card.timeline().is_some() {
            bail!("{name} runs in simulated time, in which a program that polls its own clock does not work");
        }
        let device = Device::open(card)?;
        let pd = device.alloc_pd()?;
        let mac = device.query_port(name.port)?.mac;
        let queues = (0..cores).map(|core| Queues::new(&device, &pd, name.port, mac, core));
        let queues = queues.collect::<Result<Vec<_>>>().with_context(|| format!("queues of {name}"))?;

        let spread: Vec<_> =
            queues.iter().map(|queues| queues.spread().clone()).cycle().take(ENTRIES).collect();
        let table = device.create_table(&spread)?;
        let fields =
            HashFields::SRC_IPV4 | HashFields::DST_IPV4 | HashFields::SRC_PORT_TCP | HashFields::DST_PORT_TCP;
        let group = pd.create_hash_qp(&table, fields, &SUITE_KEY)?;

        let rule = FlowContext::new().with_port(name.port);
        let arp = rule.with_ether_type(ARP).with_ether_type_mask(0xffff).with_dont_trap(true);
        let own = rule.with_precedence(1).with_dmac(mac).with_dmac_mask([0xff; 6]);
        let mut rules = vec![group.create_flow(&own)?];
        for queues in &queues {
            rules.push(queues.own().create_flow(&arp)?);
        }
        Ok((Port { cores, _rules: rules, _group: group, _table: table }, queues))
    }

    /// The core that gets the TCP segments from one address to the other.
    pub fn core_of(&self, from: (Ipv4Addr, u16), to: (Ipv4Addr, u16)) -> u16 {
        let mut input = [0; 12];
        input[..4].copy_from_slice(&from.0.octets());
        input[4..8].copy_from_slice(&to.0.octets());
        input[8..10].copy_from_slice(&from.1.to_be_bytes());
        input[10..].copy_from_slice(&to.1.to_be_bytes());
        let entry = toeplitz(&SUITE_KEY, &input) as usize % ENTRIES;
        (entry % usize::from(self.cores)) as u16
    }
}
