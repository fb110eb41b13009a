//! A port of a card, open for DPDK, and what it receives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use driver::{Card, Device, Flow, Pd, PortInfo, Qp, Result};
use fpga_regs::{FlowContext, FlowKind, QpState, HASH_KEY};

use crate::abi::ethdev::Mac;
use crate::flow;
use crate::flow::action::Actions;
use crate::flow::rules::{Queues, Rules};
use crate::interrupts::Interrupts;
use crate::rx::RxQueue;
use crate::spread::{group, requeue, Group, Receiving, Spread, ENTRIES};
use crate::tx::TxQueue;
use crate::watch::Watch;

/// The address of everybody.
const BROADCAST: Mac = [0xff; 6];
/// The bit of an address that says: a group.
const GROUP_BIT: Mac = [1, 0, 0, 0, 0, 0];

/// Something that the port receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Filter {
    /// Frames to an address.
    Address(Mac),
    /// Frames to every group.
    Groups,
    /// Every frame that comes to the port and no rule keeps.
    Promiscuous,
}

/// A rule for frames of one of the port's own filters.
fn rule(filter: Filter, by_vlan: bool, port: u8) -> FlowContext {
    // After all rules of the program.
    let rule = FlowContext::new().with_port(port).with_by_vlan(by_vlan).with_precedence(u16::MAX);
    match filter {
        Filter::Address(mac) => rule.with_dmac(mac).with_dmac_mask([0xff; 6]),
        Filter::Groups => rule.with_dmac(GROUP_BIT).with_dmac_mask(GROUP_BIT),
        Filter::Promiscuous => rule.with_kind(FlowKind::ALL_DEFAULT),
    }
}

/// What a port is to receive.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Its own address.
    pub mac: Mac,
    /// Further addresses, by ethdev's index.
    pub addresses: BTreeMap<u32, Mac>,
    /// Groups that were asked for.
    pub groups: Vec<Mac>,
    /// Every group.
    pub all_groups: bool,
    /// Everything.
    pub promiscuous: bool,
    /// Nothing but what rules of the program name.
    pub isolated: bool,
    /// Of frames with a VLAN tag those only whose VLAN was asked for.
    pub by_vlan: bool,
}

impl Wanted {
    /// Who frames are for, and whether they go by VLAN.
    fn filters(&self) -> BTreeSet<(Filter, bool)> {
        if self.isolated {
            return BTreeSet::new();
        }
        let addresses = [self.mac, BROADCAST].into_iter().chain(self.addresses.values().copied());
        let addresses = addresses.chain(self.groups.iter().copied()).map(Filter::Address);
        let all =
            [self.all_groups.then_some(Filter::Groups), self.promiscuous.then_some(Filter::Promiscuous)];
        addresses.chain(all.into_iter().flatten()).map(|filter| (filter, self.by_vlan)).collect()
    }
}

/// A port. A mutex of it is what `dev_private` points to: DPDK's telemetry and secondary processes ask in threads
/// of DPDK's own.
pub struct Port<C: Card> {
    /// The open card.
    pub device: Arc<Device<C>>,
    /// Protection domain of its queues.
    pub pd: Arc<Pd<C>>,
    /// Number on the card, from 1.
    pub number: u8,
    wanted: Wanted,
    /// Its receive queues that were made, by number. ethdev has their addresses, too, for the data path: its own array may go
    /// while another thread asks for what they have counted.
    pub receiving: BTreeMap<u16, Box<RxQueue<C>>>,
    /// Its transmit queues.
    pub sending: BTreeMap<u16, Box<TxQueue<C>>>,
    /// What the card's counters were when the port was opened or they were zeroed, in their order.
    pub zero: Vec<u64>,
    /// Which receive queue gets a frame.
    pub spread: Spread,
    /// The rules of the program.
    pub flows: Rules<C>,
    filters: BTreeMap<(Filter, bool), Flow<C>>,
    /// Who takes the card's events, while the port is started and the program wants to know of some.
    pub watch: Option<Watch>,
    /// How the program sleeps until frames come.
    pub interrupts: Interrupts,
    /// What the rules give frames to, while the port is started.
    group: Option<Group<C>>,
}

impl<C: Card> Port<C> {
    /// Opens port `number` of a card.
    pub fn new(device: Arc<Device<C>>, number: u8) -> Result<Self> {
        let pd = device.alloc_pd()?;
        let info = device.query_port(number)?;
        Ok(Port {
            device,
            pd,
            number,
            wanted: Wanted { mac: info.mac, ..Wanted::default() },
            receiving: BTreeMap::new(),
            sending: BTreeMap::new(),
            zero: info.counters.iter().map(|counter| counter.1).collect(),
            spread: Spread::default(),
            flows: Rules::default(),
            filters: BTreeMap::new(),
            watch: None,
            interrupts: Interrupts::default(),
            group: None,
        })
    }

    /// What its registers say, with the counters since they were zeroed.
    pub fn info(&self) -> Result<PortInfo> {
        let mut info = self.device.query_port(self.number)?;
        for (counter, zero) in info.counters.iter_mut().zip(&self.zero) {
            counter.1 = counter.1.wrapping_sub(*zero);
        }
        Ok(info)
    }

