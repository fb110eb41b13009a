//! Short messages on the express lane: what comes of them is what comes of the same messages as packets.
//!
//! Random posts of mostly plain messages, with mistakes of every kind among them, are run on a net where nobody
//! looks at the wire and on one whose packets are frames; everything that a program can see must be the same. The
//! seed is printed; `VERBENA_SEED=n` runs a certain one again.

mod seeded;

use std::sync::Arc;

use driver::{Data, Device, Mr, Qp, SendFlags, SendWr, Sge};
use fpga_regs::{Access, CqeStatus, QpState, WqeOpcode};
use model::link::Wire;
use proptest::prelude::*;
use tests::{connect, join, Net, Options, Side, TestCard};

/// Bytes of memory of each side.
const BYTES: usize = 16 * 1024;
/// Lengths around those that nothing, a WQE and a packet have; the path MTU is 1024. What goes in several packets is
/// counted as one where it is dropped as one.
const LENGTHS: [usize; 13] = [0, 1, 3, 8, 16, 31, 32, 33, 48, 64, 1000, 1023, 1024];

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    Nothing,
    LocalKey,
    RemoteKey,
    BeyondTheRegion,
    NoReceive,
    ShortReceive,
    ReceiveKey,
    TwoElements,
}

/// One post of one to three messages.
#[derive(Clone, Debug)]
struct Step {
    second_sends: bool,
    messages: Vec<Message>,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    opcode: WqeOpcode,
    length: usize,
    from: usize,
    to: usize,
    flags: SendFlags,
    inline: bool,
    mistake: Mistake,
}

