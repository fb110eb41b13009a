//! The cards' area of a segment, and a process's part in it.
//!
//! Doorbells and interrupt words are used without the segment's lock; the cards and simulated time only with it.
#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::cell::UnsafeCell;
use std::fs::Metadata;
use std::path::Path;
use std::sync::atomic::Ordering;

use crate::cells::{Bells, Interrupts, ServerBell};
use crate::device::tables::{MAX_CQS, MAX_FUNCTIONS};
use crate::device::timers::Timers;
use crate::device::{Counters, Device};
use crate::link::{LinkArea, LinkOptions};
use crate::packet::PORTS;
use crate::plain::Plain;
use crate::profile::Profile;
use crate::segment::{futex_raise, Segment, Turn};
use crate::sim::fabric::Fabric;
use crate::sim::state::SharedSim;
use crate::world::{SharedWorld, MAX_CARDS};

/// The cards' area of a segment.
#[derive(Plain)]
#[repr(C, align(4096))]
pub(crate) struct Net {
    /// Doorbells by card.
    pub bells: [Bells; MAX_CARDS],
    /// Interrupt words.
    pub interrupts: [Interrupts; MAX_CARDS],
    /// By card and function: tells the process that serves a function to a client of its interrupts.
    pub servers: [[ServerBell; MAX_FUNCTIONS]; MAX_CARDS],
    /// By card and function: whose turn it is to use the event queues.
    pub events: [[Turn; MAX_FUNCTIONS]; MAX_CARDS],
    /// By card and CQ: whose turn it is to use it, if several islands do.
    pub completions: [[CqTurn; MAX_CQS]; MAX_CARDS],
    /// Whose turn it is to do an atomic on memory that no process can map.
    pub atomics: Turn,
    /// How packets travel.
    pub link: LinkArea,
    /// The cards. Only with the segment's lock, or that of an island and then only its queue pairs.
    pub world: UnsafeCell<SharedWorld>,
    /// Simulated time. Only with the segment's lock.
    pub sim: UnsafeCell<SharedSim>,
}

/// On a line of its own.
#[derive(Plain)]
#[repr(C, align(64))]
pub(crate) struct CqTurn(pub Turn);

impl Net {
    /// Whether the cards of this net run in simulated time.
    #[inline]
    pub fn simulated(&self) -> bool {
        // SAFETY: written once, before another process could join.
        unsafe { (*self.sim.get()).on.get() }
    }

    /// The timing in use; meaningless in wall-clock time.
    #[inline]
    pub fn profile(&self) -> &Profile {
        // SAFETY: as above.
        unsafe { &(*self.sim.get()).profile }
    }

    /// Makes a new net one of simulated time.
    ///
    /// # Safety
    /// No other process has joined the segment.
    pub unsafe fn simulate(&self, profile: &Profile, trace: Option<(&Path, &Metadata)>, link: &LinkOptions) {
        // SAFETY: as the caller promises.
        let sim = unsafe { &mut *self.sim.get() };
        sim.profile = *profile;
        if let Some((path, made)) = trace {
            sim.trace.start(path, made);
        }
        if let Some(switch) = &link.switch {
            sim.switch.start(switch, Fabric::default(), profile);
        }
        if let Some(cc) = link.cc {
            sim.cc = cc.0;
        }
        sim.on = true.into();
    }

    /// A card as those see it who have no lock: what they read there may be changing.
    #[inline]
    pub fn card(&self, card: u16) -> *const Device {
        // SAFETY: within the table; nothing is read.
        unsafe { &raw const (*self.world.get()).cards[usize::from(card) % MAX_CARDS] }
    }

    /// A card's counters.
    pub fn counters(&self, card: u16) -> &[Counters; PORTS] {
        // SAFETY: atomics, which need no lock, of this net.
        unsafe { &(*self.card(card)).counters }
    }

    /// Which of a card's timers are armed.
    pub fn timers(&self, card: u16) -> &Timers {
        // SAFETY: as above.
        unsafe { &(*self.card(card)).timers }
    }

    /// Whether a CQ of a card may hold an event back, which is due at some time (moderation).
    pub fn moderates(&self, card: u16) -> bool {
        // SAFETY: as above.
        unsafe { &(*self.card(card)).moderates }.load(Ordering::Relaxed) != 0
    }

    /// Wakes all threads that wait for an interrupt, because the cards raise none any more: they check the segment.
    #[cold]
    pub fn wake_all(&self) {
        for word in self.interrupts.as_flattened().as_flattened() {
            futex_raise(word);
        }
    }
}

/// A process's part in a net: the segment that it has joined, and the cards in it.
pub(crate) struct Membership<S: Borrow<Segment> = Segment>(S);

impl<S: Borrow<Segment>> Membership<S> {
    /// Of a process that has joined `segment`.
    pub fn new(segment: S) -> Self {
        let bytes = segment.borrow().world_bytes() as usize;
        assert!(bytes >= size_of::<Net>(), "the segment was made by another version");
        Membership(segment)
    }

    /// The segment.
    #[inline]
    pub fn segment(&self) -> &Segment {
        self.0.borrow()
    }

    /// The cards' area of the segment.
    #[inline]
    pub fn net(&self) -> &Net {
        // SAFETY: the area has the size of `Net` (checked by `new`), is page aligned, and lives as long as the segment.
        // Whatever other processes have written there, even without the lock, are values of it (see [`crate::plain`]). What is
        // changed without the lock is atomic.
        unsafe { &*self.segment().world_ptr().cast::<Net>() }
    }
}
