//! Any packets come to queue pairs that are at work: nothing panics, memory is written only where the rules let it, and no
//! completion is lost or comes twice.

mod card;
mod surroundings;

use fpga_regs::Access;
use proptest::prelude::*;
use proptest::sample::{select, Index};

use crate::wire::{Operation, Transport};
use card::{Card, KEPT, MTU, TYPES};
use surroundings::REGION;
use surroundings::{ALL, KEYS};

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
    tail: Index,
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
    let place = (ahead, select(vec![1u32, 1, 1, 2, 5]), any::<Index>(), 0u8..6);
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

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 4000, ..ProptestConfig::default() })]

    #[test]
    fn any_packets(
        start in prop_oneof![Just(0xff_fffcu32), 0..1u32 << 24],
        grants in select(vec![ALL, ALL, ALL, Access(0), Access::REMOTE_WRITE]),
        reorder in select(vec![0u32, 3, 128]),
        steps in steps(),
    ) {
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
                    card.card.run_timers(&mut card.env);
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
        card.end();
    }
}
