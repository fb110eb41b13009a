//! Carrying packets from card to card as frames.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

use fpga_regs::regs::port;

use super::area::LinkArea;
use super::capture::Recorder;
use super::faults::Time;
use super::frames;
use super::late::{End, Held, Way};
use super::live::Seen;
use super::medium::{self, Medium, Passage};
use super::outside::{self, Outbox, OutsidePort};
use super::route::{self, Recent};
use crate::bonds;
use crate::device::MULTICAST_QPN;
use crate::dma::DmaFault;
use crate::env::Env;
use crate::frames::Frame;
use crate::journal;
use crate::packet::{Packet, Payload, PortId};
use crate::wire::{frame, DropReason, EncodeError, Icrc, Path, Transport};
use crate::world::World;

/// What the wire needs from the environment in addition to what a card needs.
pub trait LinkEnv: Env {
    /// Reads bytes of a payload at its sender, starting at byte `offset`.
    fn fetch(&mut self, payload: &Payload, offset: usize, to: &mut [u8]) -> Result<(), DmaFault>;
    /// Stores the payload of a received frame until the next call.
    fn land(&mut self, bytes: &[u8]) -> Payload;
    /// A descriptor by which ports send to the outside of the segment.
    fn socket(&self, index: usize) -> Option<BorrowedFd<'_>>;
    /// Counts packets that did not leave by a port to the outside.
    fn unsent(&self, port: (PortId, &OutsidePort), count: u64);
}

/// One process's end of the wire: buffers, and frames that are held back. Empty between runs.
#[derive(Default)]
pub struct WireEnd {
    frame: Vec<u8>,
    cable: Cable,
}

/// What a process keeps of the medium.
#[derive(Default)]
struct Cable {
    recorder: Recorder,
    /// Frames carried: the time of this medium.
    count: u64,
    held: VecDeque<Held>,
    outbox: Outbox,
    paths: Recent,
}

/// A packet cannot be made a frame.
struct Unsent;

impl From<EncodeError> for Unsent {
    fn from(_: EncodeError) -> Self {
        Unsent
    }
}

impl From<DmaFault> for Unsent {
    fn from(_: DmaFault) -> Self {
        Unsent
    }
}

impl WireEnd {
    /// Carries a packet or train to its port.
    pub fn carry(&mut self, area: &LinkArea, world: &mut World, p: &Packet, env: &mut impl LinkEnv) {
        let mode = area.mode();
        let way = if mode.has_bonds() { world.way(p) } else { (p.src, p.dst) };
        let leaving = area.outside().leaving(way.0, way.1);
        let exact = leaving.is_some() || area.exact();
        if p.is_frame() {
            return self.carry_slow(area, world, (p, way), env);
        }
        let mut now = None;
        if (exact || mode.is_cut()) && world.is_cut(way, || *now.get_or_insert_with(|| env.now())) {
            return world.count_cut(way, p.count.into(), now.unwrap_or_else(|| env.now()));
        }
        if mode.has_bonds() {
            match p.transport {
                Transport::UD => world.arrives(p, way.1),
                _ => world.settle((p.src, p.src_qpn), (p.dst, p.dest_qpn)),
            }
        }
        if leaving.is_none() && !mode.makes_frames() {
            return world.deliver(p, true, env);
        }
        let mut path = self.cable.paths.find((p, way), || {
            let mut path = route::path(world, p);
            // It is from the queue pair's port, whichever it leaves by.
            if let Some(port) = leaving.and_then(|_| area.outside().port(p.src)) {
                outside::medium::direct(port, &mut path);
            }
            path
        });
        let leaves_unseen = leaving.is_some() && !mode.makes_frames();
        let at = if leaves_unseen { Time::default() } else { area.since_start(env.now()) };
        self.frame.resize(frames::MAX_ROCE_FRAME, 0);
        let mtu = frames::mtu(p);
        for n in 0..p.count {
            let nth = (p.count > 1).then(|| frames::nth(p, n));
            let packet = nth.as_ref().unwrap_or(p);
            let (headers, part) = (frames::headers(packet), frames::part(p, mtu, n));
            let len = frame::len(&path, headers.bth.opcode, part.len());
            if leaving.is_some() {
                // What a fault does to others does not change a frame that has left.
                if mode.has_faults() {
                    self.cable.outbox.flush(area.outside(), env);
                }
                let place = self.cable.outbox.place(area.outside(), (way.0, &path, len), env);
                path.network.set_id(place);
            }
            let fill = |to: &mut [u8]| Ok(env.fetch(&p.payload, part.start, to)?);
            let make =
                |to: &mut [u8]| frames::encode::<Unsent>(&headers, &path, part.len(), to, fill).map(drop);
            let made = match leaves_unseen {
                true => self.cable.outbox.make((way.0, &path, len), make),
                false => make(&mut self.frame),
            };
            // The sender's memory is gone, and with it the rest of the message.
            if made.is_err() {
                env.note(journal::one(p.src.card, p.src_qpn));
                return world.unread(packet, env);
            }
            if leaves_unseen {
                continue;
            }
            self.cable.count += 1;
            let (sender, qpns) = (None, [p.src_qpn, p.dest_qpn]);
            let mut instant = Instant { cable: &mut self.cable, area, world, exact, sender, qpns, env };
            medium::wrapped(area, &mut instant).send(&Passage::new(way, &self.frame[..len], at));
            instant.arrive_late();
        }
        if leaving.is_some() && p.dst == PortId::ALL && p.dest_qpn == MULTICAST_QPN {
            // Nobody outside sends it back to members on this port.
            world.deliver(&Packet { dst: p.src, ..*p }, false, env);
        } else if !exact {
            world.deliver(p, false, env);
        }
    }

