//! A thread that tells the program when the link changes (`RTE_ETH_EVENT_INTR_LSC`), while a port is started that was asked to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::{current, Builder, JoinHandle};
use std::time::Duration;

use driver::{Card, Device, Error, Result};
use verbena::verbs::events::with_signals_blocked;

/// How soon the thread sees that it is to end.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// The thread, which ends when this is dropped.
pub struct Watch {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Calls `tell` with the speed in Mb/s and the state of a port's link whenever it is no more as it `is_up`.
    pub fn start<C: Card>(
        device: Arc<Device<C>>,
        port: u8,
        mut is_up: bool,
        mut tell: impl FnMut(u32, bool) + Send + 'static,
    ) -> Result<Watch> {
        let ends = Arc::<AtomicBool>::default();
        let ended = ends.clone();
        let run = move || {
            while !ended.load(Ordering::Acquire) {
                // What happened does not matter, and a card that fails is told where packets are sent and received.
                while let Ok(Some(_)) = device.next_event(Duration::ZERO) {}
                let Ok(info) = device.query_port(port) else { return };
                if info.link_up != is_up {
                    is_up = info.link_up;
                    tell(info.speed_mbps, is_up);
                }
                if device.wait_for_event(LOOKS_EVERY).is_err() {
                    return;
                }
            }
        };
        let thread = with_signals_blocked(|| Builder::new().name("verbena-link".into()).spawn(run))
            .map_err(|error| Error::Invalid(format!("no thread for the link's changes: {error}")))?;
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
