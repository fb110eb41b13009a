//! The admin queue, queues and one connection by hand: what the driver does, in single steps that can
//! be inspected. All memory is kept until the card has been reset.

use std::time::{Duration, Instant};

use driver::CardError;
use fpga_regs::regs::{self, Control, Status};
use fpga_regs::*;

use super::device::AnyCard;
use super::memory::Shared;

/// Entries of both admin rings, and of the completion and event queues, log2.
pub const LOG: u32 = 4;
/// How long one answer of the card may take.
pub const PATIENCE: Duration = Duration::from_millis(1000);

/// A function that was reset and enabled.
pub struct Admin {
    pub card: AnyCard,
    commands: Shared,
    replies: Shared,
    inbox: Shared,
    produced: u32,
}

/// Why a card did not do what it was asked.
#[derive(Debug)]
pub enum AdminError {
    /// Nothing was written to the reply ring; the bytes of the slot.
    Silence(Vec<u8>),
    /// The reply is of another command.
    Tag(Reply),
    /// Refused.
    Refused(AdminOpcode, Reply),
    /// ALLOC_PAGE gave a page that BAR0 does not have.
    Page(u32),
    /// There is no memory for rings.
    Memory(CardError),
}

impl From<CardError> for AdminError {
    fn from(error: CardError) -> Self {
        AdminError::Memory(error)
    }
}

/// Waits until `done` gives something, or `patience` is over.
pub fn wait<T>(card: &AnyCard, patience: Duration, mut done: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + patience;
    let mut spins = 0;
    loop {
        if let Some(found) = done() {
            return Some(found);
        }
        if Instant::now() > until {
            return None;
        }
        card.relax(spins);
        spins = spins.saturating_add(1);
    }
}

/// Starts a reset and waits for its end; the last STATUS and CONTROL if there was none.
pub fn reset(card: &AnyCard) -> Result<(), (Status, Control)> {
    card.write32(regs::CONTROL, Control(0).with_reset(true).0);
    let now = || (Status(card.read32(regs::STATUS)), Control(card.read32(regs::CONTROL)));
    wait(card, PATIENCE, || {
        let (status, control) = now();
        (!status.resetting() && !control.reset() && status.0 != u32::MAX).then_some(())
    })
    .ok_or_else(now)
}

impl Admin {
    /// Gives a card that was reset its admin rings.
    pub fn new(card: &AnyCard) -> Result<Admin, CardError> {
        let admin = Admin {
            card: card.clone(),
            commands: Shared::new(card, Command::BYTES << LOG)?,
            replies: Shared::new(card, Reply::BYTES << LOG)?,
            inbox: Shared::new(card, 4096)?,
            produced: 0,
        };
        card.write64(regs::ASQ_BASE, admin.commands.iova);
        card.write64(regs::ACQ_BASE, admin.replies.iova);
        card.write32(regs::ADMIN_SIZE, LOG);
        Ok(admin)
    }

    /// Starts the function; the last STATUS if it does not get ready.
    pub fn enable(&self) -> Result<(), Status> {
        self.card.write32(regs::CONTROL, Control(0).with_enable(true).0);
        let now = || Status(self.card.read32(regs::STATUS));
        wait(&self.card, PATIENCE, || now().ready().then_some(())).ok_or_else(now)
    }

    /// Runs one command; its tag is the number of commands before it.
    pub fn run(&mut self, command: Command) -> Result<Reply, AdminError> {
        let tag = self.produced as u16;
        let slot = (self.produced as usize) & ((1 << LOG) - 1);
        let phase = self.produced >> LOG & 1 == 0;
        self.commands.write(slot * Command::BYTES, command.with_tag(tag).as_bytes());
        self.produced = self.produced.wrapping_add(1);
        self.card.write32(regs::ASQ_DOORBELL, self.produced);
        let at = slot * Reply::BYTES;
        let entry = wait(&self.card, PATIENCE, || self.replies.entry(at, Reply::BYTES, phase));
        let entry = entry.ok_or_else(|| AdminError::Silence(self.replies.read(at, Reply::BYTES)))?;
        let reply = Reply::from_slice(&entry).unwrap_or_default();
        self.card.write32(regs::ACQ_CONSUMER, self.produced);
        if reply.tag() != tag {
            return Err(AdminError::Tag(reply));
        }
        match reply.status() {
            AdminStatus::OK => Ok(reply),
            _ => Err(AdminError::Refused(command.opcode(), reply)),
        }
    }

