//! Which Ethernet address a neighbour's IP address has: ARP and neighbour discovery of a port whose frames no kernel
//! sees. Questions for the port's own addresses are answered, and they are announced; frames to a neighbour that is not
//! known yet wait for its answer.
//!
//! Nothing here is a clock, a thread or a socket: times come in as nanoseconds, frames go out by a callback.

use std::collections::HashMap;

use crate::address::Gid;
use crate::wire::arp::ETHERTYPE_ARP;
use crate::wire::ethernet::{ETHERTYPE_IPV6, MIN_FRAME};
use crate::wire::ndp::{self, Discovery};
use crate::wire::path::{gid_to_ipv4, ipv4_to_gid, multicast_mac};
use crate::wire::{Arp, Ethernet};

/// Between two questions (RFC 4861: RETRANS_TIMER).
pub const RETRY: u64 = 1_000_000_000;
/// Questions without an answer until the neighbour counts as absent (RFC 4861: MAX_MULTICAST_SOLICIT).
const TRIES: u32 = 3;
/// A neighbour that is used is asked again after this time (RFC 4861: REACHABLE_TIME).
const FRESH: u64 = 30_000_000_000;
/// Bytes of frames that wait for answers.
const WAITING: usize = 32 << 20;
/// Frames that may wait for each neighbour beyond that, so that one which is absent does not take all room.
const FEW: usize = 16;
/// Neighbours that are remembered; more push out the one that was used longest ago.
const MOST: usize = 1024;

const EVERYBODY: [u8; 6] = [0xff; 6];
/// ff02::1: all hosts of the link.
const ALL_NODES: Gid = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
const ALL_NODES_MAC: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];

/// A VLAN of the link, and an IP address there. 0: outside of VLANs.
pub type Place = (u16, Gid);

/// What is known of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// Its Ethernet address.
    At([u8; 6]),
    /// It has been asked.
    Asked,
}

/// How a message about neighbours came.
struct Came<'a> {
    now: u64,
    vlan: Option<u16>,
    /// The Ethernet address that it came from.
    from: [u8; 6],
    /// Which addresses are the port's own.
    has: &'a dyn Fn(&Place) -> bool,
}

impl Came<'_> {
    /// Where an address is that the message names.
    fn place(&self, ip: &Gid) -> Place {
        (self.vlan.map_or(0, vlan_of), *ip)
    }
}

/// The VLAN of a tag.
pub fn vlan_of(tci: u16) -> u16 {
    tci & 0xfff
}

/// The neighbours of one port.
pub struct Neighbours {
    mac: [u8; 6],
    entries: HashMap<Place, Entry>,
    /// No question is due before.
    due: Option<u64>,
    /// Bytes of all frames that wait for an answer.
    bytes: usize,
    /// Frames that waited and were given up, until they are counted.
    pub lost: u64,
}

struct Entry {
    mac: Option<[u8; 6]>,
    /// When `mac` was last confirmed.
    confirmed: u64,
    used: u64,
    /// Questions since the last answer, the address that they came from, and when the next is due.
    tries: u32,
    from: Gid,
    due: u64,
    waiting: Vec<Vec<u8>>,
}

impl Entry {
    fn new(from: Gid, now: u64) -> Entry {
        Entry { mac: None, confirmed: now, used: now, tries: 0, from, due: 0, waiting: Vec::new() }
    }

    /// Frames that wait, and their bytes.
    fn held(&self) -> (u64, usize) {
        (self.waiting.len() as u64, self.waiting.iter().map(Vec::len).sum())
    }
}

impl Neighbours {
    /// Of a port with the Ethernet address `mac`.
    pub fn new(mac: [u8; 6]) -> Neighbours {
        Neighbours { mac, entries: HashMap::new(), due: None, bytes: 0, lost: 0 }
    }

    /// Looks up who is at a place; asks there from the port's address `from` if that is not known, or not for sure.
    pub fn look(&mut self, now: u64, from: &Gid, to: &Place, out: &mut impl FnMut(&[u8])) -> Neighbour {
        if let Some(group) = multicast_mac(&to.1) {
            return Neighbour::At(group);
        }
        if self.entries.len() >= MOST && !self.entries.contains_key(to) {
            let oldest = self.entries.iter().min_by_key(|entry| entry.1.used).map(|entry| *entry.0);
            let oldest = oldest.and_then(|oldest| self.entries.remove(&oldest));
            let (frames, bytes) = oldest.map_or((0, 0), |entry| entry.held());
            (self.lost, self.bytes) = (self.lost + frames, self.bytes - bytes);
        }
        let entry = self.entries.entry(*to).or_insert_with(|| Entry::new(*from, now));
        (entry.used, entry.from) = (now, *from);
        let fresh = entry.mac.is_some() && now < entry.confirmed.saturating_add(FRESH);
        if !fresh && entry.tries == 0 {
            ask(self.mac, to, entry, now, out);
            self.due = Some(self.due.map_or(entry.due, |due| due.min(entry.due)));
        }
        entry.mac.map_or(Neighbour::Asked, Neighbour::At)
    }

