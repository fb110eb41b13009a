//! What comes: datagrams for QP 1.
//!
//! A message is believed only as far as it fits what the manager knows; what does not fit is dropped, or answered as
//! Linux answers it. To a connection only its peer can say something: names of connections are easily guessed.

use super::address::{Address, IB, INET, INET6};
use super::bind::mtu_code;
use super::connect::ack_timeout;
use super::ids::{event, milliseconds, transaction, SILENT};
use super::mad::*;
use super::param::{self, Connection};
use super::tables::*;
use crate::dma::DmaFault;
use crate::env::Env;
use crate::packet::Packet;

/// Bytes of a UD request's private data that its program sees; of a SIDR_REP's all.
const USER: usize = ip::BYTES;

/// Addresses in the header of a request's private data: the receiver's, and the sender's. `None`: there is no header.
fn addresses(private: &[u8], service: u64) -> Option<(Address, Address)> {
    let version = *private.get(ip::VERSION)?;
    let family = match (private[0] >> 4, version >> 4) {
        (0, 4) => INET,
        (0, 6) => INET6,
        _ => return None,
    };
    let port = u16::from_be_bytes(*private[ip::PORT].first_chunk()?);
    let address = |at: core::ops::Range<usize>, port| {
        let bytes: [u8; 16] = *private[at].first_chunk()?;
        Some(Address::any(family).with_gid(&bytes).with_port(port))
    };
    Some((address(ip::DESTINATION, service as u16)?, address(ip::SOURCE, port)?))
}

