use super::*;

const MAC: [u8; 6] = [2, 0x56, 0x42, 0, 0, 0];
const PEER: [u8; 6] = [2, 0, 0, 0, 0, 0x64];
const SECOND: u64 = 1_000_000_000;

fn v4(end: u8) -> Gid {
    ipv4_to_gid([198, 18, 0, end])
}

fn v6(end: u8) -> Gid {
    let mut gid = [0xfd, 0x56, 0, 0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    gid[15] = end;
    gid
}

/// A neighbour's own table, at a moment; collects what it sends.
struct Host {
    table: Neighbours,
    own: Gid,
    sent: Vec<Vec<u8>>,
}

impl Host {
    fn new(mac: [u8; 6], own: Gid) -> Host {
        Host { table: Neighbours::new(mac), own, sent: Vec::new() }
    }

    fn look(&mut self, now: u64, ip: Gid) -> Neighbour {
        self.table.look(now, &self.own, &(0, ip), &mut |frame: &[u8]| self.sent.push(frame.to_vec()))
    }

    fn send(&mut self, now: u64, ip: Gid, frame: &[u8]) {
        let mut frame = frame.to_vec();
        self.table.send(now, (&self.own, &(0, ip)), &mut frame, &mut |f: &[u8]| self.sent.push(f.to_vec()));
    }

    fn hear(&mut self, now: u64, frames: Vec<Vec<u8>>) {
        let own = self.own;
        for frame in frames {
            let out = &mut |frame: &[u8]| self.sent.push(frame.to_vec());
            assert!(self.table.receive(now, &frame, |(_, ip)| *ip == own, out));
        }
    }

    /// Runs what is due; the time of the next question.
    fn run(&mut self, now: u64) -> Option<u64> {
        self.table.run(now, &mut |frame: &[u8]| self.sent.push(frame.to_vec()));
        self.table.due()
    }

    fn sent(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.sent)
    }
}

/// A question for who has an address.
fn question(source: Gid, destination: Gid, target: Gid) -> Discovery {
    Discovery { request: true, source, destination, target, mac: None, overrides: false }
}

/// The frame of a message.
fn framed(src: [u8; 6], dst: [u8; 6], message: &Discovery) -> Vec<u8> {
    let mut frame = Vec::new();
    put_discovery(src, dst, None, message, &mut |bytes: &[u8]| frame.extend(bytes));
    frame
}

fn pair(v6: bool) -> (Host, Host) {
    let ip = if v6 { self::v6 } else { v4 };
    (Host::new(MAC, ip(1)), Host::new(PEER, ip(100)))
}

#[test]
fn frames_wait_for_the_answer() {
    for version in [false, true] {
        let (mut here, mut there) = pair(version);
        for byte in [1, 2] {
            here.send(0, there.own, &[byte; 80]);
        }
        let question = here.sent();
        assert_eq!(question.len(), 1, "one question for both frames");
        assert!(question[0].len() >= 60 && question[0][6..12] == MAC && question[0][0] & 1 == 1);
        there.hear(0, question);
        let answer = there.sent();
        assert_eq!((answer.len(), &answer[0][..6]), (1, &MAC[..]));
        here.hear(1, answer);
        let frames = here.sent();
        assert_eq!(frames.len(), 2);
        for (frame, byte) in frames.iter().zip([1, 2]) {
            assert_eq!((&frame[..6], frame[6], frame.len()), (&PEER[..], byte, 80));
        }
        // Who was asked knows the asker without a question.
        assert_eq!(there.look(2, here.own), Neighbour::At(MAC));
        assert_eq!(here.look(2, there.own), Neighbour::At(PEER));
        assert!(here.sent().is_empty() && there.sent().is_empty());
        assert_eq!(here.run(2), None);
    }
}

#[test]
fn three_questions_and_an_end() {
    let (mut here, there) = pair(false);
    here.send(0, there.own, &[7; 80]);
    assert_eq!(here.run(0), Some(SECOND));
    for now in [SECOND, 2 * SECOND] {
        assert_eq!(here.run(now), Some(now + SECOND));
    }
    assert_eq!(here.sent().len(), 3);
    assert_eq!(here.table.lost, 0);
    assert_eq!(here.run(3 * SECOND), None);
    assert_eq!(here.table.lost, 1, "the frame that waited");
    assert!(here.sent().is_empty() && here.table.entries.is_empty());
    // The next frame asks again; the ones that waited are gone.
    assert_eq!(here.look(4 * SECOND, there.own), Neighbour::Asked);
    assert_eq!(here.sent().len(), 1);
}

