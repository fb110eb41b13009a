//! Random verbs give the same on every way in which a net can run its cards, and what the specification wants.
//!
//! A seed makes a script ([`differential/generate.rs`]): queue pairs of all services, chains of all requests with
//! mistakes among them, windows, shared queues, small and resized completion queues, drained and reset queue pairs,
//! wrong queue pair numbers, missing rights. Two to eight processes (or threads) play it on stock verbs: each has some of the queue
//! pairs, which share CQs and SRQs at random, and up to four threads. They do so with short messages on the express lane, on
//! the general path, on frames, and in simulated time. What they see has to be equal.
//!
//! `VERBENA_SEED=n` repeats scripts; `VERBENA_SECONDS=600 cargo test -p tests --test differential` runs for ten minutes.

#[path = "differential/chain.rs"]
mod chain;
#[path = "differential/counters.rs"]
mod counters;
#[path = "differential/generate.rs"]
mod generate;
#[path = "differential/mistake.rs"]
mod mistake;
#[path = "differential/pair.rs"]
mod pair;
#[path = "differential/request.rs"]
mod request;
#[path = "differential/run.rs"]
mod run;
#[path = "differential/script.rs"]
mod script;

use std::time::{Duration, Instant};

use run::{Layout, Mode, Runner, Seen, EXACT, EXPRESS, GENERAL, VIRTUAL};
use script::{against_the_specification, Script};

/// Scripts that are run in one go.
const BATCH: usize = 12;
/// How long a shorter script may be looked for.
const SHORTENING: Duration = Duration::from_secs(20);

/// What is wrong with one script.
fn wrong(runner: &mut Runner, modes: &[Mode], layout: Layout, script: &Script) -> Option<String> {
    let mut first: Option<(Mode, Seen)> = None;
    for &mode in modes {
        let seen = match runner.run(mode, layout, std::slice::from_ref(script)) {
            Ok(seen) => seen,
            Err(error) => return Some(error),
        };
        if let Some(found) = verdict(first.as_ref(), mode, &seen, 0, script) {
            return Some(found);
        }
        if let Some(found) = miscounted(first.as_ref(), mode, &seen, std::slice::from_ref(script)) {
            return Some(found);
        }
        first.get_or_insert((mode, seen));
    }
    None
}

/// What is wrong with script `n` of those that were run, by the specification or beside the first way.
fn verdict(
    first: Option<&(Mode, Seen)>,
    mode: Mode,
    seen: &Seen,
    n: usize,
    script: &Script,
) -> Option<String> {
    let logs = &seen.scripts[n];
    if let Err(error) = against_the_specification(script, logs) {
        return Some(format!("{}, against the specification: {error}", mode.name));
    }
    let (other, expected) = first?;
    for (side, parts) in logs.iter().enumerate() {
        for (part, log) in parts.iter().enumerate() {
            if let Some(difference) = difference(&expected.scripts[n][side][part], log) {
                let ways = format!("{} and {}", other.name, mode.name);
                return Some(format!("side {side}, part {part}, {ways}:\n{difference}"));
            }
        }
    }
    None
}

/// What the cards should not have counted, by the specification or beside the first way.
fn miscounted(first: Option<&(Mode, Seen)>, mode: Mode, seen: &Seen, scripts: &[Script]) -> Option<String> {
    let (sent, counted) =
        (scripts.iter().map(Script::wrong_qkeys).sum(), counters::wrong_qkeys(&seen.counters));
    if counted < sent {
        return Some(format!("{}: {counted} wrong Q_Keys, of {sent}", mode.name));
    }
    let (other, expected) = first?;
    let orderly = scripts.iter().all(|script| script.orderly);
    let wrong = counters::differences(&expected.counters, &seen.counters, orderly, mode == VIRTUAL);
    (!wrong.is_empty()).then(|| format!("{} and {}:\n{}", other.name, mode.name, wrong.join("\n")))
}

/// The first lines that are not the same, and the round they are of.
fn difference(a: &str, b: &str) -> Option<String> {
    const SHOWN: usize = 4;
    let [a, b] = [a, b].map(|log| log.lines().collect::<Vec<_>>());
    let n = (0..a.len().max(b.len())).find(|&n| a.get(n) != b.get(n))?;
    let round = a[..n].iter().rev().find(|line| line.starts_with(" look")).unwrap_or(&"");
    let few =
        |log: &[&str]| log[n.min(log.len())..].iter().take(SHOWN).copied().collect::<Vec<_>>().join("\n");
    Some(format!("{round}:\n{}\n--- and\n{}", few(&a), few(&b)))
}

/// What is against the specification, without the round in which it is found.
fn essence(what: &str) -> Option<&str> {
    what.split_once("against the specification: round ")
        .and_then(|(_, rest)| rest.split_once(": "))
        .map(|(_, rest)| rest)
}

