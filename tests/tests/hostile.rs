//! A program that writes nonsense into its queues and rings any doorbell harms itself only.
//!
//! The seed is printed; `VERBENA_SEED=n` runs a certain one again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use driver::{CardError, Device, DmaMemory, Hints, Interrupts, Memory, Registers, SendWr, Sge};
use fpga_regs::{QpType, RecvHead, WqeCtrl, WqeOpcode, WqeRemote, WqeSge};
use fpga_regs::{
    RqDoorbell, SqDoorbell, SrqDoorbell, DOORBELL_CQ_ARM, DOORBELL_RQ, DOORBELL_SQ, DOORBELL_SRQ,
};
use model::attach::SegmentCard;
use tests::{connect, Net, Options, Peer, Random};

/// Memory of the card by address and length.
type Queues = Arc<Mutex<Vec<(usize, usize)>>>;

/// A card whose user remembers where its queues are.
struct Spy {
    card: SegmentCard,
    queues: Queues,
}

macro_rules! spied {
    ($self:ident, $card:ident => $call:expr) => {{
        let $card = &$self.card;
        $call
    }};
}

impl Registers for Spy {
    driver::forward_card!(spied: Registers);
}

impl Memory for Spy {
    fn alloc(&self, bytes: usize) -> Result<DmaMemory, CardError> {
        let memory = self.card.alloc(bytes)?;
        self.queues.lock().expect("no panic").push((memory.ptr as usize, bytes));
        Ok(memory)
    }

    fn free(&self, memory: DmaMemory) {
        self.queues.lock().expect("no panic").retain(|queue| queue.0 != memory.ptr as usize);
        self.card.free(memory);
    }

    fn map(&self, addr: *mut u8, len: usize, writable: bool) -> Result<u64, CardError> {
        self.card.map(addr, len, writable)
    }

    fn unmap(&self, iova: u64, addr: *mut u8, len: usize) {
        self.card.unmap(iova, addr, len);
    }
}

impl Interrupts for Spy {
    driver::forward_card!(spied: Interrupts);
}

impl Hints for Spy {
    driver::forward_card!(spied: Hints);
}

/// What WQEs are made of, besides noise.
struct Parts {
    /// Percent of what is wrong.
    flaws: u64,
    /// Key and first address of each side's memory: first those of the sender, then the peer's.
    own: [(u32, u64); 2],
    /// What it has no right to.
    foreign: Vec<(u32, u64)>,
}

impl Parts {
    fn flawed(&self, random: &mut Random) -> bool {
        random.below(100) < self.flaws
    }

    /// A key and an address of one's own memory (0) or the peer's (1), or what is none.
    fn place(&self, whose: usize, random: &mut Random) -> (u32, u64) {
        let (mut key, mut address) = self.own[whose];
        address += random.below(8000);
        if self.flawed(random) {
            key = random.of(&self.foreign).0;
        }
        if self.flawed(random) {
            address = random.of(&self.foreign).1.wrapping_add(random.below(64)).wrapping_sub(32);
        }
        (key, address)
    }

    fn sge(&self, length: u32, random: &mut Random) -> [u8; 16] {
        let (key, address) = self.place(0, random);
        let length = if self.flawed(random) { random.next() as u32 } else { length };
        *WqeSge::new().with_addr(address).with_length(length).with_lkey(key).as_bytes()
    }

