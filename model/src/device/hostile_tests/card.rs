//! A card with queue pairs that are at work, and what must hold of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;

use fpga_regs::regs::port;
use fpga_regs::{Access, CardLimits, Cqe, MrMode, QpState, QpType};
use fpga_regs::{RecvHead, WqeAtomic, WqeCtrl, WqeOpcode, WqeRemote, WqeSge};

use super::surroundings::*;
use super::Raw;
use crate::device::qp::{Qp, IDLE, RESOURCES};
use crate::device::requester::{PSN_WINDOW, TRAIN_BYTES};
use crate::device::responder::Outcome;
use crate::device::tables::{key_kind, Key, Srq};
use crate::device::{Device, COUNTERS};
use crate::dma::Addr;
use crate::encapsulation::Encapsulation;
use crate::link::frames::MAX_ROCE_FRAME;
use crate::packet::{Packet, Payload, PortId};
use crate::wire::{psn, Extra, Operation, Syndrome, Transport};
use crate::zeroed::Zeroed;

/// The queue pairs: their numbers begin here.
pub const FIRST: usize = 16;
pub const TYPES: [QpType; 5] = [QpType::RC, QpType::RC, QpType::UC, QpType::UD, QpType::XRC_RECV];
/// That of them with the SRQ of its own.
const SHARED: usize = FIRST + 1;
const EXTENDED: usize = FIRST + 4;
/// Log2 of the path MTU.
const MTU_LOG: u8 = 8;
pub const MTU: u32 = 1 << MTU_LOG;
/// Entries of each queue.
const ENTRIES: u32 = 16;
/// Packets that can be repeated.
pub const KEPT: usize = 4;
const QKEY: u32 = 0x1234;
const XRC_DOMAIN: u32 = 3;
/// The rings of the queue pair `n`.
pub const fn ring(n: usize, which: u64) -> u64 {
    0x10_0000 + n as u64 * 0x1_0000 + which * 0x4000
}
const SEND: u64 = 0;
const RECV: u64 = 1;
const CQ: u64 = 2;

/// A card with its queue pairs, and what was posted to them and has completed.
pub struct Card {
    pub card: Zeroed<Device>,
    pub env: Surroundings,
    /// By CQ, which is as its queue pair: entries read.
    read: [u32; TYPES.len()],
    /// By queue pair: WQEs that wait, in order, sends and receives.
    waiting: [[Vec<u32>; 2]; TYPES.len()],
    /// By queue pair: the last packets, the latest first.
    arrived: [VecDeque<Packet>; TYPES.len()],
    /// Counters before the last step.
    counted: BTreeMap<usize, u64>,
}

