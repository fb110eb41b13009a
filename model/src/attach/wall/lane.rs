//! What the express lane asks of the wall clock's environment.

use std::sync::atomic::Ordering;

use super::env::WallEnv;
use crate::dma::Addr;
use crate::express::{Express, Flows, Route};
use crate::here::Here;
use crate::segment::{Backing, ALL};

impl Express for WallEnv<'_> {
    #[inline(always)]
    fn forget_routes(&mut self) {
        match self.guard.island() {
            ALL => self.guard.segment().new_generation(),
            _ => self.guard.control().new_generation(),
        }
    }

    #[inline(always)]
    fn generation(&self) -> u64 {
        self.guard.control().generation.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn route(&mut self, card: u16, qp: u16) -> *mut Route {
        self.routes.place(card, qp)
    }

    fn remember(&mut self, card: u16, qp: u16, route: Route) {
        self.routes.remember(card, qp, route);
    }

    #[inline(always)]
    fn flows(&mut self) -> &mut Flows {
        &mut self.scratch.flows
    }

    fn here(&mut self, at: Addr) -> Option<(Here, u64)> {
        match self.guard.resolve(at.domain, at.iova)? {
            (Backing::Extent(offset), reached) => {
                Some((Here::new(self.guard.segment().ptr_at(offset)), reached))
            }
            _ => None,
        }
    }
}