    /// Runs a command with a context in its mailbox.
    pub fn with_context(&mut self, command: Command, context: &[u8]) -> Result<Reply, AdminError> {
        self.inbox.write(0, context);
        let command = command.with_in_iova(self.inbox.iova).with_in_len(context.len() as u32);
        self.run(command)
    }

    /// Makes an object and gives its number.
    pub fn create(&mut self, opcode: AdminOpcode, context: &[u8]) -> Result<u32, AdminError> {
        let command = Command::of(opcode);
        let reply = match context {
            [] => self.run(command),
            _ => self.with_context(command, context),
        };
        Ok(reply?.object())
    }

    /// Changes a QP.
    pub fn modify(
        &mut self,
        qpn: u32,
        to: QpState,
        mask: QpAttrMask,
        context: QpContext,
    ) -> Result<(), AdminError> {
        let command = Command::of(AdminOpcode::MODIFY_QP)
            .with_object(qpn)
            .with_param0((mask | QpAttrMask::STATE).0.into())
            .with_param1(to.0.into())
            .with_param2(0xff);
        self.with_context(command, context.with_state(to).as_bytes()).map(|_| ())
    }
}

/// An event queue, a completion queue that reports to it, and a QP with both rings.
pub struct Queues {
    /// Event queue ring.
    pub events: Shared,
    /// Completion queue ring.
    pub cqes: Shared,
    /// Both rings of the QP: send blocks first, then receives.
    pub rings: Shared,
    /// The consumer index record of the CQ.
    _record: Shared,
    /// Number of the doorbell page.
    pub page: u32,
    /// Number of the PD.
    pub pd: u32,
    /// Number of the event queue.
    eqn: u32,
    pub cqn: u32,
    pub qpn: u32,
    /// The QP as it was asked for.
    pub context: QpContext,
}

/// Bytes of the send ring; the receive ring follows.
pub const SEND_RING: usize = 16 * WQE_BLOCK;
/// Log2 of the bytes of a receive WQE with one SGE.
pub const RECV_STRIDE_LOG: u8 = 5;

impl Queues {
    /// Makes all of it, the event queue on interrupt vector `vector`.
    pub fn new(admin: &mut Admin, vector: u32) -> Result<Queues, AdminError> {
        let card = admin.card.clone();
        let events = Shared::new(&card, Eqe::BYTES << LOG)?;
        let cqes = Shared::new(&card, Cqe::BYTES << LOG)?;
        let record = Shared::new(&card, 64)?;
        let rings = Shared::new(&card, SEND_RING + (16 << RECV_STRIDE_LOG))?;
        let page = admin.create(AdminOpcode::ALLOC_PAGE, &[])?;
        if page >= DOORBELL_PAGES {
            return Err(AdminError::Page(page));
        }
        let pd = admin.create(AdminOpcode::ALLOC_PD, &[])?;
        let eq =
            EqContext::new().with_ring_iova(events.iova).with_log_size(LOG as u8).with_vector(vector as u8);
        let eqn = admin.create(AdminOpcode::CREATE_EQ, eq.as_bytes())?;
        let cq = CqContext::new()
            .with_ring_iova(cqes.iova)
            .with_ci_iova(record.iova)
            .with_log_size(LOG as u8)
            .with_vector(eqn as u8)
            .with_page(page as u16);
        let cqn = admin.create(AdminOpcode::CREATE_CQ, cq.as_bytes())?;
        let context = QpContext::new()
            .with_qp_type(QpType::RC)
            .with_pd(pd)
            .with_send_cq(cqn)
            .with_recv_cq(cqn)
            .with_page(page as u16)
            .with_sq_iova(rings.iova)
            .with_sq_log(4)
            .with_rq_iova(rings.iova + SEND_RING as u64)
            .with_rq_log(4)
            .with_rq_stride_log(RECV_STRIDE_LOG)
            .with_max_inline(32)
            .with_max_send_sge(1)
            .with_max_recv_sge(1);
        let qpn = admin.create(AdminOpcode::CREATE_QP, context.as_bytes())?;
        Ok(Queues { events, cqes, rings, _record: record, page, pd, eqn, cqn, qpn, context })
    }

