//! The flow rules of a card, and which of them take a frame.
//!
//! Rules that ask for the same fields are a group. A frame is looked up once for each group, so that the time which that
//! takes does not depend on how many rules a group has.

use std::sync::atomic::{compiler_fence, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use fpga_regs::{FlowContext, FlowKind};

use super::parse::Fields;
use super::vlans::Vlans;
use crate::plain::{Flag, Plain};

/// Most flow rules of a card.
const MAX_RULES: usize = 16384;
/// Most groups of them.
const MAX_GROUPS: usize = 256;
/// Lists of rules, by what their values hash to.
const LISTS: usize = 16384;

/// What rules of a group have in common. Without rules it is free.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
struct Group {
    /// How many rules it has.
    rules: u32,
    /// Kind: see [`FlowKind`].
    kind: u8,
    /// Port, counted from 0.
    port: u8,
    /// 0 is the best.
    priority: u16,
    /// Its rules take a copy, and the frame goes on.
    dont_trap: Flag,
    /// Of frames with a tag, only those of a VLAN that the function of the rule takes.
    by_vlan: Flag,
    /// Which of the fields count.
    mask: Fields,
}

/// A flow rule.
#[derive(Clone, Copy, Plain)]
#[repr(C)]
pub struct Rule {
    /// In use.
    used: Flag,
    /// Owner.
    pub function: u16,
    /// Index of the queue pair that gets the frames, unless nobody does.
    qp: u16,
    /// It drops them.
    drop: Flag,
    /// It marks them with `mark`.
    marked: Flag,
    mark: u32,
    /// It counts them.
    counted: Flag,
    /// Its group.
    group: u16,
    /// The next rule in its list, and the one before, plus one; 0: none.
    next: u32,
    before: u32,
    /// The fields of its frames, under the mask of the group.
    value: Fields,
}

/// What a rule has counted. Threads of several islands may count at once.
#[derive(Plain)]
#[repr(C)]
struct Count {
    frames: AtomicU64,
    bytes: AtomicU64,
}

/// What a rule that takes a frame does with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Index of the queue pair that gets it; nobody does if the rule drops it.
    pub qp: Option<u16>,
    /// Rules of worse priority do not get it.
    pub keeps: bool,
    /// What the rule marks it with.
    pub mark: Option<u32>,
    /// The place of the rule, if it counts.
    pub counts: Option<u16>,
}

/// The rules of a card. Zero bytes are none.
#[derive(Plain)]
#[repr(C)]
pub struct Rules {
    /// How many are in use.
    pub(crate) count: u32,
    /// Where the next search for a free place starts.
    hint: u32,
    /// No place from here on is in use.
    top: u32,
    /// No group from here on is in use.
    groups_top: u32,
    groups: [Group; MAX_GROUPS],
    /// The first rule of each list, plus one.
    lists: [u32; LISTS],
    rules: [Rule; MAX_RULES],
    counts: [Count; MAX_RULES],
    /// The VLANs that functions take at each port.
    pub(crate) vlans: Vlans,
}

/// The list of the rules of a group with a value.
fn list_of(group: usize, value: &Fields) -> usize {
    (value.hash(group as u64) >> 48) as usize % LISTS
}

impl Rules {
    /// The places that may be in use; never past the table, whatever is in shared memory.
    fn all(&self) -> &[Rule] {
        &self.rules[..(self.top as usize).min(MAX_RULES)]
    }

    fn groups(&self) -> &[Group] {
        &self.groups[..(self.groups_top as usize).min(MAX_GROUPS)]
    }

    /// Adds a rule for a queue pair of a function. Gives its place, or `None` if there is no room.
    pub fn add(&mut self, context: &FlowContext, function: u16, qp: u16) -> Option<usize> {
        let (value, mask) = match context.kind() {
            FlowKind::NORMAL | FlowKind::KERNEL => Fields::of_rule(context),
            _ => Default::default(),
        };
        let wanted = Group {
            rules: 0,
            kind: context.kind().0,
            port: context.port().wrapping_sub(1),
            priority: context.precedence(),
            dont_trap: context.dont_trap().into(),
            by_vlan: context.by_vlan().into(),
            mask,
        };
        let hint = (self.hint as usize).min(MAX_RULES);
        let free = (hint..MAX_RULES).chain(0..hint).find(|&n| !self.rules[n].used.get())?;
        let group = self.group_like(&wanted)?;
        self.groups[group].rules += 1;
        let group = group as u16;
        // In this order, for crash recovery: what counts is whole.
        self.top = self.top.max(free as u32 + 1);
        self.counts[free] = Count { frames: 0.into(), bytes: 0.into() };
        self.rules[free] = Rule {
            used: false.into(),
            function,
            qp,
            drop: context.drop().into(),
            marked: context.marked().into(),
            mark: context.mark(),
            counted: context.counted().into(),
            group,
            next: 0,
            before: 0,
            value,
        };
        compiler_fence(SeqCst);
        self.rules[free].used = true.into();
        compiler_fence(SeqCst);
        self.count += 1;
        self.hint = free as u32 + 1;
        self.link(free);
        Some(free)
    }