    /// Announces an own address: who asked for it before somebody was there to answer, or knows another Ethernet address
    /// for it, hears the right one (RFC 5227, 3; RFC 4861, 7.2.6).
    pub fn announce(&self, (vlan, ip): &Place, out: &mut impl FnMut(&[u8])) {
        let tag = (*vlan != 0).then_some(*vlan);
        match gid_to_ipv4(ip) {
            Some(own) => {
                let own =
                    Arp { request: true, sender_mac: self.mac, sender: own, target_mac: [0; 6], target: own };
                put_arp(self.mac, EVERYBODY, tag, &own, out);
            }
            None => put_discovery(self.mac, ALL_NODES_MAC, tag, &advertisement(ip, ALL_NODES), out),
        }
    }

    /// The link is another one: forgets who was there.
    pub fn forget(&mut self) {
        self.entries.retain(|_, entry| {
            entry.mac = None;
            entry.tries > 0
        });
    }

    /// Asks at once for those whose answers are awaited, since nobody may have heard the questions.
    pub fn ask_anew(&mut self, now: u64, out: &mut impl FnMut(&[u8])) {
        for (to, entry) in self.entries.iter_mut().filter(|(_, entry)| entry.tries > 0) {
            entry.tries = 0;
            ask(self.mac, to, entry, now, out);
        }
        self.due = self.next();
    }

    /// Whether frames wait for one to answer.
    pub fn has_waiting(&self) -> bool {
        self.entries.values().any(|entry| !entry.waiting.is_empty())
    }

    /// Sends a frame to who is at a place: fills in its Ethernet address, or lets the frame wait for it.
    pub fn send(
        &mut self,
        now: u64,
        (from, to): (&Gid, &Place),
        frame: &mut [u8],
        out: &mut impl FnMut(&[u8]),
    ) {
        match self.look(now, from, to, out) {
            Neighbour::At(mac) => {
                frame[..6].copy_from_slice(&mac);
                out(frame);
            }
            _ => {
                let full = self.bytes + frame.len() > WAITING;
                let entry = self.entries.get_mut(to);
                match entry.filter(|entry| !full || entry.waiting.len() < FEW) {
                    Some(entry) => {
                        self.bytes += frame.len();
                        entry.waiting.push(frame.to_vec());
                    }
                    None => self.lost += 1,
                }
            }
        }
    }

    /// Reads a frame that arrived; false if it is neither ARP nor neighbour discovery. `has` says which places are the
    /// port's own.
    pub fn receive(
        &mut self,
        now: u64,
        frame: &[u8],
        has: impl Fn(&Place) -> bool,
        out: &mut impl FnMut(&[u8]),
    ) -> bool {
        let Some((ethernet, packet)) = Ethernet::decode(frame) else { return false };
        let came = Came { now, vlan: ethernet.vlan, from: ethernet.src, has: &has };
        match ethernet.ethertype {
            ETHERTYPE_ARP => {
                let arp = packet.first_chunk().and_then(Arp::decode);
                if let Some(arp) = arp.filter(|arp| unicast(arp.sender_mac)) {
                    self.arp(&arp, &came, out);
                }
                true
            }
            ETHERTYPE_IPV6 => match Discovery::decode(packet) {
                Some(message) => {
                    self.discovery(&message, &came, out);
                    true
                }
                None => false,
            },
            _ => false,
        }
    }

    /// Whether somebody has answered from this place, or it is a group's.
    pub fn knows(&self, at: &Place) -> bool {
        multicast_mac(&at.1).is_some() || self.entries.get(at).is_some_and(|entry| entry.mac.is_some())
    }

    /// Whether it was asked for, and may still be answered.
    pub fn waits_for(&self, at: &Place) -> bool {
        self.entries.contains_key(at)
    }

    /// When [`Neighbours::run`] is to be called.
    pub fn due(&self) -> Option<u64> {
        self.due
    }

    /// Asks again where an answer is due. Neighbours that have not answered are forgotten, with the frames that waited
    /// for them.
    pub fn run(&mut self, now: u64, out: &mut impl FnMut(&[u8])) {
        let (mac, lost, all) = (self.mac, &mut self.lost, &mut self.bytes);
        self.entries.retain(|ip, entry| {
            let waits = entry.tries > 0 && now >= entry.due;
            if waits && entry.tries < TRIES {
                ask(mac, ip, entry, now, out);
                return true;
            }
            if waits {
                let (frames, bytes) = entry.held();
                (*lost, *all) = (*lost + frames, *all - bytes);
            }
            !waits
        });
        self.due = self.next();
    }

    /// When somebody is to be asked again.
    fn next(&self) -> Option<u64> {
        self.entries.values().filter(|entry| entry.tries > 0).map(|entry| entry.due).min()
    }

