//! What a medium outside of the segment does: opened by the keeper, which receives; sent to by every process of the net.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use super::area::{Kind, OutsidePort, Setting};
use super::arrivals::Arrivals;
use super::batch::Batch;
use super::spec::{MediumSpec, PortSpec};
use super::{dgram, raw, stream, tap, udp};
use crate::address::Gid;
use crate::packet::PortId;
use crate::wire::Path;

/// Why a port cannot be what it is to be.
#[derive(Debug, thiserror::Error)]
#[error("--port {spec}: {what}: {error}")]
pub struct PortError {
    /// The port.
    pub spec: PortSpec,
    /// What was being done, and perhaps what to do about it.
    pub what: String,
    /// What the system said.
    pub error: io::Error,
}

/// What was being done when it failed, and why it did.
pub(super) type Failed = (String, io::Error);

/// A port whose medium is open.
pub struct Opened {
    /// The port.
    pub port: PortId,
    /// What all processes are to know of it.
    pub setting: Setting,
    /// Its GIDs at the start.
    pub gids: Vec<Gid>,
    /// The largest path MTU whose packets pass.
    pub mtu: u32,
    /// By these every process of the net sends: at least one, at most [`MAX_DESCRIPTORS`](super::area::MAX_DESCRIPTORS).
    pub descriptors: Vec<OwnedFd>,
    /// By this the keeper receives.
    pub receiver: Box<dyn Receiver>,
}

/// Receives frames, in the keeper.
pub trait Receiver: Send {
    /// Readable when frames may have come.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;

    /// Reads some of what has come, without waiting, and [takes](Arrivals::take) the frames in it. False: nothing is left.
    fn receive(&mut self, port: PortId, into: &mut Arrivals) -> io::Result<bool>;
}

/// Opens the media of ports. Those of [`MediumSpec::Net`] need none.
pub fn open(specs: &[PortSpec]) -> Result<Vec<Opened>, PortError> {
    let open_one = |spec: &PortSpec| {
        let raw = |wire: raw::Found| wire.and_then(|(wire, raw)| raw::open(spec.port, raw, wire));
        let opened = match &spec.medium {
            MediumSpec::Net => return None,
            MediumSpec::Udp(address) => udp::open(spec.port, *address),
            MediumSpec::Dgram { local, remote } => raw(dgram::open(spec.port, local, remote)),
            MediumSpec::Stream(path) => raw(stream::open(spec.port, path)),
            MediumSpec::Tap(name) => raw(tap::open(spec.port, name)),
        };
        Some(opened.map_err(|(what, error)| PortError { spec: spec.clone(), what, error }))
    };
    specs.iter().filter_map(open_one).collect()
}

/// Fills in what the medium decides of a packet's way.
pub(crate) fn direct(port: &OutsidePort, path: &mut Path) {
    path.src_mac = port.mac();
    match port.kind() {
        Some(Kind::Udp) => udp::direct(port, path),
        // The Ethernet address of the destination is the keeper's to find.
        Some(Kind::Raw) | None => {}
    }
}

/// Sends frames. It may be called with the cards' lock, and does not wait long.
pub(crate) fn send(port: &OutsidePort, sockets: &[BorrowedFd<'_>], batch: &Batch) -> io::Result<()> {
    match port.kind() {
        Some(Kind::Udp) => udp::send(port, sockets, batch),
        Some(Kind::Raw) => raw::give(sockets, batch),
        None => Ok(()),
    }
}
