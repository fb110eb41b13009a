//! `verbena bench`: the card's raw figures, through the driver and without libibverbs.
//!
//! All of it is loopback of port 1, so one card is enough. A WRITE of a message is a DMA read of it at the
//! sender and a DMA write at the receiver; a READ the same the other way round, with a request before.

mod measure;

use std::time::Duration;

use anyhow::{ensure, Context, Result};
use clap::Args;
use driver::Device;
use fpga_regs::WqeOpcode;
use serde::Serialize;

use super::device::DeviceArgs;
use crate::args;
use measure::Latency;

/// Options of `verbena bench`.
#[derive(Args, Clone, Debug)]
pub struct BenchArgs {
    #[command(flatten)]
    pub device: DeviceArgs,
    /// Seconds of each measurement
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = args::seconds)]
    pub seconds: Duration,
    /// Largest message in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    pub largest: usize,
    /// Largest number of QPs in the test of the message rate
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub qps: usize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// All figures.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// What was measured.
    pub device: String,
    /// From the doorbell to the CQE in memory: a NOP, an inline WRITE and an inline SEND of 8 bytes.
    pub doorbell_to_cqe: Vec<(String, Latency)>,
    pub sizes: Vec<SizeRow>,
    /// Inline WRITEs of 8 bytes, by number of QPs.
    pub rates: Vec<RateRow>,
}

/// Figures of one message size.
#[derive(Debug, Serialize)]
pub struct SizeRow {
    pub bytes: usize,
    /// One WRITE at a time.
    pub write: Latency,
    /// One READ at a time.
    pub read: Latency,
    /// Many WRITEs at a time, in MB (10^6 bytes) a second.
    pub write_mb_s: f64,
    /// Many READs at a time, in MB (10^6 bytes) a second.
    pub read_mb_s: f64,
}

/// Message rate of some QPs.
#[derive(Debug, Serialize)]
pub struct RateRow {
    /// QPs that send in turn.
    pub qps: usize,
    pub mmsg_s: f64,
}

pub fn bench(args: BenchArgs) -> Result<u8> {
    ensure!((8..=1 << 26).contains(&args.largest), "--largest is 8 to {} bytes", 1 << 26);
    ensure!((1..=1024).contains(&args.qps), "--qps is 1 to 1024");
    let opened = args.device.open()?;
    let device =
        Device::open(opened.card.clone()).context("bringing the card up (verbena selftest finds out why)")?;
    let mut figures = Figures {
        device: opened.name.clone(),
        doorbell_to_cqe: Vec::new(),
        sizes: Vec::new(),
        rates: Vec::new(),
    };
    for (name, opcode) in [("NOP", WqeOpcode::NOP), ("WRITE", WqeOpcode::WRITE), ("SEND", WqeOpcode::SEND)] {
        figures.doorbell_to_cqe.push((name.into(), measure::small(&device, opcode, args.seconds)?));
    }
    let mut bytes = 8;
    while bytes <= args.largest {
        figures.sizes.push(measure::size(&device, bytes, args.seconds)?);
        bytes *= 4;
    }
    let mut qps = 1;
    while qps <= args.qps {
        figures.rates.push(RateRow { qps, mmsg_s: measure::rate(&device, qps, args.seconds)? });
        qps *= 2;
    }
    drop(device);
    match args.json {
        true => say!("{}", serde_json::to_string_pretty(&figures)?),
        false => print(&figures),
    }
    opened.finish()?;
    Ok(0)
}

fn print(figures: &Figures) {
    say!("{}", figures.device);
    say!("doorbell to CQE, 8 bytes inline [us]    min   median      99%");
    for (name, latency) in &figures.doorbell_to_cqe {
        say!("  {name:<32}{:9.2}{:9.2}{:9.2}", latency.min_us, latency.median_us, latency.p99_us);
    }
    say!("by size (loopback: one DMA read and one DMA write of each byte)");
    say!("     bytes   WRITE median [us]   READ median [us]   WRITE [MB/s]   READ [MB/s]");
    for row in &figures.sizes {
        say!(
            "{:10}{:20.2}{:19.2}{:15.1}{:14.1}",
            row.bytes,
            row.write.median_us,
            row.read.median_us,
            row.write_mb_s,
            row.read_mb_s
        );
    }
    say!("message rate, WRITE of 8 bytes inline");
    say!("       QPs   [Mmsg/s]");
    for row in &figures.rates {
        say!("{:10}{:11.3}", row.qps, row.mmsg_s);
    }
}
