//! The state of a simulation: one struct, in the segment.

use super::event::Event;
use super::frames::Parked;
use super::pace::QpRate;
use super::programs::actor::{Actors, State};
use super::programs::streams::Streams;
use super::slab::Slab;
use super::switch::Switch;
use super::trace::Trace;
use super::wire::Frame;
use super::{cache, heap, pcie};
use crate::congestion::dcqcn::Parameters;
use crate::device::raw::MAX_FRAME;
use crate::device::tables::{MAX_CQS, MAX_FUNCTIONS, MAX_QPS, MAX_SRQS};
use crate::packet::{Packet, PORTS};
use crate::plain::{plain, Flag, Kept, Plain};
use crate::profile::Profile;
use crate::segment::page::MAX_MEMBERS;
use crate::world::MAX_CARDS;

/// No time.
pub const FOREVER: u64 = u64::MAX;
/// Events that may wait.
pub const EVENTS: usize = 1 << 20;
/// Packets between the fetch of their payload and its last byte in memory.
pub const SLOTS: usize = 1 << 18;
/// Messages (or parts of them) whose payload waits to be fetched.
pub const JOBS: usize = 1 << 18;
/// Largest payload of a packet.
pub const MTU: usize = 4096;
/// Room for the payload of a packet or for a whole frame, in pages.
pub const ROW: usize = (MAX_FRAME as usize).next_multiple_of(MTU);

/// The simulation. All zeros: switched off.
pub type Sim = SimOf<[CardTime]>;

/// The simulation of a segment, which has room for a fixed number of cards.
pub(crate) type SharedSim = SimOf<[CardTime; MAX_CARDS]>;

/// See [`Sim`].
#[repr(C)]
pub struct SimOf<C: ?Sized> {
    /// The cards' timing.
    pub profile: Profile,
    /// Simulated time is in use.
    pub on: Flag,
    /// Time of the current or the last event.
    pub now: u64,
    /// The furthest clock of all actors that have left (ps).
    pub left_at: u64,
    /// The same, by process.
    pub members_left: [u64; MAX_MEMBERS],
    /// Events made by events so far.
    pub sequence: u64,
    /// Events executed.
    pub executed: u64,
    /// Packets and events lost for lack of room.
    pub overflows: u64,
    /// When the QP timers are next checked (ps); 0: never.
    pub timer_at: u64,
    /// State of a net in which every program waits in the kernel.
    pub idle: super::programs::idle::Idle,
    /// Clocks of the programs.
    pub actors: Actors,
    /// The trace.
    pub trace: Trace,
    /// Streams between programs.
    pub streams: Streams,
    /// The events by time.
    pub queue: heap::Queue<EVENTS>,
    /// The events in `queue`.
    pub events: Slab<Kept<Event>, EVENTS>,
    /// Those events that write payload.
    pub landing: super::programs::landing::Landing,
    /// Packets in flight.
    pub slots: Slab<Slot, SLOTS>,
    /// Frames that wait for a receive.
    pub parked: Slab<Parked, SLOTS>,
    /// Messages before their fetch.
    pub jobs: Slab<Job, JOBS>,
    /// The switch between the cards.
    pub switch: Switch,
    /// Their congestion control.
    pub cc: Parameters,
    /// Headers and trailer of the packets in `slots`, when they travel as frames.
    pub frames: [Frame; SLOTS],
    /// Payload of the packets in `slots`.
    /// The last row is for packets without a slot.
    pub payload: [[u8; ROW]; SLOTS + 1],
    /// Timing state of the cards.
    pub cards: C,
}

