use super::*;
use crate::dma::Addr;
use crate::zeroed::Zeroed;

const LOOKAHEAD: u64 = 100;

/// A simulation with two processes of one thread each, at time 1000.
fn two() -> Zeroed<Sim> {
    let mut sim = Zeroed::<Sim>::of_cards(1).unwrap();
    sim.profile.pcie.mmio_ps = LOOKAHEAD;
    for member in 0..2 {
        let at = sim.join(member, 1, u32::from(member)).expect("a place");
        sim.actors.all[at as usize].clock.store(1000, Ordering::Release);
    }
    sim
}

fn waits(sim: &mut Sim, actor: u16, target: u64, need: u64) {
    let other = 1 - actor;
    let a = &mut sim.actors.all[actor as usize];
    (a.state, a.target, a.blocker, a.need) = (State::Waiting, target, other, need);
}

fn notified(sim: &mut Sim, by: u16) -> Vec<u16> {
    sim.notify(by).each().collect()
}

#[test]
fn who_waits_for_a_time_is_woken_when_it_can_be_reached() {
    let mut sim = two();
    waits(&mut sim, 1, 1200, 1200);
    sim.actors.all[0].clock.store(1200 - LOOKAHEAD, Ordering::Release);
    assert!(notified(&mut sim, 0).is_empty());
    sim.actors.all[0].clock.store(1201 - LOOKAHEAD, Ordering::Release);
    assert_eq!(notified(&mut sim, 0), [1]);
}

#[test]
fn who_waits_for_a_completion_is_woken_by_it_alone() {
    let mut sim = two();
    waits(&mut sim, 1, FOREVER, FOREVER);
    (sim.actors.all[1].step, sim.actors.all[1].entries) = (10, true.into());
    sim.actors.all[0].clock.store(1_000_000, Ordering::Release);
    assert!(notified(&mut sim, 0).is_empty());
    waits(&mut sim, 0, FOREVER, FOREVER);
    assert!(notified(&mut sim, 0).is_empty());
    let to = Addr { iova: 0x1000, domain: 1 };
    sim.now = 1_000_005;
    for (entry, woken) in [(false, Vec::new()), (true, vec![1u16])] {
        let write = Event::Short { to, len: 8, entry: entry.into(), bytes: [0; 64] };
        sim.touched(write.touches().expect("a write"));
        assert_eq!(notified(&mut sim, 0), woken);
    }
    assert_eq!(sim.actors.all[1].target, 1_000_010);
}

#[test]
fn who_leaves_the_others_alone_wakes_them() {
    let mut sim = two();
    waits(&mut sim, 1, FOREVER, FOREVER);
    sim.actors.all[0].state = State::Blocked;
    assert_eq!(notified(&mut sim, 0), [1]);
}

#[test]
fn a_standstill_tells_what_was_lost() {
    let mut sim = two();
    assert!(!sim.describe().contains("lost"));
    sim.overflows = 3;
    assert!(sim.describe().contains("3 found no room and were lost"), "{}", sim.describe());
}

/// Two with one rank would each wait for the other's turn.
#[test]
fn threads_that_come_and_go_have_different_ranks() {
    let mut sim = two();
    let places = [10, 11, 12].map(|tid| sim.join(0, 1, tid).expect("a place"));
    let _ = sim.leave(|a| a.tid == 11);
    let next = sim.join(0, 1, 13).expect("a place");
    let mut ranks =
        [0, places[0], places[2], next].map(|place| sim.actors.all[place as usize].rank()).to_vec();
    ranks.sort_unstable();
    ranks.dedup();
    assert_eq!(ranks.len(), 4);
}

/// In whichever order the machine has let them come, and however many more have.
#[test]
fn programs_that_begin_together_have_the_order_in_which_they_were_started() {
    let mut sim = two();
    for (member, pid) in [(2, 300), (3, 100), (4, 200), (5, 150)] {
        sim.come(member, pid, pid).expect("a place");
    }
    assert_eq!((sim.coming().count(), sim.latest()), (4, 1000));
    sim.begin_together(3, 5000);
    let began = |a: &&Actor| a.state == State::Running && a.now() == 5000;
    let mut actors: Vec<&Actor> = sim.actors.used().iter().filter(began).collect();
    actors.sort_by_key(|a| a.rank());
    assert_eq!(actors.iter().map(|a| a.pid).collect::<Vec<_>>(), [100, 200, 300]);
    assert_eq!(sim.coming().map(|a| a.pid).collect::<Vec<_>>(), [150]);
    let ranks: std::collections::BTreeSet<u64> = sim.actors.used().iter().map(Actor::rank).collect();
    assert_eq!(ranks.len(), sim.actors.used().len(), "two of the same rank would wait for each other");
}
