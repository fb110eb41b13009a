//! DMA by messages: to memory that the client maps without a descriptor, or to all of it (`--dma messages`).
//!
//! The thread that runs the cards waits here for the client's answer, with the cards' lock held. Meanwhile the client
//! may wait for the answer to a read of a register, which needs that lock: QEMU does so with its own global lock
//! held, without which it cannot do our DMA either. Such a read is answered after a moment with the register's
//! last known value ([`Asker::note`]).

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fpga_regs::vfio_user::{flag, Command, DmaAccess, Header, MAX_DATA};

use super::wire::{self, PATIENCE};
use crate::panics::lock;
use crate::segment::reach::ask::Ask;

/// How long a read of a register may wait for DMA.
const READ_WAITS: Duration = Duration::from_millis(10);

/// See the module.
#[derive(Default)]
pub struct Asker {
    state: Mutex<State>,
    came: Condvar,
}

#[derive(Default)]
struct State {
    client: Option<Arc<Client>>,
    next: u16,
    /// By message id: `None` until the reply is there.
    replies: HashMap<u16, Option<Result<Vec<u8>, u32>>>,
    /// Those that nobody has answered yet, the oldest first.
    reads: VecDeque<Arc<Waiting>>,
}

/// The socket of the client, with what must not be mixed up on it.
pub struct Client {
    /// The socket, for reading.
    pub socket: Arc<UnixStream>,
    sending: Mutex<()>,
    /// Data bytes that it takes in one message, at least one.
    pub most: AtomicUsize,
}

impl Client {
    /// Of a connection.
    pub fn new(socket: Arc<UnixStream>) -> Client {
        Client { socket, sending: Mutex::default(), most: MAX_DATA.into() }
    }

    /// Sends a message in one piece.
    pub fn send(&self, header: &Header, parts: &[&[u8]]) -> io::Result<()> {
        self.alone(|socket| wire::send(socket, header, parts))
    }

    /// Answers a command: with the parts of a body, or an errno.
    pub fn reply(&self, to: &Header, answer: Result<&[&[u8]], i32>) -> io::Result<()> {
        self.alone(|socket| wire::reply(socket, to, answer))
    }

    /// Sends with nobody else. If a message does not go out as a whole, what follows would be taken for the rest of it:
    /// the connection ends, which the thread that reads from it notices.
    fn alone(&self, send: impl FnOnce(&UnixStream) -> io::Result<()>) -> io::Result<()> {
        let _one_at_a_time = lock(&self.sending);
        send(&self.socket).inspect_err(|_| {
            let _ = self.socket.shutdown(Shutdown::Both);
        })
    }
}

/// A read of a register that waits for the cards' lock.
pub struct Waiting {
    header: Header,
    since: Instant,
    /// What it is answered with if it must be answered now.
    last: Vec<u8>,
}

impl Asker {
    /// A client is connected.
    pub fn open(&self, client: Arc<Client>) {
        let mut state = lock(&self.state);
        state.client = Some(client);
        // A session that panicked leaves its own.
        state.reads.clear();
    }

