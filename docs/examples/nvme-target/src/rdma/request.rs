//! Somebody who wants to connect.
#![allow(unsafe_code)]

use std::io;

use rdma_sys::*;

use super::owned::{posix, Owned};

/// A request to connect. Dropped without an answer, it is rejected.
pub struct Request {
    pub(super) id: Owned<rdma_cm_id>,
    /// What the peer said with its request, and zeros up to the length that fits in one.
    pub private_data: Vec<u8>,
    /// How many RDMA READs the peer answers at a time.
    pub reads: u8,
    /// How many it wants to have answered.
    pub answers: u8,
}

impl Request {
    /// # Safety
    ///
    /// The event is a request, of which there is no other `Request`.
    pub(super) unsafe fn of(event: &rdma_cm_event) -> io::Result<Request> {
        // SAFETY: promised by the caller.
        let (id, param) = unsafe { (Owned::new(event.id, rdma_destroy_id)?, &event.param.conn) };
        let private_data = match param.private_data.is_null() {
            true => Vec::new(),
            // SAFETY: librdmacm gives the length of what it points to.
            false => unsafe {
                std::slice::from_raw_parts(param.private_data.cast(), param.private_data_len.into()).to_vec()
            },
        };
        Ok(Request { id, private_data, reads: param.initiator_depth, answers: param.responder_resources })
    }

    /// Says no, and why.
    pub fn reject(self, why: &[u8]) -> io::Result<()> {
        // SAFETY: the identifier is there, and the bytes are copied.
        posix(unsafe { rdma_reject(self.id.raw(), why.as_ptr().cast(), why.len() as u8) })
    }
}
