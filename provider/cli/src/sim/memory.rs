//! The memory that a run takes, before it is made.

use std::fs;

use anyhow::{ensure, Result};

use super::host::CHUNK;
use super::options::Plan;

const KIB: u64 = 1 << 10;
/// Whatever is played.
const ALWAYS: u64 = 10 << 20;
/// A card, beside its queue pairs and what it receives.
const CARD: u64 = 115 * KIB;
/// A queue pair: in the card and in its simulation, its rings, and what the driver knows of it.
const QUEUE_PAIR: u64 = 4200;
/// A packet in flight, with its payload and its events.
const PACKET: u64 = 4500;
/// Packets that a card has in flight, at most.
const PACKETS: u64 = 110;

/// About as many bytes as the run will take at most; measured ones are in the tests.
pub fn needed(plan: &Plan) -> u64 {
    let traffic = &plan.traffic;
    let cards = u64::from(traffic.cards);
    let message = traffic.message_bytes();
    let at_a_time = traffic.most_sends().min(plan.window) as u64;
    let packets = PACKETS.min(at_a_time * message.div_ceil(plan.mtu.into()));
    ALWAYS + cards * (CARD + message.min(CHUNK) + packets * PACKET) + traffic.queue_pairs() * QUEUE_PAIR
}

/// What this machine, or the group of processes that this one belongs to, has for it.
fn available() -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let machine = line.split_whitespace().next()?.parse::<u64>().ok()? * KIB;
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    Some(group.and_then(|most| most.trim().parse().ok()).map_or(machine, |most| machine.min(most)))
}

pub fn check(plan: &Plan) -> Result<()> {
    available().map_or(Ok(()), |available| fits(plan, available))
}

fn fits(plan: &Plan, available: u64) -> Result<()> {
    let (needed, traffic) = (needed(plan), &plan.traffic);
    ensure!(
        needed <= available,
        "{} with {} cards takes {} queue pairs and about {} MiB of memory, and {} MiB are free: use fewer cards, or end \
         other programs",
        traffic.pattern,
        traffic.cards,
        traffic.queue_pairs(),
        needed >> 20,
        available >> 20
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::options::SimArgs;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        sim: SimArgs,
    }

    fn plan(line: &str) -> Plan {
        let words = std::iter::once("sim").chain(line.split_whitespace());
        Line::parse_from(words).sim.plan().expect("it can be played")
    }

    /// Peaks of runs, in MiB.
    #[test]
    fn it_is_what_was_measured() {
        for (line, measured) in [
            ("--pattern permutation --cards 16 --bytes 64KiB", 14),
            ("--pattern permutation --cards 1024 --bytes 4KiB", 160),
            ("--pattern permutation --cards 1024 --bytes 1MiB", 613),
            ("--pattern incast --cards 1024 --bytes 64KiB", 429),
            ("--pattern allreduce --cards 512 --bytes 1MiB", 82),
            ("--pattern alltoall --cards 64 --bytes 1KiB", 44),
            ("--pattern alltoall --cards 256 --bytes 64KiB --window 8", 432),
            ("--pattern alltoall --cards 512 --bytes 4KiB", 1355),
            ("--pattern alltoall --cards 1024 --bytes 1KiB", 4399),
        ] {
            let part = needed(&plan(line)) as f64 / (f64::from(measured) * f64::from(1 << 20));
            assert!((0.85..1.35).contains(&part), "{line}: {part} of what was measured");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let plan = plan("--pattern alltoall --cards 1024 --bytes 1KiB");
        assert!(fits(&plan, 8 << 30).is_ok());
        let said = fits(&plan, 2 << 30).expect_err("it does not fit").to_string();
        assert!(said.contains("1047552 queue pairs") && said.contains("2048 MiB are free"), "{said}");
    }
}