    /// Carries a whole frame of a raw packet queue pair.
    pub(crate) fn carry_frame(
        &mut self,
        area: &LinkArea,
        world: &mut World,
        frame: &Frame,
        env: &mut impl LinkEnv,
    ) {
        let leaving = area.outside().leaving(frame.way.0, frame.way.1).is_some();
        let (mode, exact) = (area.mode(), leaving || area.exact());
        if (exact || mode.is_cut()) && !frame.slow {
            let now = env.now();
            world.count_cut_frame(frame.way, frame.way.0, now);
            // One for all comes to those that can be reached.
            if frame.way.1 != PortId::ALL && world.is_cut(frame.way, || now) {
                return;
            }
        }
        if frame.slow && !world.both_up(frame.way, env.now()) {
            return;
        }
        if !leaving && !mode.makes_frames() {
            return world.hand_over(frame, env);
        }
        let (card, qp) = frame.sender;
        let qpn = world.cards[usize::from(card)].qps[usize::from(qp)].qpn;
        let sent = self.pass(area, world, (frame.way, frame.payload()), (frame.sender, qpn), env);
        if sent && !exact {
            world.hand_over(frame, env);
        }
    }

    /// Carries a frame of a card itself to the other end of a cable. LACP needs a link, and nothing else.
    fn carry_slow(
        &mut self,
        area: &LinkArea,
        world: &mut World,
        (p, way): (&Packet, Way),
        env: &mut impl LinkEnv,
    ) {
        let leaving = area.outside().leaving(way.0, way.1).is_some();
        if way.1 == PortId::NOBODY && !leaving || !world.both_up(way, env.now()) {
            return;
        }
        let seen = !(leaving || area.mode().makes_frames())
            || self.pass(area, world, (way, &p.payload), (bonds::NOBODY, 0), env);
        if seen && !leaving && !area.exact() {
            world.hand_over_slow(way, p, env);
        }
    }