    /// Its own address.
    pub fn mac(&self) -> Mac {
        self.wanted.mac
    }

    /// From now on the work queues receive what the port is to receive, and what the program's rules name.
    pub fn start(&mut self, queues: &Receiving<C>) -> Result<()> {
        if queues.is_empty() {
            return Ok(());
        }
        let Port { device, pd, spread, flows, .. } = self;
        flows.start(&Queues { device, pd, spread, queues })?;
        self.receive(queues)
    }

    /// The work queues receive what the port is to receive, spread as is set. Also while they do so already in another way:
    /// then all frames go to one that is started until the rules are exchanged, as it gets one copy of a frame that two rules
    /// give it.
    fn receive(&mut self, queues: &Receiving<C>) -> Result<()> {
        let all = self.spread.queues(queues)?;
        let meanwhile = match &self.group {
            Some(_) => {
                let one = all.iter().find(|queue| queue.state() == QpState::RTR).unwrap_or(&all[0]);
                vec![one.clone(); ENTRIES]
            }
            None => all.clone(),
        };
        let old = self.group.as_ref().map(|old| old.table.clone());
        old.as_ref().map_or(Ok(()), |old| old.modify(&meanwhile))?;
        let new = group(&self.device, &self.pd, &meanwhile, self.spread.kinds, &self.spread.key);
        let new = new.and_then(|new| Ok((self.made(&new.qp, &self.wanted.filters())?, new)));
        let (filters, group) = match (new, &old) {
            (Ok(new), _) => new,
            (Err(error), None) => return Err(error),
            (Err(error), Some(old)) => return old.modify(&all).and(Err(error)),
        };
        self.filters = filters;
        self.group.insert(group).table.modify(&all)
    }

    /// Rules of these filters, which give frames to a group.
    fn made(
        &self,
        group: &Arc<Qp<C>>,
        filters: &BTreeSet<(Filter, bool)>,
    ) -> Result<BTreeMap<(Filter, bool), Flow<C>>> {
        let made = |&(filter, by_vlan): &_| {
            Ok(((filter, by_vlan), group.create_flow(&rule(filter, by_vlan, self.number))?))
        };
        filters.iter().map(made).collect()
    }

    /// Changes what it is to receive, at once if it is started. After an error it is as before.
    pub fn want(&mut self, change: impl FnOnce(&mut Wanted)) -> Result<()> {
        let mut wanted = self.wanted.clone();
        change(&mut wanted);
        if let Some(group) = &self.group {
            let filters = wanted.filters();
            let new = filters.iter().filter(|filter| !self.filters.contains_key(filter));
            let mut new = self.made(&group.qp, &new.copied().collect())?;
            self.filters.append(&mut new);
            self.filters.retain(|filter, _| filters.contains(filter));
        }
        self.wanted = wanted;
        Ok(())
    }

    /// Changes the hash, at once if it is started. After an error it is as before; a card that is lost in the last step leaves all
    /// frames with one queue.
    pub fn rehash(&mut self, key: Option<[u8; HASH_KEY]>, kinds: u64, queues: &Receiving<C>) -> Result<()> {
        let before = (self.spread.key, self.spread.kinds);
        (self.spread.key, self.spread.kinds) = (key.unwrap_or(before.0), kinds);
        if self.group.is_none() {
            return Ok(());
        }
        self.receive(queues).inspect_err(|_| (self.spread.key, self.spread.kinds) = before)
    }

    /// Changes the redirection table. That of a port that is started changes between two frames; else its queues may be to come.
    pub fn redirect(&mut self, entries: [u16; ENTRIES], queues: &Receiving<C>) -> Result<()> {
        let before = std::mem::replace(&mut self.spread.entries, entries);
        let Some(group) = &self.group else { return Ok(()) };
        let changed = self.spread.queues(queues).and_then(|all| group.table.modify(&all));
        changed.inspect_err(|_| self.spread.entries = before)
    }

    /// A receive queue was made anew, while the port is started: it gets what the old one got.
    pub fn requeue(&mut self, queues: &Receiving<C>) -> Result<()> {
        let Some(group) = &self.group else { return Ok(()) };
        requeue(&group.table, &self.spread.entries, queues)?;
        self.flows.requeue(queues)
    }

    /// Adds a rule of the program, whose frames go to some of these work queues. Gives its handle.
    pub fn add_flow(
        &mut self,
        priority: u32,
        rule: FlowContext,
        actions: Actions,
        queues: &Receiving<C>,
    ) -> flow::Result<usize> {
        let Port { device, pd, spread, flows, group, .. } = self;
        let queues = group.as_ref().map(|_| Queues { device, pd, spread, queues });
        flows.add(priority, rule, actions, queues.as_ref())
    }

    /// Receives nothing any more, and nobody waits for it.
    pub fn stop(&mut self) {
        self.interrupts.stop();
        self.flows.stop();
        self.filters.clear();
        self.group = None;
    }
}