#[test]
fn a_neighbour_is_asked_again_and_may_have_moved() {
    let (mut here, mut there) = pair(true);
    assert_eq!(here.look(0, there.own), Neighbour::Asked);
    there.hear(0, here.sent());
    here.hear(0, there.sent());
    let later = 31 * SECOND;
    assert_eq!(here.look(later, there.own), Neighbour::At(PEER), "used while it is asked");
    let mut moved = Host::new([2, 0, 0, 0, 0, 0x65], there.own);
    moved.hear(later, here.sent());
    here.hear(later, moved.sent());
    assert_eq!(here.look(later, there.own), Neighbour::At([2, 0, 0, 0, 0, 0x65]));
    assert!(here.sent().is_empty());
}

#[test]
fn strangers_are_not_remembered() {
    let (mut here, mut there) = pair(false);
    // A question for somebody else, an answer that nobody asked for, a question of one without an address.
    assert_eq!(there.look(0, v4(50)), Neighbour::Asked);
    here.hear(0, there.sent());
    let answer = Arp {
        request: false,
        sender_mac: PEER,
        sender: [198, 18, 0, 100],
        target_mac: MAC,
        target: [198, 18, 0, 1],
    };
    put_arp(PEER, MAC, None, &answer, &mut |frame: &[u8]| there.sent.push(frame.to_vec()));
    let probe = Arp { request: true, sender: [0; 4], target_mac: [0; 6], ..answer };
    put_arp(PEER, EVERYBODY, Some(5), &probe, &mut |frame: &[u8]| there.sent.push(frame.to_vec()));
    here.hear(0, there.sent());
    assert!(here.table.entries.is_empty());
    let defended = here.sent();
    assert_eq!(defended.len(), 1, "the address is not free");
    assert_eq!(Ethernet::decode(&defended[0]).unwrap().0.vlan, Some(5), "answered where it was asked");
}

#[test]
fn duplicate_detection_of_ipv6_is_answered_to_all() {
    let (mut here, _) = pair(true);
    let probe = question([0; 16], ndp::solicited_node(&here.own), here.own);
    here.hear(0, vec![framed(PEER, [0x33; 6], &probe)]);
    let answer = here.sent();
    assert_eq!(answer[0][..6], [0x33, 0x33, 0, 0, 0, 1]);
    assert_eq!(Discovery::decode(&answer[0][14..]).unwrap().destination, ALL_NODES);
    assert!(here.table.entries.is_empty());
}

/// An option of a question is its asker's Ethernet address; one to a single host may be without (RFC 4861, 4.3).
#[test]
fn who_asks_with_an_address_is_answered_alone() {
    let (mut here, there) = pair(true);
    let mut frame = framed(PEER, MAC, &question(there.own, here.own, here.own));
    // The option becomes one that nobody knows.
    let option = frame.len() - 8;
    frame[option] = 200;
    let checksum = u16::from_be_bytes([frame[56], frame[57]]).wrapping_sub(199 << 8);
    let checksum = if frame[56] < 199 { checksum.wrapping_sub(1) } else { checksum };
    frame[56..58].copy_from_slice(&checksum.to_be_bytes());
    here.hear(0, vec![frame]);
    let answer = &here.sent()[0];
    assert_eq!(answer[..6], PEER);
    assert_eq!(Discovery::decode(&answer[14..]).expect("an answer").destination, there.own);
    assert_eq!(answer[14 + 44] & 0x40, 0x40, "it answers a question");
}

/// A proxy's answer does not take the place of the neighbour's own (RFC 4861, 7.2.5).
#[test]
fn an_answer_that_overrides_nothing_is_for_who_knows_nothing() {
    let (mut here, there) = pair(true);
    let mut answer = |mac: [u8; 6], overrides| {
        let message = Discovery { request: false, overrides, ..question(there.own, here.own, there.own) };
        here.look(0, there.own);
        here.hear(0, vec![framed(mac, MAC, &message)]);
        here.look(0, there.own)
    };
    let other = [2, 0, 0, 0, 0, 0x65];
    assert_eq!(answer(PEER, false), Neighbour::At(PEER));
    assert_eq!(answer(other, false), Neighbour::At(PEER));
    assert_eq!(answer(other, true), Neighbour::At(other));
}