impl Card {
    pub fn new(start: u32, grants: Access, reorder: u32) -> Card {
        let mut card: Zeroed<Device> = Zeroed::new().expect("address space");
        card.init(0, 2, CardLimits::default(), Default::default());
        card.reorder.set_limit(reorder);
        card.attach(OWN).expect("a function");
        let eq = &mut card.functions[0].eqs[0];
        (eq.used, eq.mask, eq.ring) = (true.into(), 15, ring(TYPES.len(), 0));
        for (n, (iova, va, access, pd)) in KEYS.into_iter().enumerate() {
            let slot: &mut Key = &mut card.keys[n + 1];
            (slot.kind, slot.access, slot.mode, slot.domain) = (key_kind::MR, access.0, MrMode::DIRECT, OWN);
            (slot.key, slot.pd, slot.va, slot.length, slot.iova) = (key(n), pd, va, REGION, iova);
            slot.valid = true.into();
        }
        for (n, qp_type) in TYPES.into_iter().enumerate() {
            let cq = &mut card.cqs[n];
            (cq.ring, cq.mask, cq.used) = (Addr { iova: ring(n, CQ), domain: OWN }, 255, true.into());
            (cq.ci_iova, cq.function) = (ring(n, CQ + 1), 0);
            let q = FIRST + n;
            card.take_qp(q);
            let qp = &mut card.qps[q];
            (qp.used, qp.qpn, qp.qp_type, qp.state) = (true.into(), q as u32, qp_type, QpState::RTS);
            (qp.mtu_log, qp.pd, qp.domain, qp.access) = (MTU_LOG, 1, OWN, grants.0);
            (qp.send_cq, qp.recv_cq, qp.rq_stride_log) = (n as u16, n as u16, 5);
            (qp.port, qp.dest) = (PortId { card: 0, port: 0 }, PortId { card: 1, port: 0 });
            (qp.dest_qpn, qp.qkey, qp.window, qp.train) = (100 + q as u32, QKEY, PSN_WINDOW, TRAIN_BYTES);
            (qp.sq_mask, qp.rq_mask) = (ENTRIES - 1, ENTRIES - 1);
            (qp.sq_iova, qp.rq_iova) = (ring(n, SEND), ring(n, RECV));
            (qp.resp.epsn, qp.req.psn, qp.req.una, qp.req.ci_psn) = (start, start, start, start);
            (qp.req.retry, qp.req.rnr) = (7, 7);
            let to = &mut qp.attributes;
            to.set_state(QpState::RTS);
            to.set_retry_cnt(7);
            to.set_rnr_retry(7);
            to.set_timeout(4);
            to.set_min_rnr_timer(3);
            to.set_max_rd_atomic(3);
            to.set_max_dest_rd_atomic(3);
            if matches!(q, SHARED | EXTENDED) {
                let domain = if q == EXTENDED { XRC_DOMAIN } else { 0 };
                (qp.has_srq, qp.srq, qp.xrcd) = (true.into(), n as u16, domain);
                card.srqs[n] = Srq {
                    used: true.into(),
                    stride_log: 5,
                    max_sge: 1,
                    domain: OWN,
                    function: 0,
                    pd: 1,
                    mask: ENTRIES - 1,
                    ci: 0,
                    limit: 2,
                    users: 1,
                    ring: ring(n, RECV),
                    island: Default::default(),
                    xrcd: domain,
                    cq: n as u16,
                    opened: 0,
                };
            }
        }
        let env = Surroundings::new();
        Card {
            card,
            env,
            read: [0; TYPES.len()],
            waiting: Default::default(),
            arrived: Default::default(),
            counted: BTreeMap::new(),
        }
    }

    fn qp(&self, n: usize) -> &Qp {
        &self.card.qps[FIRST + n]
    }

    /// A receive WQE, if there is room for it.
    pub fn receive(&mut self, n: usize) {
        let shared = self.qp(n).has_srq.get();
        let bells = &self.env.bells;
        let producer = if shared { bells.srq_producer(n) } else { bells.rq_producer(FIRST + n) };
        let taken = if shared { self.card.srqs[n].ci } else { self.qp(n).resp.rq_ci };
        // Of an SRQ, the place of a receive that is in use is not yet free for its user.
        if producer.wrapping_sub(taken) >= ENTRIES - 1 {
            return;
        }
        let head = RecvHead::new().with_num_sge(1).with_index(producer);
        let sge = WqeSge::new().with_addr(RECEIVES + 64).with_length(3 * MTU).with_lkey(key(1));
        let at = ring(n, RECV) + u64::from(producer % ENTRIES) * 32;
        self.env.put(at, head.as_bytes());
        self.env.put(at + 16, sge.as_bytes());
        let bells = &self.env.bells;
        let bell = if shared { &bells.srq[n].producer } else { &bells.qp[FIRST + n].rq };
        bell.store(producer.wrapping_add(1), Relaxed);
        self.waiting[n][1].push(producer);
        if self.qp(n).flushing.get() && !shared {
            self.card.run_send(FIRST + n, &mut self.env);
        }
    }

