//! One side of a connection: its identifier, queue pair and completion queue.
#![allow(unsafe_code)]

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Instant;

use rdma_sys::*;
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::net::SocketAddrAny;

use super::owned::{code, posix, Owned};
use super::request::Request;

/// The longest that is sent from the work request itself, without registered memory: bytes.
pub const INLINE: usize = 16;

/// How many of each can be outstanding.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Receives.
    pub receives: u32,
    /// SENDs, RDMA READs and WRITEs together.
    pub sends: u32,
}

/// What a connection needs of the libraries. Its fields are dropped from top to bottom: a queue before the things it uses.
///
/// Shared by those who may end the connection, each from its own thread.
pub struct Endpoint {
    _qp: Owned<rdma_cm_id, ()>,
    cq: Owned<ibv_cq>,
    channel: Owned<ibv_comp_channel>,
    id: Owned<rdma_cm_id>,
    _events: Arc<Owned<rdma_event_channel, ()>>,
    parameters: rdma_conn_param,
    /// True if a SEND of this card can take a key of the peer's memory back.
    pub invalidates: bool,
}

// SAFETY: the parameters hold no pointer as long as they are kept here; the rest says so itself.
unsafe impl Send for Endpoint {}
// SAFETY: as above; both libraries lock what they share.
unsafe impl Sync for Endpoint {}

impl Endpoint {
    /// Errors are those of the libraries: the card has no room.
    pub fn new(
        request: Request,
        events: Arc<Owned<rdma_event_channel, ()>>,
        sizes: Sizes,
    ) -> io::Result<Endpoint> {
        let id = request.id;
        // SAFETY: a request came in through a card, which is open as long as its identifier.
        let card = unsafe { (*id.raw()).verbs };
        // SAFETY: what is made here is freed once, by its owner.
        let channel = unsafe { Owned::new(ibv_create_comp_channel(card), ibv_destroy_comp_channel)? };
        let entries = (sizes.receives + sizes.sends) as i32;
        // SAFETY: as above; the channel outlives it, by the order of the fields.
        let cq = unsafe {
            Owned::new(ibv_create_cq(card, entries, null_mut(), channel.raw(), 0), ibv_destroy_cq)?
        };
        // SAFETY: zero is a valid value of every field.
        let mut init: ibv_qp_init_attr = unsafe { std::mem::zeroed() };
        (init.send_cq, init.recv_cq, init.qp_type) = (cq.raw(), cq.raw(), ibv_qp_type::IBV_QPT_RC);
        init.cap = ibv_qp_cap {
            max_send_wr: sizes.sends,
            max_recv_wr: sizes.receives,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: INLINE as u32,
        };
        // SAFETY: all of it is there. Without a protection domain librdmacm takes the one that it keeps for the card.
        posix(unsafe { rdma_create_qp(id.raw(), null_mut(), &mut init) })?;
        // SAFETY: the queue pair is found by its identifier, and freed once, before that.
        let qp = unsafe { Owned::new(id.raw(), rdma_destroy_qp)? };
        // SAFETY: zero is a valid value of every field, and the card is open.
        let mut limits: ibv_device_attr = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        code(unsafe { ibv_query_device(card, &mut limits) })?;
        let at_most = |wanted: u8, limit: i32| wanted.min(u8::try_from(limit).unwrap_or(u8::MAX));
        let parameters = rdma_conn_param {
            private_data: std::ptr::null(),
            private_data_len: 0,
            responder_resources: at_most(request.answers, limits.max_qp_rd_atom),
            initiator_depth: at_most(request.reads, limits.max_qp_init_rd_atom),
            flow_control: 1,
            retry_count: 7,
            // For ever: the peer has a receive for each of its commands.
            rnr_retry_count: 7,
            srq: 0,
            qp_num: 0,
        };
        let invalidates =
            limits.device_cap_flags & ibv_device_cap_flags::IBV_DEVICE_MEM_MGT_EXTENSIONS.0 != 0;
        Ok(Endpoint { _qp: qp, cq, channel, id, _events: events, parameters, invalidates })
    }

    /// Accepts the request, with an answer. From then on the peer may send.
    pub fn accept(&self, answer: &[u8]) -> io::Result<()> {
        let mut parameters = self.parameters;
        parameters.private_data = answer.as_ptr().cast();
        parameters.private_data_len = answer.len() as u8;
        // SAFETY: identifier and answer are there.
        posix(unsafe { rdma_accept(self.id.raw(), &mut parameters) })
    }

    /// Ends the connection. All that is posted fails, which wakes a thread that waits for it.
    pub fn disconnect(&self) {
        // SAFETY: identifier and queue pair are there. It fails where the peer was faster, which is as good.
        unsafe { rdma_disconnect(self.id.raw()) };
    }

    /// The address of ours that the peer has connected to.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        // SAFETY: the library keeps room for the longest kind of address; the length is that of its family.
        let address = unsafe {
            let stored = &(*self.id.raw()).route.addr.src_addr_union.src_storage;
            let length = match i32::from(stored.ss_family) {
                libc::AF_INET => size_of::<libc::sockaddr_in>(),
                _ => size_of::<libc::sockaddr_in6>(),
            };
            SocketAddrAny::read(std::ptr::from_ref(stored).cast(), length as u32)
        };
        Ok(SocketAddr::try_from(address)?)
    }

    pub(super) fn id(&self) -> *mut rdma_cm_id {
        self.id.raw()
    }

    pub(super) fn qp(&self) -> *mut ibv_qp {
        // SAFETY: the queue pair is there as long as this.
        unsafe { (*self.id.raw()).qp }
    }

    pub(super) fn pd(&self) -> *mut ibv_pd {
        // SAFETY: as above.
        unsafe { (*self.id.raw()).pd }
    }

    pub(super) fn cq(&self) -> *mut ibv_cq {
        self.cq.raw()
    }

    /// Asks for an event when the next completion comes.
    pub(super) fn arm(&self) -> io::Result<()> {
        // SAFETY: the queue is there.
        code(unsafe { ibv_req_notify_cq(self.cq.raw(), 0) })
    }

    /// Sleeps until the event comes; false if the time comes first.
    pub(super) fn sleep(&self, until: Option<Instant>) -> io::Result<bool> {
        // SAFETY: the channel's descriptor is open as long as the channel.
        let channel = unsafe { BorrowedFd::borrow_raw((*self.channel.raw()).fd) };
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left =
            left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
        let mut ready = [PollFd::new(&channel, PollFlags::IN)];
        match poll(&mut ready, left.as_ref()) {
            Ok(0) => return Ok(false),
            Err(rustix::io::Errno::INTR) => return Ok(true),
            other => other?,
        };
        let (mut cq, mut context) = (null_mut(), null_mut());
        // SAFETY: there is room for both, and each event is acknowledged once.
        unsafe {
            posix(ibv_get_cq_event(self.channel.raw(), &mut cq, &mut context))?;
            ibv_ack_cq_events(cq, 1);
        }
        Ok(true)
    }
}
