//! Any packets come to queue pairs that are at work: nothing panics, memory is written only where the rules let it, and no
//! completion is lost or comes twice.

mod card;
mod cases;
mod surroundings;

use fpga_regs::{Access, Eqe, EventKind, QpState};
use proptest::prelude::*;
use proptest::sample::select;

use crate::dma::Addr;
use crate::packet::{Packet, Payload};
use crate::wire::{Operation, Transport};
use card::{ring, Card, FIRST, KEPT, MTU, TYPES};
use surroundings::{ALL, KEYS, PEER, REGION};

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    Packet(usize, Raw),
    /// One of the last packets comes again.
    Again(usize, usize),
    Receive(usize),
    Send(usize, u8, u16),
    /// So many microseconds pass.
    Time(u16),
}

/// A packet, but for what depends on the queue pair that it comes to.
#[derive(Clone, Debug)]
struct Raw {
    operation: Operation,
    transport: Option<Transport>,
    flags: [bool; 6],
    /// From what the queue pair expects.
    ahead: i32,
    count: u32,
    tail: u16,
    length: u8,
    key: usize,
    at: u64,
    dma_len: u32,
    syndrome: u8,
    msn: u32,
    extra: u8,
    number: u64,
}

fn packets() -> impl Strategy<Value = Raw> {
    use Operation::*;
    let operations = select(vec![
        Send,
        Send,
        Write,
        Write,
        Write,
        ReadRequest,
        CompareSwap,
        FetchAdd,
        Acknowledge,
        ReadResponse,
        AtomicAcknowledge,
        CongestionNotification,
    ]);
    let transports = select(vec![Transport::RC, Transport::UC, Transport::UD, Transport::XRC]);
    let ahead = prop_oneof![12 => Just(0), 4 => -3..4i32, 1 => -(1 << 23)..1 << 23];
    let at = prop_oneof![4 => Just(0u64), 4 => 0..REGION + 8, 1 => any::<u64>()];
    let dma_len = prop_oneof![4 => 0..3 * MTU, 1 => 0..2 * REGION as u32, 1 => any::<u32>()];
    let syndrome = prop_oneof![4 => 0u8..0x20, 2 => 0x20u8..0x40, 2 => 0x60u8..0x65, 1 => any::<u8>()];
    let place = (ahead, select(vec![1u32, 1, 1, 2, 5]), any::<u16>(), 0u8..6);
    let memory = (select(vec![2, 2, 2, 2, 0, 1, 3, 4, KEYS.len()]), at, dma_len);
    let rest = (syndrome, 0..1u32 << 24, 0u8..8, any::<u64>());
    (operations, prop::option::weighted(0.03, transports), any::<[bool; 6]>(), place, memory, rest).prop_map(
        |(operation, transport, flags, (ahead, count, tail, length), (key, at, dma_len), rest)| {
            let (syndrome, msn, extra, number) = rest;
            Raw {
                operation,
                transport,
                flags,
                ahead,
                count,
                tail,
                length,
                key,
                at,
                dma_len,
                syndrome,
                msn,
                extra,
                number,
            }
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let qp = || 0..TYPES.len();
    let step = prop_oneof![
        16 => (qp(), packets()).prop_map(|(qp, raw)| Step::Packet(qp, raw)),
        3 => (qp(), 0..KEPT).prop_map(|(qp, back)| Step::Again(qp, back)),
        3 => qp().prop_map(Step::Receive),
        3 => (qp(), 0u8..6, 0u16..1200).prop_map(|(qp, kind, length)| Step::Send(qp, kind, length)),
        1 => (0u16..2000).prop_map(Step::Time),
    ];
    prop::collection::vec(step, 1..120)
}

/// Lets this happen to queue pairs whose PSNs begin at `start`, and checks the card after each step.
fn play(start: u32, grants: Access, reorder: u32, steps: impl IntoIterator<Item = Step>) -> Card {
    let mut card = Card::new(start, grants, reorder);
    for step in steps {
        match step {
            Step::Packet(n, raw) => {
                let p = card.packet(n, &raw);
                card.arrive(n, &p);
            }
            Step::Again(n, back) => card.repeat(n, back),
            Step::Receive(n) => card.receive(n),
            Step::Send(n, kind, length) => card.send(n, kind, length),
            Step::Time(us) => {
                card.env.now += u64::from(us) * 1000;
                card.card.run_timers(&mut card.env, |_| {});
            }
        }
        while let Some(q) = card.env.next() {
            card.card.run_send(q, &mut card.env);
        }
        for q in std::mem::take(&mut card.env.watched) {
            card.card.arm_if_waiting(q, &mut card.env);
        }
        card.check();
    }
    card
}

/// A completion names its receive, or there is none.
#[test]
fn a_receive_that_cannot_be_read() {
    for (n, shared) in [(0, false), (1, true)] {
        let mut card = Card::new(0, ALL, 0);
        let arrive = |card: &mut Card| {
            let qp = &card.card.qps[FIRST + n];
            let mut p =
                Packet { operation: Operation::Send, first: true, last: true, count: 1, ..Packet::BLANK };
            (p.transport, p.src, p.dst, p.psn) = (Transport::RC, qp.dest, qp.port, qp.resp.epsn);
            (p.src_qpn, p.dest_qpn) = (qp.dest_qpn, qp.qpn);
            p.payload = Payload::Memory(Addr { iova: 0, domain: PEER }, 64);
            card.arrive(n, &p);
            // Takes the completions, which are of the oldest receive.
            card.check();
        };
        (0..2).for_each(|_| card.receive(n));
        arrive(&mut card);
        assert_eq!((card.card.qps[FIRST + n].state, card.card.cqs[n].pi), (QpState::RTS, 1));
        (card.card.qps[FIRST].rq_iova, card.card.srqs[1].ring) = (1 << 40, 1 << 40);
        arrive(&mut card);
        let completed = card.card.cqs[n].pi;
        assert_eq!((card.card.qps[FIRST + n].state, completed), (QpState::ERR, if shared { 1 } else { 2 }));
        let events = u64::from(card.card.functions[0].eqs[0].pi);
        let failed = (0..events).any(|at| {
            Eqe::from_bytes(card.env.get(ring(TYPES.len(), 0) + at * Eqe::BYTES as u64)).kind()
                == EventKind::SRQ_ERR
        });
        assert_eq!(failed, shared, "an SRQ that failed");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 4000, ..ProptestConfig::default() })]

    #[test]
    fn any_packets(
        start in prop_oneof![Just(0xff_fffcu32), 0..1u32 << 24],
        grants in select(vec![ALL, ALL, ALL, Access(0), Access::REMOTE_WRITE]),
        reorder in select(vec![0u32, 3, 128]),
        steps in steps(),
    ) {
        play(start, grants, reorder, steps).end();
    }
}