/// A packet in flight.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Slot {
    /// The packet, `count == 1`.
    pub packet: Kept<Packet>,
    /// References to it.
    pub refs: u16,
    /// QP index and side (`flow_id`) that sent it.
    pub flow: u16,
    /// Bytes of its payload in the transmit buffer.
    pub fetched: u16,
    /// Its payload could not be read.
    pub unread: Flag,
    /// It has arrived, and waits for the receive pipeline.
    pub waits: Flag,
    /// The receiver's context was looked up.
    pub warm: Flag,
    /// The next that waits for the MAC, plus one.
    pub next: u32,
    /// Its message (see `trace`).
    pub message: u32,
    /// Since when it has been in its phase of the trace.
    pub since: u64,
}

/// A train of packets whose payload is not fetched yet.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Job {
    /// The train.
    pub packet: Kept<Packet>,
    /// The next of the same flow.
    pub next: u32,
    /// Packets whose payload has been requested.
    pub issued: u32,
    /// Not before this time.
    pub start: u64,
    /// The translation of its next packet has arrived.
    pub known: Flag,
    /// Reads that it took to gather the stash.
    pub gathers: u16,
    /// The QP's count of rewinds when the job was made.
    pub back: u16,
    /// The message (see `trace`).
    pub message: u32,
    /// When it was made.
    pub born: u64,
}

/// The jobs of one side of a QP that wait to be fetched.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Flow {
    /// First job plus one, 0: none.
    pub head: u32,
    /// Last job plus one.
    pub tail: u32,
    /// Jobs.
    pub count: u16,
    /// Next flow in the port's round, plus one.
    pub next: u16,
    /// When its last packet was ready: packets of a flow keep their order.
    pub last_ready: u64,
}

/// Timing state of a QP.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct QpTime {
    /// A `Send` event is in the queue.
    pub pending: Flag,
    /// The context for its next WQE has arrived.
    pub known: Flag,
    /// When its last send doorbell, and its last receive doorbell, are decoded.
    pub rung: [u64; 2],
    /// Waits for its jobs to be fetched.
    pub stalled: Flag,
    /// When its engine is free for the next message.
    pub free_at: u64,
    /// First block of the WQEs in the card.
    pub base: u32,
    /// One past the last block of the first batch that was fetched, and of the second.
    pub upto: [u32; 2],
    /// When they are in the card.
    pub done: [u64; 2],
    /// When they were requested.
    pub asked: [u64; 2],
    /// First block of the WQE started last: names the message in the trace.
    pub message: u32,
    /// Sending side, answering side.
    pub flows: [Flow; 2],
    /// Packets of the sending side that have left their flow, but not the card.
    pub unsent: u16,
    /// Frames that have come and wait for a receive, first and last plus one.
    pub parked: (u32, u32),
    /// A `Patience` event is in the queue.
    pub waited_for: Flag,
}

/// Timing state of a port.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct PortTime {
    /// When the MAC is free to send.
    pub free_at: u64,
    /// The flow that sent last, plus one.
    pub last_flow: u16,
    /// The round of flows that wait for a fetch: first and last, plus one.
    pub round: (u16, u16),
    /// Bytes of payload requested or in the transmit buffer.
    pub fetched: u32,
    /// Those of them that have not arrived yet; the rest has a time slot on the wire.
    pub coming: u32,
    /// When the last packet in flight to it arrives.
    pub last_arrival: u64,
    /// When the receive pipeline is free.
    pub rx_free_at: u64,
    /// Packets that wait for it.
    pub rx_waits: u16,
    /// With a switch, packets that wait for the MAC, first and last plus one: notifications, and all others.
    pub mac: [(u32, u32); 2],
    /// When the MAC is looked at again.
    pub mac_at: u64,
    /// The switch has told it to pause.
    pub paused: Flag,
}

