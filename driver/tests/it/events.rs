//! The event queue.

use std::time::Duration;

use driver::Event;
use fpga_regs::{regs, Eqe, EventKind};

use crate::fake;
use crate::script::*;
use crate::scripted::Step;

const NOW: Duration = Duration::ZERO;

#[test]
fn events_come_in_order() {
    let (card, device) = opened(features());
    assert_eq!(device.next_event(NOW).unwrap(), None);
    card.expect([
        Step::Wait(0, true),
        Step::Act(Box::new(|memory| {
            let first = Eqe::new().with_kind(EventKind::COMPLETION).with_object(5).with_phase(true);
            let second = Eqe::new().with_kind(EventKind::PORT_ERR).with_port(2).with_phase(true);
            memory.write(EVENTS, first.as_bytes());
            memory.write(EVENTS + 32, second.as_bytes());
        })),
    ]);
    let wait = Duration::from_secs(1);
    assert_eq!(device.next_event(wait).unwrap(), Some(Event::Completion { cqn: 5 }));
    let port = Event::Async { kind: EventKind::PORT_ERR, object: 2 };
    assert_eq!(device.next_event(wait).unwrap(), Some(port), "without waiting");
    card.expect([Step::Wait(0, false)]);
    assert_eq!(device.next_event(wait).unwrap(), None, "the time is over");
    card.expect([Step::Wait(0, true)]);
    assert_eq!(device.next_event(wait).unwrap(), None, "a wake-up without an event");
    card.finish();
    card.expect(stop());
}

#[test]
fn the_card_is_told_now_and_then_what_was_taken() {
    let (card, device) = opened(features());
    card.expect([
        Step::Wait(0, true),
        Step::Act(Box::new(|memory| {
            for n in 0..512 {
                let event = Eqe::new().with_kind(EventKind::COMPLETION).with_object(n).with_phase(true);
                memory.write(EVENTS + 32 * u64::from(n), event.as_bytes());
            }
        })),
    ]);
    for n in 0..512 {
        // Each 256th event ends with a register write, and no other.
        if n % 256 == 255 {
            card.expect([Step::Write32(regs::eq_consumer(0), n + 1)]);
        }
        let event = device.next_event(Duration::from_secs(1)).unwrap();
        assert_eq!(event, Some(Event::Completion { cqn: n }));
    }
    card.finish();
    card.expect(stop());
}

#[test]
fn every_kind_of_object() {
    let device = fake::open();
    device.card().event(Eqe::new().with_kind(EventKind::SRQ_LIMIT).with_object(9));
    device.card().event(Eqe::new().with_kind(EventKind::DEVICE_FATAL).with_data(0x31));
    device.card().event(Eqe::new().with_kind(EventKind(200)).with_object(1));
    let next = || device.next_event(NOW).unwrap();
    assert_eq!(next(), Some(Event::Async { kind: EventKind::SRQ_LIMIT, object: 9 }));
    assert_eq!(next(), Some(Event::Async { kind: EventKind::DEVICE_FATAL, object: 0x31 }));
    assert_eq!(next(), Some(Event::Async { kind: EventKind(200), object: 1 }), "kept as it is");
    assert_eq!(next(), None);
}

#[test]
fn laps_of_the_event_ring() {
    let device = fake::open();
    for cqn in 0..20_000 {
        device.card().event(Eqe::new().with_kind(EventKind::COMPLETION).with_object(cqn));
        assert_eq!(device.next_event(NOW).unwrap(), Some(Event::Completion { cqn }));
        assert_eq!(device.next_event(NOW).unwrap(), None);
    }
}
