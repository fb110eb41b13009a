//! The flow rules of a card, and which of them take a frame.
//!
//! Rules that ask for the same fields are a group. A frame is looked up once for each group, so that the time which that
//! takes does not depend on how many rules a group has.

use std::sync::atomic::{compiler_fence, Ordering::SeqCst};

use fpga_regs::{FlowContext, FlowKind};

use super::parse::Fields;
use crate::plain::{plain, Flag};

/// Most flow rules of a card.
const MAX_RULES: usize = 16384;
/// Most groups of them.
const MAX_GROUPS: usize = 256;
/// Lists of rules, by what their values hash to.
const LISTS: usize = 16384;

/// What rules of a group have in common. Without rules it is free.
#[derive(Clone, Copy)]
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
    /// Which of the fields count.
    mask: Fields,
}

/// A flow rule.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Rule {
    /// In use.
    used: Flag,
    /// Owner.
    pub function: u16,
    /// Index of the queue pair that gets the frames.
    qp: u16,
    /// Its group.
    group: u16,
    /// The next rule in its list, and the one before, plus one; 0: none.
    next: u32,
    before: u32,
    /// The fields of its frames, under the mask of the group.
    value: Fields,
}

/// The rules of a card. Zero bytes are none.
#[repr(C)]
pub struct Rules {
    /// How many are in use.
    count: u32,
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
            FlowKind::NORMAL => Fields::of_rule(context),
            _ => Default::default(),
        };
        let wanted = Group {
            rules: 0,
            kind: context.kind().0,
            port: context.port().wrapping_sub(1),
            priority: context.precedence(),
            dont_trap: context.dont_trap().into(),
            mask,
        };
        let hint = (self.hint as usize).min(MAX_RULES);
        let free = (hint..MAX_RULES).chain(0..hint).find(|&n| !self.rules[n].used.get())?;
        let group = self.group_like(&wanted)?;
        self.groups[group].rules += 1;
        let group = group as u16;
        // In this order, for crash recovery: what counts is whole.
        self.top = self.top.max(free as u32 + 1);
        self.rules[free] = Rule { used: false.into(), function, qp, group, next: 0, before: 0, value };
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
                && (group.dont_trap, group.mask) == (wanted.dont_trap, wanted.mask)
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

    /// The rules of a group that take a frame.
    fn matching(&self, n: usize, fields: &Fields) -> impl Iterator<Item = &Rule> {
        let value = fields.under(&self.groups[n].mask);
        let mut next = self.lists[list_of(n, &value)];
        // Not for ever, whatever is in shared memory.
        let mut left = self.count.min(MAX_RULES as u32);
        let list = std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let rule = self.rules.get((next as usize).wrapping_sub(1))?;
            next = rule.next;
            Some(rule)
        });
        list.filter(move |rule| usize::from(rule.group) == n && rule.value == value)
    }

    /// Names the queue pairs whose rules take a frame that arrives at a port; one with several rules more than once.
    pub(crate) fn steer(&self, port: u8, fields: &Fields, takes_it: &mut impl FnMut(u16)) {
        let groups = || {
            self.groups().iter().enumerate().filter(move |(_, group)| group.rules != 0 && group.port == port)
        };
        // The best priority of those that keep the frame; better ones take a copy only.
        let mut keeps: Option<u16> = None;
        for (n, group) in groups() {
            let may_keep = group.kind == FlowKind::NORMAL.0 && !group.dont_trap.get();
            let better = keeps.is_none_or(|best| group.priority < best);
            if may_keep && better && self.matching(n, fields).next().is_some() {
                keeps = Some(group.priority);
            }
        }
        for (n, group) in groups() {
            let takes = match FlowKind(group.kind) {
                FlowKind::SNIFFER => true,
                FlowKind::NORMAL => keeps.is_none_or(|best| group.priority <= best),
                FlowKind::ALL_DEFAULT => keeps.is_none(),
                FlowKind::MC_DEFAULT => keeps.is_none() && fields.is_multicast(),
                _ => false,
            };
            if takes {
                self.matching(n, fields).for_each(|rule| takes_it(rule.qp));
            }
        }
    }
}