    /// A send WQE that makes sense or nearly so.
    fn send(&self, random: &mut Random) -> Vec<u8> {
        let sends = [WqeOpcode::SEND, WqeOpcode::SEND_WITH_IMM, WqeOpcode::SEND_WITH_INV];
        let mut opcode = WqeOpcode(random.below(9) as u8);
        if opcode == WqeOpcode::SEND_WITH_INV || self.flawed(random) {
            opcode = WqeOpcode(random.below(14) as u8);
        }
        let atomic = matches!(opcode, WqeOpcode::CMP_SWAP | WqeOpcode::FETCH_ADD);
        let count = if atomic { 1 } else { random.below(5) as u8 };
        let mut wqe = vec![0; WqeCtrl::BYTES];
        if !sends.contains(&opcode) && opcode != WqeOpcode::NOP {
            let (key, address) = self.place(1, random);
            wqe.extend(WqeRemote::new().with_remote_addr(address & !7).with_rkey(key).as_bytes());
        }
        if atomic {
            wqe.extend([7; 16]);
        }
        let mut length = 0;
        for _ in 0..count {
            let piece = if atomic { 8 } else { random.below(1500) as u32 };
            length += piece;
            wqe.extend(self.sge(piece, random));
        }
        let ctrl = WqeCtrl::new()
            .with_opcode(opcode)
            .with_ds((wqe.len() / 16) as u8)
            .with_flags(random.next() as u8 & 7)
            .with_num_sge(count)
            .with_length(length)
            .with_imm(self.place(1, random).0);
        wqe[..WqeCtrl::BYTES].copy_from_slice(ctrl.as_bytes());
        if self.flawed(random) {
            let at = random.below(wqe.len() as u64) as usize;
            wqe[at] = random.next() as u8;
        }
        wqe.resize(wqe.len().next_multiple_of(64), 0);
        wqe
    }

    /// A receive WQE, or nearly one, of the size that the receive queue has.
    fn receive(&self, random: &mut Random) -> Vec<u8> {
        let count = if self.flawed(random) { random.next() as u8 } else { 1 + random.below(4) as u8 };
        let mut wqe =
            RecvHead::new().with_num_sge(count).with_index(random.next() as u32).as_bytes().to_vec();
        (0..4).for_each(|_| wqe.extend(self.sge(2000, random)));
        wqe.resize(128, 0);
        wqe
    }

    /// Writes WQEs and nonsense over a queue.
    fn scribble(&self, at: usize, sends: bool, random: &mut Random) {
        // SAFETY: the queue pair's own memory; the driver does not use it meanwhile.
        #[allow(unsafe_code)]
        let memory = unsafe { std::slice::from_raw_parts_mut(at as *mut u8, RING) };
        let mut at = 0;
        while at < RING {
            let mut piece = if sends { self.send(random) } else { self.receive(random) };
            if self.flawed(random) {
                random.fill(&mut piece);
            }
            piece.truncate(RING - at);
            memory[at..at + piece.len()].copy_from_slice(&piece);
            at += piece.len();
        }
    }
}

/// Bytes that the queues of this test have at least.
const RING: usize = 8192;

/// Where the send queue and the receive queue of a new QP begin: what was posted and taken back is found
/// there.
fn rings(peer: &Peer<Spy>, memory: &Queues, random: &mut Random) -> [usize; 2] {
    let marks = [random.next(), random.next()];
    let mut chain = peer.qp.send();
    chain.push(&SendWr { imm: marks[0] as u32, ..Default::default() }).expect("a NOP");
    drop(chain);
    let mut chain = peer.qp.recv();
    chain.push(0, &[Sge { addr: marks[1], length: 0, lkey: 0 }]).expect("a receive");
    drop(chain);
    let memory = memory.lock().expect("no panic");
    let find = |mark: &[u8], offset: usize| {
        let mut places = memory.iter().flat_map(|&(at, bytes)| (at..at + bytes).step_by(64));
        // SAFETY: the driver's memory, which is not used by another thread.
        #[allow(unsafe_code)]
        let holds =
            |at: usize| unsafe { std::slice::from_raw_parts((at + offset) as *const u8, mark.len()) } == mark;
        places.rfind(|&at| holds(at)).expect("the queue is in memory of the card")
    };
    [find(&(marks[0] as u32).to_le_bytes(), 12), find(&marks[1].to_le_bytes(), 16)]
}

fn open(net: &Net, card: u32) -> (Arc<Device<Spy>>, Queues) {
    let queues = Queues::default();
    let spy =
        Spy { card: SegmentCard::open(&net.socket(), card).expect("the card opens"), queues: queues.clone() };
    (Device::open(spy).expect("the card comes up"), queues)
}

