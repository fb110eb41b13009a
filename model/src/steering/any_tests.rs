//! Any rules and frames, beside a search that compares field by field; any hash, beside one of single bits; checksums of any
//! bytes.

use fpga_regs::{FlowContext, FlowKind, HashFields, HASH_KEY};
use proptest::prelude::*;
use proptest::sample::select;

use super::{toeplitz, Fields, Rules};
use crate::wire::checksum::Checksums;
use crate::wire::corpus;
use crate::zeroed::Zeroed;

/// What a frame has, in few enough values that rules meet it. An address of IPv4 is the last four bytes.
#[derive(Clone, Debug)]
struct Known {
    dmac: [u8; 6],
    smac: [u8; 6],
    tag: Option<u16>,
    version: u8,
    src: [u8; 16],
    dst: [u8; 16],
    protocol: u8,
    ports: [u16; 2],
}

fn known() -> impl Strategy<Value = Known> {
    let mac = || (select(vec![0u8, 1, 2]), 0u8..3).prop_map(|(a, b)| [a, 0, 0, 0, 0, b]);
    let ip = || {
        (0u8..3, any::<[u8; 4]>()).prop_map(|(last, fill)| {
            let mut ip = [0; 16];
            ip[12..].copy_from_slice(&if last == 0 { fill } else { [10, 0, 0, last] });
            ip
        })
    };
    let tag = prop::option::of(0u16..4);
    let ports = [0u16..3, 0u16..3];
    (mac(), mac(), tag, select(vec![0u8, 4, 6]), ip(), ip(), select(vec![1u8, 6, 17]), ports).prop_map(
        |(dmac, smac, tag, version, src, dst, protocol, ports)| Known {
            dmac,
            smac,
            tag,
            version,
            src,
            dst,
            protocol,
            ports,
        },
    )
}

impl Known {
    fn ether_type(&self) -> u16 {
        match self.version {
            4 => 0x800,
            6 => 0x86dd,
            _ => 0x88b5,
        }
    }

    fn has_ports(&self) -> bool {
        self.version != 0 && self.protocol != 1
    }

    fn bytes(&self) -> Vec<u8> {
        let mut frame = [self.dmac, self.smac].concat();
        if let Some(tci) = self.tag {
            frame.extend([0x81, 0, 0, tci as u8]);
        }
        frame.extend(self.ether_type().to_be_bytes());
        let l4 = [self.ports[0].to_be_bytes(), self.ports[1].to_be_bytes(), [0, 8], [0, 0]].concat();
        match self.version {
            4 => {
                frame.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, self.protocol, 0, 0]);
                frame.extend([&self.src[12..], &self.dst[12..]].concat());
            }
            6 => {
                frame.extend([0x60, 0, 0, 0, 0, 8, self.protocol, 64]);
                frame.extend([self.src, self.dst].concat());
            }
            _ => {}
        }
        frame.extend(l4);
        frame
    }

    /// A rule that asks for those of the frame's fields whose bits are set.
    fn rule(&self, asked: u8, kind: FlowKind, priority: u16, copy: bool) -> FlowContext {
        let mut rule =
            FlowContext::new().with_port(1).with_kind(kind).with_precedence(priority).with_dont_trap(copy);
        let on = |bit: u8| asked >> bit & 1 == 1;
        if on(0) {
            rule = rule.with_dmac(self.dmac).with_dmac_mask([0xff; 6]);
        }
        if on(1) {
            rule = rule.with_smac(self.smac).with_smac_mask([0xff; 6]);
        }
        if let Some(tci) = self.tag.filter(|_| on(2)) {
            rule = rule.with_vlan_tci(tci).with_vlan_tci_mask(0xfff);
        }
        if on(3) {
            rule = rule.with_ether_type(self.ether_type()).with_ether_type_mask(0xffff);
        }
        if self.version != 0 && asked >> 4 != 0 {
            rule = rule.with_ip_version(self.version);
            if on(4) {
                rule = rule.with_src_ip(self.src).with_src_ip_mask([0xff; 16]);
            }
            if on(5) {
                rule = rule.with_dst_ip(self.dst).with_dst_ip_mask([0xff; 16]);
            }
            if on(6) {
                rule = rule.with_protocol(self.protocol).with_protocol_mask(0xff);
            }
            if on(7) && self.has_ports() {
                rule = rule.with_dst_port(self.ports[1]).with_dst_port_mask(0xffff);
            }
        }
        rule
    }

    /// Whether a rule that was made of another frame takes this one.
    fn is_of(&self, of: &Known, asked: u8) -> bool {
        let ip = of.version != 0 && asked >> 4 != 0;
        let same = [
            self.dmac == of.dmac,
            self.smac == of.smac,
            of.tag.is_none() || self.tag == of.tag,
            self.ether_type() == of.ether_type(),
            !ip || self.src == of.src,
            !ip || self.dst == of.dst,
            !ip || self.protocol == of.protocol,
            !ip || !of.has_ports() || self.has_ports() && self.ports[1] == of.ports[1],
        ];
        let fields = (0..8).all(|bit| asked >> bit & 1 == 0 || same[bit]);
        fields && (!ip || self.version == of.version)
    }
}

