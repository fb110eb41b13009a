//! Events of a device, waited for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use driver::{Card, Device, Event};
use fpga_regs::EventKind;

/// How long something that must come may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long nothing must come. (The cards run in the caller: what comes has mostly come already.)
const SILENCE: Duration = Duration::from_millis(15);

/// The next event, if one comes in time.
pub fn event_within<C: Card>(device: &Arc<Device<C>>, within: Duration) -> Option<Event> {
    let until = Instant::now() + within;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if let Some(event) = device.next_event(left).expect("the event queue is well") {
            return Some(event);
        }
        if left.is_zero() {
            return None;
        }
    }
}

/// The next event must be this asynchronous one.
pub fn expect_async<C: Card>(device: &Arc<Device<C>>, kind: EventKind, object: u32) {
    let event = event_within(device, PATIENCE);
    assert_eq!(event, Some(Event::Async { kind, object }), "the event {kind} was awaited");
}

/// The next event must be a completion event of this CQ.
pub fn expect_completion_event<C: Card>(device: &Arc<Device<C>>, cqn: u32) {
    assert_eq!(event_within(device, PATIENCE), Some(Event::Completion { cqn }));
}

/// No event comes.
pub fn expect_no_event<C: Card>(device: &Arc<Device<C>>) {
    assert_eq!(event_within(device, SILENCE), None);
}
