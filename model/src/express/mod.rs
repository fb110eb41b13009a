//! The express lane: a plain message of one packet is executed at the peer within the doorbell that posts it.
//!
//! A WRITE or SEND that fits one packet, on an idle connection, is the most frequent message of a program in a hurry.
//! As long as no frame is observed, the lane makes no packet for it. While nothing but such messages passes through the
//! cards of a segment, what was found out about a connection stays true: a [`Route`] remembers it, each process has
//! its own, and [`Express::forget_routes`] makes all of them void.
//!
//! The result is that of [`run_send`](crate::device::Device::run_send), [`receive`](crate::device::Device::receive) and
//! [`acknowledged`](crate::device::Device::acknowledged), which handle every message that is not plain. The lane checks
//! everything that could refuse the message before it changes anything. `tests/tests/express.rs` compares the two.
//! Only the wall-clock environment has it.
#![allow(unsafe_code)]

mod find;
mod flows;
mod frames;
mod lane;
mod piece;
mod route;

use crate::dma::Addr;
use crate::env::Env;
use crate::here::Here;
use crate::world::World;

pub use flows::Flows;
pub(crate) use lane::{send, End, Lane};
pub use route::Route;

use lane::Within;

/// What the express lane needs from its surroundings, beside what a card needs.
pub trait Express: Env {
    /// Grows with each [`forget_routes`](Express::forget_routes) of any process, and when the DMA maps change.
    fn generation(&self) -> u64;
    /// Makes every [`Route`] void, before anything but a plain message changes a card.
    fn forget_routes(&mut self);
    /// Where this process remembers the route of a connection. The place stays while the cards run, and nothing else
    /// accesses it.
    fn route(&mut self, card: u16, qp: u16) -> *mut Route;
    /// Remembers a route there.
    fn remember(&mut self, card: u16, qp: u16, route: Route);
    /// What this process remembers of frames. Nothing else accesses it while the cards run.
    fn flows(&mut self) -> &mut Flows;
    /// Where this process reaches the memory at an address, and how many contiguous bytes of it; valid for this
    /// [`generation`](Express::generation). `None` if it has no address here.
    fn here(&mut self, at: Addr) -> Option<(Here, u64)>;
}

/// Messages, and routes found out for them, before other queue pairs have a turn.
const TURN: u32 = 32;

impl World {
    /// Sends the plain messages at the head of a send queue, and finds out what they need. False if something is
    /// left, for [`run_send`](crate::device::Device::run_send).
    pub(crate) fn express<E: Express>(&mut self, card: u16, q: u16, env: &mut E) -> bool {
        let producer = env.bells(card).sq_producer(q.into());
        // A bound, because a program may change the WQE all the time.
        for _ in 0..TURN {
            // SAFETY: the place is ours while the cards run, and the environment does not access it.
            let route = unsafe { &mut *env.route(card, q) };
            let world: *mut World = self;
            // SAFETY: this call borrows the world, with the lock; all routes of a process are found here.
            let end = unsafe { send(world, route, card, q, producer, &mut Within { world, env }) };
            let known = match end {
                End::Sent => return true,
                End::More => true,
                End::NotPlain => false,
                End::NoRoute => {
                    self.find_route(card, q, env).map(|found| env.remember(card, q, found)).is_some()
                }
                End::NoLocal => self.local(route, env),
                End::NoRemote => self.remote(route, env),
                End::NoReceive => self.receive(route, env),
            };
            if !known {
                return false;
            }
        }
        false
    }
}
