//! The requester: executes send WQEs in order and turns them into packets.

use fpga_regs::{CqeStatus, EventKind, QpState, QpType, Syndrome, WqeOpcode};

use super::gather::{malformed, LocalError};
use super::qp::Qp;
use super::wqe::{blocks, Wqe};
use super::Device;
use crate::env::Env;
use crate::packet::Payload;
use crate::wire::{psn, Extra, Operation};

/// PSNs that may be outstanding (IB spec 9.7.2: less than 2^23).
pub(super) const PSN_WINDOW: u32 = 1 << 22;
/// Half of all PSNs: from here on "later" and "earlier" cannot be told apart.
const PSN_HALF: u32 = 1 << 23;
/// Bytes of the longest message (IB spec 9.7.7).
pub(super) const MAX_MESSAGE: u32 = 1 << 31;

/// What became of a WQE in one step.
pub(super) enum Step {
    /// All of it is sent.
    Sent,
    /// A part is sent; the rest follows.
    Part,
    /// It must wait (READ limit, fence, PSN window).
    Wait,
}

/// A train that was sent.
pub(super) struct Train {
    /// Bytes of payload.
    pub len: u32,
    /// Packets.
    pub count: u32,
    /// Bytes of all frames.
    pub bytes: u64,
}

/// Most bytes of a train, which bounds the time that one QP holds the card.
pub(super) const TRAIN_BYTES: u32 = 1 << 20;

impl Device {
    /// Runs a send queue: sends what may be sent, at most a turn. Apart from the express lane, which needs the
    /// registers.
    #[inline(never)]
    pub fn run_send<E: Env>(&mut self, q: usize, env: &mut E) {
        let producer = env.bells(self.id).sq_producer(q);
        let qp = &self.qps[q];
        if !qp.used.get() {
            return;
        }
        match qp.state {
            QpState::RTS => {}
            QpState::ERR => return self.flush(q, env),
            QpState::SQE => return self.flush_send(q, env),
            QpState::SQD => {
                // What was begun is finished, no other WQE is started.
                if !qp.begun() {
                    return self.check_drained(q, env);
                }
            }
            _ => return,
        }
        if producer.wrapping_sub(qp.req.ci) > qp.sq_mask + 1 {
            return self.fatal(q, env);
        }
        if qp.req.rnr_wait.get() || qp.req.pending_status != 0 {
            return;
        }
        let mut executed = 0;
        while self.qps[q].req.cur != producer {
            if env.ends_turn(executed) {
                env.send_later(self.id, q as u16);
                break;
            }
            executed += 1;
            match self.execute(q, env) {
                Ok(Step::Sent) => {}
                Ok(Step::Part) => {
                    env.send_later(self.id, q as u16);
                    break;
                }
                Ok(Step::Wait) => break,
                Err(error) => {
                    self.send_error(q, error, env);
                    break;
                }
            }
            if self.qps[q].state == QpState::SQD && !self.qps[q].begun() {
                break;
            }
        }
        self.qps[q].catch_up();
        env.watch(self.id, q as u16);
    }

    /// Executes the WQE at `cur`, or its next part.
    #[inline(always)]
    fn execute(&mut self, q: usize, env: &mut impl Env) -> Result<Step, LocalError> {
        let qp = &self.qps[q];
        let wqe = Wqe::fetch(qp, qp.req.cur, env)?;
        let ud = qp.qp_type == QpType::UD;
        if wqe.blocks() == 0 || !wqe.well_formed(qp.qp_type) {
            return Err(malformed());
        }
        if psn::diff(qp.req.psn, qp.req.una) as u32 >= qp.window {
            return Ok(Step::Wait);
        }
        if wqe.ctrl.fence() && qp.req.rd_out != 0 && qp.req.cur_offset == 0 {
            return Ok(Step::Wait);
        }
        let opcode = wqe.ctrl.opcode();
        // Routes of any island may go by the keys that these change.
        let changes_keys =
            matches!(opcode, WqeOpcode::LOCAL_INV | WqeOpcode::BIND_MW | WqeOpcode::SEND_WITH_INV);
        if changes_keys && !env.has_all(self.id, q as u16) {
            return Ok(Step::Wait);
        }
        match opcode {
            WqeOpcode::SEND | WqeOpcode::SEND_WITH_IMM if ud => self.send_datagram(q, &wqe, env),
            _ if ud => Err(malformed()),
            WqeOpcode::SEND_WITH_INV if !qp.is_reliable() => Err(malformed()),
            WqeOpcode::SEND
            | WqeOpcode::SEND_WITH_IMM
            | WqeOpcode::SEND_WITH_INV
            | WqeOpcode::WRITE
            | WqeOpcode::WRITE_WITH_IMM => self.send_message(q, &wqe, env),
            WqeOpcode::READ | WqeOpcode::CMP_SWAP | WqeOpcode::FETCH_ADD if qp.is_reliable() => {
                self.send_request(q, &wqe, env)
            }
            WqeOpcode::LOCAL_INV | WqeOpcode::BIND_MW | WqeOpcode::NOP => self.execute_local(q, &wqe, env),
            _ => Err(malformed()),
        }
    }