/// Timing state of a card.
#[repr(C)]
pub struct CardTime {
    /// Its PCIe slot.
    pub bus: pcie::Bus,
    /// When the requester's pipeline is free.
    pub pipe_free_at: u64,
    /// Its ports.
    pub ports: [PortTime; PORTS],
    /// QP contexts in the card.
    pub qpc: cache::Cache<{ cache::MAX_QPC }>,
    /// Translations in the card.
    pub mtt: cache::Cache<{ cache::MAX_MTT }>,
    /// Memory keys in the card.
    pub keys: cache::Cache<{ cache::MAX_KEYS }>,
    /// Its QPs.
    pub qps: [QpTime; MAX_QPS],
    /// When the last doorbell of an SRQ is decoded.
    pub srqs_rung: [u64; MAX_SRQS],
    /// When the last arming of a CQ is.
    pub cqs_rung: [u64; MAX_CQS],
    /// What congestion control makes of each QP.
    pub rates: [QpRate; MAX_QPS],
    /// The process that owns a function.
    pub members: [u16; MAX_FUNCTIONS],
    /// When its last interrupt can have woken a thread.
    pub interrupt_at: [u64; MAX_FUNCTIONS],
}

/// The requester side of a QP.
pub const SENDS: usize = 0;
/// The responder side of a QP.
pub const ANSWERS: usize = 1;

/// Bits of an entry of the queue for the event's index.
const PLACE_BITS: u32 = 22;

/// An entry of the queue: the event's index in `events`, and the process that can see the event, so that a search for
/// what a process sees need not read the events.
#[inline]
fn tagged(place: u32, touched: Option<u16>) -> u32 {
    const { assert!(EVENTS <= 1 << PLACE_BITS && MAX_MEMBERS < 1 << (32 - PLACE_BITS)) };
    place | touched.map_or(0, |member| u32::from(member) + 1) << PLACE_BITS
}

/// The index in `events`.
#[inline]
pub fn place(item: u32) -> u32 {
    item & ((1 << PLACE_BITS) - 1)
}

/// The process that can see the event.
#[inline]
pub fn seen_by(item: u32) -> Option<u16> {
    (item >> PLACE_BITS).checked_sub(1).map(|member| member as u16)
}

/// Names one side of a QP.
#[inline]
pub fn flow_id(qp: u16, side: usize) -> u16 {
    qp * 2 + side as u16
}

/// Drops a reference to a packet slot.
#[inline]
pub fn release(slots: &mut Slab<Slot, SLOTS>, slot: u32) {
    let refs = &mut slots.get_mut(slot).refs;
    *refs -= 1;
    if *refs == 0 {
        slots.free(slot);
    }
}

impl Sim {
    /// Adds an event that another event caused. A full queue drops it: the packet's sender will
    /// time out.
    #[inline(always)]
    pub fn at(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.insert(time, self.sequence, event);
    }

    /// Adds an event with its order among those of the same time. Returns its index in `events`.
    // Inlined, so that the event is made in place: a copy would stall on the stores that it reads back.
    #[inline(always)]
    pub fn insert(&mut self, time: u64, order: u64, event: Event) -> Option<u32> {
        debug_assert!(time >= self.now, "{event:?} at {time}, now {}", self.now);
        let touched = event.touches().map(|touch| touch.member);
        let Some(item) = self.events.put(Kept::new(event)) else {
            self.overflows += 1;
            return None;
        };
        self.enqueue(time, order, tagged(item, touched)).then_some(item)
    }

    fn enqueue(&mut self, time: u64, order: u64, item: u32) -> bool {
        let room = self.queue.push(time, order, item).is_ok();
        if !room {
            self.events.get_mut(place(item)).set(Event::None);
            self.events.free(place(item));
            self.overflows += 1;
        }
        room
    }

    /// Drops a reference to a packet slot.
    #[inline]
    pub fn release(&mut self, slot: u32) {
        release(&mut self.slots, slot);
    }

    /// Schedules a check of the QP timers.
    pub fn timer(&mut self, at: u64) {
        let at = at.max(self.now);
        if self.timer_at == 0 || at < self.timer_at {
            self.timer_at = at;
            self.at(at, Event::Timers);
        }
    }

