//! The state of a simulation: one struct, in the segment.

use fpga_regs::MAX_FRAME;

pub use super::parts::{CardTime, Flow, Job, PortTime, QpTime, Slot};

use super::event::Event;
use super::frames::Parked;
use super::heap;
use super::programs::actor::{Actors, State};
use super::programs::streams::Streams;
use super::slab::Slab;
use super::switch::Switch;
use super::trace::Trace;
use super::wire::Frame;
use crate::congestion::dcqcn::Parameters;
use crate::plain::{Flag, Kept, Plain};
use crate::profile::Profile;
use crate::segment::page::MAX_MEMBERS;
use crate::world::MAX_CARDS;

/// No time.
pub const FOREVER: u64 = u64::MAX;
/// Events that may wait.
pub const EVENTS: usize = 1 << 19;
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
#[derive(Plain)]
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
    /// wire, and the QPs' timers recover it. Doorbells are not: the card still hears each, as nobody rings again.
    pub fn reset(&mut self) {
        let bells = self.bells();
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
        for (at, bell) in bells {
            self.at(at.max(self.now), bell);
        }
    }

    /// The doorbells that cards have not heard yet, in order.
    fn bells(&mut self) -> Vec<(u64, Event)> {
        // One that is not in the queue is being heard or was about to be put there: it is heard at once.
        let mut times = vec![0; self.events.each().len()];
        for (time, item) in self.queue.each() {
            if let Some(at) = times.get_mut(place(item) as usize) {
                *at = time.max(*at);
            }
        }
        let events = times.into_iter().zip(self.events.each());
        let bells = events.filter_map(|(at, event)| Some((at, event.read().filter(Event::is_bell)?)));
        let mut bells: Vec<(u64, Event)> = bells.collect();
        bells.sort_by_key(|&(at, _)| at);
        bells
    }
}
