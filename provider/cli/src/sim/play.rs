//! The run: one thread plays all actors.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use fpga_regs::regs::port;
use model::attach::{Progress, Stage};
use model::packet::PortId;
use model::sim::switch::Counts;

use super::host::{Host, Told, CHUNK};
use super::options::Plan;
use super::pattern::{Pattern, Traffic};

/// Events in a row after which no actor will act any more.
const MOST_IDLE: u64 = 1 << 32;

/// A message, or a card's part in a collective operation, from the start of all to its end.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub from: u16,
    pub to: u16,
    pub bytes: u64,
    /// When its receiver knew of it, from the start (ps).
    pub at: u64,
}

pub struct Run {
    pub done: Vec<Done>,
    /// Queue pairs whose retries ended, in the order in which that was known: the sender's card and its peer's.
    pub gave_up: Vec<(u16, u16)>,
    /// Bytes of all messages that arrived.
    pub bytes: u64,
    pub progress: Progress,
    /// Events before the start.
    pub before: u64,
    /// Of the switches' ports.
    pub queues: Vec<Counts>,
    /// Packets that the cards have sent.
    pub packets: u64,
    /// Request packets that they sent again.
    pub again: u64,
    pub notifications: u64,
    /// From the start to the end of the last message that arrived (ps).
    pub time: u64,
    /// The machine's time, for making the cards and for playing.
    pub made: Duration,
    pub played: Duration,
    /// The processor's time, for playing.
    pub cpu: Duration,
}

/// A pattern of bytes that has no short period.
fn fill(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Makes the cards and plays.
pub fn play(plan: &Plan) -> Result<Run> {
    let began = Instant::now();
    let stage = Stage::new(&plan.stage)?;
    let traffic = &plan.traffic;
    let starts = traffic.starts();
    let largest = traffic.message_bytes().min(CHUNK) as usize;
    let mut source = stage.buffer(largest).context("there is no memory for a buffer")?;
    let expected = fill(largest);
    source.write(&expected);
    let mut links = vec![0; starts.len()];
    for (from, messages) in starts.iter().enumerate() {
        messages
            .iter()
            .for_each(|message| [from, message.to.into()].into_iter().for_each(|at| links[at] += 1));
    }
    let open = |(card, &links): (usize, &usize)| {
        Host::open(&stage, card as u16, largest, &source, (links, plan.window))
    };
    let mut hosts = links.iter().enumerate().map(open).collect::<Result<Vec<_>>>()?;
    // What this gives the cards to do is done for one after the other: all of it at once would not find room.
    for (from, messages) in starts.iter().enumerate() {
        for message in messages {
            if !hosts[from].knows(message.to) {
                Host::connect(&mut hosts, (from as u16, message.to), plan.mtu, plan.retries)?;
            }
        }
        stage.begin();
    }
    for host in &mut hosts {
        host.receive()?;
        stage.begin();
    }
    let start = stage.begin();
    nothing_lost(&stage)?;
    let before = stage.progress().events;
    let (made, played, used) = (began.elapsed(), Instant::now(), cpu());
    (0..traffic.cards).for_each(|card| stage.call(card, start));
    let mut starts: Vec<_> = starts.into_iter().map(Some).collect();
    let (mut done, mut gave_up) = (Vec::with_capacity(traffic.ends()), Vec::new());
    let (mut arrived, mut time) = (0_u64, 0);
    while let Some(turn) = stage.next(MOST_IDLE) {
        let card = turn.card;
        let host = &mut hosts[usize::from(card)];
        for message in starts[usize::from(card)].take().into_iter().flatten() {
            host.send(message)?;
        }
        for told in host.poll().with_context(|| format!("card {card}"))? {
            let (from, step) = match told {
                Told::Arrived { from, step } => (from, step),
                Told::GaveUp { to } => {
                    gave_up.push((card, to));
                    continue;
                }
            };
            let at = stage.clock(card) - start;
            (arrived, time) = (arrived + 1, at.max(time));
            match traffic.follows(card, step) {
                Some(next) => host.send(next)?,
                None => done.push(ended(traffic, from, card, at)),
            }
        }
    }
    let (played, cpu) = (played.elapsed(), cpu() - used);
    let ports = (0..traffic.cards).map(|card| PortId { card, port: 0 });
    let sum = |register| ports.clone().map(|port| stage.counter(port, register)).sum();
    let run = Run {
        done,
        gave_up,
        bytes: arrived * traffic.message_bytes(),
        time,
        progress: stage.progress(),
        before,
        queues: stage.queues(),
        packets: sum(port::TX_PACKETS),
        again: sum(port::RETRANSMITS),
        notifications: sum(port::TX_CNP),
        made,
        played,
        cpu,
    };
    check(&stage, traffic, &hosts, &run, &expected)?;
    // The process ends: closing each queue pair and card would take as long as making it.
    std::mem::forget((hosts, source, stage));
    Ok(run)
}

fn ended(traffic: &Traffic, from: u16, to: u16, at: u64) -> Done {
    let from = if traffic.pattern == Pattern::Allreduce { to } else { from };
    Done { from, to, bytes: traffic.bytes, at }
}

/// Everything found room in the simulation so far.
fn nothing_lost(stage: &Stage) -> Result<()> {
    match stage.progress().lost {
        0 => Ok(()),
        lost => bail!(
            "{lost} packets or events found no room in the simulation, so its figures would be wrong: use fewer cards, a \
             smaller --window, or queues of fewer bytes (--switch pfc,xoff=...)"
        ),
    }
}

/// What must be, whatever the pattern: all has arrived unless queue pairs gave up, unchanged, and nothing was lost for lack of
/// room in the simulation.
fn check(stage: &Stage, traffic: &Traffic, hosts: &[Host], run: &Run, expected: &[u8]) -> Result<()> {
    nothing_lost(stage)?;
    let (Progress { now, events, .. }, done) = (run.progress, &run.done);
    if done.len() != traffic.ends() && run.gave_up.is_empty() {
        let waits = |(card, host): (usize, &Host)| host.waits().next().map(|peer| (card, peer));
        let who = match hosts.iter().enumerate().find_map(waits) {
            Some((card, peer)) => format!("card {card} waits for card {peer}"),
            None => "no card has anything to send".to_owned(),
        };
        bail!(
            "nothing happens any more after {} us and {events} events, with {} of {} messages done: {who}",
            now / 1_000_000,
            done.len(),
            traffic.ends()
        );
    }
    let receivers: BTreeSet<u16> = done.iter().map(|done| done.to).collect();
    for card in receivers {
        ensure!(
            hosts[usize::from(card)].landed(expected.len()) == expected,
            "card {card} has not received the bytes that were sent"
        );
    }
    Ok(())
}