#[test]
fn nonsense_in_the_queues_harms_nobody_else() {
    let mut random = Random::seeded();
    let net = Net::new(2);
    // Two who mind their own business, on the same cards.
    let (mut x, mut y) = net.pair(Options { bytes: 1 << 16, ..Default::default() });
    x.buffer.pattern(1);
    y.buffer.pattern(2);
    let mine = [x.buffer.to_vec(), y.buffer.to_vec()];
    let ((a, queues), (b, others)) = (open(&net, 0), open(&net, 1));
    for round in 0..400u64 {
        let qp_type = random.of(&[QpType::RC, QpType::RC, QpType::UC, QpType::UD]);
        let options = Options {
            qp_type,
            bytes: 1 << 14,
            retry_cnt: 1,
            rnr_retry: random.below(8) as u8,
            ..Default::default()
        };
        let (p, q) = connect(&a, &b, options);
        let flaws = random.of(&[0, 1, 3, 30]);
        let foreign = vec![
            (x.mr.lkey(), x.buffer.addr(0)),
            (y.mr.lkey(), y.buffer.addr(0)),
            (p.mr.lkey() ^ 1, p.buffer.addr(1 << 14)),
            (random.next() as u32, u64::MAX),
            (0, 0),
        ];
        for ((peer, memory), own) in [(&p, &queues), (&q, &others)].into_iter().zip([[&p, &q], [&q, &p]]) {
            let own = own.map(|side| (side.mr.lkey(), side.buffer.addr(0)));
            let parts = Parts { flaws, own, foreign: foreign.clone() };
            let [sends, receives] = rings(peer, memory, &mut random);
            parts.scribble(sends, true, &mut random);
            parts.scribble(receives, false, &mut random);
        }
        let doorbell = |device: &Arc<Device<Spy>>, at, value| {
            device.card().doorbell(fpga_regs::doorbell_page(0) + at, value)
        };
        doorbell(&a, DOORBELL_RQ, RqDoorbell::new(p.qp.qpn(), 64).0);
        doorbell(&b, DOORBELL_RQ, RqDoorbell::new(q.qp.qpn(), 64).0);
        let mut heads = [0, 0, 64, 0u32];
        for _ in 0..random.below(60) {
            let (device, qpn) = if random.below(2) == 0 { (&a, p.qp.qpn()) } else { (&b, q.qp.qpn()) };
            let which = random.below(4) as usize;
            // Mostly a few blocks further, sometimes anywhere.
            let step = if random.below(150) == 0 { random.next() as u32 } else { random.below(12) as u32 };
            heads[which] = heads[which].wrapping_add(step);
            let qpn = match random.below(50) {
                0 => random.next() as u32 & 0xff_ffff,
                // The doorbells of those two, which only they can ring.
                1 => x.qp.qpn(),
                2 => y.qp.qpn(),
                _ => qpn,
            };
            let (at, value) = match which {
                0 | 1 => (DOORBELL_SQ, SqDoorbell::new(qpn, heads[which]).0),
                2 => (DOORBELL_RQ, RqDoorbell::new(qpn, heads[which]).0),
                _ if random.below(2) == 0 => {
                    (DOORBELL_SRQ, SrqDoorbell::new(random.below(2000) as u32, heads[which]).0)
                }
                _ => (DOORBELL_CQ_ARM, random.next() & !0xff_ffff | random.below(20_000)),
            };
            doorbell(device, at, value);
        }
        while let (Ok(Some(_)), _) | (_, Ok(Some(_))) =
            (a.next_event(Duration::ZERO), b.next_event(Duration::ZERO))
        {}
        // The two are as well as ever, and nobody has touched their memory.
        assert!(
            x.buffer[..] == mine[0][..] && y.buffer[..] == mine[1][..],
            "round {round}: foreign memory was written"
        );
        x.post(&[
            x.remote(round, WqeOpcode::READ, &[x.sge(0, 100)], &y, 0),
            x.remote(round, WqeOpcode::WRITE, &[x.sge(0, 100)], &y, 0),
        ]);
        x.expect(round);
        x.expect(round);
        x.buffer[..100].copy_from_slice(&mine[0][..100]);
        y.buffer[..100].copy_from_slice(&mine[1][..100]);
        x.quiet();
        y.quiet();
    }
}
