//! Scripts for `tests/c/script.c`: what they consist of, and how they are written down.
//!
//! A step is a line: its letter, the side that takes it (0 or 1), numbers. Offsets are from the start of the side's
//! memory, in which each queue pair has a zone of its own. A side may consist of several parts, processes or threads, each with
//! some of its queue pairs and with CQs, SRQs and memory of its own.
//!
//! | step | |
//! |---|---|
//! | `Q s qp type srq sig_all send_cq recv_cq` | create a QP; SRQ 0 is none |
//! | `I s qp access`, `T s qp peer's_qp mtu rd_atomic psn rnr_timer`, `R s qp psn timeout retry rnr rd_atomic` | to INIT, RTR, RTS |
//! | `M s qp state notify` | to any state; `notify` is EN_SQD_ASYNC_NOTIFY, or -1 |
//! | `r s qp id n (offset length key)*`, `v s qp srq` | a receive for a QP, for an SRQ |
//! | `S s qp id opcode flags imm more n (offset length key)*3 remote key x y z` | a send request, `more`: the chain continues |
//! | `W s qp id`, `V s qp` | wait for a send completion, until it is drained |
//! | `Z s qp us` | sleep |
//! | `C s qp cq n`, `A s qp srq limit`, `G s qp region`, `N s qp`, `X s qp` | resize a CQ, limit of an SRQ, register again, a new window, destroy |
//! | `L s n` | look at everything |
//! | `-` | both sides wait for each other, and tell each other their keys |

use std::fmt::Write;

/// What the specification requires of a request, however the cards are run.
#[derive(Clone, Debug)]
pub enum Expect {
    /// A send request's status, and which round it is of.
    Status { side: usize, qp: usize, id: usize, status: u32 },
    /// A QP's state at the end of a round.
    State { side: usize, qp: usize, state: u32 },
    /// An event in a round, or none.
    Event { side: usize, what: String, comes: bool },
    /// A call, as `letter object`, that is refused so often in a round with this errno; if `times` is 0, never.
    Refused { side: usize, what: String, errno: i32, times: usize },
    /// A datagram with a wrong Q_Key, which its receiver counts.
    WrongQkey,
    /// The SRQ, a CQ or the like swallows completions: what is missing is no mistake.
    MayMiss { qp: usize },
}

/// What is done with one pair of queue pairs, or with one object, in a round.
#[derive(Clone, Debug, Default)]
pub struct Unit {
    /// Before the barrier of the round: receives.
    pub before: Vec<String>,
    /// After it: sends.
    pub then: Vec<String>,
    /// What must come of it.
    pub expect: Vec<Expect>,
}

/// Rounds, each of units that may run at once.
#[derive(Clone, Debug)]
pub struct Script {
    /// Which seed made it.
    pub seed: u64,
    /// Threads of each part of a side; they share its CQs and SRQs.
    pub threads: usize,
    /// Nothing goes wrong in it.
    pub orderly: bool,
    /// The first makes the queue pairs.
    pub rounds: Vec<Vec<Unit>>,
}

impl Script {
    /// As the program reads it.
    pub fn text(&self) -> String {
        let mut text = format!("< {} {}\n", self.seed as u32, self.threads);
        for (n, round) in self.rounds.iter().enumerate() {
            for part in [|unit: &Unit| unit.before.clone(), |unit: &Unit| unit.then.clone()] {
                round.iter().flat_map(part).for_each(|line| {
                    text.push_str(&line);
                    text.push('\n');
                });
                text.push_str("-\n");
            }
            let _ = writeln!(text, "L 0 {n}\nL 1 {n}\n-");
        }
        text.push_str(">\n");
        text
    }

    /// Datagrams with a wrong Q_Key that arrive at least.
    pub fn wrong_qkeys(&self) -> u64 {
        let all = self.rounds.iter().flatten().flat_map(|unit| &unit.expect);
        all.filter(|expect| matches!(expect, Expect::WrongQkey)).count() as u64
    }

