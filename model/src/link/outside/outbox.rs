//! Frames on their way out: those of one port, destination and length leave together.

use std::io;
use std::os::fd::BorrowedFd;

use super::area::{OutsideArea, OutsidePort};
use super::batch::Batch;
use super::medium;
use crate::link::LinkEnv;
use crate::packet::PortId;
use crate::wire::{frame, Path};

/// Frames of a process that have not left yet. Empty between runs.
#[derive(Default)]
pub(crate) struct Outbox {
    batch: Batch,
}

impl Outbox {
    /// The place that the next frame of a port will have among those that leave together. If it cannot join those that
    /// are here, they leave first.
    pub fn place(
        &mut self,
        area: &OutsideArea,
        (port, path, len): (PortId, &Path, usize),
        env: &mut impl LinkEnv,
    ) -> u16 {
        if !self.batch.takes(port, path, len) {
            self.flush(area, env);
        }
        self.batch.len() as u16
    }

    /// Adds a frame.
    pub fn put(&mut self, area: &OutsideArea, (port, frame): (PortId, &[u8]), env: &mut impl LinkEnv) {
        let Some(path) = frame::path(frame) else { return };
        let what = (port, &path, frame.len());
        let place = self.place(area, what, env);
        // One that was sent before has its place of then, which the ICRC covers.
        if path.network.id().is_some_and(|id| id != place) {
            self.flush(area, env);
        }
        let _ = self.make(what, |to| {
            to.copy_from_slice(frame);
            Ok::<_, std::convert::Infallible>(())
        });
    }

    /// Makes a frame in its [place](Self::place), without a copy.
    pub fn make<E>(
        &mut self,
        what: (PortId, &Path, usize),
        make: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.batch.make(what, make)
    }

    /// Sends what is here. What the system does not take is lost, as on any wire.
    pub fn flush(&mut self, area: &OutsideArea, env: &mut impl LinkEnv) {
        if self.batch.is_empty() {
            return;
        }
        if let Some(port) = self.batch.port().and_then(|id| Some((id, area.port(id)?))) {
            let count = self.batch.len() as u64;
            by_sockets(port, count, env, |sockets| medium::send(port.1, sockets, &self.batch));
        }
        self.batch.clear();
    }

    /// Sends a whole frame, behind those that are here.
    pub fn put_whole(&mut self, area: &OutsideArea, (from, frame): (PortId, &[u8]), env: &mut impl LinkEnv) {
        self.flush(area, env);
        if let Some(port) = area.port(from) {
            by_sockets((from, port), 1, env, |sockets| medium::send_whole(port, sockets, frame));
        }
    }
}

/// Sends frames by the sockets of a port. What is not sent is counted.
fn by_sockets(
    port: (PortId, &OutsidePort),
    count: u64,
    env: &mut impl LinkEnv,
    send: impl FnOnce(&[BorrowedFd<'_>]) -> io::Result<()>,
) {
    let sockets: Option<Vec<_>> = port.1.descriptors().map(|index| env.socket(index)).collect();
    if sockets.is_none_or(|sockets| send(&sockets).is_err()) {
        env.unsent(port, count);
    }
}
