//! From interrupts that the card raises to the client's eventfds.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::attach::{ServedCard, VECTORS};
use crate::panics::lock;

/// How long the thread sleeps unless it is woken.
const NAP: Duration = Duration::from_millis(500);

/// The vectors of one card. What is raised while it cannot be delivered is delivered once it can.
pub struct Interrupts {
    state: Mutex<State>,
    over: AtomicBool,
}

struct State {
    /// How often each had been raised at the last check.
    seen: [u32; VECTORS],
    pending: [bool; VECTORS],
    eventfds: [Option<OwnedFd>; VECTORS],
    /// The card may send interrupts (Bus Master is set).
    enabled: bool,
}

impl Interrupts {
    /// No vector assigned, nothing pending.
    pub fn new(card: &ServedCard) -> Interrupts {
        let state = State {
            seen: card.raised(),
            pending: [false; VECTORS],
            eventfds: [const { None }; VECTORS],
            enabled: false,
        };
        Interrupts { state: Mutex::new(state), over: AtomicBool::new(false) }
    }

    /// Passes on what the card has raised.
    pub fn look(&self, card: &ServedCard) {
        let mut state = lock(&self.state);
        for (v, raised) in card.raised().into_iter().enumerate() {
            if raised != state.seen[v] {
                state.seen[v] = raised;
                state.pending[v] = true;
            }
        }
        state.deliver();
    }

    /// Assigns eventfds to the vectors from `start` on; the caller has checked the range.
    pub fn assign(&self, start: usize, eventfds: impl Iterator<Item = Option<OwnedFd>>) {
        let mut state = lock(&self.state);
        for (v, eventfd) in eventfds.enumerate() {
            state.eventfds[start + v] = eventfd;
        }
        state.deliver();
    }

    /// Fires vectors for the client's own test.
    pub fn fire(&self, vectors: impl Iterator<Item = usize>) {
        let mut state = lock(&self.state);
        vectors.for_each(|v| state.pending[v] = true);
        state.deliver();
    }

    /// Lets interrupts through or holds them back.
    pub fn enable(&self, enabled: bool) {
        let mut state = lock(&self.state);
        state.enabled = enabled;
        state.deliver();
    }

    /// Forgets what was not delivered: after a reset. `unassign`: the client has gone.
    pub fn reset(&self, card: &ServedCard, unassign: bool) {
        let mut state = lock(&self.state);
        state.seen = card.raised();
        state.pending = [false; VECTORS];
        if unassign {
            state.eventfds = [const { None }; VECTORS];
        }
    }

    /// The pending bits.
    pub fn pending(&self) -> u64 {
        let state = lock(&self.state);
        state.pending.iter().enumerate().fold(0, |bits, (v, &pending)| bits | u64::from(pending) << v)
    }

    /// Passes interrupts on until [`Interrupts::end`].
    pub fn run(&self, card: &ServedCard) {
        while !self.is_over() {
            let mark = card.mark();
            self.look(card);
            card.wait(mark, NAP);
        }
    }

    /// The server ends.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Ends [`Interrupts::run`].
    pub fn end(&self, card: &ServedCard) {
        self.over.store(true, Ordering::Release);
        card.wake();
    }
}

impl State {
    fn deliver(&mut self) {
        if !self.enabled {
            return;
        }
        for v in 0..VECTORS {
            if let (true, Some(eventfd)) = (self.pending[v], &self.eventfds[v]) {
                // A counter at its maximum has fired as well, but a write to it would wait for its reader. (O_NONBLOCK is
                // not for us to set: the client's own reads would no longer wait.)
                let mut room = [PollFd::new(eventfd, PollFlags::OUT)];
                if poll(&mut room, Some(&Timespec::default())).is_ok_and(|ready| ready != 0) {
                    let _ = rustix::io::write(eventfd, &1_u64.to_ne_bytes());
                }
                self.pending[v] = false;
            }
        }
    }
}
