//! The vfio-user server: a card of a net at a UNIX socket.
//!
//! QEMU's `vfio-user-pci`, or the driver's own client, sees a PCI function ([`function`]) with a configuration
//! space ([`config`]), two BARs, MSI-X by eventfds ([`interrupts`]) and DMA to the memory that it maps
//! ([`maps`]; [`asker`]). One client at a time; the next one finds the card as after a reset.
//!
//! | file | idea |
//! |---|---|
//! | `session` | a client from its first message to its last, command by command |
//! | `answers`, `refused` | what every client is answered alike, and errors |
//! | `wire` | messages on the socket |
//! | `function`, `config`, `interrupts` | the PCI function: regions, configuration space, MSI-X |
//! | `maps` | memory that the client shares |
//! | `asker` | memory that the card asks the client for, by messages |

mod answers;
mod asker;
mod config;
mod function;
mod interrupts;
mod maps;
mod refused;
mod session;
mod wire;

use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::attach::ServedCard;
use asker::Asker;
use interrupts::Interrupts;
pub use maps::DmaMode;
use session::Session;

/// Serves a card to one client after another, until the listener is shut down (`shutdown` of
/// both directions, by another thread) or fails. `say` gets a line for each thing worth knowing.
///
/// At the end clients are left with nothing of theirs unread: a connection that is closed over unread messages
/// is reset, and QEMU (11.1) does not survive that, while it takes an orderly end for a card that was pulled out.
pub fn serve(
    card: &ServedCard,
    listener: &UnixListener,
    mode: DmaMode,
    say: &(dyn Fn(&str) + Sync),
) -> io::Result<()> {
    let asker = Arc::new(Asker::default());
    card.segment().answer_with(asker.clone());
    let interrupts = Interrupts::new(card);
    let busy = AtomicBool::new(false);
    let mut clients: Vec<Weak<UnixStream>> = Vec::new();
    std::thread::scope(|threads| {
        threads.spawn(|| interrupts.run(card));
        let result = loop {
            let socket = match listener.accept() {
                Ok((socket, _)) => Arc::new(socket),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // It was shut down.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => break Ok(()),
                // Nothing wrong with the listener: what is missing may be there again soon.
                Err(error) if passes(&error) => {
                    say(&format!("a client cannot be taken now: {error}"));
                    std::thread::sleep(Duration::from_secs(1));
                    continue;
                }
                Err(error) => break Err(error),
            };
            clients.retain(|client| client.strong_count() > 0);
            clients.push(Arc::downgrade(&socket));
            let (interrupts, asker, busy) = (&interrupts, &*asker, &busy);
            threads.spawn(move || {
                let Some(_turn) = Turn::take(busy) else {
                    say("a second client has come: refused");
                    return refuse(&socket);
                };
                say("a client has come");
                let session = || Session::run(card, interrupts, asker, mode, socket, say);
                if catch_unwind(AssertUnwindSafe(session)).is_err() {
                    say("the session failed, which is a defect of this server; the next client is served");
                }
            });
        };
        for client in clients.iter().filter_map(Weak::upgrade) {
            let _ = client.shutdown(Shutdown::Both);
        }
        interrupts.end(card);
        result
    })
}

/// Whether `accept` failed for want of descriptors or memory, or because the client has gone again.
fn passes(error: &io::Error) -> bool {
    let passing = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM, libc::ECONNABORTED];
    error.raw_os_error().is_some_and(|errno| passing.contains(&errno))
}

/// The one client's turn; over when this is dropped, however its session ended.
struct Turn<'a>(&'a AtomicBool);

impl<'a> Turn<'a> {
    /// Waits a moment for the client before: it may just have gone.
    fn take(busy: &'a AtomicBool) -> Option<Turn<'a>> {
        let until = Instant::now() + Duration::from_secs(1);
        while busy.swap(true, Ordering::AcqRel) {
            if Instant::now() > until {
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Some(Turn(busy))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Tells a client that another one has the card.
fn refuse(socket: &UnixStream) {
    // Its first message must be read, or it would see a reset connection before our answer.
    if socket.set_read_timeout(Some(Duration::from_secs(2))).is_err() {
        return;
    }
    if let Ok(message) = wire::receive(socket) {
        let _ = wire::reply(socket, &message.header, Err(libc::EBUSY));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_panics_leaves_the_card_to_the_next() {
        let busy = AtomicBool::new(false);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _turn = Turn::take(&busy).expect("nobody is there");
            panic!("injected by the test");
        }));
        assert!(panicked.is_err());
        let turn = Turn::take(&busy).expect("the turn is over");
        assert!(Turn::take(&busy).is_none(), "one at a time");
        drop(turn);
    }
}