    /// A send WQE of a block, if there is room for it.
    pub fn send(&mut self, n: usize, kind: u8, length: u16) {
        let producer = self.env.bells.sq_producer(FIRST + n);
        let connected = matches!(self.qp(n).qp_type, QpType::RC | QpType::UC);
        if !connected || producer.wrapping_sub(self.qp(n).req.ci) >= ENTRIES {
            return;
        }
        let opcodes = [
            WqeOpcode::SEND,
            WqeOpcode::WRITE,
            WqeOpcode::WRITE_WITH_IMM,
            WqeOpcode::READ,
            WqeOpcode::CMP_SWAP,
            WqeOpcode::FETCH_ADD,
        ];
        let opcode = opcodes[usize::from(kind)];
        let atomic = matches!(opcode, WqeOpcode::CMP_SWAP | WqeOpcode::FETCH_ADD);
        let length = if atomic { 8 } else { u32::from(length) };
        let mut wqe = vec![0; WqeCtrl::BYTES];
        if opcode != WqeOpcode::SEND {
            wqe.extend(WqeRemote::new().with_remote_addr(0x8000).with_rkey(7).as_bytes());
        }
        if atomic {
            wqe.extend(WqeAtomic::new().as_bytes());
        }
        wqe.extend(WqeSge::new().with_addr(LOCAL + 8).with_length(length).with_lkey(key(0)).as_bytes());
        let ctrl = WqeCtrl::new()
            .with_opcode(opcode)
            .with_ds((wqe.len() / 16) as u8)
            .with_num_sge(1)
            .with_length(length);
        wqe[..WqeCtrl::BYTES].copy_from_slice(ctrl.with_signaled(true).as_bytes());
        self.env.put(ring(n, SEND) + u64::from(producer % ENTRIES) * 64, &wqe);
        self.env.bells.qp[FIRST + n].sq.store(producer.wrapping_add(1), Relaxed);
        self.waiting[n][0].push(producer);
        self.card.run_send(FIRST + n, &mut self.env);
    }

    /// The packet for a queue pair.
    pub fn packet(&self, n: usize, raw: &Raw) -> Packet {
        let qp = self.qp(n);
        let mut p = Packet::BLANK;
        let transport = match raw.operation {
            Operation::CongestionNotification => Transport::CNP,
            _ => raw.transport.unwrap_or(qp.transport()),
        };
        let [first, last, ack_req, solicited, ipv6, unread] = raw.flags;
        (p.operation, p.transport) = (raw.operation, transport);
        (p.src, p.dst, p.dest_qpn, p.src_qpn) = (qp.dest, qp.port, qp.qpn, qp.dest_qpn);
        // Often what continues the message that there is.
        let continues = qp.resp.op != IDLE;
        (p.first, p.last) = (if raw.number % 8 != 0 { !continues } else { first }, last);
        (p.ack_req, p.solicited) = (ack_req, solicited);
        p.encapsulation = if ipv6 { Encapsulation::UDP_IPV6 } else { Encapsulation::UDP_IPV4 };
        let has = matches!(p.operation, Operation::Send | Operation::Write | Operation::ReadResponse);
        if has {
            p.count = raw.count;
        } else {
            (p.first, p.last) = (true, true);
        }
        let expected = if p.is_answer() { qp.req.una } else { qp.resp.epsn };
        p.psn = psn::add(expected, raw.ahead as u32 & 0xff_ffff);
        let tail = match raw.length {
            0 => u32::from(raw.tail) % (MTU + 40),
            1 => 0,
            _ if p.last => u32::from(raw.tail) % MTU + 1,
            _ => MTU,
        };
        let len = (p.count - 1) * MTU + tail;
        // The last part of a WRITE mostly has what is left of it.
        let left = qp.resp.length.saturating_sub(qp.resp.offset);
        let len =
            if p.operation == Operation::Write && p.last && !p.first && raw.length > 2 { left } else { len };
        let domain = if unread && raw.number % 16 == 1 { ABSENT } else { PEER };
        if has && len != 0 {
            p.payload = Payload::Memory(Addr { iova: 0, domain }, len);
        }
        (p.syndrome, p.msn, p.missing) = (Syndrome(raw.syndrome), raw.msn, (raw.msn >> 8) as u8 & 0x7f);
        p.rkey = if raw.key < KEYS.len() { key(raw.key) } else { raw.number as u32 };
        p.va = KEYS.get(raw.key).map_or(0, |k| k.1).wrapping_add(raw.at);
        let atomic = matches!(p.operation, Operation::CompareSwap | Operation::FetchAdd);
        if atomic && raw.number % 4 != 0 {
            p.va &= !7;
        }
        p.dma_len =
            if p.operation == Operation::Write && p.last && raw.length > 2 { len } else { raw.dma_len };
        (p.swap_add, p.compare, p.qkey) =
            (raw.number, raw.number >> 1, QKEY ^ u32::from(raw.number % 16 == 3));
        p.srqn = if raw.number % 8 == 5 { raw.number as u32 & 0xff_ffff } else { (EXTENDED - FIRST) as u32 };
        p.extra = match raw.extra {
            0 | 1 if p.last => Extra::Immediate,
            2 if p.last && p.operation == Operation::Send => Extra::Invalidate,
            _ => Extra::None,
        };
        p.imm = if raw.number % 64 == 9 { key(3) } else { 0x1_2345 };
        p
    }