/// The shortest script that is found to go wrong with these modes.
fn shorten(
    runner: &mut Runner,
    modes: &[Mode],
    layout: Layout,
    script: &Script,
    what: String,
) -> (Script, String) {
    let (mut script, mut what) = (script.clone(), what);
    let begun = Instant::now();
    'again: loop {
        for shorter in script.shorter() {
            if begun.elapsed() > SHORTENING {
                break 'again;
            }
            // What one way does wrong against the specification is still the same; another difference is as good.
            let same = |still: &String| essence(still).is_none() || essence(still) == essence(&what);
            if let Some(still) = wrong(runner, modes, layout, &shorter).filter(same) {
                (script, what) = (shorter, still);
                continue 'again;
            }
        }
        break;
    }
    (script, what)
}

/// A failing script, as short as it can be found, and what is wrong with it.
fn failure(runner: &mut Runner, modes: &[Mode], layout: Layout, script: &Script, what: String) -> String {
    let again = wrong(runner, modes, layout, script);
    let alone = again.is_some();
    let (script, what) = match again {
        Some(what) => shorten(runner, modes, layout, script, what),
        None => (script.clone(), what),
    };
    format!("seed {}, {layout:?}, again when run alone: {alone}: {what}\n{}", script.seed, script.text())
}

/// Runs a batch of scripts in every way; what is wrong with one of them.
fn batch(runner: &mut Runner, modes: &[Mode], layout: Layout, scripts: &[Script]) -> Option<String> {
    let mut first: Option<(Mode, Seen)> = None;
    for &mode in modes {
        let mut pair: Vec<Mode> = first.iter().map(|(mode, _)| *mode).collect();
        let (found, together) = match runner.run(mode, layout, scripts) {
            Ok(seen) => {
                let each = |(n, script)| Some((script, verdict(first.as_ref(), mode, &seen, n, script)?));
                let found = scripts.iter().enumerate().find_map(each);
                let counted = miscounted(first.as_ref(), mode, &seen, scripts);
                first.get_or_insert((mode, seen));
                (found, counted)
            }
            Err(error) => {
                pair.clear();
                (None, Some(error))
            }
        };
        pair.push(mode);
        // Which of them it was shows when each runs alone.
        let alone = |script| Some((script, wrong(runner, &pair, layout, script)?));
        let found = found.or_else(|| together.is_some().then(|| scripts.iter().find_map(alone)).flatten());
        if let Some((script, what)) = found {
            println!("seed {}: {what}", script.seed);
            return Some(failure(runner, &pair, layout, script, what));
        }
        if let Some(what) = together {
            return Some(format!("only all together, {layout:?}: {what}"));
        }
    }
    None
}

fn compare(modes: &[Mode], seconds: u64) {
    let seed = tests::seed();
    let mut runner = Runner::new();
    let start = Instant::now();
    let (mut next, mut failure) = (seed, None);
    while start.elapsed() < Duration::from_secs(seconds) && failure.is_none() {
        let mut random = tests::Random(next);
        let (two_cards, processes, orderly) = (random.percent(70), random.percent(70), random.percent(30));
        let parts = if random.percent(40) { [1, 1] } else { [(); 2].map(|()| 1 + random.below(4usize)) };
        let layout = Layout { two_cards, processes, parts };
        let scripts: Vec<Script> =
            (0..BATCH).map(|n| generate::script(next.wrapping_add(n as u64), orderly)).collect();
        let found = batch(&mut runner, modes, layout, &scripts);
        failure = found.map(|what| format!("VERBENA_SEED={next}: {what}"));
        next = next.wrapping_add(BATCH as u64);
    }
    println!("{} scripts, {} ways, {:.0?}", next.wrapping_sub(seed), modes.len(), start.elapsed());
    assert!(failure.is_none(), "{}", failure.unwrap_or_default());
}

/// How long: a few seconds, or VERBENA_SECONDS.
fn seconds(usual: u64) -> u64 {
    std::env::var("VERBENA_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn every_way_of_running_the_cards_gives_the_same() {
    compare(&[EXPRESS, GENERAL, EXACT, VIRTUAL], seconds(20));
}

#[test]
fn a_completed_buffer_is_the_programs_again() {
    let mut runner = Runner::new();
    let failures: Vec<String> = [EXPRESS, GENERAL, EXACT, VIRTUAL]
        .into_iter()
        .flat_map(|mode| {
            let layouts = [(false, false), (false, true), (true, false), (true, true)];
            layouts.map(|(two_cards, processes)| (mode, Layout { two_cards, processes, parts: [1, 1] }))
        })
        .flat_map(|(mode, layout)| ["rc", "uc", "ud"].map(|service| (mode, layout, service)))
        .filter(|(mode, layout, _)| *mode == EXPRESS || layout.two_cards == layout.processes)
        .filter_map(|(mode, layout, service)| runner.stream(mode, layout, service, 10_000).err())
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn a_script_comes_of_every_seed() {
    let first = tests::seed();
    for seed in (0..1_000).map(|n| first.wrapping_add(n)) {
        for orderly in [false, true] {
            assert!(generate::script(seed, orderly).rounds.len() > 2, "seed {seed}");
        }
    }
}
