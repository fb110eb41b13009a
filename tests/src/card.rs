//! A card as the tests open it: in this process, or served over vfio-user (`VERBENA_TEST_CARDS=served`).

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use driver::backend::vfio_user::VfioUserCard;
use driver::{Card, CardError, DmaMemory};
use fpga_regs::regs;
use model::attach::{OpenError, SegmentCard, ServedCard};
use model::serve::{serve, DmaMode};

/// One of the two. Tests that are not about one of them run on both.
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
}

/// A thread that serves a function of a card, until dropped.
pub struct Server {
    listener: UnixListener,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl TestCard {
    /// Opens a card of the net whose keeper listens at `socket`.
    pub fn open(socket: &Path, card: u32) -> Result<TestCard, OpenError> {
        match std::env::var("VERBENA_TEST_CARDS").as_deref() {
            Err(_) | Ok("here") => Ok(TestCard::Here(SegmentCard::open(socket, card)?)),
            Ok("served") => {
                let served = ServedCard::open(socket, card)?;
                let (server, path) = Server::start(socket, served);
                let card = VfioUserCard::open(&path).expect("the served card opens");
                std::fs::remove_file(&path).expect("the socket");
                Ok(TestCard::Served { card, _server: server })
            }
            Ok(other) => panic!("VERBENA_TEST_CARDS={other}: `here` or `served`"),
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
macro_rules! either {
    ($self:ident, $card:ident => $call:expr) => {
        match $self {
            TestCard::Here($card) => $call,
            TestCard::Served { card: $card, .. } => $call,
        }
    };
}

impl Card for TestCard {
    fn read32(&self, offset: u32) -> u32 {
        either!(self, card => card.read32(offset))
    }
    fn write32(&self, offset: u32, value: u32) {
        either!(self, card => card.write32(offset, value));
    }
    fn read64(&self, offset: u32) -> u64 {
        either!(self, card => card.read64(offset))
    }
    fn write64(&self, offset: u32, value: u64) {
        either!(self, card => card.write64(offset, value));
    }
    fn doorbell(&self, offset: u32, value: u64) {
        either!(self, card => card.doorbell(offset, value));
        if let TestCard::Served { card, .. } = self {
            // Doorbells of two cards go two ways. Tests that ring one before the other mean that order: a read
            // pushes posted writes before it, as on PCIe.
            card.read32(regs::ID);
        }
    }
    fn push(&self, offset: u32, wqe: &[u8], doorbell_offset: u32, value: u64) {
        either!(self, card => card.push(offset, wqe, doorbell_offset, value));
    }
    fn alloc(&self, bytes: usize) -> Result<DmaMemory, CardError> {
        either!(self, card => card.alloc(bytes))
    }
    fn free(&self, memory: DmaMemory) {
        either!(self, card => card.free(memory));
    }
    fn map(&self, addr: *mut u8, len: usize, writable: bool) -> Result<u64, CardError> {
        either!(self, card => card.map(addr, len, writable))
    }
    fn unmap(&self, iova: u64, addr: *mut u8, len: usize) {
        either!(self, card => card.unmap(iova, addr, len));
    }
    fn wait_interrupt(&self, vector: u32, timeout: Duration) -> Result<bool, CardError> {
        either!(self, card => card.wait_interrupt(vector, timeout))
    }
    fn expect_doorbell(&self) {
        either!(self, card => card.expect_doorbell());
    }
    fn relax(&self, empty_polls: u32) {
        either!(self, card => card.relax(empty_polls));
    }
}