    /// One of the last packets of a queue pair arrives again.
    pub fn repeat(&mut self, n: usize, back: usize) {
        if let Some(p) = self.arrived[n].get(back).copied() {
            self.arrive(n, &p);
        }
    }

    /// A packet arrives. Checks what it did to memory.
    pub fn arrive(&mut self, n: usize, p: &Packet) {
        if !p.opcode().is_known() {
            // No frame is that.
            return;
        }
        self.arrived[n].push_front(*p);
        self.arrived[n].truncate(KEPT);
        let before = *self.qp(n);
        // Packets that were kept may be taken with it.
        let keeps = self.card.reorder.limit() != 0;
        self.env.touched.clear();
        self.env.atomics = 0;
        match self.card.receive(p, &mut self.env) {
            Outcome::Done | Outcome::Management => {}
            Outcome::Acknowledge { psn, to } => {
                assert_eq!(to, before.dest_qpn);
                // Packets that were kept may follow, which ask for no acknowledgement.
                let behind = psn::diff(psn::sub(self.qp(n).resp.epsn, 1), psn);
                assert!(behind == 0 || keeps && behind > 0, "{p:?}: PSN {psn} is acknowledged");
                self.card.send_plain_ack(p, psn, &mut self.env);
            }
            // It was this card's own or the peer's, which would be told.
            Outcome::Unread => {}
        }
        // A train may begin with what was received before: the rest goes on with the message that there is.
        let new = psn::diff(before.resp.epsn, p.psn);
        let expected = p.is_answer() || (0..p.count as i32).contains(&new) || !before.is_reliable();
        let rest = before.is_reliable() && (1..p.count as i32).contains(&new);
        let (va, rkey, len) = match p.first && !rest {
            true => (p.va, p.rkey, u64::from(p.dma_len)),
            false => (before.resp.va, before.resp.rkey, u64::from(before.resp.length)),
        };
        let within = |name: usize, from: u64, len: u64| (KEYS[name].0 + from, len);
        let named = (0..KEYS.len()).find(|&k| key(k) == rkey);
        let (at, len) = match (p.operation, named) {
            (Operation::Send, _) => within(1, 64, u64::from(3 * MTU)),
            (Operation::ReadResponse | Operation::AtomicAcknowledge, _) => within(0, 8, REGION - 8),
            (Operation::Write, Some(k)) if KEYS[k].2 .0 & Access::REMOTE_WRITE.0 != 0 && KEYS[k].3 == 1 => {
                within(k, va.wrapping_sub(KEYS[k].1), len)
            }
            (Operation::CompareSwap | Operation::FetchAdd, Some(2)) => {
                within(2, p.va.wrapping_sub(KEYS[2].1), 8)
            }
            _ => (0, 0),
        };
        // Of those that were kept: that they write where some may.
        let anywhere = [within(0, 8, REGION - 8), within(1, 64, u64::from(3 * MTU)), within(2, 0, REGION)];
        for &(from, count) in &self.env.touched {
            assert!(expected, "{p:?} is not in order, and writes");
            let inside = |&(at, len): &(u64, u64)| from >= at && from + count <= at + len;
            let may = inside(&(at, len)) || keeps && anywhere.iter().any(inside);
            assert!(may, "{p:?} writes {count} bytes at {from:#x}");
            assert!(from + count <= (from & !(REGION - 1)) + REGION, "{p:?} leaves its region");
        }
        let moved = psn::diff(self.qp(n).resp.epsn, before.resp.epsn);
        let most = if keeps { moved.max(0) as u32 } else { u32::from(moved == 1) };
        assert!(self.env.atomics <= most, "{p:?}: an atomic");
        assert!(moved >= 0 || !before.is_reliable());
    }

