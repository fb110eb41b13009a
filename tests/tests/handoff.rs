//! The hand-off of doorbells to the thread that runs the cards, in every interleaving of a few threads
//! (`cargo test -p tests --test handoff`): no doorbell is lost, and one thread at a time runs the cards.

#[path = "../../model/src/attach/wall/handoff.rs"]
#[allow(dead_code)]
mod handoff;

/// Loom's atomics in the place of the real ones. The fences are those of a processor without the locked
/// instructions of x86.
mod atomic {
    use loom::sync::atomic::fence;
    pub use loom::sync::atomic::{AtomicU64, Ordering};

    pub fn a_moment() {}

    pub fn after_mark() {
        fence(Ordering::SeqCst);
    }

    pub fn after_unlock() {
        fence(Ordering::SeqCst);
    }
}

use std::sync::Arc;

use atomic::{AtomicU64, Ordering};
use handoff::{Pending, Shared};
use loom::cell::UnsafeCell;

/// Posters. Their notes lie in the first and in the last bit of two words.
const POSTERS: usize = 2;
const BITS: [usize; POSTERS] = [0, 127];

/// A card that does nothing but note how far it has looked at each doorbell.
struct Card {
    locked: AtomicU64,
    summary: AtomicU64,
    words: [AtomicU64; 2],
    bells: [AtomicU64; POSTERS],
    seen: UnsafeCell<[u64; POSTERS]>,
}

// SAFETY: `seen` is used under the lock only; loom checks that.
#[allow(unsafe_code)]
unsafe impl Sync for Card {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Send for Card {}

struct Guard<'a>(&'a Card);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.locked.store(0, Ordering::Release);
    }
}

impl Card {
    fn new() -> Card {
        Card {
            locked: AtomicU64::new(0),
            summary: AtomicU64::new(0),
            words: [AtomicU64::new(0), AtomicU64::new(0)],
            bells: [AtomicU64::new(0), AtomicU64::new(0)],
            seen: UnsafeCell::new([0; POSTERS]),
        }
    }

    fn run(&self, poster: usize) {
        let bell = self.bells[poster].load(Ordering::Acquire);
        // SAFETY: the lock is held.
        #[allow(unsafe_code)]
        self.seen.with_mut(|seen| unsafe { (*seen)[poster] = bell });
    }

    /// A doorbell, as `Runner::kick` does it.
    fn ring(&self, poster: usize, value: u64) {
        self.bells[poster].store(value, Ordering::Release);
        if let Some(guard) = self.try_lock() {
            self.run(poster);
            self.work(&guard);
            handoff::unlock(self, guard);
        } else {
            handoff::leave_pending(self, BITS[poster]);
        }
    }
}

impl Shared for Card {
    type Guard<'a> = Guard<'a>;

    fn try_lock(&self) -> Option<Guard<'_>> {
        let taken = self.locked.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        taken.is_ok().then(|| Guard(self))
    }

    fn pending(&self) -> Pending<'_> {
        Pending { summary: &self.summary, words: &self.words }
    }

    fn work(&self, _: &Guard<'_>) {
        while self.summary.load(Ordering::Relaxed) != 0 {
            self.pending().take(|bit| self.run(BITS.iter().position(|&b| b == bit).expect("a poster's bit")));
        }
    }
}

/// Runs posters that ring so often, and one who takes the lock for something else; all doorbells must
/// have been seen when they are done.
fn nothing_is_lost(rings: [u64; POSTERS], other: fn(&Card)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let card = Arc::new(Card::new());
        let posters: Vec<_> = (0..POSTERS)
            .filter(|&poster| rings[poster] != 0)
            .map(|poster| {
                let card = card.clone();
                loom::thread::spawn(move || (1..=rings[poster]).for_each(|n| card.ring(poster, n)))
            })
            .collect();
        other(&card);
        posters.into_iter().for_each(|poster| poster.join().expect("it ends"));
        // SAFETY: nobody else is left.
        #[allow(unsafe_code)]
        let seen = card.seen.with(|seen| unsafe { *seen });
        assert_eq!(seen, rings, "a doorbell was lost");
    });
}

#[test]
fn two_posters() {
    nothing_is_lost([2, 2], |_| ());
}

#[test]
fn a_poster_and_one_who_holds_the_lock_for_something_else() {
    nothing_is_lost([3, 0], |card| {
        if let Some(guard) = card.try_lock() {
            drop(guard);
            handoff::check_pending(card);
        }
    });
}

#[test]
fn two_posters_and_a_helper() {
    nothing_is_lost([1, 1], handoff::run_pending);
}

/// The check finds what it is there to find.
#[test]
#[should_panic(expected = "a doorbell was lost")]
fn without_the_look_after_unlocking_doorbells_are_lost() {
    nothing_is_lost([1, 0], |card| drop(card.try_lock()));
}