impl<E: Env> Manager<'_, E> {
    /// A datagram for QP 1 of a port.
    pub fn datagram(&mut self, p: &Packet) -> Result<(), DmaFault> {
        let mut bytes = [0; BYTES];
        let known = p.src.card < self.cards || self.outside.contains(p.dst);
        let ours = self.gids.takes(p.dst, &p.dgid, p.encapsulation);
        let theirs = p.src_qpn == GSI_QPN && p.qkey == GSI_QKEY;
        if p.payload.len() != BYTES || !theirs || !known || !ours {
            return Ok(());
        }
        self.env.payload(&p.payload, &mut bytes)?;
        let Some(mad) = Mad::read(&bytes) else { return Ok(()) };
        let dgid = p.sgid;
        let sgid_index = self.gids.index(p.dst, &p.dgid, p.encapsulation);
        let sgid_index = sgid_index.unwrap_or_else(|| self.gids.like(p.dst, &dgid, p.encapsulation.link()));
        let known = true.into();
        let back = Way { known, sgid_index, traffic_class: 0, flow_label: 0, from: p.dst, to: p.src, dgid };
        match mad.attribute() {
            attribute::REQ => self.take_req(&mad, &back),
            attribute::REP => self.take_rep(&mad, &back),
            attribute::RTU => self.take_rtu(&mad, &back),
            attribute::REJ => self.take_rej(&mad, &back),
            attribute::MRA => self.take_mra(&mad, &back),
            attribute::DREQ => self.take_dreq(&mad, &back),
            attribute::DREP => self.take_drep(&mad, &back),
            attribute::SIDR_REQ => self.take_sidr_req(&mad, &back),
            attribute::SIDR_REP => self.take_sidr_rep(&mad, &back),
            // Alternate paths are not for Ethernet: Linux drops them, too.
            _ => {}
        }
        Ok(())
    }

    /// A new identifier for a request to a listener, in the state `comm`.
    fn incoming(
        &mut self,
        listener: u16,
        back: &Way,
        ends: Option<(Address, Address)>,
        comm: u8,
    ) -> Option<u16> {
        let Id { channel, space, qp_type, backlog, tos, .. } = *self.id(listener);
        if backlog == 0 {
            return None;
        }
        let slot = self.create(channel, space, qp_type, 0).ok()?;
        let sgid = self.gids.gid(back.from, back.sgid_index);
        let (source, destination) =
            ends.unwrap_or((Address::of_gid(&sgid, 0), Address::of_gid(&back.dgid, 0)));
        let id = self.id(slot);
        (id.unseen, id.state, id.comm) = (true.into(), state::CONNECT, comm);
        (id.source, id.destination, id.way, id.tos) = (source, destination, *back, tos);
        Some(slot)
    }

    /// Brings a connection to its listener's program.
    fn announce(&mut self, listener: u16, slot: u16, param: &[u8; PARAM]) -> bool {
        let told = self.queue((listener, slot, 0), event::CONNECT_REQUEST, 0, param).is_ok();
        match told {
            true => self.id(listener).backlog = self.id(listener).backlog.saturating_sub(1),
            false => {
                self.free(slot);
            }
        }
        told
    }

    fn take_req(&mut self, mad: &Mad, back: &Way) {
        let (remote, guid) = (mad.get(both::LOCAL_ID) as u32, mad.get(req::CA_GUID));
        let qpn = mad.get(req::QPN) as u32;
        if let Some(slot) = self.of_remote(remote, |id| id.remote_guid == guid && id.way.leads_to(back)) {
            return self.asked_again(slot, back);
        }
        let stale = |id: &Id| {
            let peer = id.remote_guid == guid && id.remote_qpn == qpn && id.way.leads_to(back);
            id.used.get() && id.comm == comm::ESTABLISHED && peer
        };
        let known = self.cm.slots.ids.range().find(|&slot| stale(&self.cm.ids[slot]));
        if let Some(known) = known.filter(|_| qpn != 0) {
            // The peer has forgotten the connection that had its QP, and learns of its end after this answer, as from Linux.
            self.refuse(mad, back, reason::STALE_CONN);
            // This cannot fail: it is connected.
            let _ = self.disconnect(known as u16);
            return;
        }
        let service = mad.get(req::SERVICE_ID);
        let qp_type = match mad.get(req::TRANSPORT) {
            0 => qp_type::RC,
            1 => qp_type::UC,
            _ => return self.refuse(mad, back, reason::INVALID_SERVICE_ID),
        };
        let private = mad.part(req::PRIVATE);
        let ends = addresses(private, service);
        let Some(listener) = self.listener(back.from, service, ends.map(|ends| ends.0), qp_type) else {
            return self.refuse(mad, back, reason::INVALID_SERVICE_ID);
        };
        let by_ip = self.id(listener).source.family() != IB;
        if by_ip && ends.is_none() {
            return self.refuse(mad, back, reason::CONSUMER_DEFINED);
        }
        // The peer has chosen it, and learns of no other.
        if mad.get(req::MTU) > mtu_code(self.port.mtu).into() {
            return self.refuse(mad, back, reason::INVALID_PATH_MTU);
        }
        // Without a place in the queue the request is not answered, and comes again.
        let Some(slot) = self.incoming(listener, back, ends, comm::REQ_RCVD) else { return };
        self.cm.remote[usize::from(slot) % IDS] = remote;
        let (dgid, gids, hurry) = (mad.gid(req::LOCAL_GID), self.gids, self.cm.hurry);
        let byte = |field| mad.get(field) as u8;
        let id = self.id(slot);
        if gids.find(&dgid).is_some_and(|found| found.0 == back.to) {
            id.way.dgid = dgid;
            let link = gids.entry(back.from, back.sgid_index).link();
            id.way.sgid_index = gids.like(back.from, &dgid, link);
        }
        (id.way.traffic_class, id.way.flow_label) =
            (byte(req::TRAFFIC_CLASS), mad.get(req::FLOW_LABEL) as u32);
        (id.remote_guid, id.remote_qpn, id.transaction) = (guid, qpn, transaction(mad));
        (id.service, id.sq_psn) = (service, mad.get(req::STARTING_PSN) as u32);
        id.mtu = byte(req::MTU).clamp(1, 5);
        id.retry_count = byte(req::RETRY_COUNT);
        id.rnr_retry_count = byte(req::RNR_RETRY_COUNT);
        // What the peer answers this side may ask for, and the other way round.
        id.responder_resources = byte(req::INITIATOR_DEPTH);
        id.initiator_depth = byte(req::RESPONDER_RESOURCES);
        id.lifetime = byte(req::ACK_TIMEOUT).saturating_sub(1);
        id.qp_timeout = id.lifetime + 1;
        // Like all times, it is divided by what shortens them; and so was the peer's.
        id.timeout = milliseconds(byte(req::LOCAL_RESPONSE_TIMEOUT).saturating_add(hurry)) as u32;
        id.max_tries = byte(req::MAX_CM_RETRIES);
        let param = param::connection(&Connection {
            qpn,
            private: if by_ip { &private[USER..] } else { private },
            srq: byte(req::SRQ) != 0,
            responder_resources: id.responder_resources,
            initiator_depth: id.initiator_depth,
            flow_control: byte(req::FLOW_CONTROL) != 0,
            retry_count: id.retry_count,
            rnr_retry_count: id.rnr_retry_count,
        });
        self.announce(listener, slot, &param);
    }

    /// A request came twice. A program that thinks about it gets more time; a reply is sent again by its own timer.
    fn asked_again(&mut self, slot: u16, back: &Way) {
        if self.id(slot).comm != comm::REQ_RCVD {
            return;
        }
        self.ask_for_patience(slot, back, answered::REQ);
    }

    /// A program thinks about what came, and that has come again.
    fn ask_for_patience(&mut self, slot: u16, back: &Way, what: u8) {
        /// 4.096 us * 2^24: what Linux asks for.
        const PATIENCE: u64 = 24;
        let transaction = self.id(slot).transaction;
        let mut mad = self.between(slot, attribute::MRA, transaction);
        mad.set(mra::ANSWERED, what.into());
        mad.set(mra::SERVICE_TIMEOUT, PATIENCE);
        self.transmit(back, &mad);
    }

    fn take_rep(&mut self, mad: &Mad, back: &Way) {
        let Some(slot) = self.of_peer(mad.get(both::REMOTE_ID) as u32, back) else { return };
        let remote = mad.get(both::LOCAL_ID) as u32;
        let known = self.remote(slot);
        match self.id(slot).comm {
            comm::REQ_SENT | comm::MRA_REQ_RCVD => {}
            comm::REP_RCVD if known == remote => return self.ask_for_patience(slot, back, answered::REP),
            comm::ESTABLISHED if known == remote => {
                // The RTU was lost.
                let (way, rtu) = (self.id(slot).way, self.id(slot).message);
                if rtu.attribute() == attribute::RTU {
                    self.transmit(&way, &rtu);
                }
                return;
            }
            _ => return,
        }
        self.answered(slot);
        self.cm.remote[usize::from(slot) % IDS] = remote;
        let byte = |field| mad.get(field) as u8;
        let id = self.id(slot);
        (id.comm, id.transaction) = (comm::REP_RCVD, transaction(mad));
        (id.remote_guid, id.remote_qpn) = (mad.get(rep::CA_GUID), mad.get(rep::QPN) as u32);
        id.sq_psn = mad.get(rep::STARTING_PSN) as u32;
        id.responder_resources = byte(rep::INITIATOR_DEPTH);
        id.initiator_depth = byte(rep::RESPONDER_RESOURCES);
        id.rnr_retry_count = byte(rep::RNR_RETRY_COUNT);
        id.qp_timeout = ack_timeout(byte(rep::TARGET_ACK_DELAY), id.lifetime);
        let param = param::connection(&Connection {
            qpn: id.remote_qpn,
            private: mad.part(rep::PRIVATE),
            srq: byte(rep::SRQ) != 0,
            responder_resources: id.responder_resources,
            initiator_depth: id.initiator_depth,
            flow_control: byte(rep::FLOW_CONTROL) != 0,
            retry_count: 0,
            rnr_retry_count: id.rnr_retry_count,
        });
        self.event(slot, event::CONNECT_RESPONSE, 0, &param);
    }

    /// The identifier that a message calls by this name, if the message comes from the identifier's peer.
    fn of_peer(&mut self, name: u32, back: &Way) -> Option<u16> {
        self.named(name).filter(|&slot| self.id(slot).way.leads_to(back))
    }

    /// The identifier that a message of its peer names at both ends.
    fn of_both(&mut self, mad: &Mad, back: &Way) -> Option<u16> {
        let slot = self.of_peer(mad.get(both::REMOTE_ID) as u32, back)?;
        (self.remote(slot) == mad.get(both::LOCAL_ID) as u32).then_some(slot)
    }

    fn take_rtu(&mut self, mad: &Mad, back: &Way) {
        let Some(slot) = self.of_both(mad, back) else { return };
        if matches!(self.id(slot).comm, comm::REP_SENT | comm::MRA_REP_RCVD) {
            self.established(slot);
        }
    }

    /// The side that was asked knows that the other is ready.
    pub fn established(&mut self, slot: u16) {
        self.answered(slot);
        self.id(slot).comm = comm::ESTABLISHED;
        self.event(slot, event::ESTABLISHED, 0, &SILENT);
    }

    fn take_rej(&mut self, mad: &Mad, back: &Way) {
        let why = mad.get(rej::REASON) as u16;
        let found = match mad.get(rej::ANSWERED) as u8 {
            // Its sender may have no name for the connection.
            answered::REQ => {
                // Late, if the request has been answered otherwise.
                self.of_peer(mad.get(both::REMOTE_ID) as u32, back).filter(|&slot| self.remote(slot) == 0)
            }
            _ if mad.get(both::REMOTE_ID) == 0 => {
                // The peer gave up before it knew this side's name.
                let guid = mad.part(rej::INFO).first_chunk().map_or(0, |guid| u64::from_be_bytes(*guid));
                self.of_remote(mad.get(both::LOCAL_ID) as u32, |id| {
                    id.remote_guid == guid && id.way.leads_to(back)
                })
            }
            _ => self.of_both(mad, back),
        };
        let Some(slot) = found else { return };
        match self.id(slot).comm {
            comm::REQ_SENT | comm::MRA_REQ_RCVD | comm::REQ_RCVD | comm::REP_SENT | comm::MRA_REP_RCVD
                if why != reason::STALE_CONN =>
            {
                self.answered(slot);
                self.id(slot).comm = comm::IDLE;
            }
            comm::REQ_SENT..=comm::ESTABLISHED | comm::DREQ_SENT => self.wait_for_strays(slot),
            _ => return,
        }
        if self.id(slot).state == state::CONNECT {
            let param = param::private(mad.part(rej::PRIVATE));
            self.event(slot, event::REJECTED, why.into(), &param);
        }
    }

    fn take_mra(&mut self, mad: &Mad, back: &Way) {
        let Some(slot) = self.of_peer(mad.get(both::REMOTE_ID) as u32, back) else { return };
        let id = self.id(slot);
        let answered = mad.get(mra::ANSWERED) as u8;
        id.comm = match id.comm {
            comm::REQ_SENT if answered == answered::REQ => comm::MRA_REQ_RCVD,
            comm::REP_SENT if answered == answered::REP => comm::MRA_REP_RCVD,
            _ => return,
        };
        // From now on, each time: it is the message's time-out that changes.
        let timeout = milliseconds(mad.get(mra::SERVICE_TIMEOUT) as u8) + milliseconds(id.qp_timeout);
        let tries = id.max_tries;
        self.expect(slot, timeout, tries);
    }

    fn take_dreq(&mut self, mad: &Mad, back: &Way) {
        let Some(slot) = self.of_both(mad, back) else {
            // The connection is gone: so may the peer's be.
            let mut answer = Mad::new(attribute::DREP, transaction(mad));
            answer.set(both::LOCAL_ID, mad.get(both::REMOTE_ID));
            answer.set(both::REMOTE_ID, mad.get(both::LOCAL_ID));
            return self.transmit(back, &answer);
        };
        let id = self.id(slot);
        if u64::from(id.qpn) != mad.get(dreq::REMOTE_QPN) {
            return;
        }
        match id.comm {
            comm::REP_SENT | comm::MRA_REP_RCVD | comm::ESTABLISHED | comm::DREQ_SENT => {}
            comm::TIMEWAIT => {
                let answer = self.between(slot, attribute::DREP, transaction(mad));
                return self.transmit(back, &answer);
            }
            _ => return,
        }
        (id.comm, id.transaction) = (comm::DREQ_RCVD, transaction(mad));
        self.answered(slot);
        self.disconnected(slot, 0);
    }

    fn take_drep(&mut self, mad: &Mad, back: &Way) {
        let Some(slot) = self.of_both(mad, back) else { return };
        if matches!(self.id(slot).comm, comm::DREQ_SENT | comm::DREQ_RCVD) {
            self.wait_for_strays(slot);
            self.disconnected(slot, 0);
        }
    }

    /// The connection is no more.
    pub fn disconnected(&mut self, slot: u16, status: i32) {
        let id = self.id(slot);
        if id.state == state::CONNECT {
            id.state = state::DISCONNECT;
            self.event(slot, event::DISCONNECTED, status, &SILENT);
        }
    }

    fn take_sidr_req(&mut self, mad: &Mad, back: &Way) {
        let (remote, service) = (mad.get(sidr_req::REQUEST_ID) as u32, mad.get(sidr_req::SERVICE_ID));
        let same = |id: &Id| id.comm == comm::SIDR_REQ_RCVD && id.way.leads_to(back);
        if self.of_remote(remote, same).is_some() {
            return;
        }
        let private = mad.part(sidr_req::PRIVATE);
        let ends = addresses(private, service);
        let listener = self.listener(back.from, service, ends.map(|ends| ends.0), qp_type::UD);
        let Some(listener) = listener.filter(|_| ends.is_some()) else {
            let mut answer = Mad::new(attribute::SIDR_REP, transaction(mad));
            answer.set(sidr_rep::REQUEST_ID, remote.into());
            answer.set(sidr_rep::STATUS, sidr_status::UNSUPPORTED.into());
            answer.set(sidr_rep::SERVICE_ID, service);
            return self.transmit(back, &answer);
        };
        let Some(slot) = self.incoming(listener, back, ends, comm::SIDR_REQ_RCVD) else { return };
        self.cm.remote[usize::from(slot) % IDS] = remote;
        let id = self.id(slot);
        (id.transaction, id.service) = (transaction(mad), service);
        self.announce(listener, slot, &param::datagrams(None, 0, 0, &private[USER..]));
    }

    fn take_sidr_rep(&mut self, mad: &Mad, back: &Way) {
        let Some(slot) = self.of_peer(mad.get(sidr_rep::REQUEST_ID) as u32, back) else { return };
        if self.id(slot).comm != comm::SIDR_REQ_SENT {
            return;
        }
        self.answered(slot);
        self.id(slot).comm = comm::IDLE;
        let status = mad.get(sidr_rep::STATUS) as u8;
        let private = mad.part(sidr_rep::PRIVATE);
        if status != sidr_status::SUCCESS {
            let param = param::datagrams(None, 0, 0, private);
            return self.event(slot, event::UNREACHABLE, status.into(), &param);
        }
        let (qpn, qkey) = (mad.get(sidr_rep::QPN) as u32, mad.get(sidr_rep::QKEY) as u32);
        let id = self.id(slot);
        (id.qkey, id.remote_qpn) = (qkey, qpn);
        let param = param::datagrams(Some(&id.way), qpn, qkey, private);
        self.event(slot, event::ESTABLISHED, 0, &param);
    }
}
