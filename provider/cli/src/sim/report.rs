//! A run as text, CSV and plot. All of it is the same in every run of the same command; what is not is [`effort`].

use std::fmt::Write as _;

use anyhow::Result;
use model::sim::switch::Counts;

use super::figures::{jain, rate, Times};
use super::options::Plan;
use super::pattern::Pattern;
use super::play::Run;
use super::retries;
use crate::plot::{bytes_text, picture, Axes, Chart, Line};

/// The command, as a heading.
fn heading(plan: &Plan) -> String {
    let traffic = &plan.traffic;
    let window = match traffic.most_sends() > plan.window {
        true => format!(", to {} at a time", plan.window),
        false => String::new(),
    };
    format!(
        "{} of {} cards ({}, {}, MTU {}), {} each{window}",
        traffic.pattern,
        traffic.cards,
        plan.stage.profile.name(),
        plan.network,
        plan.mtu,
        bytes_text(traffic.bytes as f64)
    )
}

pub fn text(plan: &Plan, run: &Run) -> String {
    let times = Times::of(run);
    let us = |ns: f64| format!("{:.3} us", ns / 1000.0);
    let total = rate(run.bytes, run.time);
    let line = plan.stage.profile.wire.rate_bps.bits_per_second() as f64;
    let events = run.progress.events - run.before;
    let deepest = run.queues.iter().map(|queue| queue.deepest).max().unwrap_or(0);
    let busiest = run.queues.iter().max_by_key(|queue| queue.byte_ns).copied().unwrap_or_default();
    let mean = busiest.byte_ns as f64 * 1000.0 / run.time as f64;
    let sum = |of: fn(&Counts) -> u64| run.queues.iter().map(of).sum::<u64>();
    let mut rows = vec![
        ("messages", messages(plan, run)),
        (
            "completion",
            format!(
                "mean {}, median {}, p99 {}, last {}",
                us(times.mean()),
                us(times.quantile(0.5)),
                us(times.quantile(0.99)),
                us(times.quantile(1.0))
            ),
        ),
        ("fairness", format!("{:.4} (Jain's index of the messages' rates)", jain(&run.done))),
        (
            "throughput",
            format!(
                "{:.3} Gb/s in all: {:.1} % of the receivers' ports",
                total / 1e9,
                100.0 * total / line / receivers(plan)
            ),
        ),
        ("queues", format!("deepest {deepest} B; the fullest port's mean {mean:.0} B")),
        ("marks", format!("{}, {} notifications", sum(|queue| queue.marks), run.notifications)),
        (
            "pauses",
            format!(
                "{}, {} of all ports together",
                sum(|queue| queue.pauses),
                us(sum(|q| q.paused_ps) as f64 / 1000.0)
            ),
        ),
        ("lost", format!("{} packets, {} sent again", sum(|queue| queue.drops), run.again)),
        (
            "simulation",
            format!(
                "{events} events, {} packets, {:.2} events a packet",
                run.packets,
                events as f64 / run.packets.max(1) as f64
            ),
        ),
    ];
    if run.done.is_empty() {
        // There are no times.
        rows.retain(|row| !matches!(row.0, "completion" | "fairness" | "throughput" | "queues"));
    }
    if plan.shows_retries {
        rows.insert(0, ("retries", format!("{} (--timeout {})", plan.retries, plan.retries.timeout)));
    }
    if let Some(cc) = &plan.stage.cc {
        rows.insert(0, ("control", cc.to_string()));
    }
    if let Some((switch, _)) = &plan.stage.switch {
        rows.insert(0, ("switch", switch.to_string()));
    }
    let mut text = format!("{}\n", heading(plan));
    for (name, value) in rows {
        let _ = writeln!(text, "  {name:<11} {value}");
    }
    text
}

/// How many arrived, and of how many if not all did.
fn messages(plan: &Plan, run: &Run) -> String {
    let (done, ends) = (run.done.len(), plan.traffic.ends());
    let (bytes, all) = (bytes_text(run.bytes as f64), bytes_text(plan.traffic.all_bytes() as f64));
    match done == ends {
        true => format!("{done}, {all} in all"),
        false => format!("{done} of {ends}, {bytes} of {all}"),
    }
}

/// What ended a run early, and what may help; `None`: nothing did.
pub fn failure(plan: &Plan, run: &Run) -> Option<String> {
    let (from, to) = run.gave_up.first()?;
    let others = match run.gave_up.len() - 1 {
        0 => String::new(),
        others => format!(", and {others} more later"),
    };
    let lossy = plan.stage.switch.is_some_and(|(switch, _)| switch.pfc.is_none());
    let remedies = [
        (lossy, "--switch pfc"),
        (plan.stage.cc.is_none(), "--cc dcqcn"),
        (plan.retries.count < retries::MOST, "more --retries"),
        (true, "a longer --timeout"),
    ];
    let remedies: Vec<&str> = remedies.into_iter().filter(|remedy| remedy.0).map(|remedy| remedy.1).collect();
    Some(format!(
        "card {from}: the queue pair to card {to} gave up (RETRY_EXC_ERR){others}: its packets did not arrive in time, nor did \
         its retries ({}); what may help: {}",
        plan.retries,
        remedies.join(", ")
    ))
}

/// How many cards receive.
fn receivers(plan: &Plan) -> f64 {
    match plan.traffic.pattern {
        Pattern::Incast => 1.0,
        _ => plan.traffic.cards.into(),
    }
}

/// What it cost this machine, which differs from run to run.
pub fn effort(run: &Run) -> String {
    let events = (run.progress.events - run.before) as f64;
    let seconds = run.played.as_secs_f64();
    format!(
        "verbena: made the cards in {:.2} s, played {seconds:.2} s ({:.2} s of processor time, {:.0} ns a packet): \
         {:.2} million events a second; {} MiB of memory",
        run.made.as_secs_f64(),
        run.cpu.as_secs_f64(),
        run.cpu.as_nanos() as f64 / run.packets.max(1) as f64,
        events / seconds.max(1e-9) / 1e6,
        peak_memory() >> 10
    )
}

/// The most memory that this process has had, in KiB.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// A row for each message; with a collective operation, for each card.
pub fn csv(run: &Run) -> String {
    let mut text = "from,to,bytes,completion_ns,gbps\n".to_owned();
    for done in &run.done {
        let (ns, gbps) = (done.at as f64 / 1000.0, rate(done.bytes, done.at) / 1e9);
        let _ = writeln!(text, "{},{},{},{ns:.3},{gbps:.3}", done.from, done.to, done.bytes);
    }
    text
}

/// The distribution of the completion times.
pub fn svg(plan: &Plan, run: &Run) -> Result<String> {
    let times = Times::of(run);
    let points = times.distribution().into_iter().map(|(ns, part)| (ns / 1000.0, part)).collect();
    let name = format!("mean {:.1} us, p99 {:.1} us", times.mean() / 1000.0, times.quantile(0.99) / 1000.0);
    let head = [heading(plan)];
    let line = Line { name, color: 0, dashed: false, points };
    let (x_title, y_title) = ("completion time [us]", "part of the messages");
    let chart =
        Chart { title: &head[0], x_title, y_title, axes: Axes::Distribution, level: None, lines: vec![line] };
    Ok(picture(&head, &[chart])?.unwrap_or_default())
}
