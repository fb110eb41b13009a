//! How a connection ends: reject, disconnect, destroy.

use libc::EINVAL;

use super::connect::fill;
use super::ids::{milliseconds, transaction, Result};
use super::mad::*;
use super::tables::*;
use crate::env::Env;

impl<E: Env> Manager<'_, E> {
    /// Refuses a request for which there is no identifier.
    pub(super) fn refuse(&mut self, mad: &Mad, back: &Way, why: u16) {
        let mut answer = Mad::new(attribute::REJ, transaction(mad));
        answer.set(both::REMOTE_ID, mad.get(both::LOCAL_ID));
        answer.set(rej::ANSWERED, answered::REQ.into());
        answer.set(rej::REASON, why.into());
        self.transmit(back, &answer);
    }

    /// `rdma_reject`.
    pub fn reject(&mut self, slot: u16, why: u16, private: &[u8]) -> Result<()> {
        if self.id(slot).qp_type == qp_type::UD {
            return match self.id(slot).comm {
                comm::SIDR_REQ_RCVD => self.serve(slot, sidr_status::REJECT, 0, private),
                _ => Err(EINVAL),
            };
        }
        let (answered, comm) = match self.id(slot).comm {
            comm::REQ_SENT | comm::MRA_REQ_RCVD => (answered::OTHER, comm::IDLE),
            comm::REQ_RCVD => (answered::REQ, comm::IDLE),
            comm::REP_SENT | comm::MRA_REP_RCVD => (answered::OTHER, comm::TIMEWAIT),
            comm::REP_RCVD => (answered::REP, comm::IDLE),
            _ => return Err(EINVAL),
        };
        let transaction = self.id(slot).transaction;
        let mut mad = self.between(slot, attribute::REJ, transaction);
        mad.set(rej::ANSWERED, answered.into());
        mad.set(rej::REASON, why.into());
        fill(mad.part_mut(rej::PRIVATE), private)?;
        if why == reason::TIMEOUT {
            let guid = self.guid(slot).to_be_bytes();
            mad.set(rej::INFO_LENGTH, guid.len() as u64);
            fill(mad.part_mut(rej::INFO), &guid)?;
        }
        self.answered(slot);
        self.id(slot).comm = comm;
        if answered == answered::REQ {
            // Should the answer be lost, the request comes again as a new one.
            self.cm.remote[usize::from(slot) % IDS] = 0;
        }
        self.send(slot, mad);
        Ok(())
    }

    /// `rdma_disconnect`.
    pub fn disconnect(&mut self, slot: u16) -> Result<()> {
        let id = self.id(slot);
        if !matches!(id.state, state::CONNECT | state::DISCONNECT) {
            return Err(EINVAL);
        }
        match id.comm {
            comm::ESTABLISHED => {
                let (qpn, timeout, tries) = (id.remote_qpn, id.timeout.into(), id.max_tries);
                let transaction = transaction(&self.message(slot, attribute::DREQ));
                let mut mad = self.between(slot, attribute::DREQ, transaction);
                mad.set(dreq::REMOTE_QPN, qpn.into());
                self.id(slot).comm = comm::DREQ_SENT;
                self.send(slot, mad);
                self.expect(slot, timeout, tries);
            }
            comm::DREQ_RCVD => {
                let transaction = id.transaction;
                let mad = self.between(slot, attribute::DREP, transaction);
                self.send(slot, mad);
                self.wait_for_strays(slot);
            }
            // As Linux does: nothing to do is no error.
            _ => {}
        }
        Ok(())
    }

    /// What may still be on its way gets time to arrive.
    pub fn wait_for_strays(&mut self, slot: u16) {
        self.id(slot).comm = comm::TIMEWAIT;
        let timeout = self.id(slot).qp_timeout;
        let tries = self.id(slot).max_tries;
        self.expect(slot, milliseconds(timeout), tries);
    }

    /// Ends what an identifier has begun, as its destruction does: the peer is told once.
    pub fn close(&mut self, slot: u16) {
        // What cannot be said is not said.
        let _ = match self.id(slot).comm {
            comm::REQ_SENT | comm::MRA_REQ_RCVD => self.reject(slot, reason::TIMEOUT, &[]),
            comm::REQ_RCVD | comm::REP_SENT | comm::MRA_REP_RCVD | comm::REP_RCVD | comm::SIDR_REQ_RCVD => {
                self.reject(slot, reason::CONSUMER_DEFINED, &[])
            }
            comm::ESTABLISHED | comm::DREQ_RCVD => self.disconnect(slot),
            _ => Ok(()),
        };
        self.id(slot).comm = comm::IDLE;
    }
}