plain! {
    Group { rules, kind, port, priority, dont_trap, mask }
    Rule { used, function, qp, group, next, before, value }
    Rules { count, hint, top, groups_top, groups, lists, rules }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;
    use crate::packet::PortId;
    use crate::steering::{Copies, Copy};

    fn rules(of: &[(FlowContext, u16)]) -> Box<Rules> {
        // SAFETY: zero bytes are no rules.
        let mut rules: Box<Rules> = unsafe { Box::new_zeroed().assume_init() };
        for (context, qp) in of {
            rules.add(context, 0, *qp).expect("room");
        }
        rules
    }

    /// The queue pairs that get a frame at the first port, in order.
    fn steered(rules: &Rules, frame: &[u8]) -> Vec<u16> {
        let mut copies = Copies::of((0, 0));
        let at = PortId { card: 3, port: 0 };
        rules.steer(0, &Fields::of(frame), &mut |qp| copies.add(Copy { at, queue: qp, hash: 0 }));
        let mut all: Vec<u16> = copies.all().iter().map(|copy| copy.queue).collect();
        all.sort_unstable();
        all
    }

    fn rule(kind: FlowKind) -> FlowContext {
        FlowContext::new().with_port(1).with_kind(kind)
    }

    fn to(last: u8) -> FlowContext {
        rule(FlowKind::NORMAL).with_dmac([2, 0, 0, 0, 0, last]).with_dmac_mask([0xff; 6])
    }

    const FRAME: [u8; 14] = [2, 0, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 8, 6];
    const GROUP: [u8; 14] = [1, 0, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 8, 6];

    #[test]
    fn equal_rules_all_get_a_copy_and_a_queue_pair_gets_one() {
        let rules = rules(&[(to(1), 20), (to(1), 21), (to(1), 20), (to(2), 22), (to(1).with_port(2), 23)]);
        assert_eq!(steered(&rules, &FRAME), [20, 21]);
        assert!(steered(&rules, &GROUP).is_empty());
    }

    #[test]
    fn the_best_priority_keeps_a_frame_and_those_that_do_not_trap_let_it_go_on() {
        let any = rule(FlowKind::NORMAL).with_precedence(7);
        let copy = to(1).with_precedence(1).with_dont_trap(true);
        let late = any.with_precedence(9).with_dont_trap(true);
        let all = [(any, 20), (to(1).with_precedence(3), 21), (copy, 22), (late, 23)];
        assert_eq!(steered(&rules(&all), &FRAME), [21, 22]);
        assert_eq!(steered(&rules(&all), &GROUP), [20]);
        assert_eq!(steered(&rules(&[(copy, 22), (late, 23)]), &FRAME), [22, 23]);
    }

    #[test]
    fn defaults_get_what_no_rule_keeps_and_sniffers_everything() {
        let (all, groups) = (rule(FlowKind::ALL_DEFAULT), rule(FlowKind::MC_DEFAULT));
        let sniffer = rule(FlowKind::SNIFFER);
        let copy = to(1).with_dont_trap(true);
        let all = [(all, 20), (groups, 21), (sniffer, 22), (to(1), 23)];
        assert_eq!(steered(&rules(&all), &FRAME), [22, 23]);
        assert_eq!(steered(&rules(&all), &GROUP), [20, 21, 22]);
        assert_eq!(steered(&rules(&[all[0], (copy, 24)]), &FRAME), [20, 24]);
    }

    #[test]
    fn places_are_used_again_and_the_table_has_an_end() {
        let mut rules = rules(&[]);
        for n in 0..MAX_RULES {
            assert_eq!(rules.add(&to(1), 0, 20), Some(n));
        }
        assert_eq!(rules.add(&to(1), 0, 20), None);
        rules.remove(77);
        assert!(rules.get(77).is_none() && rules.get(MAX_RULES).is_none());
        assert_eq!(rules.add(&to(1), 0, 21), Some(77));
        assert_eq!(steered(&rules, &FRAME), [20, 21]);
        rules.recover();
        assert_eq!(steered(&rules, &FRAME), [20, 21]);
        rules.remove_of(20);
        assert_eq!(steered(&rules, &FRAME), [21]);
        rules.remove_of(21);
        assert_eq!((rules.count, rules.top), (0, 0));
        assert!(
            rules.lists.iter().all(|&first| first == 0) && rules.groups.iter().all(|group| group.rules == 0)
        );
    }

    #[test]
    fn groups_have_an_end_and_are_used_again() {
        let mut rules = rules(&[]);
        let any = |priority: u16| rule(FlowKind::NORMAL).with_precedence(priority);
        for priority in 0..MAX_GROUPS as u16 {
            assert!(rules.add(&any(priority), 0, 20 + priority).is_some());
        }
        assert_eq!(rules.add(&any(999), 0, 20), None);
        assert!(rules.add(&any(7), 0, 19).is_some(), "of a group that there is");
        assert_eq!(steered(&rules, &FRAME), [20]);
        rules.remove_of(20);
        assert_eq!(steered(&rules, &FRAME), [21]);
        assert!(rules.add(&any(999), 0, 20).is_some());
        assert_eq!(steered(&rules, &FRAME), [21]);
    }

    /// Rules are found as a search of all of them would find them.
    #[test]
    fn any_rule_among_thousands_is_found() {
        let mut rules = rules(&[]);
        let address = |n: u16| [2, 0, 0, 0, (n >> 8) as u8, n as u8];
        for n in 0..5000 {
            let one = rule(FlowKind::NORMAL).with_dmac(address(n)).with_dmac_mask([0xff; 6]);
            rules.add(&one, 0, n).expect("room");
        }
        for n in (0..5000).step_by(3) {
            rules.remove(n);
        }
        for n in 0..5000 {
            let mut frame = FRAME;
            frame[..6].copy_from_slice(&address(n));
            let found: &[u16] = if n % 3 == 0 { &[] } else { &[n] };
            assert_eq!(steered(&rules, &frame), found);
        }
    }
}
