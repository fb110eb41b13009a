//! Which media there are: how a port is opened, and how packets leave by it.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::area::{Kind, OutsidePort};
use super::batch::Batch;
use super::opened::Opened;
use super::spec::{MediumSpec, PortSpec};
use super::{dgram, ethernet, given, packet, stream, tap, udp};
use crate::address::{Gid, Guids};
use crate::gid_options::GidOptions;
use crate::gids::GidEntry;
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

/// How long a medium may be another net's that is ending (whose last frames take up to three seconds), and the pause before it is
/// tried again.
const ENDING: Duration = Duration::from_secs(4);
const AGAIN: Duration = Duration::from_millis(20);

/// Opens the media of ports of a net whose cards have these GUIDs, and whose ports have these further addresses. Those of
/// [`MediumSpec::Net`] need none.
pub fn open(specs: &[PortSpec], guids: Guids, gids: &GidOptions) -> Result<Vec<Opened>, PortError> {
    let open_one = |spec: &PortSpec| {
        let card = (spec.port, guids);
        let of_frames = |found: ethernet::Found| {
            let (wire, mut host) = found?;
            host.gids.extend(gids.of(spec.port));
            ethernet::open(spec.port, host, wire)
        };
        let open = || {
            Some(match &spec.medium {
                MediumSpec::Net => return None,
                MediumSpec::Udp(address) => udp::open(spec.port, *address),
                MediumSpec::Dgram { local, remote } => of_frames(dgram::open(card, local, remote)),
                MediumSpec::Stream(path) => of_frames(stream::open(card, path)),
                MediumSpec::Tap(name) => of_frames(tap::open(card, name)),
                MediumSpec::Packet(name) => of_frames(packet::open(card, name)),
            })
        };
        let begin = Instant::now();
        loop {
            let taken = |error: &io::Error| {
                matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::ResourceBusy)
            };
            match open()? {
                // Perhaps by a net that is just ending.
                Err((_, error)) if taken(&error) && begin.elapsed() < ENDING => std::thread::sleep(AGAIN),
                opened => {
                    let failed = |(what, error)| PortError { spec: spec.clone(), what, error };
                    return Some(opened.map_err(failed));
                }
            }
        }
    };
    specs.iter().filter_map(open_one).collect()
}

/// Fills in what the medium decides of a packet's way.
pub(crate) fn direct(port: &OutsidePort, path: &mut Path) {
    path.src_mac = port.mac();
    match port.kind() {
        Some(Kind::Udp) => udp::direct(port, path),
        // The Ethernet address of the destination is the keeper's to find.
        Some(Kind::Ethernet) | None => {}
    }
}

/// Asks who has an IP address on the port's link, from an own one. False: the medium has no such links, or does not take the
/// question now.
pub(crate) fn ask(port: &OutsidePort, sockets: &[BorrowedFd<'_>], own: &GidEntry, ip: &Gid) -> bool {
    port.kind() == Some(Kind::Ethernet) && given::ask(sockets, own, ip).is_ok()
}

/// The role of a port has changed: the keeper's thread plays another one.
pub(crate) fn wake(port: &OutsidePort, sockets: &[BorrowedFd<'_>]) {
    if port.kind() == Some(Kind::Ethernet) {
        // One that is not there any more needs none.
        let _ = given::wake(sockets);
    }
}

/// Sends a whole frame, if the medium carries such.
pub(crate) fn send_whole(port: &OutsidePort, sockets: &[BorrowedFd<'_>], frame: &[u8]) -> io::Result<()> {
    match port.kind() {
        Some(Kind::Ethernet) => given::give_whole(sockets, frame),
        Some(Kind::Udp) | None => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Sends frames. It may be called with the cards' lock, and does not wait long.
pub(crate) fn send(port: &OutsidePort, sockets: &[BorrowedFd<'_>], batch: &Batch) -> io::Result<()> {
    match port.kind() {
        Some(Kind::Udp) => udp::send(port, sockets, batch),
        Some(Kind::Ethernet) => given::give(sockets, batch),
        None => Ok(()),
    }
}