    /// What holds after each step.
    pub fn check(&mut self) {
        for n in 0..TYPES.len() {
            let qp = self.qp(n);
            let req = &qp.req;
            for number in [qp.resp.epsn, qp.resp.msn, req.psn, req.una, req.ci_psn] {
                assert_eq!(number >> 24, 0, "a PSN has 24 bits");
            }
            let under_way = psn::diff(qp.sent(), req.una);
            assert!((0..1 << 23).contains(&under_way), "{under_way} PSNs outstanding");
            assert!(psn::diff(req.psn, req.una) >= 0 && usize::from(req.rd_out) <= RESOURCES);
            assert!(req.retry <= 7 && req.rnr <= 7);
            let producer = self.env.bells.sq_producer(FIRST + n);
            assert!(producer.wrapping_sub(req.ci) <= ENTRIES && producer.wrapping_sub(req.cur) <= ENTRIES);
        }
        self.reap();
        for place in 0..COUNTERS {
            let now = self.card.counters[0].0[place].load(Relaxed);
            let before = self.counted.insert(place, now).unwrap_or(0);
            // What is sent again is most: all that fits a queue.
            let most = 5 * u64::from(ENTRIES) * 1200 / u64::from(MTU);
            let bytes =
                [port::TX_BYTES, port::RX_BYTES].map(|register| (register - port::TX_PACKETS) as usize / 8);
            let each = if bytes.contains(&place) { MAX_ROCE_FRAME as u64 } else { 1 };
            assert!(now >= before && now - before <= most * each, "counter {place}");
        }
    }

    /// Takes the completions: each is of what was posted, and comes once and in order.
    fn reap(&mut self) {
        for n in 0..TYPES.len() {
            let pi = self.card.cqs[n].pi;
            assert!(!self.card.cqs[n].overrun.get());
            while self.read[n] != pi {
                let at = ring(n, CQ) + u64::from(self.read[n] & 255) * 64;
                let cqe = Cqe::from_bytes(self.env.get(at));
                let waiting = &mut self.waiting[n][usize::from(cqe.recv())];
                assert_eq!(cqe.qpn() as usize, FIRST + n);
                assert!(!waiting.is_empty(), "a completion too many: {cqe:?}");
                assert_eq!(waiting.remove(0), cqe.wqe_index(), "{cqe:?} is out of order");
                self.read[n] = self.read[n].wrapping_add(1);
            }
            self.env.put(ring(n, CQ + 1), &pi.to_le_bytes());
        }
    }

    /// Every queue pair goes to error: what was posted completes, but for what is in an SRQ.
    pub fn end(&mut self) {
        for n in 0..TYPES.len() {
            let left = if self.qp(n).has_srq.get() {
                let posted = self.env.bells.srq_producer(n);
                posted.wrapping_sub(self.card.srqs[n].ci) as usize
            } else {
                0
            };
            if self.qp(n).state == QpState::SQE {
                self.card.run_send(FIRST + n, &mut self.env);
            }
            self.card.to_error(FIRST + n, &mut self.env);
            self.reap();
            assert_eq!(self.waiting[n].each_ref().map(Vec::len), [0, left], "a completion is lost");
        }
        // What no request names is as it was.
        for (at, len) in [(READABLE, REGION), (FOREIGN, REGION), (OPEN + REGION, READABLE - OPEN - REGION)] {
            assert!(self.env.memory[at as usize..][..len as usize].iter().all(|&byte| byte == MEMORY));
        }
    }
}