    /// Takes all of it from the card, which has few event queues. Its memory stays.
    pub fn destroy(&self, admin: &mut Admin) -> Result<(), AdminError> {
        for (opcode, object) in [
            (AdminOpcode::DESTROY_QP, self.qpn),
            (AdminOpcode::DESTROY_CQ, self.cqn),
            (AdminOpcode::DESTROY_EQ, self.eqn),
            (AdminOpcode::FREE_PD, self.pd),
            (AdminOpcode::FREE_PAGE, self.page),
        ] {
            admin.run(Command::of(opcode).with_object(object))?;
        }
        Ok(())
    }

    /// Brings the QP to INIT.
    pub fn init(&self, admin: &mut Admin) -> Result<(), AdminError> {
        let mask = QpAttrMask::PKEY_INDEX | QpAttrMask::PORT | QpAttrMask::ACCESS_FLAGS;
        let access = Access::REMOTE_WRITE | Access::LOCAL_WRITE;
        admin.modify(self.qpn, QpState::INIT, mask, self.context.with_port(1).with_access(access))
    }

    /// Connects the QP with itself through port 1 and brings it from INIT to RTS.
    pub fn connect_to_itself(
        &self,
        admin: &mut Admin,
        gid_index: u8,
        gid: [u8; 16],
    ) -> Result<(), AdminError> {
        let resolve =
            Command::of(AdminOpcode::RESOLVE).with_object(1).with_gid(gid).with_param2(gid_index.into());
        let dmac = admin.run(resolve)?.mac();
        let context = QpContext::new()
            .with_qp_type(QpType::RC)
            .with_qpn(self.qpn)
            .with_port(1)
            .with_dgid(gid)
            .with_dmac(dmac)
            .with_sgid_index(gid_index)
            .with_hop_limit(64)
            .with_mtu(Mtu::MTU_1024.0)
            .with_dest_qpn(self.qpn)
            .with_max_dest_rd_atomic(1)
            .with_max_rd_atomic(1)
            .with_min_rnr_timer(1)
            .with_timeout(14)
            .with_retry_cnt(3)
            .with_rnr_retry(3);
        use QpAttrMask as M;
        let rtr = M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN | M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER;
        admin.modify(self.qpn, QpState::RTR, rtr, context)?;
        let rts = M::SQ_PSN | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC;
        admin.modify(self.qpn, QpState::RTS, rts, context)
    }

    /// Posts receive number 0, of one piece.
    pub fn post_recv(&self, card: &AnyCard, addr: u64, length: u32, lkey: u32) {
        let head = RecvHead::new().with_num_sge(1).with_length(length);
        let sge = WqeSge::new().with_addr(addr).with_length(length).with_lkey(lkey);
        self.rings.write(SEND_RING, head.as_bytes());
        self.rings.write(SEND_RING + RecvHead::BYTES, sge.as_bytes());
        card.doorbell(doorbell_page(self.page) + DOORBELL_RQ, RqDoorbell::new(self.qpn, 1).0);
    }

    /// Posts a send WQE at block 0.
    pub fn post_send(&self, card: &AnyCard, wqe: &[u8]) {
        self.rings.write(0, wqe);
        let end = (wqe.len() / WQE_BLOCK) as u32;
        card.doorbell(doorbell_page(self.page) + DOORBELL_SQ, SqDoorbell::new(self.qpn, end).0);
    }

    /// The bytes of CQE `index` of the first lap.
    pub fn cqe(&self, index: usize) -> Vec<u8> {
        self.cqes.read(index * Cqe::BYTES, Cqe::BYTES)
    }

    /// Waits for CQE `index` of the first lap; its bytes whatever they are if it does not come.
    pub fn wait_cqe(&self, card: &AnyCard, index: usize) -> Result<Cqe, Vec<u8>> {
        let entry = || self.cqes.entry(index * Cqe::BYTES, Cqe::BYTES, true);
        let found = wait(card, PATIENCE, || entry().and_then(|bytes| Cqe::from_slice(&bytes)));
        found.ok_or_else(|| self.cqe(index))
    }
}
