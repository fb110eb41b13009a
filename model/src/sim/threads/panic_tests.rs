//! What holds the simulation up: a panic or a death while it is run, a lock holder that is slow, no free place. (What makes a net is above this module, but only in tests.)

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use fpga_regs::{QpState, QpType};

use super::lock::Held;
use super::Threads;
use crate::attach::{NetOptions, PrivateNet};
use crate::dma::Addr;
use crate::env::Env;
use crate::eventually::eventually;
use crate::journal;
use crate::net::Membership;
use crate::packet::{Packet, PortId};
use crate::profile::Profile;
use crate::segment::{now_ns, Segment};
use crate::sim::engine::Engine;
use crate::sim::event::Event;
use crate::sim::programs::streams::Wait;
use crate::sim::state::FOREVER;
use contract::clock::kind;

/// Runs `work` with what makes members of a net.
pub(super) fn with_members(cards: u8, work: impl FnOnce(&dyn Fn() -> Threads)) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("net/sock");
    let clock = Some(Profile::load("f10a").unwrap().profile);
    let options = NetOptions { clock, ..NetOptions::from(cards) };
    let (_net, _held) = PrivateNet::start(&socket, options, Segment::hold).unwrap();
    work(&|| Threads::new(Membership::new(Segment::attach(&socket).unwrap())));
}

#[test]
fn a_panic_in_simulated_time_leaves_nothing_of_its_step() {
    with_members(2, |attach| {
        let (a, b) = (attach(), attach());
        let mut held = a.locked().unwrap();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            held.engine(|engine| {
                engine.env.slot(8);
                engine.env.send_later(0, 7);
                engine.env.send();
                panic!("injected by the test");
            })
        }));
        assert!(panicked.is_err());
        held.doubt();
        drop(held);
        // Another process repairs the simulation, with all places free.
        drop(b.locked().unwrap());
        a.locked().unwrap().engine(|engine| {
            let step = &engine.env.step;
            assert!(step.stashes.is_empty() && step.wanted.is_empty() && step.sent.is_empty());
        });
    });
}

#[test]
fn others_come_while_the_simulation_is_held_up() {
    with_members(1, |attach| {
        let a = attach();
        let held = a.locked().unwrap();
        // The keeper has something to do now, and finds the lock taken.
        a.segment().arm_deadline(now_ns());
        std::thread::sleep(Duration::from_millis(20));
        let before = Instant::now();
        drop(attach());
        assert!(before.elapsed() < Duration::from_secs(3), "the keeper waited for the lock holder");
        drop(held);
    });
}

/// Where it goes on would depend on how busy the machine is.
#[test]
fn who_sleeps_for_this_library_is_not_assumed_to_wait_for_its_program() {
    with_members(1, |attach| {
        let threads = attach();
        threads.clock();
        let aside = || threads.actor(threads.place().unwrap()).aside.load(Ordering::Relaxed) != 0;
        std::thread::scope(|scope| {
            let (goes, gone) = std::sync::mpsc::channel();
            let threads = &threads;
            scope.spawn(move || {
                threads.clock();
                goes.send(()).unwrap();
                threads.spend(10 * threads.profile().pcie.mmio_ps);
                threads.leave();
            });
            gone.recv().unwrap();
            threads.held_up(|| {
                std::thread::sleep(Duration::from_millis(100));
                assert!(!aside());
            });
            assert!(eventually(aside), "the other thread waits for this one");
        });
        threads.leave();
    });
}

/// Nor is one whose bytes the machine is slow to bring.
#[test]
fn who_sleeps_for_what_was_sent_resumes_when_it_came() {
    with_members(1, |attach| {
        let (reader, writer) = (attach(), attach());
        let key = (kind::TCP, 1, 2);
        let (blocks, blocked) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let reads = scope.spawn(|| {
                reader.block(&[Wait { key, position: 0 }], FOREVER);
                blocks.send(()).unwrap();
                std::thread::sleep(Duration::from_millis(300));
                let at = reader.unblock();
                reader.leave();
                at
            });
            blocked.recv().unwrap();
            let sent = writer.clock();
            writer.sent(key, 1);
            writer.sleep_until(sent + 50_000_000_000);
            writer.leave();
            assert_eq!(reads.join().unwrap(), sent + writer.profile().host.tcp_ps);
        });
    });
}

#[test]
fn a_deadline_outlives_the_process_that_died_with_the_lock() {
    with_members(1, |attach| {
        let (a, b) = (attach(), attach());
        let deadline = a.clock() + 3_600_000_000_000_000;
        a.block(&[], deadline);
        b.locked().unwrap().doubt();
        let next = b.locked().unwrap().sim().queue.peek().map(|next| next.time);
        assert_eq!(next, Some(deadline));
        a.unblock();
        // An ended wait has none.
        b.locked().unwrap().doubt();
        assert!(b.locked().unwrap().sim().queue.peek().is_none());
    });
}

