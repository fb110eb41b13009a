//! Repairs the cards after the death of the process that ran them.

use std::sync::atomic::Ordering;

use crate::env::Env;
use crate::journal;
use crate::segment::Guard;
use crate::world::World;

/// Makes queues and derived lists whole; the QP that the journal names goes to error.
#[cold]
pub(crate) fn repair(guard: &Guard<'_>, world: &mut World, env: &mut impl Env) {
    guard.recovery_begins();
    // First, as what follows relies on the lists and the queues.
    for card in 0..world.count() as usize {
        world.cards[card].rebuild_timers(env);
        world.cards[card].recover_queues(env);
    }
    world.manager(env).recover();
    let entry = guard.segment().journal().load(Ordering::Relaxed);
    if let Some((card, qpn, pair)) = journal::read(entry).filter(|(card, ..)| *card < world.count()) {
        let peer = world.cards[card as usize].recover_qp((qpn & 0xffff) as usize, env);
        // A packet may have been acknowledged within the same step.
        if let Some((port, qpn)) = peer.filter(|(port, _)| pair && port.card < world.count()) {
            let card = &mut world.cards[port.card as usize];
            if let Some(q) = card.find_qp(qpn) {
                card.recover_qp(q, env);
            }
        }
    }
    for card in 0..world.count() as usize {
        world.cards[card].recover_sends(env);
    }
    guard.segment().journal().store(0, Ordering::Relaxed);
    guard.recovery_done();
}