/// Whoever was known is not any more; whoever was asked for in vain is asked for at once.
#[test]
fn another_link_has_other_neighbours() {
    for version in [false, true] {
        let (mut here, mut there) = pair(version);
        assert_eq!(here.look(0, there.own), Neighbour::Asked);
        there.hear(1, here.sent());
        here.hear(2, there.sent());
        assert_eq!(here.look(3, there.own), Neighbour::At(PEER));
        let (absent, ip) = (if version { v6(9) } else { v4(9) }, there.own);
        here.send(4, absent, &[1; 80]);
        assert_eq!(here.sent().len(), 1);
        here.table.forget();
        here.table.ask_anew(5, &mut |frame: &[u8]| here.sent.push(frame.to_vec()));
        assert_eq!(here.sent().len(), 1, "the one that has not answered");
        assert!(here.table.has_waiting() && here.table.due() == Some(5 + SECOND));
        assert_eq!(here.look(6, ip), Neighbour::Asked);
    }
}

#[test]
fn the_table_has_an_end() {
    let mut here = Host::new(MAC, v4(1));
    for n in 0..3000u32 {
        let ip = ipv4_to_gid((0x0a00_0000 + n).to_be_bytes());
        for _ in 0..3 {
            here.send(u64::from(n), ip, &[0; 64]);
        }
    }
    assert_eq!(here.table.entries.len(), MOST);
    assert!(here.table.entries.values().all(|entry| entry.waiting.len() == 3));
    assert_eq!(here.sent().len(), 3000);
    assert_eq!(here.table.lost as usize, (3000 - MOST) * 3);
    let last = ipv4_to_gid((0x0a00_0000 + 2999u32).to_be_bytes());
    assert!(here.table.entries.contains_key(&(0, last)));

    // Of the bytes that wait, too.
    let room = (WAITING - MOST * 3 * 64) / 4096;
    let lost = here.table.lost as usize;
    (0..room + 5).for_each(|_| here.send(3000, last, &[0; 4096]));
    assert_eq!(here.table.lost as usize, lost + 5);
    // Another one's first frames have room.
    let other = ipv4_to_gid((0x0a00_0000 + 2998u32).to_be_bytes());
    (0..FEW).for_each(|_| here.send(3000, other, &[0; 4096]));
    assert_eq!(here.table.lost as usize, lost + 5 + 3);
    for end in [SECOND, 2 * SECOND, 3 * SECOND] {
        here.run(3000 + end);
    }
    assert_eq!((here.table.entries.len(), here.table.bytes), (0, 0));
    assert_eq!(here.table.lost as usize, 3000 * 3 + room + 5 + FEW, "all that was sent");
}

#[test]
fn other_frames_and_damaged_ones() {
    let mut here = Host::new(MAC, v4(1));
    let mut receive =
        |frame: &[u8]| here.table.receive(0, frame, |_| true, &mut |_: &[u8]| panic!("an answer"));
    assert!(!receive(&[]) && !receive(&[0; 13]) && !receive(&[0; 60]));
    let mut frame = [0; 60];
    frame[12..14].copy_from_slice(&[8, 6]);
    assert!(receive(&frame) && receive(&frame[..20]));
    frame[12..14].copy_from_slice(&[0x86, 0xdd]);
    assert!(!receive(&frame));
}

/// In a VLAN questions, answers and what waits for them have its tag, and an address in another one is another host's.
#[test]
fn a_vlan_is_a_link_of_its_own() {
    for v6 in [false, true] {
        let (here, there) = pair(v6);
        let (own, ip) = (here.own, there.own);
        let [mut here, mut there] = [here.table, there.table];
        let mut asked = Vec::new();
        let mut frame = [7; 80];
        here.send(0, (&own, &(107, ip)), &mut frame, &mut |frame: &[u8]| asked.push(frame.to_vec()));
        let tag = |frame: &[u8]| Ethernet::decode(frame).expect("a frame").0.vlan;
        assert_eq!(asked.len(), 1);
        assert_eq!(tag(&asked[0]), Some(107));
        // Who has the address outside of VLANs is not meant.
        let mut answers = Vec::new();
        for (vlan, count) in [(0, 0), (106, 0), (107, 1)] {
            let has = |place: &Place| *place == (vlan, ip);
            assert!(there.receive(1, &asked[0], has, &mut |frame: &[u8]| answers.push(frame.to_vec())));
            assert_eq!(answers.len(), count, "VLAN {vlan}");
        }
        assert_eq!(tag(&answers[0]), Some(107));
        let mut sent = Vec::new();
        assert!(here.receive(2, &answers[0], |_| false, &mut |frame: &[u8]| sent.push(frame.to_vec())));
        assert_eq!(sent.iter().map(|frame| &frame[..6]).collect::<Vec<_>>(), [PEER]);
        assert!(here.knows(&(107, ip)) && !here.knows(&(0, ip)));
    }
}
