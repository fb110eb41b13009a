//! A card of a net behind a UNIX socket: the vfio-user server.
//!
//! QEMU's `vfio-user-pci`, or the driver's own client, sees a PCI function ([`function`]) with a configuration
//! space ([`config`]), two BARs, MSI-X by eventfds ([`interrupts`]) and DMA to the memory that it maps
//! ([`maps`]; [`asker`]). One client at a time; the next one finds the card as after a reset.

mod asker;
mod config;
mod function;
mod interrupts;
mod maps;
mod session;
mod wire;

use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::attach::ServedCard;
use asker::Asker;
use interrupts::Interrupts;
pub use maps::DmaMode;
use session::Session;

/// A command that is not carried out.
#[derive(Debug)]
struct Refused {
    errno: i32,
    reason: String,
}

impl Refused {
    fn new(errno: i32, reason: impl Into<String>) -> Refused {
        Refused { errno, reason: reason.into() }
    }

    fn invalid(reason: impl Into<String>) -> Refused {
        Refused::new(libc::EINVAL, reason)
    }
}

/// Serves a card to whoever connects, one client after another, until the listener is shut down (`shutdown` of
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
    card.answer_with(asker.clone());
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
                Err(error) => break Err(error),
            };
            clients.retain(|client| client.strong_count() > 0);
            clients.push(Arc::downgrade(&socket));
            let (interrupts, asker, busy) = (&interrupts, &*asker, &busy);
            threads.spawn(move || {
                if !take_turn(busy) {
                    say("a second client has come: refused");
                    return refuse(&socket);
                }
                say("a client has come");
                Session::run(card, interrupts, asker, mode, socket, &say);
                busy.store(false, Ordering::Release);
            });
        };
        for client in clients.iter().filter_map(Weak::upgrade) {
            let _ = client.shutdown(Shutdown::Both);
        }
        interrupts.end(card);
        result
    })
}

/// Waits a moment for the client before: it may just have gone.
fn take_turn(busy: &AtomicBool) -> bool {
    let until = Instant::now() + Duration::from_secs(1);
    while busy.swap(true, Ordering::AcqRel) {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// Tells a client that somebody else has the card.
fn refuse(socket: &UnixStream) {
    // Its first message must be read, or it would see a reset connection before our answer.
    if socket.set_read_timeout(Some(Duration::from_secs(2))).is_err() {
        return;
    }
    if let Ok(message) = wire::receive(socket) {
        let _ = wire::reply(socket, &message.header, Err(libc::EBUSY));
    }
}