    /// SEND and WRITE of RC, UC and XRC: the next train of the message.
    #[inline(always)]
    fn send_message<E: Env>(&mut self, q: usize, wqe: &Wqe, env: &mut E) -> Result<Step, LocalError> {
        let qp = &self.qps[q];
        let offset = qp.req.cur_offset;
        let total = wqe.ctrl.length();
        if total > MAX_MESSAGE {
            return Err(LocalError { status: CqeStatus::LOC_LEN_ERR, syndrome: Syndrome::MESSAGE_TOO_LONG });
        }
        if offset > total {
            // The WQE was changed while it was sent.
            return Err(malformed());
        }
        let want = (total - offset).min(qp.train);
        let Train { len, count, bytes } = self.message_part(q, wqe, (offset, want), qp.req.psn, env)?;
        let last = offset + len == total;
        let req = &mut self.qps[q].req;
        req.psn = psn::add(req.psn, count);
        req.packets += count as u64;
        req.bytes += bytes;
        if last {
            if req.ci == wqe.index {
                req.head = wqe.ctrl;
                req.head_index = wqe.index;
                req.head_cached = true.into();
            }
            req.cur = req.cur.wrapping_add(wqe.blocks());
            req.cur_offset = 0;
        } else {
            req.cur_offset += len;
        }
        Ok(if last { Step::Sent } else { Step::Part })
    }

    /// Sends a train of a SEND or WRITE: `want` bytes from byte `offset` on, or less; it begins with a PSN.
    #[inline(always)]
    pub(super) fn message_part<E: Env>(
        &mut self,
        q: usize,
        wqe: &Wqe,
        (offset, want): (u32, u32),
        psn: u32,
        env: &mut E,
    ) -> Result<Train, LocalError> {
        let total = wqe.ctrl.length();
        let (payload, len) = match self.gather_direct(q, wqe, offset, want, env)? {
            Some(at) => (Payload::Memory(at, want), want),
            None => self.gather_pieces(q, wqe, offset, want, env)?,
        };
        let qp = &self.qps[q];
        let count = qp.packets(len);
        let last = offset + len == total;
        let opcode = wqe.ctrl.opcode();
        let write = matches!(opcode, WqeOpcode::WRITE | WqeOpcode::WRITE_WITH_IMM);
        let p = qp.packet(if write { Operation::Write } else { Operation::Send }, psn, env);
        p.first = offset == 0;
        p.last = last;
        p.count = count;
        p.inline = wqe.ctrl.inline();
        p.payload = payload;
        if last {
            p.ack_req = true;
            p.solicited = wqe.ctrl.solicited();
            p.extra = match opcode {
                WqeOpcode::SEND_WITH_IMM | WqeOpcode::WRITE_WITH_IMM => Extra::Immediate,
                WqeOpcode::SEND_WITH_INV => Extra::Invalidate,
                _ => Extra::None,
            };
            p.imm = wqe.ctrl.imm();
        } else {
            // A message of more packets than the window has is acknowledged in between.
            let under_way = psn::diff(psn::add(psn, count), qp.req.una);
            p.ack_req = under_way as u32 >= qp.window / 2;
        }
        if write && p.first {
            let remote = wqe.remote();
            p.va = remote.remote_addr();
            p.rkey = remote.rkey();
            p.dma_len = total;
        }
        if qp.qp_type == QpType::XRC_SEND {
            p.srqn = wqe.remote().srqn();
        }
        Ok(Train { len, count, bytes: p.wire_bytes(len) })
    }

    /// READ and atomics of RC and XRC: one request packet; of a READ from outside, one for each part of it.
    fn send_request(&mut self, q: usize, wqe: &Wqe, env: &mut impl Env) -> Result<Step, LocalError> {
        let qp = &self.qps[q];
        let limit = qp.attributes.max_rd_atomic();
        if limit == 0 {
            return Err(LocalError {
                status: CqeStatus::LOC_QP_OP_ERR,
                syndrome: Syndrome::TOO_MANY_RD_ATOMIC,
            });
        }
        if qp.req.rd_out >= limit {
            return Ok(Step::Wait);
        }
        let opcode = wqe.ctrl.opcode();
        let length = wqe.ctrl.length();
        let read = opcode == WqeOpcode::READ;
        if !read && length != 8 {
            return Err(LocalError { status: CqeStatus::LOC_LEN_ERR, syndrome: Syndrome::MESSAGE_TOO_LONG });
        }
        // After a rewind a READ continues where the answer stopped; if its WQE was changed meanwhile, it fails.
        let offset = qp.req.cur_offset;
        if offset > length {
            return Err(malformed());
        }
        // The answer takes its PSNs at once. All that are outstanding are less than half of them.
        let want = if read { qp.read_part(offset, length) } else { length };
        let count = if read { qp.packets(want) } else { 1 };
        if length > MAX_MESSAGE || qp.packets(length) >= PSN_HALF {
            return Err(LocalError { status: CqeStatus::LOC_LEN_ERR, syndrome: Syndrome::MESSAGE_TOO_LONG });
        }
        if psn::diff(qp.req.psn, qp.req.una) as u32 + count >= PSN_HALF {
            return Ok(Step::Wait);
        }
        self.check_scatter(q, wqe, env)?;
        let bytes = self.request_part(q, wqe, (offset, want), self.qps[q].req.psn, env);
        let req = &mut self.qps[q].req;
        req.rd_out += 1;
        req.bytes += bytes;
        req.psn = psn::add(req.psn, count);
        req.packets += 1;
        if read && offset + want < length {
            req.cur_offset += want;
            return Ok(Step::Part);
        }
        req.cur = req.cur.wrapping_add(wqe.blocks());
        req.cur_offset = 0;
        Ok(Step::Sent)
    }