    /// The group that has this in common, if there is room for it.
    fn group_like(&mut self, wanted: &Group) -> Option<usize> {
        let same = |group: &Group| {
            group.rules != 0
                && (group.kind, group.port, group.priority) == (wanted.kind, wanted.port, wanted.priority)
                && (group.dont_trap, group.by_vlan, group.mask)
                    == (wanted.dont_trap, wanted.by_vlan, wanted.mask)
        };
        if let Some(known) = self.groups().iter().position(same) {
            return Some(known);
        }
        let free = self.groups.iter().position(|group| group.rules == 0)?;
        self.groups[free] = *wanted;
        self.groups_top = self.groups_top.max(free as u32 + 1);
        Some(free)
    }

    fn list_at(&self, n: usize) -> usize {
        let Rule { group, value, .. } = &self.rules[n];
        list_of((*group).into(), value)
    }

    fn link(&mut self, n: usize) {
        let list = self.list_at(n);
        let next = self.lists[list];
        (self.rules[n].next, self.rules[n].before) = (next, 0);
        if let Some(next) = self.rules.get_mut((next as usize).wrapping_sub(1)) {
            next.before = n as u32 + 1;
        }
        self.lists[list] = n as u32 + 1;
    }

    fn unlink(&mut self, n: usize) {
        let Rule { next, before, .. } = self.rules[n];
        match self.rules.get_mut((before as usize).wrapping_sub(1)) {
            Some(before) => before.next = next,
            None => self.lists[self.list_at(n)] = next,
        }
        if let Some(next) = self.rules.get_mut((next as usize).wrapping_sub(1)) {
            next.before = before;
        }
    }

    /// The rule at a place, if there is one.
    pub fn get(&self, n: usize) -> Option<&Rule> {
        self.rules.get(n).filter(|rule| rule.used.get())
    }

    /// Frees the place of a rule.
    pub fn remove(&mut self, n: usize) {
        if self.get(n).is_none() {
            return;
        }
        self.unlink(n);
        self.rules[n].used = false.into();
        let group = &mut self.groups[usize::from(self.rules[n].group) % MAX_GROUPS];
        group.rules = group.rules.saturating_sub(1);
        self.count = self.count.saturating_sub(1);
        if self.count == 0 {
            (self.hint, self.top, self.groups_top) = (0, 0, 0);
        }
    }

    /// Whether a queue pair has rules.
    pub fn any_of(&self, qp: u16) -> bool {
        self.all().iter().any(|rule| rule.used.get() && rule.qp == qp)
    }

    /// Removes the rules of a queue pair.
    pub fn remove_of(&mut self, qp: u16) {
        for n in 0..self.all().len() {
            if self.rules[n].used.get() && self.rules[n].qp == qp {
                self.remove(n);
            }
        }
    }

    /// Finds lists and counts anew, after the death of a process that was changing them.
    pub fn recover(&mut self) {
        let top = (self.top as usize).min(MAX_RULES);
        if top == 0 {
            // There was none, and what was never used takes no memory.
            return;
        }
        self.lists.fill(0);
        self.groups.iter_mut().for_each(|group| group.rules = 0);
        (self.count, self.top, self.groups_top) = (0, 0, MAX_GROUPS as u32);
        for n in 0..top {
            let Rule { used, group, .. } = self.rules[n];
            if used.get() {
                self.groups[usize::from(group) % MAX_GROUPS].rules += 1;
                self.count += 1;
                self.top = n as u32 + 1;
                self.link(n);
            }
        }
        self.hint = self.top;
    }

    /// Frames and bytes that a rule has counted.
    pub fn counts(&self, n: usize) -> (u64, u64) {
        self.counts.get(n).map_or((0, 0), |count| (count.frames.load(Relaxed), count.bytes.load(Relaxed)))
    }

