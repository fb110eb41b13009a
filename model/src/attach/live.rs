//! A capture of a running net, by a process that has no part in it but that.

use std::path::Path;
use std::time::Duration;

use super::cables;
use super::card::Joined;
use super::error::OpenError;
use crate::link::live::{Damaged, Seen, View};
use crate::packet::PortId;
use crate::segment::Segment;

/// A capture of a running net. While there is one, the net's packets are made frames, with the lock of all the cards. It ends
/// when this is dropped, or when its process is killed: then the net's keeper ends it. The net does not stay for it.
pub struct LiveCapture {
    joined: Joined,
    index: usize,
    ports: Vec<(PortId, [u8; 6])>,
}

impl LiveCapture {
    /// Begins one on the net whose keeper listens at `socket`.
    pub fn begin(socket: &Path, view: &View) -> Result<LiveCapture, OpenError> {
        let joined = Joined::of(Segment::watch(socket)?);
        let member = joined.segment().member();
        let (index, ports) = joined.outside_time(|world, _| {
            view.port.map_or(Ok(()), |port| cables::check(world, port))?;
            // Queue pairs run with all the cards from now on.
            world.void_islands();
            let index = joined.net().link.begin_live(member, view).ok_or(OpenError::TooManyCaptures)?;
            Ok::<_, OpenError>((
                index,
                world
                    .ports()
                    .map(|port| (port, world.cards[usize::from(port.card)].mac(port.port)))
                    .collect(),
            ))
        })??;
        Ok(LiveCapture { joined, index, ports })
    }

    /// The ports of the net, and their Ethernet addresses.
    pub fn ports(&self) -> &[(PortId, [u8; 6])] {
        &self.ports
    }

    /// Whether the net runs in simulated time, which begins with it.
    pub fn is_simulated(&self) -> bool {
        matches!(self.joined, Joined::Virtual(_))
    }

    /// Takes the frames that have been seen since the last call.
    pub fn take(&self, mut each: impl FnMut(&Seen, &[u8])) -> Result<(), Damaged> {
        self.joined.net().link.live().take(self.index, &mut each)
    }

    /// Frames that were lost to the capture, because they were not taken in time.
    pub fn dropped(&self) -> u64 {
        self.joined.net().link.live().dropped(self.index)
    }

    /// Waits for `time`, or until the net has ended; whether it has.
    pub fn net_ends_within(&self, time: Duration) -> bool {
        self.joined.segment().keeper_ends_within(time)
    }
}

impl Drop for LiveCapture {
    fn drop(&mut self) {
        let (segment, link) = (self.joined.segment(), &self.joined.net().link);
        // If the cards cannot be had, the keeper does it.
        let _ = self.joined.outside_time(|_, _| link.end_live(segment.member(), segment));
    }
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