fn message() -> impl Strategy<Value = Message> {
    use Mistake as M;
    let opcode = prop_oneof![
        6 => Just(WqeOpcode::WRITE), 6 => Just(WqeOpcode::SEND), 1 => Just(WqeOpcode::SEND_WITH_IMM),
        1 => Just(WqeOpcode::READ), 1 => Just(WqeOpcode::WRITE_WITH_IMM)
    ];
    let mistake = prop_oneof![
        40 => Just(M::Nothing), 1 => Just(M::LocalKey), 1 => Just(M::RemoteKey), 1 => Just(M::BeyondTheRegion),
        1 => Just(M::NoReceive), 1 => Just(M::ShortReceive), 1 => Just(M::ReceiveKey), 3 => Just(M::TwoElements)
    ];
    let flags = any::<[bool; 3]>().prop_map(|[signaled, solicited, fence]| {
        let mut flags = SendFlags::empty();
        flags.set(SendFlags::SIGNALED, signaled);
        flags.set(SendFlags::SOLICITED, solicited);
        flags.set(SendFlags::FENCE, fence);
        flags
    });
    let places = (0..BYTES / 2 - 1100, BYTES / 2..BYTES - 1100);
    (opcode, prop::sample::select(&LENGTHS[..]), places, flags, any::<bool>(), mistake).prop_map(
        |(opcode, length, (from, to), flags, inline, mistake)| Message {
            opcode,
            length,
            from,
            to,
            flags,
            inline: inline && length <= 64 && opcode != WqeOpcode::READ,
            mistake,
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (any::<bool>(), prop::collection::vec(message(), 1..4))
        .prop_map(|(second_sends, messages)| Step { second_sends, messages });
    prop::collection::vec(step, 1..40)
}

/// Two connected sides, and what they have seen.
struct Run {
    devices: [Arc<Device<TestCard>>; 2],
    sides: [Side; 2],
    seen: Vec<String>,
}

impl Run {
    fn new(devices: [Arc<Device<TestCard>>; 2]) -> Run {
        let sides = Run::sides(&devices);
        Run { devices, sides, seen: Vec::new() }
    }

    fn sides([a, b]: &[Arc<Device<TestCard>>; 2]) -> [Side; 2] {
        // Nobody waits for a receive that is not there.
        let options = Options { bytes: BYTES, rnr_retry: 0, timeout: 0, ..Options::default() };
        let (mut x, mut y) = connect(a, b, options);
        x.buffer.pattern(1);
        y.buffer.pattern(2);
        [x, y]
    }

    fn post(&mut self, step: &Step) {
        let [x, y] = &self.sides;
        let (own, peer) = if step.second_sends { (y, x) } else { (x, y) };
        for (n, message) in step.messages.iter().enumerate() {
            let mut sge = [peer.sge(message.to, message.length)];
            match message.mistake {
                _ if matches!(message.opcode, WqeOpcode::WRITE | WqeOpcode::READ) => continue,
                Mistake::NoReceive => continue,
                Mistake::ShortReceive => sge[0].length /= 2,
                Mistake::ReceiveKey => sge[0].lkey ^= 1,
                _ => {}
            }
            peer.recv(100 + n as u64, &sge);
        }
        let lists: Vec<Vec<Sge>> = step.messages.iter().map(|m| elements(own, m)).collect();
        let bytes: Vec<Vec<u8>> =
            step.messages.iter().map(|m| own.buffer[m.from..m.from + m.length].to_vec()).collect();
        let wrs = step.messages.iter().enumerate().map(|(n, m)| {
            let data = if m.inline { Data::Bytes(&bytes[n]) } else { Data::Sges(&lists[n]) };
            let mut wr =
                SendWr { data, flags: m.flags, imm: 7, ..own.remote(n as u64, m.opcode, &[], peer, m.to) };
            match m.mistake {
                Mistake::RemoteKey => wr.rkey ^= 1,
                Mistake::BeyondTheRegion => wr.remote_addr += (BYTES - m.to) as u64,
                _ => {}
            }
            wr
        });
        own.post(&wrs.collect::<Vec<_>>());
    }

    /// Notes all that there is to see; after an error with new QPs.
    fn look(&mut self) {
        let mut failed = false;
        for (which, side) in self.sides.iter().enumerate() {
            while let Some(wc) = side.poll() {
                failed |= wc.status != CqeStatus::SUCCESS;
                let what = (wc.wr_id, wc.status, wc.opcode, wc.flags, wc.vendor_err, wc.byte_len, wc.imm);
                self.seen.push(format!("{which}: {what:?}"));
            }
            let attr = side.qp.query().expect("the QP");
            let sum = side.buffer.checksum();
            self.seen
                .push(format!("{which}: {:?} {:#x} {:#x} {sum:x}", attr.state, attr.sq_psn, attr.rq_psn));
            self.seen.push(format!(
                "{which}: {:?}",
                self.devices[which].query_port(1).expect("the port").counters
            ));
        }
        if failed {
            self.sides = Run::sides(&self.devices);
        }
    }
}

/// The elements of a message, with its mistakes.
fn elements(own: &Side, message: &Message) -> Vec<Sge> {
    let mut sge = own.sge(message.from, message.length);
    match message.mistake {
        Mistake::LocalKey => sge.lkey ^= 1,
        Mistake::TwoElements if message.length > 1 => {
            return vec![own.sge(message.from, 1), own.sge(message.from + 1, message.length - 1)];
        }
        _ => {}
    }
    vec![sge]
}

fn run(devices: [Arc<Device<TestCard>>; 2], steps: &[Step]) -> Vec<String> {
    let mut run = Run::new(devices);
    for step in steps {
        run.post(step);
        run.look();
    }
    run.seen
}

fn check(cards: u8, cases: u32) {
    let nets = [Wire::default(), Wire::Exact].map(|wire| Net::on_wire(cards, wire));
    let devices = nets.each_ref().map(|net| {
        let first = net.open(0);
        [first.clone(), net.try_open(1).unwrap_or(first)]
    });
    seeded::check(tests::seed(), cases, &steps(), |steps| {
        let [express, frames] = devices.each_ref().map(|devices| run(devices.clone(), &steps));
        for (n, (express, frames)) in express.iter().zip(&frames).enumerate() {
            prop_assert_eq!(express, frames, "observation {}", n);
        }
        prop_assert_eq!(express.len(), frames.len());
        Ok(())
    });
}

#[test]
fn between_cards_it_makes_no_difference() {
    check(2, 150);
}

#[test]
fn within_a_card_it_makes_no_difference() {
    check(1, 100);
}

/// The regions of a message, each registered for it.
struct Regions {
    source: Option<Arc<Mr<TestCard>>>,
    target: Option<Arc<Mr<TestCard>>>,
}

impl Regions {
    fn new(x: &Side, y: &Side) -> Regions {
        let write = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let [source, target] =
            [(x, Access::LOCAL_WRITE), (y, write)].map(|(side, access)| Some(side.region(0, 4096, access)));
        Regions { source, target }
    }
}

/// Plain messages, then `change`, then one more message by the same keys: what comes of it?
fn after(opcode: WqeOpcode, change: impl FnOnce(&mut Side, &mut Side, &mut Regions)) -> CqeStatus {
    let net = Net::new(2);
    let options = Options { timeout: 8, retry_cnt: 1, rnr_retry: 0, cqes: 64, ..Options::default() };
    let (mut x, mut y) = net.pair(options);
    let mut regions = Regions::new(&x, &y);
    let lkey = regions.source.as_ref().map_or(0, |region| region.lkey());
    let target = regions.target.as_ref().map_or((0, 0), |region| (region.lkey(), region.rkey()));
    let sge = [Sge { addr: x.buffer.addr(0), length: 8, lkey }];
    let receive = [Sge { addr: y.buffer.addr(8), length: 8, lkey: target.0 }];
    let message = |x: &Side, y: &Side, id| {
        x.post(&[SendWr { rkey: target.1, ..x.remote(id, opcode, &sge, y, 8) }]);
    };
    for id in 0..4 {
        if opcode == WqeOpcode::SEND {
            y.recv(100 + id, &receive);
        }
        x.buffer[..8].fill(id as u8 + 1);
        message(&x, &y, id);
        x.expect(id);
        assert!(y.buffer[8..16].iter().all(|&byte| byte == id as u8 + 1));
        if opcode == WqeOpcode::SEND {
            y.expect(100 + id);
        }
    }
    if opcode == WqeOpcode::SEND {
        y.recv(200, &receive);
    }
    change(&mut x, &mut y, &mut regions);
    x.buffer[..8].fill(0x55);
    message(&x, &y, 50);
    let status = x.wait().status;
    let arrived = y.buffer[8..16].iter().all(|&byte| byte == 0x55);
    assert_eq!(arrived, status == CqeStatus::SUCCESS);
    status
}

#[test]
fn what_was_found_out_does_not_outlive_a_change() {
    const BOTH: [WqeOpcode; 2] = [WqeOpcode::WRITE, WqeOpcode::SEND];
    for opcode in BOTH {
        assert_eq!(after(opcode, |_, _, _| ()), CqeStatus::SUCCESS);
        let no_source = after(opcode, |_, _, regions| drop(regions.source.take()));
        assert_eq!(no_source, CqeStatus::LOC_PROT_ERR, "{opcode}: the source is no region any longer");
        let own_error = after(opcode, |x, _, _| x.to(QpState::ERR));
        assert_eq!(own_error, CqeStatus::WR_FLUSH_ERR, "{opcode}: the QP is in error");
        for state in [QpState::ERR, QpState::RESET] {
            let silent = after(opcode, |_, y, _| y.to(state));
            assert_eq!(silent, CqeStatus::RETRY_EXC_ERR, "{opcode}: the peer is in {state}");
        }
    }
    let no_target = after(WqeOpcode::WRITE, |_, _, regions| drop(regions.target.take()));
    assert_eq!(no_target, CqeStatus::REM_ACCESS_ERR, "the target is no region any longer");
    let no_buffer = after(WqeOpcode::SEND, |_, _, regions| drop(regions.target.take()));
    assert_eq!(no_buffer, CqeStatus::REM_OP_ERR, "the receive's buffer is no region any longer");
    let no_right = after(WqeOpcode::WRITE, |_, y, _| y.set_access(Access::LOCAL_WRITE));
    assert_eq!(no_right, CqeStatus::REM_INV_REQ_ERR, "the QP lets nobody write any longer");
    let send_only = after(WqeOpcode::SEND, |_, y, _| y.set_access(Access::LOCAL_WRITE));
    assert_eq!(send_only, CqeStatus::SUCCESS, "a SEND needs no right");
}

#[test]
fn a_completion_queue_that_is_overrun_ends_the_way_of_all_its_queue_pairs() {
    let net = Net::new(2);
    let options = Options { cqes: 8, depth: 64, timeout: 8, retry_cnt: 1, ..Options::default() };
    let (mut x, mut y) = net.pair(options);
    // A second connection, which completes to the same queues.
    let fresh = [x.another_qp(), y.another_qp()];
    let [for_x, for_y] = fresh;
    let (other, _peer) = (std::mem::replace(&mut x.qp, for_x), std::mem::replace(&mut y.qp, for_y));
    join(&x, &y);
    let write = |x: &Side, y: &Side, qp: &Qp<TestCard>, flags| {
        let sge = [x.sge(0, 8)];
        let mut post = qp.send();
        let pushed = post.push(&SendWr { flags, ..x.remote(1, WqeOpcode::WRITE, &sge, y, 64) });
        post.ring();
        pushed
    };
    (0..4).for_each(|_| write(&x, &y, &other, SendFlags::empty()).expect("room"));
    (0..=x.cq.entries()).for_each(|_| write(&x, &y, &x.qp, SendFlags::SIGNALED).expect("room"));
    assert_eq!(x.state(), QpState::ERR, "its completion found no room");
    assert_eq!(other.query().expect("the QP").state, QpState::ERR);
    y.buffer[64..72].fill(0);
    x.buffer[..8].fill(1);
    // The driver does not know yet.
    write(&x, &y, &other, SendFlags::empty()).expect("room");
    assert_eq!(y.buffer[64..72], [0; 8], "a queue pair in error has written");
}
