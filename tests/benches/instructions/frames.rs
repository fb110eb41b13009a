//! Ethernet frames in bursts, to a work queue that their hash chooses.

use std::path::Path;
use std::sync::Arc;

use driver::{Device, Offloads, Qp, QpAttr, SendFlags};
use fpga_regs::{FlowContext, HashFields, QpState, QpType, SUITE_KEY};
use model::attach::SegmentCard;
use tests::{Options, Peer};

use crate::{counted_poll, COUNT};

/// Frames of a burst.
pub const BURST: u32 = 32;
/// Bytes of frames without their check sequence.
pub const LENGTHS: [usize; 2] = [60, 1514];
/// Bytes from frame to frame.
const STRIDE: usize = 2048;
/// The address of port 1 of card 1.
const MAC: [u8; 6] = [2, 0x56, 0x42, 0, 1, 0];
/// Work queues.
const QUEUES: usize = 4;

type Side = Peer<SegmentCard>;

/// Posts frames with one doorbell. Callgrind counts from the entry of this to its end.
#[inline(never)]
fn counted_burst(x: &Side, length: usize) {
    let mut post = x.qp.send();
    for n in 0..BURST {
        let signaled = if n + 1 < BURST { SendFlags::empty() } else { SendFlags::SIGNALED };
        post.push_frame(n.into(), x.sge(n as usize * STRIDE, length), signaled, 0).expect("room");
    }
    post.ring();
}

fn to(qp: &Qp<SegmentCard>, state: QpState) {
    qp.step(&QpAttr { state, port: 1, ..QpAttr::default() }).expect("a step");
}

/// Frames of UDP to the other card, each of another connection.
fn write(x: &mut Side, length: usize) {
    for n in 0..BURST as usize {
        let ip_length = (length - 14) as u16;
        let mut frame = [&MAC[..], &[2, 9, 9, 9, 9, 9, 8, 0, 0x45, 0]].concat();
        frame.extend(ip_length.to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
        frame.extend([0x10, n as u8, 0, 9]);
        frame.extend((ip_length - 20).to_be_bytes());
        x.buffer[n * STRIDE..][..frame.len()].copy_from_slice(&frame);
    }
}

/// Sends frames of so many bytes from card 0 to card 1, and polls them.
pub fn run(socket: &str, length: usize) {
    let options = Options {
        qp_type: QpType::RAW_PACKET,
        depth: 128,
        sges: 1,
        inline: 0,
        bytes: BURST as usize * STRIDE,
        cqes: 256,
        ..Default::default()
    };
    let open =
        |card| Device::open(SegmentCard::open(Path::new(socket), card).expect("a card")).expect("a device");
    let (a, b) = (open(0), open(1));
    let (mut x, y) = tests::connect(&a, &b, options);
    let queues: Vec<Arc<Qp<_>>> = (0..QUEUES)
        .map(|_| y.pd.create_wq(&y.cq, (COUNT, 1), Offloads::default()).expect("a work queue"))
        .collect();
    queues.iter().for_each(|queue| to(queue, QpState::RTR));
    let table = b.create_table(&queues).expect("a table");
    let spread = y.pd.create_hash_qp(&table, HashFields::ALL, &SUITE_KEY).expect("a queue pair");
    let rule = FlowContext::new().with_port(1).with_dmac(MAC).with_dmac_mask([0xff; 6]);
    let _flow = spread.create_flow(&rule).expect("a rule");
    write(&mut x, length);
    for queue in &queues {
        let mut post = queue.recv();
        for n in 0..COUNT {
            let place = (n % BURST) as usize;
            post.push(n.into(), &[y.sge(place * STRIDE, STRIDE)]).expect("room");
        }
        post.ring();
    }
    for _ in 0..COUNT / BURST {
        counted_burst(&x, std::hint::black_box(length));
        x.expect(u64::from(BURST) - 1);
        for _ in 0..BURST {
            assert_eq!(counted_poll(&y.cq), 1, "all frames have come");
        }
    }
}
