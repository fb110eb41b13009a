//! What a program does to get a connection: connect, accept, say that it is ready.

use libc::{EINVAL, EISCONN};

use super::address::{IB, INET6};
use super::ids::{milliseconds, transaction, Result};
use super::mad::*;
use super::param::Connection;
use super::tables::*;
use crate::env::Env;
use crate::wire::path::gid_to_ipv4;

/// Most retries that a message's three bits can say.
const MAX_RETRIES: u8 = 7;
/// How often a message is sent again.
const MAX_CM_RETRIES: u8 = 15;
/// How long the card takes to acknowledge, as it says of itself.
const ACK_DELAY: u8 = 15;
/// The only partition.
const PKEY: u64 = 0xffff;
/// The LID of a path that leaves its subnet, as each path over IP does.
const PERMISSIVE_LID: u64 = 0xffff;
/// Q_Key of datagrams of the port space UDP.
const UDP_QKEY: u32 = 0x0123_4567;

/// `timeout` of a QP: twice a packet's life, and the time that the peer's card takes to acknowledge, as Linux adds these logarithms.
pub fn ack_timeout(delay: u8, lifetime: u8) -> u8 {
    let twice = lifetime.saturating_add(1);
    let sum = match twice >= delay {
        true => twice.saturating_add((delay >= twice - 1).into()),
        false => delay + u8::from(twice >= delay - 1),
    };
    sum.min(31)
}

/// Puts `bytes` in front of a part of a message.
pub fn fill(part: &mut [u8], bytes: &[u8]) -> Result<()> {
    part.get_mut(..bytes.len()).ok_or(EINVAL)?.copy_from_slice(bytes);
    Ok(())
}