    fn arp(&mut self, arp: &Arp, came: &Came<'_>, out: &mut impl FnMut(&[u8])) {
        let ours = (came.has)(&came.place(&ipv4_to_gid(arp.target)));
        // A sender of 0.0.0.0 asks whether an address is free (RFC 5227).
        if arp.sender != [0; 4] {
            self.learn(
                came.now,
                &came.place(&ipv4_to_gid(arp.sender)),
                arp.sender_mac,
                ours && arp.request,
                out,
            );
        }
        if ours && arp.request {
            let answer = Arp {
                request: false,
                sender_mac: self.mac,
                sender: arp.target,
                target_mac: arp.sender_mac,
                target: arp.sender,
            };
            put_arp(self.mac, arp.sender_mac, came.vlan, &answer, out);
        }
    }

    fn discovery(&mut self, message: &Discovery, came: &Came<'_>, out: &mut impl FnMut(&[u8])) {
        let ours = message.request && (came.has)(&came.place(&message.target));
        let of = if message.request { &message.source } else { &message.target };
        let mac = message.mac.filter(|&mac| unicast(mac));
        let stays = |entry: &Entry| {
            !message.request && !message.overrides && entry.mac.is_some_and(|known| Some(known) != mac)
        };
        let stays = self.entries.get(&came.place(of)).is_some_and(stays);
        if let Some(mac) = mac.filter(|_| *of != [0; 16] && !stays) {
            self.learn(came.now, &came.place(of), mac, ours, out);
        }
        if ours {
            // Who has no address yet hears it with all others. A question need not say where its answer goes.
            let (to, mac) = match message.source {
                source if source != [0; 16] => (source, mac.unwrap_or(came.from)),
                _ => (ALL_NODES, ALL_NODES_MAC),
            };
            put_discovery(self.mac, mac, came.vlan, &advertisement(&message.target, to), out);
        }
    }

    /// Somebody says that `mac` is at a place. One that nobody asked for is remembered only if it asked for this port.
    fn learn(&mut self, now: u64, at: &Place, mac: [u8; 6], new: bool, out: &mut impl FnMut(&[u8])) {
        if new && self.entries.len() < MOST {
            self.entries.entry(*at).or_insert_with(|| Entry::new([0; 16], now));
        }
        let Some(entry) = self.entries.get_mut(at) else { return };
        (entry.mac, entry.confirmed, entry.tries) = (Some(mac), now, 0);
        self.bytes -= entry.held().1;
        for mut frame in std::mem::take(&mut entry.waiting) {
            frame[..6].copy_from_slice(&mac);
            out(&frame);
        }
    }
}

fn unicast(mac: [u8; 6]) -> bool {
    mac[0] & 1 == 0 && mac != [0; 6]
}

fn ask(mac: [u8; 6], (vlan, ip): &Place, entry: &mut Entry, now: u64, out: &mut impl FnMut(&[u8])) {
    (entry.tries, entry.due) = (entry.tries + 1, now + RETRY);
    let tag = (*vlan != 0).then_some(*vlan);
    match (gid_to_ipv4(&entry.from), gid_to_ipv4(ip)) {
        (Some(sender), Some(target)) => {
            let question = Arp { request: true, sender_mac: mac, sender, target_mac: [0; 6], target };
            put_arp(mac, EVERYBODY, tag, &question, out);
        }
        _ => {
            let destination = ndp::solicited_node(ip);
            let question = Discovery {
                request: true,
                source: entry.from,
                destination,
                target: *ip,
                mac: None,
                overrides: false,
            };
            put_discovery(mac, multicast_mac(&destination).unwrap_or(EVERYBODY), tag, &question, out);
        }
    }
}

/// Says to `destination` whose `own` is.
fn advertisement(own: &Gid, destination: Gid) -> Discovery {
    Discovery { request: false, source: *own, destination, target: *own, mac: None, overrides: true }
}

fn put_arp(src: [u8; 6], dst: [u8; 6], vlan: Option<u16>, arp: &Arp, out: &mut impl FnMut(&[u8])) {
    let mut body = [0; Arp::BYTES];
    arp.encode(&mut body);
    put(&Ethernet { dst, src, vlan, ethertype: ETHERTYPE_ARP }, &body, out);
}

fn put_discovery(
    src: [u8; 6],
    dst: [u8; 6],
    vlan: Option<u16>,
    message: &Discovery,
    out: &mut impl FnMut(&[u8]),
) {
    let mut body = [0; Discovery::BYTES];
    message.encode(src, &mut body);
    put(&Ethernet { dst, src, vlan, ethertype: ETHERTYPE_IPV6 }, &body, out);
}

/// Sends a frame, padded.
pub(super) fn put(ethernet: &Ethernet, body: &[u8], out: &mut impl FnMut(&[u8])) {
    let mut frame = [0; 128];
    let len = ethernet.header_len() + body.len();
    if let Some(rest) = ethernet.encode(&mut frame) {
        rest[..body.len()].copy_from_slice(body);
        out(&frame[..len.max(MIN_FRAME)]);
    }
}

#[cfg(test)]
#[path = "neighbours_tests.rs"]
mod tests;