    /// Brings a whole frame to the medium. False: its bytes cannot be read.
    fn pass(
        &mut self,
        area: &LinkArea,
        world: &mut World,
        (way, payload): (Way, &Payload),
        (sender, qpn): ((u16, u16), u32),
        env: &mut impl LinkEnv,
    ) -> bool {
        let at = area.since_start(env.now());
        let len = payload.len();
        self.frame.resize(frames::LONGEST_FRAME, 0);
        let Some(bytes) = self.frame.get_mut(..len) else { return false };
        if env.fetch(payload, 0, bytes).is_err() {
            return false;
        }
        self.cable.count += 1;
        let exact = area.exact() || area.outside().leaving(way.0, way.1).is_some();
        let (sender, qpns) = (Some(sender), [qpn, 0]);
        let mut instant = Instant { cable: &mut self.cable, area, world, exact, sender, qpns, env };
        medium::wrapped(area, &mut instant).send(&Passage::new(way, &self.frame[..len], at));
        instant.arrive_late();
        true
    }

    /// A frame has come to a port from outside; or, by a way, a packet without its headers up to the BTH: it is recorded with
    /// what is known of them.
    #[cold]
    pub(crate) fn arrived(&mut self, area: &LinkArea, port: PortId, (bytes, way): (&[u8], Option<&Path>)) {
        let dst_mac = area.outside().port(port).map_or(port.mac(), OutsidePort::mac);
        let made = way.map(|way| frame::around(&Path { dst_mac, ..*way }, bytes));
        let bytes = made.as_deref().unwrap_or(bytes);
        // A damaged one has queue pairs, too, if they can be read.
        let headers = frame::decode_with(bytes, Icrc::Off).map(|frame| frame.headers);
        let qpns = headers.map_or([0; 2], |headers| [headers.deth.src_qp, headers.bth.dest_qp]);
        let seen = Seen::new((PortId::NOBODY, port), true, qpns, now());
        self.cable.recorder.record(area, &seen, bytes);
    }

    /// Delivers the oldest frame that is held back, or one whose time has come, when nothing else is left to carry. False
    /// if there is none.
    pub fn release(&mut self, area: &LinkArea, world: &mut World, env: &mut impl LinkEnv) -> bool {
        let held = self.cable.held.pop_front().or_else(|| area.late().take(|| env.now()));
        let Some(held) = held else { return false };
        let Held { sender, qpns, .. } = held;
        Instant { cable: &mut self.cable, area, world, exact: true, sender, qpns, env }.arrive(held);
        true
    }

    /// The end of a run.
    pub fn end_run(&mut self, area: &LinkArea, env: &mut impl LinkEnv) {
        self.cable.outbox.flush(area.outside(), env);
        self.cable.recorder.flush(area);
        self.cable.paths = Recent::default();
    }
}

/// The medium that takes no time: a frame is received while it is sent, unless others pass it.
struct Instant<'a, E> {
    cable: &'a mut Cable,
    area: &'a LinkArea,
    world: &'a mut World,
    /// Frames travel, and are not only for the record.
    exact: bool,
    /// The queue pair that sends, if that is no packet but a whole frame.
    sender: Option<(u16, u16)>,
    /// The numbers of the queue pairs at its ends.
    qpns: [u32; 2],
    env: &'a mut E,
}

impl<E: LinkEnv> Medium for &mut Instant<'_, E> {
    fn send(&mut self, passage: &Passage<'_>) {
        // On the fast wire frames are for the record: the packet itself is handed over.
        if self.exact {
            self.put(passage, None);
        }
    }

    fn record(&mut self, passage: &Passage<'_>, end: End) {
        self.put(passage, Some(end));
    }
}

