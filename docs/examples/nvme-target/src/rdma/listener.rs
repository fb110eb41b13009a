//! The connection manager: requests come in, and connections end.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::ptr::null_mut;
use std::sync::{Arc, Weak};

use rdma_sys::rdma_cm_event_type::{RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_ESTABLISHED};
use rdma_sys::*;
use rustix::net::SocketAddrAny;

use super::endpoint::{Endpoint, Sizes};
use super::owned::{posix, Owned};
use super::request::Request;
use super::Connection;

const BACKLOG: i32 = 128;

/// Listens at an address. All connections that come in through it share its channel of events.
pub struct Listener {
    _id: Owned<rdma_cm_id>,
    events: Arc<Owned<rdma_event_channel, ()>>,
    /// By the address of their identifier, which events name.
    connections: HashMap<usize, Weak<Endpoint>>,
}

impl Listener {
    /// Listens at an address of a card, or at all of them (`0.0.0.0`, `::`). The errors are those of `rdma_bind_addr` and
    /// `rdma_listen`.
    pub fn bind(address: SocketAddr) -> io::Result<Listener> {
        // SAFETY: what is made here is freed once, by its owner.
        let events = unsafe { Owned::new(rdma_create_event_channel(), rdma_destroy_event_channel)? };
        let mut id = null_mut();
        // SAFETY: the channel is there, and there is room for the identifier.
        posix(unsafe { rdma_create_id(events.raw(), &mut id, null_mut(), rdma_port_space::RDMA_PS_TCP) })?;
        // SAFETY: as above.
        let id = unsafe { Owned::new(id, rdma_destroy_id)? };
        let address = SocketAddrAny::from(address);
        // SAFETY: both are there; the address is only read.
        posix(unsafe { rdma_bind_addr(id.raw(), address.as_ptr().cast_mut().cast()) })?;
        // SAFETY: as above.
        posix(unsafe { rdma_listen(id.raw(), BACKLOG) })?;
        Ok(Listener { _id: id, events: Arc::new(events), connections: HashMap::new() })
    }

    /// Waits for the next request. Meanwhile connections whose peer has left, or was killed, are shut down here: all that
    /// they wait for fails, which tells their owner.
    pub fn next(&mut self) -> io::Result<Request> {
        loop {
            let mut event = null_mut();
            // SAFETY: the channel is there, and there is room for the event.
            posix(unsafe { rdma_get_cm_event(self.events.raw(), &mut event) })?;
            // SAFETY: an event is ours until it is acknowledged.
            let (kind, id) = unsafe { ((*event).event, (*event).id) };
            let mut request = None;
            let mut ended = None;
            match kind {
                // SAFETY: an event of this kind has parameters, and an identifier that is ours now.
                RDMA_CM_EVENT_CONNECT_REQUEST => request = Some(unsafe { Request::of(&*event)? }),
                RDMA_CM_EVENT_ESTABLISHED => {}
                _ => ended = self.connections.get(&(id as usize)).and_then(Weak::upgrade),
            }
            // SAFETY: acknowledged once; what it points to was copied. An identifier is not destroyed before its events
            // are acknowledged, so this comes before the drop of `ended`, which may be the last.
            posix(unsafe { rdma_ack_cm_event(event) })?;
            if let Some(endpoint) = ended {
                endpoint.disconnect();
            }
            if let Some(request) = request {
                return Ok(request);
            }
        }
    }

    /// Makes this side of a connection. It is not accepted yet: first the owner posts receives.
    pub fn prepare(&mut self, request: Request, sizes: Sizes) -> io::Result<Connection> {
        let endpoint = Arc::new(Endpoint::new(request, self.events.clone(), sizes)?);
        self.connections.retain(|_, endpoint| endpoint.strong_count() > 0);
        self.connections.insert(endpoint.id() as usize, Arc::downgrade(&endpoint));
        Ok(Connection::new(endpoint))
    }
}
