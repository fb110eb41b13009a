//! Any frames, beside what the model of the card finds in them.

use model::wire::checksum::Checksums;
use model::wire::segments::Template;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

#[path = "../../../model/corpus/mod.rs"]
mod corpus;

/// A frame in pieces, of which some are not what the card knows.
#[derive(Clone, Debug)]
struct Known {
    /// Between the addresses and the EtherType.
    tags: Vec<[u8; 4]>,
    ipv6: bool,
    /// Options of IPv4, or headers behind that of IPv6, by their kinds.
    options: Vec<u8>,
    protocol: u8,
    /// Bytes of options of TCP.
    tcp_options: usize,
    data: Vec<u8>,
}

const TAGS: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x8847];
const ROUTING: u8 = 43;

fn known() -> impl Strategy<Value = Known> {
    let tag = select(TAGS.to_vec()).prop_map(|kind| [(kind >> 8) as u8, kind as u8, 0, 7]);
    let tags = prop::collection::vec(tag, 0..4);
    let all = prop::collection::vec(select(vec![HOP_BY_HOP, OPTIONS, ROUTING, FRAGMENT]), 0..10);
    let options = prop_oneof![all, prop::collection::vec(select(vec![HOP_BY_HOP, OPTIONS]), 0..10)];
    let data = prop::collection::vec(any::<u8>(), 0..40);
    (tags, any::<bool>(), options, select(vec![TCP, UDP, 1]), 0usize..11, data).prop_map(
        |(tags, ipv6, options, protocol, words, data)| Known {
            tags,
            ipv6,
            options,
            protocol,
            tcp_options: words * 4,
            data,
        },
    )
}

impl Known {
    /// The same without what the card does not know.
    fn plain(&self) -> Known {
        Known { tags: Vec::new(), options: Vec::new(), ..self.clone() }
    }

    fn lengths(&self) -> Lengths {
        let l3 = if self.ipv6 { IPV6 + 8 * self.options.len() } else { 20 + 4 * self.options.len() };
        let l4 = if self.protocol == TCP { 20 + self.tcp_options } else { 8 };
        Lengths { l2: ETHERNET + 4 * self.tags.len(), l3, l4, mss: 1 }
    }

    fn bytes(&self) -> Vec<u8> {
        let Lengths { l3, l4, .. } = self.lengths();
        let mut frame = vec![2; 12];
        frame.extend(self.tags.concat());
        let behind = l4 + self.data.len();
        if self.ipv6 {
            let kinds: Vec<u8> = self.options.iter().copied().chain([self.protocol]).collect();
            let length = ((l3 - IPV6 + behind) as u16).to_be_bytes();
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, length[0], length[1], kinds[0], 64]);
            frame.extend((0..32).map(|n| n * 7));
            kinds[1..].iter().for_each(|&next| frame.extend([next, 0, 0, 0, 0, 0, 0, 0]));
        } else {
            let length = ((l3 + behind) as u16).to_be_bytes();
            frame.extend([8, 0, 0x40 + (l3 / 4) as u8, 0, length[0], length[1], 0, 0, 0x40, 0, 64]);
            frame.extend([self.protocol, 1, 1, 198, 18, 0, 1, 198, 18, 0, 2]);
            frame.resize(frame.len() + l3 - 20, 1);
        }
        let length = (behind as u16).to_be_bytes();
        match self.protocol {
            TCP => frame.extend([0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, (l4 * 4) as u8, 16, 16, 0, 9, 9, 0, 0]),
            _ => frame.extend([0, 1, 0, 2, length[0], length[1], 9, 9]),
        }
        frame.resize(frame.len() + self.tcp_options * usize::from(self.protocol == TCP), 1);
        frame.extend(&self.data);
        frame
    }
}

const BOTH: Checksums = Checksums { ip: true, l4: true };

/// What a program asks for of a frame like this.
fn asked(of: &Known) -> u64 {
    let ip = if of.ipv6 { 0 } else { TX_IP_CKSUM };
    ip | if of.protocol == TCP { TX_TCP_CKSUM } else { TX_UDP_CKSUM }
}

