//! The responder of UC: nothing is answered, and a gap drops the message in progress.

use fpga_regs::regs::port;
use fpga_regs::QpType;

use super::qp::IDLE;
use super::refusal::Refusal;
use super::responder::Outcome;
use super::Device;
use crate::env::Env;
use crate::packet::Packet;
use crate::wire::{psn, Operation};

impl Device {
    /// A UC request: nothing is answered; a gap drops the message in progress.
    pub(super) fn request_unreliable(&mut self, q: usize, p: &Packet, env: &mut impl Env) -> Outcome {
        debug_assert!(self.qps[q].qp_type == QpType::UC);
        let own = self.qps[q].port.port;
        if p.psn != self.qps[q].resp.epsn {
            self.count_packets(own, port::OUT_OF_SEQUENCE, p);
            self.abandon(q);
        }
        self.qps[q].resp.epsn = psn::add(p.psn, p.count);
        if p.first {
            self.abandon(q);
        } else if self.qps[q].resp.op == IDLE {
            return Outcome::Done;
        }
        let len = p.payload.len() as u32;
        let result = match p.operation {
            Operation::Send => self.take_send(q, p, len, env),
            Operation::Write => self.take_write(q, p, len, env),
            _ => Err(Refusal::Invalid),
        };
        let resp = &mut self.qps[q].resp;
        match result {
            Ok(()) => {
                if !resp.established.get() {
                    self.established(q, env);
                }
            }
            Err(Refusal::Operation) => self.to_error(q, env),
            Err(Refusal::Unread) => {
                resp.op = IDLE;
                return Outcome::Unread;
            }
            Err(why) => {
                resp.op = IDLE;
                if matches!(why, Refusal::NotReady) {
                    self.count(own, port::RX_NO_RECV);
                }
            }
        }
        Outcome::Done
    }

    /// UC: gives up the message in progress; its receive WQE is kept for the next one.
    fn abandon(&mut self, q: usize) {
        self.qps[q].resp.op = IDLE;
    }
}
