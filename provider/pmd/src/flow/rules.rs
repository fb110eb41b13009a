//! The rules of a port. They stay while it is stopped, and the card has them while it is started.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Weak};

use driver::{Card, Device, Error, Flow, FlowCount, Pd, Qp, Table};
use fpga_regs::FlowContext;

use super::action::{Actions, Target};
use super::{Refusal, Result};
use crate::abi::flow::Cause;
use crate::spread::{evenly, group, numbered, requeue, Receiving, Spread};

/// Sets of fields that rules of one priority may ask for.
const SHAPES: usize = 256;

/// The fields that a rule asks for.
type Shape = (u8, u8, [u8; 64]);

fn shape(rule: &FlowContext) -> Shape {
    let bytes = rule.as_bytes();
    (rule.ip_version(), rule.tags_mask().0, std::array::from_fn(|n| bytes[80 + n]))
}

/// A rule.
struct Rule<C: Card> {
    /// The frames that it names.
    names: FlowContext,
    actions: Actions,
    /// What it had counted when it was to count from zero.
    zero: FlowCount,
    /// While the port is started.
    flow: Option<Flow<C>>,
}

/// What the card needs to give frames to a target.
pub struct Queues<'a, C: Card> {
    /// The open card.
    pub device: &'a Arc<Device<C>>,
    /// The port's protection domain.
    pub pd: &'a Arc<Pd<C>>,
    /// How the port spreads frames, whose key is that of rules which are made now and have none.
    pub spread: &'a Spread,
    /// The work queues of the port's receive queues.
    pub queues: &'a Receiving<C>,
}

/// A queue pair and its table, while rules have them.
type Known<C> = (Weak<Qp<C>>, Weak<Table<C>>);

/// The rules of a port, by their handles.
pub struct Rules<C: Card> {
    rules: BTreeMap<usize, Rule<C>>,
    last: usize,
    /// What rules name, to find equal ones.
    known: HashSet<[u8; FlowContext::BYTES]>,
    /// The place of each shape of a priority, and how many rules have it.
    shapes: HashMap<(u32, Shape), (u8, usize)>,
    /// Queue pairs and tables of targets that rules have.
    groups: HashMap<Target, Known<C>>,
}

impl<C: Card> Default for Rules<C> {
    fn default() -> Self {
        Rules {
            rules: BTreeMap::new(),
            last: 0,
            known: HashSet::new(),
            shapes: HashMap::new(),
            groups: HashMap::new(),
        }
    }
}

/// No rule has this handle.
fn unknown() -> Refusal {
    Refusal::invalid(Cause::Handle, c"there is no such rule")
}

/// What the card says to a rule.
fn refused(error: Error) -> Refusal {
    crate::abi::log(&format!("a flow rule: {error}"));
    let message = match error.errno() {
        libc::ENOMEM => c"the card has no room for more rules or groups of queues: destroy some",
        _ => c"the card refuses the rule: the log says why",
    };
    Refusal { errno: error.errno(), cause: Cause::Unspecified, object: std::ptr::null(), message }
}

impl<C: Card> Rules<C> {
    /// A rule of this priority that is not there yet, at its place in the card: rules that ask for other fields have
    /// another precedence, so a frame that several rules name comes once.
    fn place(&self, priority: u32, rule: FlowContext) -> Result<FlowContext> {
        let own = shape(&rule);
        let number = match self.shapes.get(&(priority, own)) {
            Some(&(number, _)) => number,
            None => {
                let of_priority = self.shapes.iter().filter(|(key, _)| key.0 == priority);
                let used: HashSet<u8> = of_priority.map(|(_, &(number, _))| number).collect();
                let full = Refusal {
                    errno: libc::ENOSPC,
                    ..Refusal::invalid(
                        Cause::Unspecified,
                        c"rules of one priority ask for at most 256 sets of fields",
                    )
                };
                (0..SHAPES).map(|n| n as u8).find(|number| !used.contains(number)).ok_or(full)?
            }
        };
        let rule = rule.with_precedence((priority as u16) << 8 | u16::from(number));
        match self.known.contains(rule.as_bytes()) {
            true => Err(Refusal {
                errno: libc::EEXIST,
                ..Refusal::invalid(
                    Cause::Unspecified,
                    c"there is a rule for these frames already: destroy it first",
                )
            }),
            false => Ok(rule),
        }
    }

    /// Whether a rule could be there, too.
    pub fn check(&self, priority: u32, rule: FlowContext) -> Result<()> {
        self.place(priority, rule).map(drop)
    }

