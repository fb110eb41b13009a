//! The connection to the server: commands and their replies, and the card's accesses to our memory.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::RawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fpga_regs::vfio_user::{flag, Command, DmaAccess, Header, Version, MAJOR, MAX_MESSAGE, MINOR};
use vmm_sys_util::sock_ctrl_msg::ScmSocket;

use super::memory::UserMemory;
use crate::card::CardError;
use crate::lock;

/// Time that the server may take for a command.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to the server.
pub(super) struct Link {
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
}

struct Shared {
    socket: UnixStream,
    /// Held while a message is written.
    sending: Mutex<()>,
    next: AtomicU16,
    /// By message id: `None` until the reply is there.
    replies: Mutex<HashMap<u16, Option<Reply>>>,
    came: Condvar,
    gone: AtomicBool,
}

type Reply = Result<Vec<u8>, i32>;

impl Link {
    /// Connects and agrees on the protocol. `memory` is what the card may reach by messages.
    pub fn connect(path: &Path, memory: Arc<UserMemory>) -> Result<Link, CardError> {
        let socket = UnixStream::connect(path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => CardError::Setup(format!(
                "no card is served at {}: start one with `verbena serve --socket {}`",
                path.display(),
                path.display()
            )),
            _ => CardError::Os { what: format!("connecting to {}", path.display()), source },
        })?;
        let os = |source| CardError::Os { what: "setting up the connection to the card".into(), source };
        // A server that does not read must not block us for ever.
        socket.set_write_timeout(Some(PATIENCE)).map_err(os)?;
        let reading = socket.try_clone().map_err(os)?;
        let shared = Arc::new(Shared {
            socket,
            sending: Mutex::default(),
            next: AtomicU16::new(1),
            replies: Mutex::default(),
            came: Condvar::new(),
            gone: AtomicBool::new(false),
        });
        let of_reader = shared.clone();
        let reader = std::thread::Builder::new().name("verbena-vfu".into());
        let reader = reader.spawn(move || of_reader.read(reading, &memory)).map_err(os)?;
        let link = Link { shared, reader: Some(reader) };
        link.agree(path)?;
        Ok(link)
    }

    fn agree(&self, path: &Path) -> Result<(), CardError> {
        let mut body = Version { major: MAJOR, minor: MINOR }.encode().to_vec();
        body.extend(b"{\"capabilities\":{}}\0");
        let reply = match self.request(Command::VERSION, &body, &[]) {
            Ok(Ok(reply)) => reply,
            Ok(Err(libc::EBUSY)) => {
                return Err(CardError::Setup(format!(
                    "the card at {} is in use: a served card has one client at a time",
                    path.display()
                )))
            }
            Ok(Err(errno)) => return Err(refused("the protocol", errno)),
            Err(error) => return Err(error),
        };
        match Version::decode(&reply) {
            Some((Version { major: MAJOR, minor: MINOR }, _)) => Ok(()),
            other => Err(CardError::Setup(format!(
                "{} speaks another protocol than vfio-user {MAJOR}.{MINOR}: {:?}",
                path.display(),
                other.map(|(version, _)| version)
            ))),
        }
    }

    /// True when the connection is lost.
    pub fn is_gone(&self) -> bool {
        self.shared.gone.load(Ordering::Acquire)
    }

    /// A command that must succeed; `what` says what it is for.
    pub fn command(
        &self,
        what: &str,
        command: Command,
        body: &[u8],
        fds: &[RawFd],
    ) -> Result<Vec<u8>, CardError> {
        self.request(command, body, fds)?.map_err(|errno| refused(what, errno))
    }

    /// A command and its reply, or the errno that the server gave.
    pub fn request(&self, command: Command, body: &[u8], fds: &[RawFd]) -> Result<Reply, CardError> {
        let shared = &*self.shared;
        let id = shared.next.fetch_add(1, Ordering::Relaxed);
        lock(&shared.replies).insert(id, None);
        if !shared.send(&shared.header(id, command, 0, body.len()), body, fds) {
            lock(&shared.replies).remove(&id);
            return Err(CardError::Gone);
        }
        let until = Instant::now() + PATIENCE;
        let mut replies = lock(&shared.replies);
        loop {
            if let Some(Some(_)) = replies.get(&id) {
                return Ok(replies.remove(&id).flatten().expect("just seen"));
            }
            let left = until.saturating_duration_since(Instant::now());
            if self.is_gone() || left.is_zero() {
                replies.remove(&id);
                // A late reply could be taken for the reply to another command, once ids wrap.
                shared.hang_up();
                return Err(CardError::Gone);
            }
            replies = shared.came.wait_timeout(replies, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A command without a reply.
    pub fn post(&self, command: Command, body: &[u8]) {
        let id = self.shared.next.fetch_add(1, Ordering::Relaxed);
        self.shared.send(&self.shared.header(id, command, flag::NO_REPLY, body.len()), body, &[]);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.hang_up();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn refused(what: &str, errno: i32) -> CardError {
    CardError::Os {
        what: format!("the served card refused {what}"),
        source: io::Error::from_raw_os_error(errno),
    }
}

impl Shared {
    fn header(&self, id: u16, command: Command, flags: u32, body: usize) -> Header {
        Header { id, command: command.0, size: (Header::BYTES + body) as u32, flags, error: 0 }
    }

    /// False when it could not be sent; the connection is closed then.
    fn send(&self, header: &Header, body: &[u8], fds: &[RawFd]) -> bool {
        let mut bytes = [0; 128];
        let long;
        let message = match bytes.get_mut(..Header::BYTES + body.len()) {
            Some(short) => {
                short[..Header::BYTES].copy_from_slice(&header.encode());
                short[Header::BYTES..].copy_from_slice(body);
                &*short
            }
            None => {
                long = [&header.encode()[..], body].concat();
                &long[..]
            }
        };
        let _one_at_a_time = lock(&self.sending);
        let sent = match fds {
            [] => Ok(0),
            _ => self.socket.send_with_fds(&[message], fds).map_err(io::Error::from),
        };
        let sent = sent.and_then(|n| (&self.socket).write_all(&message[n..]));
        if sent.is_err() {
            self.hang_up();
        }
        sent.is_ok()
    }

    fn hang_up(&self) {
        self.gone.store(true, Ordering::Release);
        let _ = self.socket.shutdown(Shutdown::Both);
        // A thread about to wait must not miss the notification.
        drop(lock(&self.replies));
        self.came.notify_all();
    }

    /// The reader's thread: until the connection ends.
    fn read(&self, mut socket: UnixStream, memory: &UserMemory) {
        while let Some((header, body)) = receive(&mut socket) {
            if header.flags & flag::TYPE == flag::REPLY {
                let failed = header.flags & flag::ERROR != 0;
                let reply = if failed { Err(header.error as i32) } else { Ok(body) };
                if let Some(slot) = lock(&self.replies).get_mut(&header.id) {
                    *slot = Some(reply);
                }
                self.came.notify_all();
            } else {
                let answer = access(&header, body, memory);
                if header.flags & flag::NO_REPLY == 0 {
                    self.answer(&header, answer);
                }
            }
        }
        self.hang_up();
    }

    fn answer(&self, to: &Header, answer: Reply) {
        let (flags, error, body) = match answer {
            Ok(body) => (flag::REPLY, 0, body),
            Err(errno) => (flag::REPLY | flag::ERROR, errno as u32, Vec::new()),
        };
        let size = (Header::BYTES + body.len()) as u32;
        self.send(&Header { id: to.id, command: to.command, size, flags, error }, &body, &[]);
    }
}

/// An access of the card to our memory.
fn access(header: &Header, mut body: Vec<u8>, memory: &UserMemory) -> Reply {
    let (access, data) = DmaAccess::decode(&body).ok_or(libc::EINVAL)?;
    let count = usize::try_from(access.count).map_err(|_| libc::EINVAL)?;
    match Command(header.command) {
        Command::DMA_READ if count <= MAX_MESSAGE - 64 => {
            body.resize(DmaAccess::BYTES + count, 0);
            memory.read(access.address, &mut body[DmaAccess::BYTES..][..count])?;
            Ok(body)
        }
        Command::DMA_WRITE => {
            memory.write(access.address, data.get(..count).ok_or(libc::EINVAL)?)?;
            Ok(Vec::new())
        }
        _ => Err(libc::ENOSYS),
    }
}

/// The next message; `None` at the end of the connection or if the message makes no sense.
fn receive(socket: &mut UnixStream) -> Option<(Header, Vec<u8>)> {
    let mut head = [0; Header::BYTES];
    socket.read_exact(&mut head).ok()?;
    let (header, _) = Header::decode(&head)?;
    let body =
        (header.size as usize).checked_sub(Header::BYTES).filter(|_| header.size as usize <= MAX_MESSAGE)?;
    let mut bytes = vec![0; body];
    socket.read_exact(&mut bytes).ok()?;
    Some((header, bytes))
}
