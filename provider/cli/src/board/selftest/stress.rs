//! Random messages of all sizes, many at once, for a while: rings and queues go round many times.

use std::time::Instant;

use driver::{SendFlags, SendWr};
use fpga_regs::{CqeStatus, QpType, WqeOpcode};

use super::lab::{driver_failed, failed, failure, Check, Lab};
use crate::board::pair::{Pair, DEPTH};

/// Bytes of a message's place in the region.
const PLACE: usize = 16384;
/// Messages of a batch.
const BATCH: usize = 24;

/// xorshift64*: the same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }
}

/// One message of a batch.
#[derive(Clone, Copy)]
struct Message {
    opcode: WqeOpcode,
    /// First byte of its place at both ends.
    at: usize,
    bytes: usize,
    seed: u8,
}

impl Message {
    fn byte(&self, at: usize) -> u8 {
        (at as u8).wrapping_mul(29).wrapping_add((at >> 8) as u8).wrapping_add(self.seed)
    }
}

const FAR: usize = BATCH * PLACE;

/// Batches until the time is over.
pub fn stress(lab: &mut Lab<'_>) -> Check {
    const _: () = assert!(BATCH < DEPTH as usize);
    let device = lab.device()?;
    let seed = lab.args.seed;
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let pair = Pair::new(&device, QpType::RC, 1, 2 * FAR);
    let mut pair = pair.map_err(|error| driver_failed("two QPs are connected", error, "MODIFY_QP"))?;
    let start = Instant::now();
    let (mut messages, mut bytes) = (0u64, 0u64);
    while start.elapsed() < lab.args.stress {
        let batch: Vec<Message> = (0..BATCH)
            .map(|place| {
                // Sizes by their logarithm, so that small ones are as many as large ones.
                let most = 1 << (1 + random.below(13));
                Message {
                    opcode: [WqeOpcode::SEND, WqeOpcode::WRITE, WqeOpcode::READ][random.below(3)],
                    at: place * PLACE + random.below(64),
                    bytes: 1 + random.below(most),
                    seed: random.below(256) as u8,
                }
            })
            .collect();
        run(&mut pair, &batch).map_err(|came| {
            failure(
                format!("message {messages} and those after it arrive whole (--seed {seed})"),
                came,
                "Cqe.wqe_index and Cqe.phase on later laps, PSN and retransmission, the payload's DMA",
            )
        })?;
        messages += BATCH as u64;
        bytes += batch.iter().map(|message| message.bytes as u64).sum::<u64>();
    }
    if messages == 0 {
        return failed("at least one batch", "no time was given", "--stress SECONDS");
    }
    let seconds = start.elapsed().as_secs_f64();
    Ok(format!("{messages} messages, {:.1} MB in {seconds:.1} s, seed {seed}", bytes as f64 / 1e6))
}

fn run(pair: &mut Pair, batch: &[Message]) -> Result<(), String> {
    for message in batch {
        let (from, to) = if message.opcode == WqeOpcode::READ { (FAR, 0) } else { (0, FAR) };
        let region = pair.region.bytes();
        for at in 0..message.bytes {
            region[from + message.at + at] = message.byte(at);
        }
        region[to + message.at..][..message.bytes].fill(0);
    }
    post(pair, batch).map_err(|error| format!("{error:#}"))?;
    for (index, message) in batch.iter().enumerate() {
        let to = if message.opcode == WqeOpcode::READ { 0 } else { FAR };
        let got = &pair.region.bytes()[to + message.at..][..message.bytes];
        if let Some(at) = (0..message.bytes).find(|at| got[*at] != message.byte(*at)) {
            return Err(format!(
                "{} number {index} of the batch, {} bytes: byte {at} is {:#04x}, not {:#04x}",
                message.opcode,
                message.bytes,
                got[at],
                message.byte(at)
            ));
        }
    }
    Ok(())
}

fn post(pair: &Pair, batch: &[Message]) -> anyhow::Result<()> {
    let mut receives = 0;
    for message in batch.iter().filter(|message| message.opcode == WqeOpcode::SEND) {
        pair.b.recv(receives, &[pair.region.sge(FAR + message.at, message.bytes)])?;
        receives += 1;
    }
    let mut post = pair.a.qp.send();
    for (index, message) in batch.iter().enumerate() {
        let sges = [pair.region.sge(message.at, message.bytes)];
        let wr = SendWr {
            wr_id: index as u64,
            flags: SendFlags::SIGNALED,
            ..pair.wr(message.opcode, &sges, FAR + message.at)
        };
        post.push(&wr)?;
    }
    post.ring();
    for expected in 0..batch.len() as u64 {
        let wc = pair.a.wait()?;
        anyhow::ensure!(wc.status == CqeStatus::SUCCESS, "{} (syndrome {:#04x})", wc.status, wc.vendor_err);
        anyhow::ensure!(wc.wr_id == expected, "request {} completed, {expected} was next", wc.wr_id);
    }
    for _ in 0..receives {
        let wc = pair.b.wait()?;
        anyhow::ensure!(
            wc.status == CqeStatus::SUCCESS,
            "receive: {} (syndrome {:#04x})",
            wc.status,
            wc.vendor_err
        );
    }
    Ok(())
}