#[test]
fn what_cards_have_written_outlives_the_process_that_died_with_the_lock() {
    with_members(1, |attach| {
        let (a, b) = (attach(), attach());
        let to = memory(&a);
        let mut held = a.locked().unwrap();
        held.engine(|engine| {
            engine.env.write(to, &[5; 8]).unwrap();
            engine.env.write(to, &[6; 8]).unwrap();
            engine.env.publish(to.add(64), [7; 8]).unwrap();
            engine.env.publish(to.add(128), [8; 8]).unwrap();
            // One entry is on the bus when the process dies.
            while !matches!(engine.env.sim.queue.peek(), Some(next) if next.time > engine.env.sim.now) {
                engine.next();
            }
        });
        let at = [0, 64, 120, 128].map(|offset| to.add(offset));
        assert_eq!(words_after(held, &b, at), [0x0606_0606_0606_0606, 7, 7, 8]);
    });
}

/// The first event, in whose middle the process is to die.
pub(super) fn begun(engine: &mut Engine<'_>) -> Event {
    let place = engine.begin().expect("an event");
    engine.env.sim.events.get(place).get()
}

/// Memory of a member, for what cards write.
fn memory(of: &Threads) -> Addr {
    let memory = of.segment().alloc(4096).unwrap();
    Addr { domain: of.segment().member(), iova: memory.ptr as u64 }
}

/// The words at these addresses, as the next holder of the lock finds them.
fn words_after<const N: usize>(dying: Held<'_>, next: &Threads, at: [Addr; N]) -> [u64; N] {
    dying.doubt();
    drop(dying);
    let guard = next.locked().unwrap();
    at.map(|at| {
        let mut bytes = [0; 8];
        guard.read(at.domain, at.iova, &mut bytes).unwrap();
        u64::from_ne_bytes(bytes)
    })
}

#[test]
fn what_a_card_is_writing_outlives_the_process_that_dies() {
    with_members(1, |attach| {
        let (a, b) = (attach(), attach());
        let to = memory(&a);
        // When it is on its way to the bus, and when it is to become visible.
        for before in 0..2 {
            let mut held = a.locked().unwrap();
            held.engine(|engine| {
                engine.env.publish(to.add(64 * before), [7; 8]).unwrap();
                (0..before).for_each(|_| engine.next());
                assert_eq!(matches!(begun(engine), Event::Entry { .. }), before == 0);
            });
            assert_eq!(words_after(held, &b, [to.add(64 * before + 56)]), [7]);
        }
        // Payload does not come after what was written there later.
        for later in [1, 2] {
            let mut held = a.locked().unwrap();
            held.engine(|engine| {
                (1..=later).for_each(|value| engine.env.write(to, &[value; 8]).unwrap());
                assert!(matches!(begun(engine), Event::Short { .. }));
            });
            assert_eq!(words_after(held, &b, [to]), [u64::from_ne_bytes([later; 8])]);
        }
    });
}

/// Others cannot know what of it is done: an answer may have been taken, and its completion not be made.
#[test]
fn a_queue_pair_goes_to_error_in_whose_work_a_process_dies() {
    with_members(1, |attach| {
        let (a, b) = (attach(), attach());
        let port = PortId { card: 0, port: 0 };
        let answer = Packet { src: port, dst: port, dest_qpn: 7, ..Packet::BLANK };
        for answered in [false, true] {
            let mut held = a.locked().unwrap();
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                held.engine(|engine| {
                    let qp = &mut engine.world.cards[0].qps[7];
                    (qp.used, qp.qpn, qp.qp_type, qp.state) = (true.into(), 7, QpType::RC, QpState::RTS);
                    (qp.port, qp.dest, qp.sq_sig_all) = (port, port, true.into());
                    (qp.req.cur, qp.req.psn) = (answered.into(), answered.into());
                    qp.req.head_cached = answered.into();
                    // A completion is where the process dies.
                    qp.send_cq = u16::MAX;
                    engine.env.bells[0].qp[7].sq.store(1, Ordering::Relaxed);
                    let slot = engine.env.slot(0);
                    engine.env.sim.slots.get_mut(slot).packet.set(answer);
                    let event =
                        if answered { Event::Arrive { slot } } else { Event::Send { card: 0, qp: 7 } };
                    engine.env.sim.at(engine.env.sim.now, event);
                    while engine.env.sim.queue.peek().is_some() {
                        engine.next();
                    }
                })
            }));
            assert!(panicked.is_err(), "nothing was completed");
            let journal = a.segment().journal();
            assert_eq!(journal.load(Ordering::Relaxed), journal::one(0, 7));
            held.engine(|engine| engine.world.cards[0].qps[7].send_cq = 0);
            held.doubt();
            drop(held);
            let mut held = b.locked().unwrap();
            let qp = held.engine(|engine| std::mem::take(&mut engine.world.cards[0].qps[7].state));
            assert_eq!(qp, QpState::ERR);
            assert_eq!(journal.load(Ordering::Relaxed), 0);
            held.engine(|engine| engine.world.cards[0].qps[7].used = false.into());
        }
    });
}

#[test]
fn a_header_is_delivered_although_no_slot_is_free() {
    with_members(1, |attach| {
        let a = attach();
        let to = memory(&a);
        let mut got = [0; 40];
        a.locked().unwrap().engine(|engine| {
            while engine.env.sim.slots.take().is_some() {}
            let header = engine.env.hold(&[7; 40]);
            engine.env.deliver(to, &header, 0, 40).unwrap();
            engine.env.sim.slots.clear();
            while engine.env.sim.queue.peek().is_some() {
                engine.next();
            }
            engine.env.read(to, &mut got).unwrap();
        });
        assert_eq!(got, [7; 40]);
    });
}