impl<E: Env> Manager<'_, E> {
    /// Private data of a request: for IP addresses their header first.
    fn fill_request(&mut self, slot: u16, part: &mut [u8], private: &[u8]) -> Result<()> {
        let id = self.id(slot);
        if id.source.family() == IB {
            return fill(part, private);
        }
        let (header, rest) = part.split_at_mut(ip::BYTES);
        fill(rest, private)?;
        let v6 = id.source.family() == INET6;
        header[ip::VERSION] = if v6 { 6 << 4 } else { 4 << 4 };
        header[ip::PORT].copy_from_slice(&id.source.port().to_be_bytes());
        for (at, address) in [(ip::SOURCE, id.source.ip()), (ip::DESTINATION, id.destination.ip())] {
            match gid_to_ipv4(&address).filter(|_| !v6) {
                Some(v4) => header[at][12..].copy_from_slice(&v4),
                None => header[at].copy_from_slice(&address),
            }
        }
        Ok(())
    }

    /// `rdma_connect`.
    pub fn connect(&mut self, slot: u16, wishes: &Connection<'_>) -> Result<()> {
        if self.id(slot).state != state::ROUTED {
            return Err(EINVAL);
        }
        let destination = self.id(slot).destination;
        let service = self.service(slot, &destination);
        match self.id(slot).qp_type {
            qp_type::UD => self.ask_for_service(slot, service, wishes)?,
            _ => self.request(slot, service, wishes)?,
        }
        self.id(slot).state = state::CONNECT;
        Ok(())
    }

    fn request(&mut self, slot: u16, service: u64, wishes: &Connection<'_>) -> Result<()> {
        let mut mad = self.message(slot, attribute::REQ);
        self.fill_request(slot, mad.part_mut(req::PRIVATE), wishes.private)?;
        let (name, guid, sgid) = (self.name(slot), self.guid(slot), self.sgid(slot));
        let response = u64::from(RESPONSE_TIMEOUT - self.cm.hurry.min(RESPONSE_TIMEOUT));
        let id = self.id(slot);
        (id.qpn, id.srq) = (wishes.qpn, wishes.srq.into());
        id.responder_resources = wishes.responder_resources;
        id.initiator_depth = wishes.initiator_depth;
        id.retry_count = wishes.retry_count.min(MAX_RETRIES);
        id.rnr_retry_count = wishes.rnr_retry_count.min(MAX_RETRIES);
        id.qp_timeout = id.lifetime.saturating_add(1);
        id.timeout = (2 * milliseconds(id.lifetime) + milliseconds(RESPONSE_TIMEOUT)) as u32;
        let timeout = id.timeout.into();
        for (field, value) in [
            (both::LOCAL_ID, name.into()),
            (req::SERVICE_ID, service),
            (req::CA_GUID, guid),
            (req::QPN, id.qpn.into()),
            (req::INITIATOR_DEPTH, id.initiator_depth.into()),
            (req::RESPONDER_RESOURCES, id.responder_resources.into()),
            (req::REMOTE_RESPONSE_TIMEOUT, response),
            (req::TRANSPORT, u64::from(id.qp_type == qp_type::UC)),
            (req::FLOW_CONTROL, wishes.flow_control.into()),
            (req::STARTING_PSN, id.rq_psn.into()),
            (req::LOCAL_RESPONSE_TIMEOUT, response),
            (req::RETRY_COUNT, id.retry_count.into()),
            (req::PKEY, PKEY),
            (req::MTU, id.mtu.into()),
            (req::RNR_RETRY_COUNT, id.rnr_retry_count.into()),
            (req::MAX_CM_RETRIES, MAX_CM_RETRIES.into()),
            (req::SRQ, wishes.srq.into()),
            (req::LOCAL_LID, PERMISSIVE_LID),
            (req::REMOTE_LID, PERMISSIVE_LID),
            (req::FLOW_LABEL, id.way.flow_label.into()),
            (req::TRAFFIC_CLASS, id.way.traffic_class.into()),
            (req::HOP_LIMIT, 64),
            (req::ACK_TIMEOUT, ack_timeout(ACK_DELAY, id.lifetime).into()),
        ] {
            mad.set(field, value);
        }
        mad.part_mut(req::LOCAL_GID).copy_from_slice(&sgid);
        mad.part_mut(req::REMOTE_GID).copy_from_slice(&id.way.dgid);
        (id.service, id.comm, id.transaction) = (service, comm::REQ_SENT, transaction(&mad));
        self.send(slot, mad);
        self.expect(slot, timeout, MAX_CM_RETRIES);
        Ok(())
    }

    fn ask_for_service(&mut self, slot: u16, service: u64, wishes: &Connection<'_>) -> Result<()> {
        let mut mad = self.message(slot, attribute::SIDR_REQ);
        self.fill_request(slot, mad.part_mut(sidr_req::PRIVATE), wishes.private)?;
        mad.set(sidr_req::REQUEST_ID, self.name(slot).into());
        mad.set(sidr_req::PKEY, PKEY);
        mad.set(sidr_req::SERVICE_ID, service);
        let id = self.id(slot);
        (id.qpn, id.srq) = (wishes.qpn, wishes.srq.into());
        (id.service, id.comm) = (service, comm::SIDR_REQ_SENT);
        self.send(slot, mad);
        self.expect(slot, milliseconds(RESPONSE_TIMEOUT), MAX_CM_RETRIES);
        Ok(())
    }

    /// `rdma_accept` of a request, by the program that calls the connection `uid`. After a failure it is rejected.
    pub fn accept(&mut self, slot: u16, uid: u64, wishes: &Connection<'_>) -> Result<()> {
        if self.id(slot).state != state::CONNECT {
            return Err(EINVAL);
        }
        let accepted = match self.id(slot).qp_type {
            qp_type::UD => self.offer_service(slot, wishes),
            _ => self.reply(slot, wishes),
        };
        match accepted {
            Ok(()) => self.id(slot).uid = uid,
            Err(_) => {
                let _ = self.reject(slot, reason::CONSUMER_DEFINED, &[]);
            }
        }
        accepted
    }

    fn reply(&mut self, slot: u16, wishes: &Connection<'_>) -> Result<()> {
        if self.id(slot).comm != comm::REQ_RCVD || wishes.private.len() > rep::PRIVATE.len() {
            return Err(EINVAL);
        }
        let mut mad = Mad::new(attribute::REP, self.id(slot).transaction);
        fill(mad.part_mut(rep::PRIVATE), wishes.private)?;
        let (name, guid, remote) = (self.name(slot), self.guid(slot), self.remote(slot));
        let id = self.id(slot);
        (id.qpn, id.srq) = (wishes.qpn, wishes.srq.into());
        id.responder_resources = wishes.responder_resources;
        id.initiator_depth = wishes.initiator_depth;
        for (field, value) in [
            (both::LOCAL_ID, name.into()),
            (both::REMOTE_ID, remote.into()),
            (rep::QPN, id.qpn.into()),
            (rep::STARTING_PSN, id.rq_psn.into()),
            (rep::RESPONDER_RESOURCES, id.responder_resources.into()),
            (rep::INITIATOR_DEPTH, id.initiator_depth.into()),
            (rep::TARGET_ACK_DELAY, ACK_DELAY.into()),
            (rep::FLOW_CONTROL, wishes.flow_control.into()),
            (rep::RNR_RETRY_COUNT, wishes.rnr_retry_count.min(MAX_RETRIES).into()),
            (rep::SRQ, wishes.srq.into()),
            (rep::CA_GUID, guid),
        ] {
            mad.set(field, value);
        }
        id.comm = comm::REP_SENT;
        let (timeout, tries) = (id.timeout.into(), id.max_tries);
        self.send(slot, mad);
        self.expect(slot, timeout, tries);
        Ok(())
    }

    fn offer_service(&mut self, slot: u16, wishes: &Connection<'_>) -> Result<()> {
        if self.id(slot).comm != comm::SIDR_REQ_RCVD || wishes.private.len() > sidr_rep::PRIVATE.len() {
            return Err(EINVAL);
        }
        let id = self.id(slot);
        id.qpn = wishes.qpn;
        let qkey = self.qkey(slot);
        self.serve(slot, sidr_status::SUCCESS, qkey, wishes.private)
    }

    /// The Q_Key of an identifier: what its peer has said, or Linux' choice for datagrams. Only programs of AF_IB
    /// choose one, and there are none here.
    pub fn qkey(&mut self, slot: u16) -> u32 {
        let id = self.id(slot);
        if id.qkey == 0 {
            id.qkey = UDP_QKEY;
        }
        id.qkey
    }

    /// Answers a SIDR_REQ, which is then forgotten.
    pub fn serve(&mut self, slot: u16, status: u8, qkey: u32, private: &[u8]) -> Result<()> {
        let mut mad = Mad::new(attribute::SIDR_REP, self.id(slot).transaction);
        fill(mad.part_mut(sidr_rep::PRIVATE), private)?;
        let remote = self.remote(slot);
        let id = self.id(slot);
        mad.set(sidr_rep::REQUEST_ID, remote.into());
        mad.set(sidr_rep::STATUS, status.into());
        if status == sidr_status::SUCCESS {
            mad.set(sidr_rep::QPN, id.qpn.into());
            mad.set(sidr_rep::QKEY, qkey.into());
        }
        mad.set(sidr_rep::SERVICE_ID, id.service);
        id.comm = comm::IDLE;
        self.cm.remote[usize::from(slot) % IDS] = 0;
        self.send(slot, mad);
        Ok(())
    }

    /// `rdma_establish`: the side that connected is ready.
    pub fn ready(&mut self, slot: u16) -> Result<()> {
        if self.id(slot).state != state::CONNECT {
            return Err(EINVAL);
        }
        if self.id(slot).qp_type == qp_type::UD {
            return self.offer_service(slot, &Connection::default());
        }
        if self.id(slot).comm != comm::REP_RCVD {
            let _ = self.reject(slot, reason::CONSUMER_DEFINED, &[]);
            return Err(EINVAL);
        }
        self.id(slot).comm = comm::ESTABLISHED;
        let transaction = self.id(slot).transaction;
        let mad = self.between(slot, attribute::RTU, transaction);
        self.send(slot, mad);
        Ok(())
    }

    /// `rdma_notify` that a message has come over the connection.
    pub fn communicates(&mut self, slot: u16) -> Result<()> {
        match self.id(slot).comm {
            comm::REP_SENT | comm::MRA_REP_RCVD => {
                self.established(slot);
                Ok(())
            }
            comm::ESTABLISHED => Err(EISCONN),
            _ => Err(EINVAL),
        }
    }

    /// A message that names the connection at both ends.
    pub fn between(&mut self, slot: u16, attribute: u16, transaction: u64) -> Mad {
        let mut mad = Mad::new(attribute, transaction);
        mad.set(both::LOCAL_ID, self.name(slot).into());
        mad.set(both::REMOTE_ID, self.remote(slot).into());
        mad
    }

    /// The peer's name of the connection.
    pub fn remote(&mut self, slot: u16) -> u32 {
        self.cm.remote[usize::from(slot) % IDS]
    }
}
