//! What a process remembers of connections for the express lane.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::express::Route;
use crate::here::Here;
use crate::world::World;

/// Routes that a process remembers: a power of two, large enough that a thousand queue pairs seldom collide.
const ROUTES: usize = 2048;

/// What this process found out about connections, by queue pair. Used with the lock only.
pub(crate) struct Routes {
    routes: Box<[UnsafeCell<Route>; ROUTES]>,
    /// Where the queue pairs of each are, for prefetching.
    places: Box<[[AtomicU32; 2]; ROUTES]>,
}

impl Default for Routes {
    fn default() -> Self {
        Routes {
            routes: boxed(|| UnsafeCell::new(Route::NONE)),
            places: boxed(|| [const { AtomicU32::new(0) }; 2]),
        }
    }
}

fn boxed<T, const N: usize>(value: impl Fn() -> T) -> Box<[T; N]> {
    let values: Box<[T]> = (0..N).map(|_| value()).collect();
    values.try_into().unwrap_or_else(|_| unreachable!("so many were made"))
}

impl Routes {
    /// The place of a queue pair's.
    #[inline(always)]
    pub fn place(&self, card: u8, qp: u16) -> *mut Route {
        self.routes[Self::index(card, qp)].get()
    }

    #[inline(always)]
    fn index(card: u8, qp: u16) -> usize {
        // The queue pairs of two cards have the same numbers.
        (usize::from(qp) ^ usize::from(card) << 7) % ROUTES
    }

    /// Remembers a route.
    pub fn remember(&self, card: u8, qp: u16, route: Route) {
        let places = &self.places[Self::index(card, qp)];
        places.iter().zip(route.places()).for_each(|(known, place)| known.store(place, Ordering::Relaxed));
        // SAFETY: with the lock, as all access.
        unsafe { *self.place(card, qp) = route };
    }

    /// Fetches what a message of this queue pair takes.
    #[inline(always)]
    pub fn prefetch(&self, card: u8, qp: u16, world: *mut World) {
        let index = Self::index(card, qp);
        let route = Here::new(self.routes[index].get().cast());
        route.prefetch();
        route.add(64).prefetch();
        let places = self.places[index].each_ref().map(|place| place.load(Ordering::Relaxed));
        for line in Route::lines(places) {
            Here::new(world.cast()).add(line.into()).prefetch_for_write();
        }
    }
}
