//! Frames spread over receive work queues: which queue gets a frame, tables that change, queues that fail, and what is
//! refused.

use std::net::Ipv4Addr;
use std::sync::Arc;

use driver::{AttrMask, Flow, Offloads, Qp, QpAttr, Table};
use fpga_regs::{CqeStatus, EventKind, FlowContext, HashFields, QpState, QpType, WqeOpcode, SUITE_KEY};
use tests::{expect_async, on_one_and_two_cards, where_frames_wait, Drops, Options, Side, TestCard};

/// Connections over IPv4 of the same.
const SUITE: usize = 5;
const GROUP: [u8; 6] = [1, 0x50, 0x56, 0x19, 0x20, 0xa7];
/// Bytes of each receive.
const ROOM: usize = 2000;

/// The hash of one of them.
fn hash(n: usize) -> usize {
    tests::SUITE[n].4 as usize
}

type Queue = Arc<Qp<TestCard>>;

fn raw() -> Options {
    Options { qp_type: QpType::RAW_PACKET, depth: 32, bytes: 1 << 17, cqes: 256, ..Default::default() }
}

fn to(wq: &Queue, state: QpState) {
    wq.modify(&QpAttr { state, ..Default::default() }, AttrMask::STATE).expect("a step");
}

/// Work queues that take receives, and complete them to the side's CQ.
fn queues(y: &Side, count: usize) -> Vec<Queue> {
    let made = (0..count).map(|_| y.pd.create_wq(&y.cq, (32, 2), Offloads::default()).expect("a work queue"));
    made.inspect(|wq| to(wq, QpState::RTR)).collect()
}

fn post(y: &Side, wq: &Queue, wr_id: u64) {
    let mut post = wq.recv();
    post.push(wr_id, &[y.sge(0, ROOM)]).expect("room");
    post.ring();
}

/// A table that names the queues in turn.
fn table(y: &Side, queues: &[Queue], entries: usize) -> Arc<Table<TestCard>> {
    let all: Vec<Queue> = queues.iter().cycle().take(entries).cloned().collect();
    y.device.create_table(&all).expect("a table")
}

fn spread(y: &Side, table: &Arc<Table<TestCard>>) -> (Queue, Flow<TestCard>) {
    let qp = y.pd.create_hash_qp(table, HashFields::ALL, &SUITE_KEY).expect("a queue pair");
    let rule = FlowContext::new().with_port(1).with_dmac(GROUP).with_dmac_mask([0xff; 6]);
    let flow = qp.create_flow(&rule).expect("a rule");
    (qp, flow)
}

/// Posts a TCP segment of one of the suite's connections.
fn begin(x: &mut Side, wr_id: u64, n: usize) {
    let (to, to_port, from, from_port, _) = tests::SUITE[n];
    let [from, to] = [from, to].map(|ip| ip.parse::<Ipv4Addr>().expect("an address").octets());
    let mut frame = [&GROUP[..], &[2, 9, 9, 9, 9, 9, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 6, 0, 0]].concat();
    frame.extend([from, to].concat());
    frame.extend([from_port.to_be_bytes(), to_port.to_be_bytes()].concat());
    x.buffer[..frame.len()].copy_from_slice(&frame);
    x.post(&[x.wr(wr_id, WqeOpcode::RAW_ETH, &[x.sge(0, 60)])]);
}

fn send(x: &mut Side, wr_id: u64, n: usize) {
    begin(x, wr_id, n);
    x.expect(wr_id);
}

#[test]
fn each_frame_goes_to_the_queue_of_its_hash() {
    on_one_and_two_cards(raw(), |x, y| {
        for entries in [4, 128, 512] {
            let queues = queues(y, 4);
            let table = table(y, &queues, entries);
            let (_qp, _flow) = spread(y, &table);
            queues.iter().for_each(|wq| (0..10).for_each(|n| post(y, wq, n)));
            for n in 0..SUITE {
                send(x, n as u64, n);
                let wc = y.wait();
                let expected = queues[hash(n) % entries % 4].qpn();
                assert_eq!((wc.status, wc.qpn, wc.byte_len), (CqeStatus::SUCCESS, expected, 60));
                assert!(y.buffer[..60] == x.buffer[..60]);
            }
        }
    });
}

#[test]
fn a_table_changes_between_two_frames() {
    on_one_and_two_cards(raw(), |x, y| {
        let queues = queues(y, 2);
        let table = table(y, &queues[..1], 128);
        let (_qp, _flow) = spread(y, &table);
        for round in 0..8 {
            let wq = &queues[round % 2];
            table.modify(&vec![wq.clone(); 128]).expect("it changes");
            assert!(table.queues().iter().all(|queue| queue.qpn() == wq.qpn()));
            for n in 0..SUITE {
                post(y, wq, n as u64);
                send(x, n as u64, n);
                assert_eq!(y.expect(n as u64).qpn, wq.qpn());
            }
        }
        assert!(table.modify(&queues).is_err(), "its size stays");
    });
}