    /// A rule counts a frame of so many bytes.
    pub fn count(&self, n: u16, bytes: u64) {
        if let Some(count) = self.counts.get(usize::from(n)) {
            count.frames.fetch_add(1, Relaxed);
            count.bytes.fetch_add(bytes, Relaxed);
        }
    }

    /// What the rules of a group do with a frame, those that take it.
    fn matching<'a>(&'a self, n: usize, fields: &'a Fields) -> impl Iterator<Item = Taken> + use<'a> {
        let group = &self.groups[n];
        let value = fields.under(&group.mask);
        let keeps = group.kind == FlowKind::NORMAL.0 && !group.dont_trap.get();
        let mut next = self.lists[list_of(n, &value)];
        // Not for ever, whatever is in shared memory.
        let mut left = self.count.min(MAX_RULES as u32);
        let list = std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let rule = self.rules.get((next as usize).wrapping_sub(1))?;
            let place = next.wrapping_sub(1) as u16;
            next = rule.next;
            Some((place, rule))
        });
        let list = list.filter(move |(_, rule)| usize::from(rule.group) == n && rule.value == value);
        let taken = |rule: &Rule| self.vlans.take((rule.function, group.port), fields);
        let list = list.filter(move |(_, rule)| !group.by_vlan.get() || taken(rule));
        list.map(move |(place, rule)| Taken {
            qp: (!rule.drop.get()).then_some(rule.qp),
            keeps,
            mark: rule.marked.get().then_some(rule.mark),
            counts: rule.counted.get().then_some(place),
        })
    }

    /// The fields that rules ask for.
    pub(crate) fn asked(&self) -> Fields {
        let groups = self.groups().iter().filter(|group| group.rules != 0);
        groups.fold(Fields::default(), |asked, group| match group.by_vlan.get() {
            true => asked.union(&group.mask).union(&Fields::of_tag()),
            false => asked.union(&group.mask),
        })
    }

    /// Whose function there is a rule of.
    pub(crate) fn functions(&self) -> impl Iterator<Item = u16> + '_ {
        self.all().iter().filter(|rule| rule.used.get()).map(|rule| rule.function)
    }

    /// Tells what the rules do with a frame that arrives at a port, those that take it.
    pub(crate) fn steer(&self, port: u8, fields: &Fields, takes_it: &mut impl FnMut(Taken)) {
        let groups = || {
            self.groups().iter().enumerate().filter(move |(_, group)| group.rules != 0 && group.port == port)
        };
        // The best priority of the rules of a kind that keep the frame; better ones take a copy only.
        let best = |kind: FlowKind| {
            let mut best: Option<u16> = None;
            for (n, group) in groups() {
                let better = best.is_none_or(|best| group.priority < best);
                let may_keep = group.kind == kind.0 && !group.dont_trap.get() && better;
                if may_keep && self.matching(n, fields).next().is_some() {
                    best = Some(group.priority);
                }
            }
            best
        };
        let keeps = best(FlowKind::NORMAL);
        let mut kept = keeps.is_some();
        // A rule for the ports of a conversation keeps it, as on other cards also one that all could hear: a program that
        // joins a group at the kernel too would have each datagram twice.
        let mut flow = false;
        let mut kernel = false;
        for (n, group) in groups() {
            let takes = match FlowKind(group.kind) {
                FlowKind::SNIFFER => true,
                FlowKind::NORMAL => keeps.is_none_or(|best| group.priority <= best),
                FlowKind::ALL_DEFAULT => keeps.is_none(),
                FlowKind::MC_DEFAULT => keeps.is_none() && fields.is_multicast(),
                _ => false,
            };
            kernel |= group.kind == FlowKind::KERNEL.0;
            if takes {
                let default = matches!(FlowKind(group.kind), FlowKind::ALL_DEFAULT | FlowKind::MC_DEFAULT);
                for taken in self.matching(n, fields) {
                    kept |= default;
                    flow |= taken.keeps && group.mask.asks_for_ports();
                    takes_it(taken);
                }
            }
        }
        if !kernel || flow || kept && !fields.is_multicast() && !fields.is_arp() {
            return;
        }
        let first = best(FlowKind::KERNEL);
        for (n, group) in groups() {
            if group.kind == FlowKind::KERNEL.0 && Some(group.priority) == first {
                self.matching(n, fields).for_each(&mut *takes_it);
            }
        }
    }
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