/// Kinds of rules, most of them with values.
const KINDS: [FlowKind; 6] = [
    FlowKind::NORMAL,
    FlowKind::NORMAL,
    FlowKind::NORMAL,
    FlowKind::ALL_DEFAULT,
    FlowKind::MC_DEFAULT,
    FlowKind::SNIFFER,
];

/// The hash by its definition: for each bit of the input that is set, 32 bits of the key from there on.
fn by_bits(key: &[u8], input: &[u8]) -> u32 {
    let bit = |bytes: &[u8], n: usize| u32::from(bytes[n / 8] >> (7 - n % 8) & 1);
    let window = |n: usize| (n..n + 32).fold(0, |word, n| word << 1 | bit(key, n));
    (0..input.len() * 8).filter(|&n| bit(input, n) == 1).fold(0, |hash, n| hash ^ window(n))
}

proptest! {
    #[test]
    fn any_rules_take_what_they_ask_for(
        made in prop::collection::vec((known(), any::<u8>(), select(&KINDS[..]), 0u16..4, prop::bool::weighted(0.2)), 1..30),
        dropping: u32,
        by_vlan: u32,
        vlans in 0u8..16,
        removed in prop::collection::vec(0usize..30, 0..10),
        frames in prop::collection::vec(known(), 1..10),
        recovers: bool,
    ) {
        let mut rules = Zeroed::<Rules>::new().unwrap();
        let mut there = vec![true; made.len()];
        let drops = |n: usize| dropping >> n & 1 == 1 && made[n].2 == FlowKind::NORMAL && !made[n].4;
        for (n, (of, asked, kind, priority, copy)) in made.iter().enumerate() {
            let rule = of.rule(*asked, *kind, *priority, *copy).with_drop(drops(n));
            let rule = rule.with_by_vlan(by_vlan >> n & 1 == 1);
            prop_assert_eq!(rules.add(&rule, 0, n as u16), Some(n));
        }
        (0..4).for_each(|vlan| rules.vlans.set((0, 0), vlan, vlans >> vlan & 1 == 1));
        for n in removed {
            rules.remove(n);
            if let Some(there) = there.get_mut(n) {
                *there = false;
            }
        }
        if recovers {
            rules.recover();
        }
        for frame in frames.iter().chain(made.iter().map(|rule| &rule.0)) {
            let mut got = Vec::new();
            let mut dropped = false;
            rules.steer(0, &Fields::of(&frame.bytes()), &mut |taken| match taken.qp {
                Some(qp) => got.push(usize::from(qp)),
                None => dropped = true,
            });
            rules.steer(1, &Fields::of(&frame.bytes()), &mut |_| unreachable!("no rule is of this port"));
            got.sort_unstable();
            let taken = frame.tag.is_none_or(|vlan| vlans >> vlan & 1 == 1);
            let asks = |n: usize| there[n] && (taken || by_vlan >> n & 1 == 0);
            let takes = |n: usize, kind| asks(n) && made[n].2 == kind && (kind != FlowKind::NORMAL || frame.is_of(&made[n].0, made[n].1));
            let all = || 0..made.len();
            let keeps = all().filter(|&n| takes(n, FlowKind::NORMAL) && !made[n].4).map(|n| made[n].3).min();
            let gets = |n: &usize| match made[*n].2 {
                FlowKind::NORMAL => takes(*n, FlowKind::NORMAL) && keeps.is_none_or(|best| made[*n].3 <= best),
                FlowKind::ALL_DEFAULT => asks(*n) && keeps.is_none(),
                FlowKind::MC_DEFAULT => asks(*n) && keeps.is_none() && frame.dmac[0] & 1 == 1,
                _ => asks(*n),
            };
            let named: Vec<_> = all().filter(gets).collect();
            prop_assert_eq!(dropped, named.iter().any(|&n| drops(n)), "{:?}", frame);
            let takers: Vec<_> = named.into_iter().filter(|&n| !drops(n)).collect();
            prop_assert_eq!(got, takers, "{:?}", frame);
        }
    }

    #[test]
    fn any_hash_is_that_of_its_bits(key in any::<[u8; HASH_KEY]>(), frame in known(), on: u8) {
        let on = HashFields(on.into());
        let (mut input, has) = (Vec::new(), |field| on.contains(field));
        let at = if frame.version == 4 { 12 } else { 0 };
        let [src, dst] = match frame.version {
            4 => [HashFields::SRC_IPV4, HashFields::DST_IPV4],
            _ => [HashFields::SRC_IPV6, HashFields::DST_IPV6],
        };
        let [from, to] = match frame.protocol {
            6 => [HashFields::SRC_PORT_TCP, HashFields::DST_PORT_TCP],
            _ => [HashFields::SRC_PORT_UDP, HashFields::DST_PORT_UDP],
        };
        let parts = [(src, &frame.src[at..]), (dst, &frame.dst[at..])];
        parts.iter().filter(|part| frame.version != 0 && has(part.0)).for_each(|part| input.extend(part.1));
        let ports = [(from, frame.ports[0]), (to, frame.ports[1])];
        ports.iter().filter(|port| frame.has_ports() && has(port.0)).for_each(|port| input.extend(port.1.to_be_bytes()));
        prop_assert_eq!(toeplitz(&key, &Fields::of(&frame.bytes()), on), by_bits(&key, &input));
    }

    #[test]
    fn any_bytes_are_filled_in(
        frame in known(),
        changes in prop::collection::vec((0usize..80, any::<u8>()), 0..5),
        more in prop::collection::vec(any::<u8>(), 0..40),
        cut in 0usize..120,
        ip: bool,
        l4: bool,
    ) {
        let mut bytes = [frame.bytes(), more].concat();
        let len = bytes.len();
        changes.into_iter().for_each(|(at, value)| bytes[at % len] = value);
        bytes.truncate(cut);
        filled_in(bytes, Checksums { ip, l4 })?;
    }
}