    /// Adds a rule, in the card too if there are queues. Gives its handle.
    pub fn add(
        &mut self,
        priority: u32,
        rule: FlowContext,
        actions: Actions,
        queues: Option<&Queues<'_, C>>,
    ) -> Result<usize> {
        let names = self.place(priority, rule)?;
        let flow = queues.map(|queues| self.open(&names, &actions, queues)).transpose().map_err(refused)?;
        self.known.insert(*names.as_bytes());
        let number = names.precedence() as u8;
        self.shapes.entry((priority, shape(&names))).or_insert((number, 0)).1 += 1;
        self.last += 1;
        self.rules.insert(self.last, Rule { names, actions, zero: FlowCount::default(), flow });
        Ok(self.last)
    }

    /// Counts its handles on from those of rules that are gone: what a program still has of these names no rule.
    pub fn follow(&mut self, gone: &Rules<C>) {
        self.last = gone.last;
    }

    /// Makes a rule in the card.
    fn open(
        &mut self,
        names: &FlowContext,
        actions: &Actions,
        queues: &Queues<'_, C>,
    ) -> driver::Result<Flow<C>> {
        let (context, mut target) = (&actions.on(names), actions.target.clone());
        if let Target::Queues { key, .. } = &mut target {
            key.get_or_insert(queues.spread.key);
        }
        if let Some(qp) = self.groups.get(&target).and_then(|(qp, _)| qp.upgrade()) {
            return qp.create_flow(context);
        }
        let (numbers, kinds, key) = match &target {
            // Of any queue pair: it gets nothing.
            Target::Drop => (&[0][..], 0, None),
            Target::Queues { queues, kinds, key } => (&queues[..], *kinds, *key),
        };
        let all = numbered(queues.queues, numbers)?;
        let key = key.unwrap_or(queues.spread.key);
        let made = group(queues.device, queues.pd, &evenly(&all), kinds, &key)?;
        let flow = made.qp.create_flow(context)?;
        self.groups.retain(|_, (qp, _)| qp.strong_count() != 0);
        self.groups.insert(target, (Arc::downgrade(&made.qp), Arc::downgrade(&made.table)));
        Ok(flow)
    }

    /// A receive queue was made anew: it gets what the old one got.
    pub fn requeue(&self, queues: &Receiving<C>) -> driver::Result<()> {
        for (target, (_, table)) in &self.groups {
            if let (Target::Queues { queues: numbers, .. }, Some(table)) = (target, table.upgrade()) {
                requeue(&table, numbers, queues)?;
            }
        }
        Ok(())
    }

    /// Ends a rule.
    pub fn remove(&mut self, handle: usize) -> Result<()> {
        let rule = self.rules.get(&handle).ok_or_else(unknown)?;
        if let Some(flow) = &rule.flow {
            flow.destroy().map_err(refused)?;
        }
        let names = rule.names;
        self.known.remove(names.as_bytes());
        let priority = u32::from(names.precedence() >> 8);
        if let Entry::Occupied(mut of) = self.shapes.entry((priority, shape(&names))) {
            of.get_mut().1 -= 1;
            if of.get().1 == 0 {
                of.remove();
            }
        }
        self.rules.remove(&handle);
        Ok(())
    }

    /// What a rule has counted since it was to count from zero, which `reset` makes it do again; nothing while the port is
    /// stopped.
    pub fn count(&mut self, handle: usize, reset: bool) -> Result<FlowCount> {
        let rule = self.rules.get_mut(&handle).ok_or_else(unknown)?;
        if !rule.actions.counts {
            return Err(Refusal::unsupported(
                Cause::Action,
                c"the rule does not count: it needs the action count",
            ));
        }
        let Some(flow) = &rule.flow else { return Ok(FlowCount::default()) };
        let now = flow.count().map_err(refused)?;
        let zero = if reset { std::mem::replace(&mut rule.zero, now) } else { rule.zero };
        Ok(FlowCount { frames: now.frames - zero.frames, bytes: now.bytes - zero.bytes })
    }

    /// Ends all.
    pub fn clear(&mut self) -> Result<()> {
        while let Some(&handle) = self.rules.keys().next() {
            self.remove(handle)?;
        }
        Ok(())
    }

    /// The port is started: the card gets the rules.
    pub fn start(&mut self, queues: &Queues<'_, C>) -> driver::Result<()> {
        for handle in self.rules.keys().copied().collect::<Vec<_>>() {
            let Some(Rule { names, actions, flow: None, .. }) = self.rules.get(&handle) else { continue };
            let (names, actions) = (*names, actions.clone());
            let flow = self.open(&names, &actions, queues)?;
            let zero = FlowCount::default();
            self.rules.entry(handle).and_modify(|rule| (rule.flow, rule.zero) = (Some(flow), zero));
        }
        Ok(())
    }

    /// The port is stopped: the card forgets the rules.
    pub fn stop(&mut self) {
        self.rules.values_mut().for_each(|rule| rule.flow = None);
    }
}