    /// Shorter scripts: without a round, without a unit.
    pub fn shorter(&self) -> Vec<Script> {
        let mut all = Vec::new();
        let with = |rounds: Vec<Vec<Unit>>| Script { rounds, ..self.clone() };
        if self.rounds.len() > 2 {
            all.push(with(self.rounds[..self.rounds.len() / 2 + 1].to_vec()));
            all.push(with(self.rounds[..self.rounds.len() - 1].to_vec()));
        }
        for n in (1..self.rounds.len()).rev() {
            let mut rounds = self.rounds.clone();
            rounds.remove(n);
            all.push(with(rounds));
        }
        for n in 1..self.rounds.len() {
            for unit in 0..self.rounds[n].len() {
                if self.rounds[n].len() > 1 {
                    let mut rounds = self.rounds.clone();
                    rounds[n].remove(unit);
                    all.push(with(rounds));
                }
            }
        }
        if self.threads > 1 {
            all.push(Script { threads: 1, ..self.clone() });
        }
        all
    }
}

/// What the parts of each side of a script wrote down.
pub type Logs = [Vec<String>; 2];

/// What is not as the specification wants it in what the sides wrote.
pub fn against_the_specification(script: &Script, logs: &Logs) -> Result<(), String> {
    let rounds = logs.each_ref().map(|parts| {
        let mut rounds: Vec<Vec<&str>> = vec![vec![]; script.rounds.len()];
        for part in parts {
            for (round, of_part) in rounds.iter_mut().zip(part.split(" look ").skip(1)) {
                round.extend(of_part.lines().map(str::trim));
            }
        }
        rounds
    });
    let mut may_miss = Vec::new();
    for (n, units) in script.rounds.iter().enumerate() {
        for expect in units.iter().flat_map(|unit| &unit.expect) {
            let starts = |side: usize, with: &str| {
                rounds[side]
                    .get(n)
                    .and_then(|round| round.iter().find(|line| line.starts_with(with)))
                    .copied()
            };
            match expect {
                Expect::Status { side, qp, id, status } => {
                    let request = format!("send {qp} {id} status ");
                    let found =
                        starts(*side, &request).and_then(|line| line[request.len()..].split(' ').next());
                    if found.and_then(|found| found.parse().ok()) != Some(*status) {
                        return Err(format!(
                            "round {n}: side {side} QP {qp} request {id}: status {found:?}, not {status}"
                        ));
                    }
                }
                Expect::State { side, qp, state } => {
                    if starts(*side, &format!("qp {qp} state {state} ")).is_none() {
                        let is = starts(*side, &format!("qp {qp} state"));
                        return Err(format!("round {n}: side {side}: {is:?}, not state {state}"));
                    }
                }
                Expect::Event { side, what, comes } => {
                    if starts(*side, what).is_some() != *comes {
                        return Err(format!("round {n}: side {side}: `{what}`: should it come? {comes}"));
                    }
                }
                Expect::Refused { side, what, errno, times } => {
                    let all: Vec<&str> = rounds[*side].get(n).into_iter().flatten().copied().collect();
                    let refused: Vec<_> =
                        all.iter().filter(|line| line.starts_with(&format!("{what}: "))).collect();
                    let line = format!("{what}: {errno}");
                    if refused.len() != *times || refused.iter().any(|found| ***found != line) {
                        return Err(format!("round {n}: side {side}: {refused:?}, not {times} x `{line}`"));
                    }
                }
                Expect::WrongQkey => {}
                Expect::MayMiss { qp } => may_miss.push(*qp),
            }
        }
        for (side, rounds) in rounds.iter().enumerate() {
            for line in rounds.get(n).into_iter().flatten() {
                let lost = line.ends_with("is missing") || line.ends_with("does not drain");
                let qp = line.split(' ').nth(1).and_then(|qp| qp.parse().ok());
                if lost && !qp.is_some_and(|qp: usize| may_miss.contains(&qp)) {
                    return Err(format!("round {n}: side {side}: {line}"));
                }
            }
        }
    }
    Ok(())
}
