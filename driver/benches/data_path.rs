//! What posting and polling cost without a card behind them: nanoseconds a request, on 1 to 1024 QPs.
//!
//! The completions are written by the benchmark itself between the timed parts, so the card's share is
//! not in the figures, but the cache misses that its work would leave behind are in part.

#[path = "../tests/it/fake.rs"]
#[allow(dead_code, missing_docs)]
mod fake;
#[path = "../tests/it/script.rs"]
#[allow(dead_code, missing_docs)]
mod script;

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use driver::{
    AhAttr, AttrMask, Cq, Data, Device, Hints, Interrupts, Memory, Qp, QpAttr, QpCaps, QpInit, Registers,
    SendFlags, SendWr, Sge,
};
use fpga_regs::{Access, AdminOpcode, Cqe, QpState, QpType, WqeOpcode, DOORBELL_BASE};

/// The fake card with doorbells that are plain stores.
struct Quick(fake::Fake, AtomicU64);

macro_rules! fake {
    ($self:ident, $card:ident => $call:expr) => {{
        let $card = &$self.0;
        $call
    }};
}

impl Registers for Quick {
    driver::forward_card!(fake: access);

    #[inline]
    fn doorbell(&self, offset: u32, value: u64) {
        debug_assert!(offset >= DOORBELL_BASE);
        self.1.store(value, Ordering::Release);
    }
}

impl Memory for Quick {
    driver::forward_card!(fake: Memory);
}

impl Interrupts for Quick {
    driver::forward_card!(fake: Interrupts);
}

impl Hints for Quick {
    #[inline]
    fn relax(&self, _empty_polls: u32) {}
}

const DEPTH: u32 = 128;
const ROUNDS: u32 = 200;

/// A device, a CQ, and QPs that complete into it.
type Queues = (Arc<Device<Quick>>, Arc<Cq<Quick>>, Vec<Arc<Qp<Quick>>>);

fn queues(count: usize) -> Queues {
    let fake = fake::bare(script::features());
    let device = Device::open(Quick(fake, AtomicU64::new(0))).expect("the fake card opens");
    let pd = device.alloc_pd().expect("a PD");
    let cq = device.create_cq(4096, 0).expect("a CQ");
    let caps = QpCaps { max_send_wr: DEPTH, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
    let init = QpInit {
        qp_type: QpType::RC,
        send_cq: cq.clone(),
        recv_cq: cq.clone(),
        srq: None,
        caps,
        sq_sig_all: false,
    };
    let mut dgid = [0; 16];
    dgid[15] = 1;
    let attr = QpAttr {
        port: 1,
        path_mtu: 5,
        access: Access::REMOTE_WRITE,
        ah: AhAttr { grh: true, dgid, port: 1, ..AhAttr::default() },
        ..QpAttr::default()
    };
    let qps: Vec<_> = (0..count).map(|_| pd.create_qp(&init).expect("a QP")).collect();
    for qp in &qps {
        for (state, mask) in [(QpState::INIT, 0x39), (QpState::RTR, 0x129181), (QpState::RTS, 0x12e01)] {
            qp.modify(&QpAttr { state, ..attr }, AttrMask(mask)).expect("a step");
        }
    }
    (device, cq, qps)
}

/// The middle one, in nanoseconds: other programs' slices of the core fall away.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_nanos() as f64
}

/// Nanoseconds a post and a poll, posting one request to one QP after the other.
fn round_robin(count: usize, wr: &SendWr<'_>) -> (f64, f64) {
    let (device, cq, qps) = queues(count);
    let mut indices = vec![0u32; count];
    let (mut posting, mut polling) = (Vec::new(), Vec::new());
    // At most what the CQ holds, and no more than a QP's depth each.
    let batch = (count * DEPTH as usize).min(2048);
    let rounds = ROUNDS * 2048 / batch as u32;
    for _ in 0..rounds {
        let start = Instant::now();
        for n in 0..batch {
            let mut post = qps[n % count].send();
            post.push(&SendWr { wr_id: n as u64, ..*black_box(wr) }).expect("room");
            post.ring();
        }
        posting.push(start.elapsed());
        for n in 0..batch {
            let index = &mut indices[n % count];
            device
                .card()
                .0
                .complete(cq.cqn(), Cqe::new().with_qpn(qps[n % count].qpn()).with_wqe_index(*index));
            *index += 1;
        }
        let start = Instant::now();
        let mut left = batch;
        while left > 0 {
            left -= cq
                .poll(16, |wc| {
                    black_box(wc);
                })
                .expect("a poll");
        }
        polling.push(start.elapsed());
    }
    assert_eq!(device.card().0.objects(AdminOpcode::CREATE_QP), count);
    (median(posting) / batch as f64, median(polling) / batch as f64)
}

/// Nanoseconds a request in chains of 32.
fn chained(wr: &SendWr<'_>) -> f64 {
    let (device, cq, qps) = queues(1);
    let mut posting = Vec::new();
    let mut index = 0;
    for _ in 0..ROUNDS * 10 {
        let start = Instant::now();
        for _ in 0..4 {
            let mut post = qps[0].send();
            for _ in 0..32 {
                post.push(black_box(wr)).expect("room");
            }
            post.ring();
        }
        posting.push(start.elapsed());
        index += 128;
        device.card().0.complete(cq.cqn(), Cqe::new().with_qpn(qps[0].qpn()).with_wqe_index(index - 1));
        assert_eq!(cq.poll(1, |_| ()), Ok(1));
    }
    median(posting) / 128.0
}

fn main() {
    let sge = [Sge { addr: 0x1000, length: 8, lkey: 1 }];
    let wr = SendWr {
        opcode: WqeOpcode::WRITE,
        flags: SendFlags::SIGNALED,
        remote_addr: 0x2000,
        rkey: 2,
        data: Data::Sges(&sge),
        ..SendWr::default()
    };
    // A second thread exists, as in a program with events, so locks are real ones.
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || stopped.recv());
    println!("8-byte WRITE, ns a request       post   poll");
    for count in [1, 16, 256, 1024] {
        let (post, poll) = round_robin(count, &wr);
        println!("one doorbell each, {count:4} QPs    {post:6.1} {poll:6.1}");
    }
    println!("chains of 32, 1 QP             {:6.1}", chained(&wr));
    drop(stop);
    let _ = thread.join();
}