proptest! {
    /// The card cuts what the driver gives it, and nothing that it could cut is refused.
    #[test]
    fn headers_are_of_tcp_where_the_card_says_so(
        of in known(),
        changes in prop::collection::vec((0usize..200, any::<u8>()), 0..3),
        cut in prop::option::weighted(0.2, 0usize..150),
    ) {
        let Lengths { l2, l3, l4, .. } = of.lengths();
        let mut headers = of.bytes();
        headers.truncate(cut.unwrap_or(l2 + l3 + l4));
        let length = headers.len().max(1);
        changes.into_iter().for_each(|(at, value)| {
            if let Some(byte) = headers.get_mut(at % length) {
                *byte = value;
            }
        });
        prop_assert_eq!(are_of_tcp(&headers), Template::of(&headers).is_some());
    }

    /// Who fills in a checksum, the driver or the card, where it is left to it: the packet is that of a frame in which the card
    /// finds everything, with the same checksum behind the header of IP, and a right one in it.
    #[test]
    fn checksums_are_right_whoever_fills_them_in(of in known(), tag in prop::option::of(Just([0x81u8, 0, 0, 9]))) {
        prop_assume!(of.protocol != 1);
        let (mut frame, mut plain) = (of.bytes(), of.plain().bytes());
        let (lengths, asked) = (of.lengths(), asked(&of) | tag.map_or(0, |_| TX_VLAN));
        BOTH.fill(&mut plain);
        match card_fills(&frame, asked, &lengths) {
            true => {
                // The card puts the tag in before.
                frame.splice(12..12, tag.into_iter().flatten());
                BOTH.fill(&mut frame);
                frame.drain(12..12 + tag.map_or(0, |tag| tag.len()));
            }
            false => prop_assert_eq!(fill(&mut frame, asked, &lengths), Some(())),
        }
        let behind = |frame: &[u8], at: Lengths| frame[at.l2 + at.l3..].to_vec();
        prop_assert_eq!(behind(&frame, lengths), behind(&plain, of.plain().lengths()));
        if !of.ipv6 {
            let header = &frame[lengths.l2..][..lengths.l3];
            prop_assert_eq!(sum(header) % 0xffff, 0, "{:x?}", header);
        }
    }

    /// Whatever a program says, no more than its checksums is written.
    #[test]
    fn any_lengths_are_harmless(of in known(), l2 in 0usize..128, l3 in 0usize..512, cut in 0usize..200, asked: u64) {
        let mut frame = of.bytes();
        frame.truncate(cut);
        let before = frame.clone();
        let lengths = Lengths { l2, l3, ..Lengths::default() };
        let _ = card_fills(&frame, asked, &lengths);
        let _ = fill(&mut frame, asked, &lengths);
        let changed = frame.iter().zip(&before).filter(|(now, before)| now != before).count();
        prop_assert!(changed <= 4);
    }
}

/// The frames that the model's tests keep, up to each of their bytes.
#[test]
fn kept_frames() {
    let mut of_tcp = 0;
    for corpus::Kept { says, what, bytes } in corpus::frames() {
        for length in 0..=bytes.len() {
            let headers = &bytes[..length];
            assert_eq!(
                are_of_tcp(headers),
                Template::of(headers).is_some(),
                "{length} bytes of {what} ({says})"
            );
            of_tcp += usize::from(are_of_tcp(headers));
        }
    }
    // Plain, behind two tags, and behind options.
    assert_eq!(of_tcp, 3);
}

/// The card finds these headers, and others not.
#[test]
fn what_the_card_does_not_know_is_filled_in_by_the_driver() {
    let plain =
        Known { tags: vec![], ipv6: true, options: vec![], protocol: UDP, tcp_options: 0, data: vec![] };
    let by_card = |of: &Known| card_fills(&of.bytes(), asked(of), &of.lengths());
    assert!(by_card(&plain) && by_card(&Known { options: vec![HOP_BY_HOP], ..plain.clone() }));
    assert!(by_card(&Known { tags: vec![[0x88, 0xa8, 0, 1], [0x81, 0, 0, 1]], ..plain.clone() }));
    assert!(!by_card(&Known { tags: vec![[0x91, 0, 0, 1]], ..plain.clone() }));
    assert!(!by_card(&Known { options: vec![ROUTING], ..plain.clone() }));
    // Another place than the card's, as of a packet in a tunnel.
    let elsewhere = Lengths { l2: 64, ..plain.lengths() };
    assert!(!card_fills(&plain.bytes(), asked(&plain), &elsewhere));
    assert!(card_fills(&plain.bytes(), asked(&plain), &Lengths::default()), "the program does not say");
}
