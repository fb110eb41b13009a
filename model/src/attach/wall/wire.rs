//! From port to port: as values, or as frames, which capture and faults see.

use std::os::fd::BorrowedFd;

use super::arrivals::count_drop;
use super::env::{WallEnv, FRAME};
use crate::dma::DmaFault;
use crate::env::Env;
use crate::frames::Frame;
use crate::link::outside::{medium, Drop, OutsidePort};
use crate::link::{LinkArea, LinkEnv, WireEnd};
use crate::packet::{Packet, Payload, PortId};
use crate::world::World;

impl WallEnv<'_> {
    /// Carries a packet to its port, as a value or as frames.
    #[inline(always)]
    pub fn carry(&mut self, world: &mut World, p: &Packet) {
        match self.mode.is_linked() {
            false => world.deliver(p, true, self),
            true => self.carry_frames(world, p),
        }
    }

    #[cold]
    fn carry_frames(&mut self, world: &mut World, p: &Packet) {
        self.with_wire(|wire, area, env| wire.carry(area, world, p, env));
    }

    /// Delivers a frame that a fault has held back, if there is one.
    #[inline]
    pub fn release(&mut self, world: &mut World) -> bool {
        self.mode.is_linked() && self.with_wire(|wire, area, env| wire.release(area, world, env))
    }

    /// Carries a whole frame of a raw packet queue pair.
    pub fn carry_frame(&mut self, world: &mut World, frame: &Frame) {
        match self.mode.is_linked() {
            false => world.hand_over(frame, self),
            true => self.with_wire(|wire, area, env| wire.carry_frame(area, world, frame, env)),
        }
    }

    #[cold]
    pub(super) fn with_wire<R>(&mut self, work: impl FnOnce(&mut WireEnd, &LinkArea, &mut Self) -> R) -> R {
        let net = self.net;
        let mut wire = self.scratch.wire.take().unwrap_or_default();
        let result = work(&mut wire, &net.link, self);
        self.scratch.wire = Some(wire);
        result
    }

    /// Ports that lead outside have the roles that the cards give them.
    #[cold]
    pub fn give_roles(&self, world: &World) {
        for id in world.ports() {
            let role = world.cards[usize::from(id.card)].role(id.port);
            if self.net.link.outside().port(id).is_some_and(|port| port.set_role(role)) {
                self.with_sockets(id, medium::wake);
            }
        }
    }

    /// Who gave the ports that lead outside their roles has died, perhaps before they knew.
    #[cold]
    pub fn wake_outside(&self, world: &World) {
        for id in world.ports() {
            self.with_sockets(id, medium::wake);
        }
    }

    /// Does something with the sockets of a port that leads outside.
    pub(super) fn with_sockets<R>(
        &self,
        id: PortId,
        work: impl FnOnce(&OutsidePort, &[BorrowedFd<'_>]) -> R,
    ) -> Option<R> {
        let port = self.net.link.outside().port(id)?;
        let sockets: Vec<_> = port.descriptors().map(|index| self.socket(index)).collect::<Option<_>>()?;
        Some(work(port, &sockets))
    }
}

impl LinkEnv for WallEnv<'_> {
    fn fetch(&mut self, payload: &Payload, offset: usize, to: &mut [u8]) -> Result<(), DmaFault> {
        match *payload {
            Payload::Memory(from, _) => self.read(from.add(offset as u64), to),
            Payload::Stash(id, _) => {
                to.copy_from_slice(&self.stashed(id)[offset..offset + to.len()]);
                Ok(())
            }
            Payload::Pages(_, pages) => {
                let mut done = 0;
                while done < to.len() {
                    let page = pages.at((offset + done) as u64, |at, entry| self.read(at, entry));
                    let (from, contiguous) = page?;
                    let n = (to.len() - done).min(contiguous as usize);
                    self.read(from, &mut to[done..done + n])?;
                    done += n;
                }
                Ok(())
            }
            Payload::None => Ok(()),
        }
    }

    fn land(&mut self, bytes: &[u8]) -> Payload {
        self.keep(FRAME, bytes)
    }

    fn socket(&self, index: usize) -> Option<BorrowedFd<'_>> {
        self.guard.segment().socket(index)
    }

    fn unsent(&self, port: (PortId, &OutsidePort), count: u64) {
        count_drop(self.net.counters(port.0.card), port, Drop::Unsent, count);
    }
}