    /// Sends the request of a READ, of `want` bytes from byte `offset` on, or of an atomic; it has a PSN. Gives its bytes.
    pub(super) fn request_part(
        &mut self,
        q: usize,
        wqe: &Wqe,
        (offset, want): (u32, u32),
        psn: u32,
        env: &mut impl Env,
    ) -> u64 {
        let qp = &self.qps[q];
        let remote = wqe.remote();
        let kind = match wqe.ctrl.opcode() {
            WqeOpcode::READ => Operation::ReadRequest,
            WqeOpcode::CMP_SWAP => Operation::CompareSwap,
            _ => Operation::FetchAdd,
        };
        let p = qp.packet(kind, psn, env);
        p.ack_req = true;
        p.va = remote.remote_addr().wrapping_add(offset as u64);
        p.rkey = remote.rkey();
        p.dma_len = want;
        if qp.qp_type == QpType::XRC_SEND {
            p.srqn = remote.srqn();
        }
        let operands = wqe.atomic();
        if kind == Operation::CompareSwap {
            p.compare = operands.compare_add();
            p.swap_add = operands.swap();
        } else {
            p.swap_add = operands.compare_add();
        }
        p.wire_bytes(0)
    }

    /// LOCAL_INV, BIND_MW, NOP: no packet; complete in order.
    pub(super) fn execute_local(
        &mut self,
        q: usize,
        wqe: &Wqe,
        env: &mut impl Env,
    ) -> Result<Step, LocalError> {
        if !self.qps[q].begun() {
            match wqe.ctrl.opcode() {
                WqeOpcode::LOCAL_INV => self.invalidate_local(q, wqe.ctrl.imm())?,
                WqeOpcode::BIND_MW => self.bind_window(q, &wqe.bind(), wqe.ctrl.imm())?,
                _ => {}
            }
        }
        let req = &mut self.qps[q].req;
        req.cur = req.cur.wrapping_add(wqe.blocks());
        let una = req.una;
        self.retire(q, una, env);
        Ok(Step::Sent)
    }

    /// A WQE cannot be executed: completes in error once all before it are complete.
    pub(super) fn send_error(&mut self, q: usize, error: LocalError, env: &mut impl Env) {
        let req = &mut self.qps[q].req;
        req.pending_status = error.status.0;
        req.pending_syndrome = error.syndrome.0;
        self.check_pending_error(q, env);
    }

    /// Raises the pending local error when its WQE is the oldest.
    pub(super) fn check_pending_error(&mut self, q: usize, env: &mut impl Env) {
        let req = &self.qps[q].req;
        if req.pending_status == 0 || req.ci != req.cur {
            return;
        }
        let (status, syndrome) = (CqeStatus(req.pending_status), Syndrome(req.pending_syndrome));
        self.qps[q].req.pending_status = 0;
        self.fail_send(q, status, syndrome, env);
    }

    /// SQD: reports the drained send queue once.
    pub(super) fn check_drained(&mut self, q: usize, env: &mut impl Env) {
        let qp = &mut self.qps[q];
        if qp.state == QpState::SQD && !qp.draining() && qp.attributes.sq_draining() {
            qp.attributes.set_sq_draining(false);
            let (function, qpn) = (qp.function, qp.qpn);
            self.async_event(function, EventKind::SQ_DRAINED, qpn, env);
        }
    }

    /// PSNs that the WQE with this control segment takes.
    #[inline]
    pub(super) fn wqe_packets(qp: &Qp, ctrl: &fpga_regs::WqeCtrl) -> u32 {
        match ctrl.opcode() {
            WqeOpcode::CMP_SWAP | WqeOpcode::FETCH_ADD => 1,
            WqeOpcode::LOCAL_INV | WqeOpcode::BIND_MW | WqeOpcode::NOP => 0,
            _ => qp.packets(ctrl.length()),
        }
    }

    /// Blocks of the WQE with this control segment, at least one so that a walk always ends.
    #[inline]
    pub(super) fn wqe_blocks(ctrl: &fpga_regs::WqeCtrl) -> u32 {
        blocks(ctrl).max(1)
    }
}
