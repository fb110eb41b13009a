//! The hand-off of work to whoever runs the cards: no doorbell is lost, and nobody waits.
//!
//! Who finds the lock busy leaves a note and tries the lock once more. Who held it looks for notes after
//! unlocking. Either the second try comes after the unlock and takes the lock, or the note comes before
//! the look and is seen. `tests/tests/handoff.rs` runs this file through every interleaving (loom).

use super::atomic::{a_moment, after_note, after_unlock, AtomicU64, Ordering};

/// Where notes are left: bit n of the summary says that word n may have bits.
pub struct Notes<'a> {
    /// The summary.
    pub summary: &'a AtomicU64,
    /// A bit for each note.
    pub words: &'a [AtomicU64],
}

impl Notes<'_> {
    /// Leaves a note.
    pub fn leave(&self, bit: usize) {
        // The word first: whoever sees the summary finds it.
        self.words[bit / 64].fetch_or(1 << (bit % 64), Ordering::SeqCst);
        self.summary.fetch_or(1 << (bit / 64), Ordering::SeqCst);
        after_note();
    }

    /// Whether there are notes.
    #[inline]
    pub fn any(&self) -> bool {
        self.summary.load(Ordering::SeqCst) != 0
    }

    /// Takes all notes. With the lock, and before looking at what they stand for.
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

/// What is shared by those who may run the cards.
pub trait Shared {
    /// The lock, held; dropping it unlocks.
    type Guard<'a>
    where
        Self: 'a;
    /// Takes the lock if it is free.
    fn try_lock(&self) -> Option<Self::Guard<'_>>;
    /// The notes.
    fn notes(&self) -> Notes<'_>;
    /// Does what the notes ask for; it may leave some, and new ones.
    fn work(&self, guard: &Self::Guard<'_>);
}

/// The lock was busy: leaves the work to its holder.
pub fn leave<S: Shared>(shared: &S, bit: usize) {
    shared.notes().leave(bit);
    help(shared);
}

/// Does what others have left, if nobody does.
pub fn help<S: Shared>(shared: &S) {
    if let Some(guard) = shared.try_lock() {
        shared.work(&guard);
        unlock(shared, guard);
    }
}

/// Unlocks, and looks after what was left meanwhile.
#[inline]
pub fn unlock<'a, S: Shared>(shared: &'a S, guard: S::Guard<'a>) {
    drop(guard);
    look(shared);
}

/// What everybody does who has held the lock.
#[inline(always)]
pub fn look<S: Shared>(shared: &S) {
    after_unlock();
    if shared.notes().any() {
        look_after(shared);
    }
}

#[cold]
fn look_after<S: Shared>(shared: &S) {
    while shared.notes().any() {
        // Busy: its holder looks.
        let Some(guard) = shared.try_lock() else { break };
        shared.work(&guard);
        drop(guard);
        after_unlock();
        if shared.notes().any() {
            // Who leaves notes all the time had better take the lock.
            a_moment();
        }
    }
}
