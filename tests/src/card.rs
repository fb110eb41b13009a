//! A card as the tests open it. `VERBENA_TEST_CARDS` says how they reach it: `here` (also without it) is a card
//! in this process, `served` one served over vfio-user, `vfio:PCI,PCI,...` those in slots.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use driver::backend::vfio::Vfio;
use driver::backend::vfio_user::VfioUserCard;
use driver::{Hints, Interrupts, Memory, Registers};
use fpga_regs::regs;
use model::attach::{OpenError, SegmentCard, ServedCard};
use model::serve::{serve, DmaMode};

/// One of them. Tests that are not about one of them run on all.
#[allow(clippy::large_enum_variant)]
pub enum TestCard {
    /// In this process.
    Here(SegmentCard),
    /// Served by a thread of this process.
    Served {
        /// The driver's side.
        card: VfioUserCard,
        /// The server's.
        _server: Server,
    },
    /// In a PCI slot.
    Slot(Vfio),
}

/// The PCI addresses of the cards to test, where these are in slots.
pub fn slots() -> Option<Vec<String>> {
    let named = std::env::var("VERBENA_TEST_CARDS").ok()?;
    Some(named.strip_prefix("vfio:")?.split(',').map(str::to_owned).collect())
}

/// A thread that serves a function of a card, until dropped.
pub struct Server {
    listener: UnixListener,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl TestCard {
    /// Opens a card of the net whose keeper listens at `socket`.
    pub fn open(socket: &Path, card: u32) -> Result<TestCard, OpenError> {
        if let Some(slots) = slots() {
            let missing = OpenError::NoCard { card, count: slots.len() as u16 };
            let slot = slots.get(card as usize).ok_or(missing)?;
            return Ok(TestCard::Slot(Vfio::open(slot).expect("the card in the slot opens")));
        }
        match std::env::var("VERBENA_TEST_CARDS").as_deref() {
            Err(_) | Ok("here") => Ok(TestCard::Here(SegmentCard::open(socket, card)?)),
            Ok("served") => {
                let served = ServedCard::open(socket, card)?;
                let (server, path) = Server::start(socket, served);
                let card = VfioUserCard::open(&path).expect("the served card opens");
                std::fs::remove_file(&path).expect("the socket");
                Ok(TestCard::Served { card, _server: server })
            }
            Ok(other) => panic!("VERBENA_TEST_CARDS={other}: `here`, `served` or `vfio:PCI,PCI`"),
        }
    }
}

impl Server {
    fn start(net: &Path, card: ServedCard) -> (Server, std::path::PathBuf) {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let path = net.with_file_name(format!("served{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let listener = UnixListener::bind(&path).expect("a socket");
        let listens = listener.try_clone().expect("a descriptor");
        let thread = std::thread::spawn(move || {
            let say = |line: &str| eprintln!("served card: {line}");
            let _ended = serve(&card, &listens, DmaMode::Shared, &say);
        });
        (Server { listener, thread: Some(thread) }, path)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: a call on our own descriptor; `accept` returns, and so does the server once its client has gone.
        unsafe { libc::shutdown(std::os::fd::AsRawFd::as_raw_fd(&self.listener), libc::SHUT_RDWR) };
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Calls the card that it is.
macro_rules! each {
    ($self:ident, $card:ident => $call:expr) => {
        match $self {
            TestCard::Here($card) => $call,
            TestCard::Served { card: $card, .. } => $call,
            TestCard::Slot($card) => $call,
        }
    };
}

impl Registers for TestCard {
    driver::forward_card!(each: access);

    fn doorbell(&self, offset: u32, value: u64) {
        each!(self, card => card.doorbell(offset, value));
        if !matches!(self, TestCard::Here(_)) {
            // Doorbells of two cards go two ways. Tests that ring one before the other mean that order: a read
            // pushes posted writes before it, as on PCIe.
            self.read32(regs::ID);
        }
    }
}

impl Memory for TestCard {
    driver::forward_card!(each: Memory);
}

impl Interrupts for TestCard {
    driver::forward_card!(each: Interrupts);
}

impl Hints for TestCard {
    driver::forward_card!(each: Hints);
}
