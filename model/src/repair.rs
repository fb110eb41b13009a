//! Repairs the cards after the death of the process that ran them.

use std::sync::atomic::Ordering;

use crate::env::Env;
use crate::journal;
use crate::segment::{Guard, ALL};
use crate::world::World;

/// Makes all queues and timers whole; the QP that the journal names goes to error.
#[cold]
pub(crate) fn repair(guard: &Guard<'_>, world: &mut World, env: &mut impl Env) {
    guard.recovery_begins();
    repair_part(guard, world, ALL, env);
    world.manager(env).recover();
    // The dead may have changed a link, without all that follows from that. Programs see it, but get no event.
    for card in 0..world.count() as usize {
        world.cards[card].with_links(env, |_, _| {});
    }
    // The dead may have been in the middle of giving labels.
    world.void_islands();
    guard.segment().journal().store(0, Ordering::Relaxed);
    guard.recovery_done();
}

/// The same for the islands in which a thread has died.
#[cold]
pub(crate) fn repair_islands(guard: &Guard<'_>, world: &mut World, env: &mut impl Env) {
    for island in guard.dead_islands() {
        guard.recovery_begins();
        repair_part(guard, world, island, env);
        guard.repaired(island);
        guard.recovery_done();
    }
}

fn repair_part(guard: &Guard<'_>, world: &mut World, island: u16, env: &mut impl Env) {
    let cards = 0..world.count() as usize;
    // First, as what follows relies on the queues.
    for card in cards.clone() {
        for q in world.cards[card].qps_from(0) {
            if is_of(island, card, q, env) {
                world.cards[card].rebuild_timer(q, env);
            }
        }
        world.cards[card].recover_queues((island != ALL).then_some(island), env);
    }
    let entry = guard.segment().control(island).journal.load(Ordering::Relaxed);
    if let Some(entry) = journal::read(entry).filter(|entry| entry.card < world.count()) {
        let q = (entry.qpn & 0xffff) as usize;
        let peer = world.cards[usize::from(entry.card)].recover_qp(q, &entry, env);
        // A packet may have been acknowledged within the same step.
        if let Some((port, qpn)) = peer.filter(|(port, _)| entry.pair && port.card < world.count()) {
            let card = &mut world.cards[port.card as usize];
            if let Some(q) = card.find_qp(qpn) {
                card.recover_qp(q, &entry, env);
            }
        }
    }
    for card in cards {
        world.cards[card].end_all_overrun_cqs(env);
        for q in world.cards[card].qps_from(0) {
            if is_of(island, card, q, env) {
                world.cards[card].recover_send(q, env);
            }
        }
    }
}

/// Whether a run in the island may have changed a queue pair.
fn is_of(island: u16, card: usize, q: usize, env: &impl Env) -> bool {
    island == ALL || env.bells(card as u16).qp[q].label().island() == island
}