#[test]
fn a_frame_waits_for_a_receive_of_its_queue() {
    where_frames_wait(raw(), |x, y| {
        let queues = queues(y, 2);
        let table = table(y, &queues, 2);
        let (_qp, _flow) = spread(y, &table);
        let of = |n: usize| &queues[hash(n) % 2];
        // Receives of another queue are of no use to it.
        let other = queues.iter().find(|wq| wq.qpn() != of(0).qpn()).expect("two queues");
        post(y, other, 7);
        let drops = Drops::new(x, y);
        begin(x, 0, 0);
        drops.waits(x)?;
        post(y, of(0), 3);
        x.expect(0);
        assert_eq!(drops.come(y, 3)?.qpn, of(0).qpn());
        Some(())
    });
}

#[test]
fn a_queue_that_fails_flushes_what_it_has() {
    on_one_and_two_cards(raw(), |x, y| {
        let queues = queues(y, 1);
        let wq = &queues[0];
        let table = table(y, &queues, 1);
        let (_qp, _flow) = spread(y, &table);
        let mut short = wq.recv();
        short.push(0, &[y.sge(0, 59)]).expect("room");
        short.ring();
        post(y, wq, 1);
        send(x, 0, 0);
        y.expect_status(0, CqeStatus::LOC_LEN_ERR);
        y.expect_flushed([1]);
        expect_async(&y.device, EventKind::WQ_FATAL, wq.qpn());
        post(y, wq, 2);
        y.expect_flushed([2]);
        // Nobody waits for it, and it works again after RESET.
        send(x, 1, 0);
        let current = QpAttr { state: QpState::RESET, cur_state: QpState::RTR, ..Default::default() };
        assert!(wq.modify(&current, AttrMask::STATE | AttrMask::CUR_STATE).is_err(), "it is in ERR");
        to(wq, QpState::RESET);
        assert!(wq.recv().push(0, &[y.sge(0, ROOM)]).is_err(), "no receives in RESET");
        to(wq, QpState::RTR);
        post(y, wq, 3);
        send(x, 2, 1);
        y.expect(3);
    });
}

#[test]
fn a_queue_whose_cq_overruns_says_so() {
    on_one_and_two_cards(raw(), |x, y| {
        let cq = y.device.create_cq(1, 0).expect("a CQ");
        let wq = y.pd.create_wq(&cq, (8, 1), Offloads::default()).expect("a work queue");
        to(&wq, QpState::RTR);
        let table = table(y, std::slice::from_ref(&wq), 1);
        let (_qp, _flow) = spread(y, &table);
        (0..4).for_each(|n| post(y, &wq, n));
        (0..3).for_each(|n| send(x, n, 0));
        expect_async(&y.device, EventKind::CQ_ERR, cq.cqn());
        expect_async(&y.device, EventKind::WQ_FATAL, wq.qpn());
    });
}

#[test]
fn what_is_in_use_cannot_be_destroyed() {
    on_one_and_two_cards(raw(), |_, y| {
        let queues = queues(y, 2);
        let table = table(y, &queues, 2);
        let (qp, flow) = spread(y, &table);
        let busy = |result: driver::Result<()>| {
            assert_eq!(result.expect_err("it is in use").errno(), libc::EBUSY);
        };
        busy(qp.destroy());
        busy(table.destroy());
        busy(queues[0].destroy());
        flow.destroy().expect("it ends");
        busy(table.destroy());
        qp.destroy().expect("it ends");
        busy(queues[1].destroy());
        table.destroy().expect("it ends");
        queues.iter().for_each(|wq| wq.destroy().expect("it ends"));
    });
}

#[test]
fn what_makes_no_sense_is_refused() {
    on_one_and_two_cards(raw(), |_, y| {
        assert!(y.pd.create_wq(&y.cq, (0, 1), Offloads::default()).is_err(), "no receives");
        let queues = queues(y, 2);
        let many = |count| queues.iter().cycle().take(count).cloned().collect::<Vec<_>>();
        for count in [0, 3, 1024] {
            assert!(y.device.create_table(&many(count)).is_err(), "{count} entries");
        }
        assert!(y.device.create_table(std::slice::from_ref(&y.qp)).is_err(), "no work queue");
        let table = table(y, &queues, 2);
        let unknown = y.pd.create_hash_qp(&table, HashFields(1 << 8), &SUITE_KEY);
        assert_eq!(unknown.map(drop).expect_err("fields").errno(), libc::EOPNOTSUPP);
        let (qp, _flow) = spread(y, &table);
        let attr = QpAttr { state: QpState::INIT, port: 1, ..Default::default() };
        let moved = qp.modify(&attr, AttrMask::STATE | AttrMask::PORT);
        assert_eq!(moved.expect_err("it has no states").errno(), libc::EOPNOTSUPP);
        assert_eq!(qp.query().expect_err("nor attributes").errno(), libc::EOPNOTSUPP);
        let rule = FlowContext::new().with_port(1);
        assert!(queues[0].create_flow(&rule).is_err(), "rules name queue pairs");
        let attr = QpAttr { state: QpState::RTS, ..Default::default() };
        assert!(queues[0].modify(&attr, AttrMask::STATE).is_err(), "it does not send");
    });
}
