//! Posts and completions of a connection.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::mem::{zeroed, MaybeUninit};
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Instant;

use rdma_sys::ibv_wr_opcode::*;
use rdma_sys::*;

use super::endpoint::{Endpoint, INLINE};
use super::memory::Chunk;
use super::owned::code;

const BATCH: usize = 16;

/// Memory of the peer.
#[derive(Clone, Copy)]
pub struct Remote {
    /// Its address there.
    pub address: u64,
    /// The key that allows to use it.
    pub key: u32,
}

/// What is done, and the chunk that comes back with it.
pub enum Done {
    /// A message has come: its first bytes.
    Received(Chunk, usize),
    /// What [`Connection::read`] of this number asked for is there.
    Read(u64, Chunk),
    /// The peer has the answer.
    Answered(Chunk),
}

/// A connection, of the one thread that posts and polls. Dropping it disconnects.
pub struct Connection {
    endpoint: Arc<Endpoint>,
    /// What the card has, by the number of the work request.
    posted: HashMap<u64, Chunk>,
    next: u64,
}

impl Connection {
    pub(super) fn new(endpoint: Arc<Endpoint>) -> Connection {
        Connection { endpoint, posted: HashMap::new(), next: 0 }
    }

    /// What others need to end it.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Lets the next message come into this chunk.
    pub fn receive(&mut self, chunk: Chunk) -> io::Result<()> {
        let number = self.number();
        let mut sge = chunk.first(chunk.len());
        let mut wr = ibv_recv_wr { wr_id: number, next: null_mut(), sg_list: &mut sge, num_sge: 1 };
        // SAFETY: the work request is read during the call, and its memory belongs to the card from here on.
        code(unsafe { ibv_post_recv(self.endpoint.qp(), &mut wr, &mut null_mut()) })?;
        self.posted.insert(number, chunk);
        Ok(())
    }

    /// Fetches memory of the peer into the first bytes of a chunk; gives the number that [`Done::Read`] will have.
    pub fn read(&mut self, chunk: Chunk, length: usize, from: Remote) -> io::Result<u64> {
        let number = self.number();
        let mut sge = chunk.first(length);
        let mut wr = request(number, IBV_WR_RDMA_READ, &mut sge);
        wr.wr.rdma = rdma_t { remote_addr: from.address, rkey: from.key };
        wr.send_flags = ibv_send_flags::IBV_SEND_SIGNALED.0;
        self.post(&mut wr)?;
        self.posted.insert(number, chunk);
        Ok(number)
    }

    /// Sends an answer; before it, if `put` says so, the first bytes of the chunk to the peer's memory, which the peer has
    /// when the answer comes. The answer takes a key of the peer's memory back, if `invalidate` names one.
    pub fn answer(
        &mut self,
        chunk: Chunk,
        put: Option<(usize, Remote)>,
        answer: &[u8; INLINE],
        invalidate: Option<u32>,
    ) -> io::Result<()> {
        let number = self.number();
        // An inline answer is copied by the post, so this may live on the stack.
        let mut sge = ibv_sge { addr: answer.as_ptr() as u64, length: INLINE as u32, lkey: 0 };
        let mut send = request(number, IBV_WR_SEND, &mut sge);
        send.send_flags = (ibv_send_flags::IBV_SEND_SIGNALED | ibv_send_flags::IBV_SEND_INLINE).0;
        if let Some(key) = invalidate {
            send.opcode = IBV_WR_SEND_WITH_INV;
            send.imm_data_invalidated_rkey_union.invalidated_rkey = key;
        }
        match put {
            None => self.post(&mut send)?,
            Some((length, to)) => {
                let mut sge = chunk.first(length);
                let mut write = request(number, IBV_WR_RDMA_WRITE, &mut sge);
                write.wr.rdma = rdma_t { remote_addr: to.address, rkey: to.key };
                // One post for both. The WRITE needs no completion of its own: it comes before the SEND, or fails.
                write.next = &mut send;
                self.post(&mut write)?;
            }
        }
        self.posted.insert(number, chunk);
        Ok(())
    }

    fn post(&self, first: &mut ibv_send_wr) -> io::Result<()> {
        // SAFETY: the requests are read during the call, and their memory belongs to the card from here on.
        code(unsafe { ibv_post_send(self.endpoint.qp(), first, &mut null_mut()) })
    }

    /// Sleeps until something is done; gives nothing if the time comes first. Whatever fails ends the connection: its error
    /// says what the card said, and comes after all that was done before.
    pub fn wait(&mut self, until: Option<Instant>) -> io::Result<Vec<io::Result<Done>>> {
        loop {
            let mut done = self.poll()?;
            if done.is_empty() {
                self.endpoint.arm()?;
                // What came before the event was asked for raises none.
                done = self.poll()?;
            }
            if !done.is_empty() || !self.endpoint.sleep(until)? {
                return Ok(done);
            }
        }
    }

    fn poll(&mut self) -> io::Result<Vec<io::Result<Done>>> {
        let mut found = [const { MaybeUninit::<ibv_wc>::uninit() }; BATCH];
        // SAFETY: there is room for as many.
        let count = unsafe { ibv_poll_cq(self.endpoint.cq(), BATCH as i32, found.as_mut_ptr().cast()) };
        let count = usize::try_from(count).map_err(|_| io::Error::other("ibv_poll_cq failed"))?;
        // SAFETY: so many were filled in.
        Ok(found[..count].iter().map(|wc| self.done(unsafe { wc.assume_init_ref() })).collect())
    }

    fn done(&mut self, wc: &ibv_wc) -> io::Result<Done> {
        if wc.status == ibv_wc_status::IBV_WC_WR_FLUSH_ERR {
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, "disconnected"));
        }
        if wc.status != ibv_wc_status::IBV_WC_SUCCESS {
            // SAFETY: a constant string.
            let status = unsafe { CStr::from_ptr(ibv_wc_status_str(wc.status)) };
            return Err(io::Error::new(io::ErrorKind::ConnectionReset, status.to_string_lossy()));
        }
        let chunk = self.posted.remove(&wc.wr_id).ok_or_else(|| io::Error::other("completed twice"))?;
        Ok(match wc.opcode {
            ibv_wc_opcode::IBV_WC_RECV => Done::Received(chunk, wc.byte_len as usize),
            ibv_wc_opcode::IBV_WC_RDMA_READ => Done::Read(wc.wr_id, chunk),
            _ => Done::Answered(chunk),
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.endpoint.disconnect();
    }
}

/// A work request with one piece of memory and nothing else.
fn request(number: u64, opcode: u32, memory: &mut ibv_sge) -> ibv_send_wr {
    // SAFETY: zero is a valid value of every field.
    let mut wr: ibv_send_wr = unsafe { zeroed() };
    (wr.wr_id, wr.opcode, wr.sg_list, wr.num_sge) = (number, opcode, memory, 1);
    wr
}