/// What is filled in is right then, and nothing else is changed; gives what is right.
fn filled_in(mut bytes: Vec<u8>, wanted: Checksums) -> Result<Checksums, TestCaseError> {
    let before = (bytes.clone(), Checksums::right(&bytes));
    wanted.fill(&mut bytes);
    let right = Checksums::right(&bytes);
    prop_assert!(right.ip >= before.1.ip && right.l4 >= before.1.l4);
    let changed = bytes.iter().zip(&before.0).filter(|(new, old)| new != old).count();
    prop_assert!(changed <= 2 * (usize::from(wanted.ip) + usize::from(wanted.l4)), "{changed} bytes");
    let once = bytes.clone();
    wanted.fill(&mut bytes);
    prop_assert_eq!(bytes, once);
    Ok(right)
}

#[test]
fn kept_frames() {
    let mut of_tcp = 0;
    for kept in corpus::frames() {
        for (ip, l4) in [(false, false), (true, false), (false, true)] {
            filled_in(kept.bytes.clone(), Checksums { ip, l4 }).expect(&kept.what);
        }
        let right = filled_in(kept.bytes, Checksums { ip: true, l4: true }).expect(&kept.what);
        of_tcp += usize::from(right.l4 && kept.what.contains("TCP"));
    }
    // Plain, behind two tags, and behind options.
    assert_eq!(of_tcp, 3);
}
