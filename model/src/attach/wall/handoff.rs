//! The hand-off of work to the lock holder: no doorbell is lost, and no thread waits.
//!
//! A thread that finds the lock taken marks its work as pending and tries the lock once more. The lock holder checks
//! for pending work after the unlock. Either the second try comes after the unlock and takes the lock, or the mark comes
//! before the check, which sees it. `tests/tests/handoff.rs` runs this file through every interleaving (loom).

use super::atomic::{a_moment, after_mark, after_unlock, AtomicU64, Ordering};

/// Pending work: bit n of the summary says that word n may have bits.
pub struct Pending<'a> {
    /// The summary.
    pub summary: &'a AtomicU64,
    /// A bit for each piece of work.
    pub words: &'a [AtomicU64],
}

impl Pending<'_> {
    /// Marks a piece of work as pending.
    pub fn leave(&self, bit: usize) {
        // The word first: a thread that sees the summary finds the bit.
        self.words[bit / 64].fetch_or(1 << (bit % 64), Ordering::SeqCst);
        self.summary.fetch_or(1 << (bit / 64), Ordering::SeqCst);
        after_mark();
    }

    /// Whether there is any.
    #[inline]
    pub fn any(&self) -> bool {
        self.summary.load(Ordering::SeqCst) != 0
    }

    /// Takes all of it. With the lock, and before reading the doorbells that the bits stand for.
    pub fn take(&self, mut each: impl FnMut(usize)) {
        let summary = self.summary.swap(0, Ordering::SeqCst);
        for word in ones(summary) {
            let bits = self.words[word].swap(0, Ordering::SeqCst);
            ones(bits).for_each(|bit| each(word * 64 + bit));
        }
    }
}

/// The bits that are set, from the lowest.
fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        lowest
    })
}

/// What the threads share that may run the cards.
pub trait Shared {
    /// The lock, held; dropping it unlocks.
    type Guard<'a>
    where
        Self: 'a;
    /// Takes the lock if it is free.
    fn try_lock(&self) -> Option<Self::Guard<'_>>;
    /// The pending work.
    fn pending(&self) -> Pending<'_>;
    /// Does pending work; some of it, and new work, may be pending afterwards.
    fn work(&self, guard: &Self::Guard<'_>);
}

/// The lock was taken: leaves the work to its holder.
pub fn leave_pending<S: Shared>(shared: &S, bit: usize) {
    shared.pending().leave(bit);
    run_pending(shared);
}

/// Does pending work, if the lock is free.
pub fn run_pending<S: Shared>(shared: &S) {
    if let Some(guard) = shared.try_lock() {
        shared.work(&guard);
        unlock(shared, guard);
    }
}

/// Unlocks, and does the work that was left meanwhile.
#[inline]
pub fn unlock<'a, S: Shared>(shared: &'a S, guard: S::Guard<'a>) {
    drop(guard);
    check_pending(shared);
}

/// What each lock holder does after the unlock.
#[inline(always)]
pub fn check_pending<S: Shared>(shared: &S) {
    after_unlock();
    if shared.pending().any() {
        run_all_pending(shared);
    }
}

#[cold]
fn run_all_pending<S: Shared>(shared: &S) {
    while shared.pending().any() {
        // Taken: its holder checks.
        let Some(guard) = shared.try_lock() else { break };
        shared.work(&guard);
        drop(guard);
        after_unlock();
        if shared.pending().any() {
            // A thread that leaves work all the time had better take the lock itself.
            a_moment();
        }
    }
}
