//! A thread that works beside the keeper.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::event::{eventfd, EventfdFlags};

use super::error::KeeperError;
use super::options::Beside;
use crate::segment::Segment;

/// It has been started, and is to be ended.
pub(super) struct Started {
    stop: OwnedFd,
    thread: JoinHandle<()>,
}

impl Started {
    /// Starts it.
    pub fn new(work: Beside, segment: &Arc<Segment>) -> Result<Started, KeeperError> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(|error| KeeperError::system("making an eventfd", error.into()))?;
        let system = |error| KeeperError::system("starting the thread that receives", error);
        let stopped = stop.try_clone().map_err(system)?;
        let segment = Arc::clone(segment);
        let thread = std::thread::Builder::new().name("verbena-ports".to_owned());
        let thread = thread.spawn(move || work(segment, stopped)).map_err(system)?;
        Ok(Started { stop, thread })
    }

    /// Tells it to end, and waits for that.
    pub fn end(self) {
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        // A panic has said what it is.
        let _ = self.thread.join();
    }
}
