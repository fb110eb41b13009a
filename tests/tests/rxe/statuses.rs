//! The same program on rxe and on the card says the same of every mistake, but for what is listed here.

use std::collections::BTreeMap;

use super::{programs, LONG};
use tests::guest::{Link, Rxe};
use tests::stock::StockNet;

/// Cases in which rxe differs, what the card says there, and why. `docs/rxe.md` has them in words.
const DIFFERENT: &[(&str, &str)] = &[
    ("write with immediate: wrong R_Key", "b 100: local access error"),
    ("atomic at an odd address", "a 0: remote invalid request error"),
    ("send longer than the receive", "b 100: local length error"),
    ("send of several packets, longer than the receive", "b 100: local length error"),
    ("shared receive queue, too long", "b 100: local length error"),
    ("UC: longer than the receive", "b 100: local length error"),
    ("send: wrong L_Key", "a 0: local protection error"),
    ("write: wrong L_Key, after a good one", "a 1: local protection error"),
    ("UC: wrong L_Key", "a 0: local protection error"),
    ("first PSN behind", "a 0: transport retry counter exceeded"),
];

/// Events by which a responder learns of a peer's mistake, which rxe does not have.
const RESPONDERS_EVENTS: [&str; 2] =
    ["event b: local access violation work queue error", "event b: invalid request local work queue error"];

/// The guest's link has just come up, which is told when it is noticed.
const PORT_UP: &str = "event: port active";

/// The lines of each case.
fn cases(said: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut cases: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut case = "";
    for line in said.lines() {
        match line.strip_prefix("  ") {
            Some(line) => cases.entry(case).or_default().push(line),
            None => case = line,
        }
    }
    assert!(said.contains(&format!("all {} cases", cases.len())), "not all cases:\n{said}");
    cases
}

#[test]
#[ignore = "boots a guest: tests/guest/run"]
fn the_same_statuses_events_and_states() {
    let run = StockNet::new().run(&programs()[0], &["verbena0", "verbena1"], LONG);
    let mut rxe = Rxe::boot(programs(), Link::Datagrams);
    let theirs = rxe.machine().good("statuses rxe0 rxe0", LONG);
    let (theirs, ours) = (cases(&theirs), cases(&run));
    assert_eq!(theirs.keys().collect::<Vec<_>>(), ours.keys().collect::<Vec<_>>());
    let mut wrong = Vec::new();
    for (case, ours) in &ours {
        // Linux sets the flag of immediate data also where it was sent.
        let theirs = theirs[case].iter().filter(|line| **line != PORT_UP);
        let theirs: Vec<String> = theirs.map(|line| line.replace(", immediate 0", "")).collect();
        let same = ours.iter().filter(|line| !RESPONDERS_EVENTS.contains(line)).eq(&theirs);
        let known = DIFFERENT.iter().find(|(name, _)| name == case);
        let as_known = known.is_none_or(|(_, line)| ours.contains(line) && !theirs.iter().any(|l| l == line));
        if same == known.is_some() || !as_known {
            wrong.push(format!(
                "{case}\n  rxe:\n    {}\n  verbena:\n    {}",
                theirs.join("\n    "),
                ours.join("\n    ")
            ));
        }
    }
    assert!(wrong.is_empty(), "other differences than expected:\n{}", wrong.join("\n"));
}