    /// The client is gone: threads that wait for it get a refusal.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        state.client = None;
        self.came.notify_all();
    }

    /// DMA is in flight.
    pub fn is_asking(&self) -> bool {
        !lock(&self.state).replies.is_empty()
    }

    /// A reply of the client; false if no thread waits for it.
    pub fn reply(&self, header: &Header, body: Vec<u8>) -> bool {
        let mut state = lock(&self.state);
        let Some(slot) = state.replies.get_mut(&header.id) else { return false };
        let failed = header.flags & flag::ERROR != 0;
        *slot = Some(if failed { Err(header.error) } else { Ok(body) });
        self.came.notify_all();
        true
    }

    /// Notes a read of a register, which is answered with `last` if DMA keeps it waiting. It must be claimed
    /// before it is answered.
    pub fn note(&self, header: Header, last: Vec<u8>) -> Arc<Waiting> {
        let read = Arc::new(Waiting { header, since: Instant::now(), last });
        lock(&self.state).reads.push_back(read.clone());
        read
    }

    /// True for the one who may answer a read, which is forgotten with that.
    pub fn claim(&self, read: &Arc<Waiting>) -> bool {
        let mut state = lock(&self.state);
        let at = state.reads.iter().position(|other| Arc::ptr_eq(other, read));
        at.and_then(|at| state.reads.remove(at)).is_some()
    }

    /// Data bytes of one access.
    fn most(&self) -> usize {
        lock(&self.state).client.as_ref().map_or(MAX_DATA, |client| client.most.load(Ordering::Relaxed))
    }

    fn ask(&self, command: Command, access: DmaAccess, data: &[u8]) -> Option<Vec<u8>> {
        let mut state = lock(&self.state);
        let client = state.client.clone()?;
        let id = state.next;
        state.next = id.wrapping_add(1);
        state.replies.insert(id, None);
        drop(state);
        let size = (Header::BYTES + DmaAccess::BYTES + data.len()) as u32;
        let header = Header { id, command: command.0, size, flags: 0, error: 0 };
        let until = Instant::now() + PATIENCE;
        let sent = client.send(&header, &[&access.encode(), data]).is_ok();
        let mut state = lock(&self.state);
        loop {
            let now = Instant::now();
            if let Some(Some(_)) = state.replies.get(&id) {
                return state.replies.remove(&id).flatten()?.ok();
            }
            if !sent || state.client.is_none() || now >= until {
                state.replies.remove(&id);
                return None;
            }
            answer_reads(&mut state, &client, now);
            let wait = self.came.wait_timeout(state, (until - now).min(READ_WAITS / 2));
            state = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Answers the reads that have waited long enough.
fn answer_reads(state: &mut State, client: &Client, now: Instant) {
    while state.reads.front().is_some_and(|read| now.duration_since(read.since) >= READ_WAITS) {
        let read = state.reads.pop_front().expect("just seen");
        let _ = client.reply(&read.header, Ok(&[&read.last]));
    }
}

impl Ask for Asker {
    fn read(&self, iova: u64, to: &mut [u8]) -> bool {
        let most = self.most();
        to.chunks_mut(most).zip(0..).all(|(chunk, n)| {
            let access = DmaAccess { address: iova + n * most as u64, count: chunk.len() as u64 };
            let reply = self.ask(Command::DMA_READ, access, &[]);
            let data = reply.as_ref().and_then(|body| body.get(DmaAccess::BYTES..)?.get(..chunk.len()));
            data.map(|data| chunk.copy_from_slice(data)).is_some()
        })
    }

    fn write(&self, iova: u64, from: &[u8]) -> bool {
        let most = self.most();
        from.chunks(most).zip(0..).all(|(chunk, n)| {
            let access = DmaAccess { address: iova + n * most as u64, count: chunk.len() as u64 };
            self.ask(Command::DMA_WRITE, access, chunk).is_some()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_read_is_answered_once_and_forgotten_then() {
        let (own, _clients) = UnixStream::pair().expect("a pair");
        let (client, asker) = (Client::new(Arc::new(own)), Asker::default());
        let [early, late] = [0; 2].map(|_| asker.note(Header::default(), Vec::new()));
        answer_reads(&mut lock(&asker.state), &client, early.since);
        assert!(asker.claim(&early) && !asker.claim(&early));
        answer_reads(&mut lock(&asker.state), &client, late.since + READ_WAITS);
        assert!(!asker.claim(&late), "DMA kept it waiting");
        assert!(lock(&asker.state).reads.is_empty());
    }

    #[test]
    fn a_client_that_takes_a_message_too_slowly_is_let_go() {
        let (own, mut clients) = UnixStream::pair().expect("a pair");
        let client = Client::new(Arc::new(own));
        let data = vec![0; MAX_DATA];
        let took = std::thread::scope(|threads| {
            let takes = threads.spawn(|| {
                let (mut some, mut took) = ([0; 1 << 12], 0);
                // It would have all of it in 5 s.
                while let Ok(n @ 1..) = clients.read(&mut some) {
                    took += n;
                    std::thread::sleep(Duration::from_millis(20));
                }
                took
            });
            let sent = client.send(&Header::default(), &[&data]);
            assert_eq!(sent.expect_err("a message in 5 s").kind(), io::ErrorKind::TimedOut);
            takes.join().expect("the client")
        });
        assert!(took < MAX_DATA, "nothing follows what was not sent as a whole");
    }
}