    /// When the last write in flight to a process lands.
    pub fn last_write(&self, domain: u16) -> Option<u64> {
        self.queue.latest(|item| self.events.get(place(item)).get().writes_to() == Some(domain))
    }

    /// Describes what each thread waits for.
    pub fn describe(&self) -> String {
        let mut text = format!("the time is {} ps, {} events wait", self.now, self.queue.len());
        if self.overflows > 0 {
            text += &format!(", {} found no room and were lost", self.overflows);
        }
        for a in self.actors.used().iter().filter(|a| a.state.takes_part()) {
            let doing = match a.state {
                State::Running => "runs its program".to_owned(),
                State::Waiting if a.entries.get() => "waits for a completion".to_owned(),
                State::Waiting if a.step != 0 => "waits for a write to its memory".to_owned(),
                State::Waiting | State::Turn => format!("waits for {} ps", a.target),
                _ if a.interrupt != 0 => "waits for an interrupt".to_owned(),
                _ => format!("waits in the kernel, for {} streams", a.wait_count),
            };
            let process = super::programs::stall::process(a.pid);
            text += &format!("\n  {process}, thread {}, at {} ps: {doing}", a.tid, a.now());
        }
        text
    }

    /// Clears the queues after a process died in the middle of an event: what was in flight is lost like packets on a
    /// wire, and the QPs' timers recover it.
    pub fn reset(&mut self) {
        self.queue.clear();
        self.events.clear();
        self.landing.clear();
        self.slots.clear();
        self.parked.clear();
        self.jobs.clear();
        self.switch.reset();
        self.timer_at = 0;
        for card in &mut self.cards {
            for port in &mut card.ports {
                (port.round, port.fetched, port.coming, port.rx_waits) = ((0, 0), 0, 0, 0);
                (port.mac, port.mac_at, port.paused) = ([(0, 0); 2], 0, Flag::NO);
            }
            for qp in &mut card.qps {
                (qp.pending, qp.stalled, qp.known, qp.unsent) = (Flag::NO, Flag::NO, Flag::NO, 0);
                (qp.parked, qp.waited_for) = ((0, 0), Flag::NO);
                for flow in &mut qp.flows {
                    (flow.head, flow.tail, flow.count, flow.next) = (0, 0, 0, 0);
                }
            }
        }
        self.act_deadlines();
    }
}

plain! {
    Slot { packet, refs, flow, fetched, unread, waits, warm, next, message, since }
    Job { packet, next, issued, start, known, gathers, back, message, born }
    Flow { head, tail, count, next, last_ready }
    QpTime { pending, known, rung, stalled, free_at, base, upto, done, asked, message, flows, unsent, parked, waited_for }
    PortTime { free_at, last_flow, round, fetched, coming, last_arrival, rx_free_at, rx_waits, mac, mac_at, paused }
    CardTime { bus, pipe_free_at, ports, qpc, mtt, keys, qps, srqs_rung, cqs_rung, rates, members, interrupt_at }
}

impl<C: Plain + ?Sized> Plain for SimOf<C> {}

#[allow(dead_code)]
fn is_plain(sim: &SharedSim) {
    fn is<T: Plain>(_: &T) {}
    let SimOf {
        profile,
        on,
        now,
        left_at,
        members_left,
        sequence,
        executed,
        overflows,
        timer_at,
        idle,
        actors,
        trace,
        streams,
        queue,
        events,
        landing,
        slots,
        parked,
        jobs,
        switch,
        cc,
        frames,
        payload,
        cards,
    } = sim;
    is(profile);
    is(on);
    is(now);
    is(left_at);
    is(members_left);
    is(sequence);
    is(executed);
    is(overflows);
    is(timer_at);
    is(idle);
    is(actors);
    is(trace);
    is(streams);
    is(queue);
    is(events);
    is(landing);
    is(slots);
    is(parked);
    is(jobs);
    is(switch);
    is(cc);
    is(frames);
    is(payload);
    is(cards);
}
