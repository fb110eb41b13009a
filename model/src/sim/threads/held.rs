//! The segment's lock, and whom to wake when it is given back.

use std::cell::Cell;
use std::ops::Deref;

use crate::segment::Guard;
use crate::sim::programs::actor_set::ActorSet;
use crate::sim::programs::actors::Actor;

/// The lock. ActorSet who should look again are woken behind it: woken before they would find it taken, and on one
/// core take the place of who has it.
pub(crate) struct Held<'a> {
    // Dropped first.
    guard: Guard<'a>,
    waking: Waking<'a>,
}

struct Waking<'a> {
    those: Cell<ActorSet>,
    actors: &'a [Actor],
}

impl<'a> Held<'a> {
    #[inline]
    pub fn new(guard: Guard<'a>, actors: &'a [Actor]) -> Self {
        Held { guard, waking: Waking { those: Cell::default(), actors } }
    }

    /// Wakes these, too.
    #[inline]
    pub fn wakes(&self, those: ActorSet) {
        self.waking.those.set(self.waking.those.get().and(those));
    }
}

impl<'a> Deref for Held<'a> {
    type Target = Guard<'a>;

    #[inline]
    fn deref(&self) -> &Guard<'a> {
        &self.guard
    }
}

impl Drop for Waking<'_> {
    #[inline]
    fn drop(&mut self) {
        for actor in self.those.get().each() {
            self.actors[actor as usize].bump();
        }
    }
}
