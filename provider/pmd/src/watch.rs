//! A thread that takes the card's events while a port is started: it rings where frames have come, and looks after the link.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::{current, Builder, JoinHandle};
use std::time::Duration;

use driver::{Card, Device, Error, Event, Result};
use verbena::verbs::events::with_signals_blocked;

use crate::interrupts::Bells;

/// How soon the thread sees that it is to end.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// The thread, which ends when this is dropped.
pub struct Watch {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Rings `bells` when frames come that were asked for, and calls `look` when anything else may have happened.
    pub fn start<C: Card>(
        device: Arc<Device<C>>,
        bells: Option<Arc<Bells>>,
        mut look: impl FnMut(&Device<C>) -> Result<()> + Send + 'static,
    ) -> Result<Watch> {
        let ends = Arc::<AtomicBool>::default();
        let ended = ends.clone();
        let mut step = move |bells: Option<&Bells>| {
            while let Some(event) = device.next_event(Duration::ZERO)? {
                if let (Event::Completion { cqn }, Some(bells)) = (event, bells) {
                    bells.ring(cqn);
                }
            }
            look(&device)?;
            device.wait_for_event(LOOKS_EVERY)
        };
        let run = move || {
            while !ended.load(Ordering::Acquire) {
                if step(bells.as_deref()).is_err() {
                    // A card that fails is told where packets are sent and received, by threads that are awake.
                    return bells.iter().for_each(|bells| bells.ring_all());
                }
            }
        };
        let thread = with_signals_blocked(|| Builder::new().name("verbena-events".into()).spawn(run))
            .map_err(|error| Error::Invalid(format!("no thread for the card's events: {error}")))?;
        Ok(Watch { ends, thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        // What it calls may stop the port.
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != current().id()) {
            let _ = thread.join();
        }
    }
}
