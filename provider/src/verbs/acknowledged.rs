//! Which events of an object its program has acknowledged: it ends only after those that the program has read.
#![allow(unsafe_code)]

use super::event_state::Sent;

/// The fields of a verbs object in which libibverbs counts the events that the program has acknowledged.
pub struct Acknowledged {
    /// The object, as the program knows it.
    pub handle: u64,
    /// Guards the counters.
    pub mutex: *mut libc::pthread_mutex_t,
    /// Is signalled when they change.
    pub cond: *mut libc::pthread_cond_t,
    /// Completion events, of an object that has them.
    pub completions: Option<*const u32>,
    /// Asynchronous events.
    pub asyncs: *const u32,
}

impl Acknowledged {
    /// Waits until the counters have reached `sent`.
    ///
    /// # Safety
    /// All pointers must be those of one live verbs object, its mutex and condition initialised.
    pub unsafe fn wait(&self, sent: Sent) {
        // SAFETY: as the caller promises; the counters change only under the mutex.
        unsafe {
            libc::pthread_mutex_lock(self.mutex);
            while self.completions.is_some_and(|counter| counter.read_volatile() != sent.completions)
                || self.asyncs.read_volatile() != sent.asyncs
            {
                libc::pthread_cond_wait(self.cond, self.mutex);
            }
            libc::pthread_mutex_unlock(self.mutex);
        }
    }
}

/// The [`Acknowledged`] of a verbs object, by its field for asynchronous events.
macro_rules! acknowledged {
    ($object:ident, $asyncs:ident) => {
        $crate::verbs::acknowledged::Acknowledged {
            handle: $object as u64,
            mutex: (&raw mut (*$object).mutex).cast(),
            cond: (&raw mut (*$object).cond).cast(),
            completions: None,
            asyncs: &raw const (*$object).$asyncs,
        }
    };
}
pub(super) use acknowledged;
