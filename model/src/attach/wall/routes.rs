//! What a process remembers of connections for the express lane.
#![allow(unsafe_code)]

use std::alloc::{alloc_zeroed, handle_alloc_error, Layout};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

use crate::device::tables::MAX_QPS;
use crate::express::Route;
use crate::here::Here;
use crate::world::{World, MAX_CARDS};

/// The routes of a card's queue pairs. Zero: nothing was found out.
struct Table {
    routes: [UnsafeCell<Route>; MAX_QPS],
    /// Where the queue pairs of each are, for prefetching.
    places: [[AtomicU32; 2]; MAX_QPS],
}

/// What this process found out about connections, by queue pair. The holder of its island's lock alone uses a route.
/// Memory of queue pairs that are not used is address space only.
#[derive(Default)]
pub(crate) struct Routes([OnceLock<Box<Table>>; MAX_CARDS]);

impl Routes {
    #[inline(always)]
    fn table(&self, card: u16) -> &Table {
        self.0[usize::from(card) % MAX_CARDS].get_or_init(zeroed)
    }

    /// The place of a queue pair's.
    #[inline(always)]
    pub fn place(&self, card: u16, qp: u16) -> *mut Route {
        self.table(card).routes[usize::from(qp) % MAX_QPS].get()
    }

    /// Remembers a route.
    pub fn remember(&self, card: u16, qp: u16, route: Route) {
        let places = &self.table(card).places[usize::from(qp) % MAX_QPS];
        places.iter().zip(route.places()).for_each(|(known, place)| known.store(place, Ordering::Relaxed));
        // SAFETY: with the lock, as all access.
        unsafe { *self.place(card, qp) = route };
    }

    /// Fetches what a message of this queue pair takes.
    #[inline(always)]
    pub fn prefetch(&self, card: u16, qp: u16, world: *mut World) {
        let table = self.table(card);
        let index = usize::from(qp) % MAX_QPS;
        let route = Here::new(table.routes[index].get().cast());
        route.prefetch();
        route.add(64).prefetch();
        let places = table.places[index].each_ref().map(|place| place.load(Ordering::Relaxed));
        for line in Route::lines(places) {
            Here::new(world.cast()).add(line.into()).prefetch_for_write();
        }
    }
}

#[cold]
fn zeroed() -> Box<Table> {
    let layout = Layout::new::<Table>();
    // SAFETY: of the table's size, which is not 0; zero bytes are a table of routes of generation 0, which there is none of.
    unsafe {
        let table = alloc_zeroed(layout).cast::<Table>();
        if table.is_null() {
            handle_alloc_error(layout);
        }
        Box::from_raw(table)
    }
}
