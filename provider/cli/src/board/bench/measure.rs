//! The measurements.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{ensure, Result};
use driver::{Data, Device, SendFlags, SendWr, Wc};
use fpga_regs::{CqeStatus, QpType, WqeOpcode};
use serde::Serialize;

use super::SizeRow;
use crate::board::device::AnyCard;
use crate::board::pair::{Pair, DEPTH};

/// Most outstanding bytes when bandwidth is measured.
const OUTSTANDING: usize = 1 << 20;
/// Messages that one doorbell announces when the rate is measured.
const CHAIN: usize = 16;

/// The distribution of a latency in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    pub min_us: f64,
    /// Half of all are less.
    pub median_us: f64,
    /// Of a hundred, one is more.
    pub p99_us: f64,
    pub count: usize,
}

impl Latency {
    fn of(mut times: Vec<Duration>) -> Latency {
        times.sort_unstable();
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e6;
        Latency { min_us: at(0.0), median_us: at(0.5), p99_us: at(0.99), count: times.len() }
    }
}

fn good(wc: Wc) -> Result<Wc> {
    ensure!(
        wc.status == CqeStatus::SUCCESS,
        "a request failed: {} (syndrome {:#04x})",
        wc.status,
        wc.vendor_err
    );
    Ok(wc)
}

/// One at a time, until the time is over and at least ten were seen.
fn one_by_one(time: Duration, mut one: impl FnMut() -> Result<Duration>) -> Result<Latency> {
    // The first ones meet cold caches.
    for _ in 0..3 {
        one()?;
    }
    let start = Instant::now();
    let mut times = Vec::new();
    while start.elapsed() < time || times.len() < 10 {
        times.push(one()?);
    }
    Ok(Latency::of(times))
}

/// From the doorbell to the CQE, 8 bytes inline.
pub fn small(device: &Arc<Device<AnyCard>>, opcode: WqeOpcode, time: Duration) -> Result<Latency> {
    let pair = Pair::new(device, QpType::RC, 1, 4096)?;
    let mut wr = SendWr { data: Data::Bytes(&[0x5a; 8]), ..pair.wr(opcode, &[], 0) };
    if opcode == WqeOpcode::NOP {
        wr.data = Data::Sges(&[]);
    }
    one_by_one(time, || {
        if opcode == WqeOpcode::SEND {
            pair.b.recv(2, &[pair.region.sge(64, 8)])?;
        }
        let start = Instant::now();
        pair.a.post(&wr)?;
        good(pair.a.wait()?)?;
        let took = start.elapsed();
        if opcode == WqeOpcode::SEND {
            good(pair.b.wait()?)?;
        }
        Ok(took)
    })
}

/// Latency and bandwidth of one size.
pub fn size(device: &Arc<Device<AnyCard>>, bytes: usize, time: Duration) -> Result<SizeRow> {
    // Whole pages: the kernel copies the others of a modelled card, which takes longer than a short message.
    let place = bytes.next_multiple_of(4096);
    let pair = Pair::new(device, QpType::RC, 1, 2 * place)?;
    let latency = |opcode| {
        let sges = [pair.region.sge(0, bytes)];
        let wr = pair.wr(opcode, &sges, place);
        one_by_one(time, || {
            let start = Instant::now();
            pair.a.post(&wr)?;
            good(pair.a.wait()?)?;
            Ok(start.elapsed())
        })
    };
    let bandwidth = |opcode| stream(&pair, opcode, bytes, place, time);
    Ok(SizeRow {
        bytes,
        write: latency(WqeOpcode::WRITE)?,
        read: latency(WqeOpcode::READ)?,
        write_mb_s: bandwidth(WqeOpcode::WRITE)?,
        read_mb_s: bandwidth(WqeOpcode::READ)?,
    })
}

/// Many at a time; MB a second.
fn stream(pair: &Pair, opcode: WqeOpcode, bytes: usize, place: usize, time: Duration) -> Result<f64> {
    let window = (OUTSTANDING / bytes).clamp(2, DEPTH as usize / 2);
    let sges = [pair.region.sge(0, bytes)];
    let wr = pair.wr(opcode, &sges, place);
    let start = Instant::now();
    let (mut posted, mut done) = (0usize, 0usize);
    while start.elapsed() < time || done < 2 * window {
        while posted - done < window {
            pair.a.post(&wr)?;
            posted += 1;
        }
        good(pair.a.wait()?)?;
        done += 1;
    }
    let took = start.elapsed();
    let bytes = (done * bytes) as f64;
    while done < posted {
        good(pair.a.wait()?)?;
        done += 1;
    }
    Ok(bytes / took.as_secs_f64() / 1e6)
}

/// Million messages a second of some QPs that send in turn, a chain with one completion each time.
pub fn rate(device: &Arc<Device<AnyCard>>, qps: usize, time: Duration) -> Result<f64> {
    let pairs: Vec<Pair> = (0..qps).map(|_| Pair::new(device, QpType::RC, 1, 4096)).collect::<Result<_>>()?;
    let start = Instant::now();
    let mut messages = 0u64;
    // Each QP has an outstanding chain while the others are served.
    let mut waiting = vec![false; qps];
    loop {
        for (pair, waiting) in pairs.iter().zip(&mut waiting) {
            if std::mem::replace(waiting, true) {
                good(pair.a.wait()?)?;
                messages += CHAIN as u64;
            }
            let mut post = pair.a.qp.send();
            for n in 1..=CHAIN {
                let last = n == CHAIN;
                let flags = if last { SendFlags::SIGNALED } else { SendFlags::empty() };
                let data = Data::Bytes(&[0x5a; 8]);
                post.push(&SendWr { flags, data, ..pair.wr(WqeOpcode::WRITE, &[], 0) })?;
            }
            post.ring();
        }
        if start.elapsed() >= time && messages > 0 {
            break;
        }
    }
    let took = start.elapsed();
    for pair in &pairs {
        good(pair.a.wait()?)?;
    }
    Ok(messages as f64 / took.as_secs_f64() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution() {
        let latency = Latency::of((1..=101).rev().map(Duration::from_micros).collect());
        assert_eq!(
            (latency.min_us, latency.median_us, latency.p99_us, latency.count),
            (1.0, 51.0, 100.0, 101)
        );
    }
}