impl<E: LinkEnv> Instant<'_, E> {
    /// Records or delivers a frame, now or when it is due.
    fn put(&mut self, passage: &Passage<'_>, record: Option<End>) {
        let way = (passage.from, passage.to);
        let (sender, qpns) = (self.sender, self.qpns);
        let late = passage.late.0.div_ceil(1000);
        if passage.passed_by == 0 && !passage.changes.any() && late == 0 {
            return self.arrive_whole(way, (sender, qpns), record, passage.frame);
        }
        let mut bytes = passage.frame.to_vec();
        let leaves =
            record.is_none() && sender.is_none() && self.area.outside().leaving(way.0, way.1).is_some();
        passage.changes.mark(&mut bytes);
        let headers = leaves.then(|| frame::path(&bytes));
        passage.changes.flip(&mut bytes);
        // What leaves with damaged headers is lost, as no router takes it.
        if headers.is_some_and(|headers| frame::path(&bytes) != headers) {
            return;
        }
        let due = self.cable.count + passage.passed_by;
        let damaged = passage.changes.damage_it();
        let held = Held { due, late, way, sender, qpns, record, damaged, bytes };
        match passage.passed_by {
            0 => self.arrive(held),
            _ => self.cable.held.push_back(held),
        }
    }

    /// The frames that enough others have passed.
    fn arrive_late(&mut self) {
        let due = |cable: &Cable| cable.held.iter().position(|held| held.due <= cable.count);
        while let Some(held) = due(self.cable).and_then(|index| self.cable.held.remove(index)) {
            self.arrive(held);
        }
    }

    fn arrive(&mut self, mut held: Held) {
        // Others have passed it, and now its delay begins. Without a place for it, it is lost.
        if held.late != 0 {
            held.due = self.env.now().saturating_add(held.late);
            if self.area.late().put(&held) {
                self.env.timer(held.due);
            }
            return;
        }
        // The MAC's check sequence finds it, which has no place in the bytes; a packet's is the ICRC.
        if held.damaged && held.sender.is_some() && held.record.is_none() {
            let now = self.env.now();
            return self.world.lose_damaged(held.way, now);
        }
        self.arrive_whole(held.way, (held.sender, held.qpns), held.record, &held.bytes);
    }

    fn arrive_whole(
        &mut self,
        (from, to): Way,
        (sender, qpns): (Option<(u16, u16)>, [u32; 2]),
        record: Option<End>,
        frame: &[u8],
    ) {
        if let Some(end) = record {
            let seen = Seen::new((from, to), end == End::Receiver, qpns, now());
            return self.cable.recorder.record(self.area, &seen, frame);
        }
        let outside = self.area.outside();
        if let Some(sender) = sender {
            if outside.leaving(from, to).is_some() {
                return self.cable.outbox.put_whole(outside, (from, frame), self.env);
            }
            let payload = self.env.land(frame);
            return self.world.arrive_frame((from, to), sender, (frame, &payload), self.env);
        }
        if outside.leaving(from, to).is_some() {
            return self.cable.outbox.put(outside, (from, frame), self.env);
        }
        let Some((mut p, payload)) = open(self.world, (from, to), frame) else { return };
        self.world.arrives(&p, to);
        if !payload.is_empty() {
            p.payload = self.env.land(payload);
        }
        self.env.note(journal::one(p.dst.card, p.dest_qpn));
        self.world.deliver(&p, false, self.env);
    }
}

/// The machine's time, nanoseconds since 1970.
fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The packet in a frame that arrives at a port, and its payload; a damaged frame is counted there (at all that it reaches, if it is
/// for all) and dropped, one that met congestion is counted.
pub(crate) fn open<'a>(world: &World, (from, to): Way, frame: &'a [u8]) -> Option<(Packet, &'a [u8])> {
    let (counter, packet) = match frames::decode(frame) {
        Ok(packet) if !frames::met_congestion(frame) => return Some(packet),
        Ok(packet) => (port::RX_ECN_MARKED, Some(packet)),
        Err(DropReason::Icrc) => (port::RX_ICRC_ERRORS, None),
        Err(_) => (port::RX_MALFORMED, None),
    };
    let shows_link = |at: PortId| world.cards[usize::from(at.card)].shows_link(at.port);
    let of_all = |at: PortId| at != from && shows_link(at) && world.takes_of_all(from, at);
    for at in world.ports().filter(|&at| at == to || to == PortId::ALL && of_all(at)) {
        world.cards[usize::from(at.card)].counters[usize::from(at.port)].add(counter, 1);
    }
    packet
}
