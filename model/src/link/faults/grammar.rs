//! The words of the grammar of `--fault`, for its reader, its help and its messages.

use super::rule::Action;
use super::seen::Classes;
use super::time::Time;

/// The seed when none is given: the same command has the same faults.
pub(super) const SEED: u64 = 1;
/// What a rule begins with. A delay says later how long it is.
pub(super) const ACTIONS: [(&str, Action); 6] = [
    ("drop", Action::Drop),
    ("dup", Action::Dup),
    ("reorder", Action::Reorder(1)),
    ("corrupt", Action::Corrupt),
    ("delay", Action::Delay(Time(0))),
    ("mark", Action::Mark),
];
/// The words of any rule that have a value.
pub(super) const VALUED: [&str; 8] =
    ["nth=N[..[N]]", "every=N", "p=P", "qp=N", "psn=N[..N]", "from=CARD", "to=CARD", "at=TIME..[TIME]"];

pub(super) fn actions() -> String {
    list(&ACTIONS.map(|(name, _)| name))
}

pub(super) fn class_names() -> Vec<&'static str> {
    Classes::ALL.iter().map(|(_, name, _)| *name).collect()
}

pub(super) fn list(words: &[&str]) -> String {
    words.join(", ")
}

/// The grammar in short, for the help of `--fault`.
pub fn grammar() -> String {
    let classes = class_names().chunks(9).map(list).collect::<Vec<_>>().join(",\n    ");
    let (actions, valued) = (actions(), list(&VALUED));
    format!(
        "\
Faults of the exact wire, as loss=0.01,seed=7 or \"drop data qp=17 nth=3, down=2ms..5ms\": parts with commas
between them; or @FILE with such parts

  loss=P, dup=P, reorder=P, corrupt=P  any frame, with this probability from 0 to 1
  down=TIME..[TIME]                    the link is down
  seed=N                               of the random numbers ({SEED})
  ACTION WORD...                       frames that match all the words

  ACTION: {actions}
  WORD: {valued},
    a class: {classes};
    of reorder by=N, later frames that pass; of delay by=TIME
  TIME: 2ms, 1.5us, 800ns; at and down count from the start of the net
  CARD: verbena1, or verbena1/2 (its port 2)"
    )
}

/// More wrong letters than these are no slip.
const MOST_WRONG: usize = 2;

/// The word that was probably meant, as a question.
pub(super) fn suggestion(word: &str) -> String {
    let name = |word: &str| word.split_inclusive('=').next().unwrap_or_default().to_owned();
    let given = name(word).trim_end_matches('=').to_owned();
    let known = class_names().into_iter().chain(VALUED).chain(["by="]).map(name);
    let near = known.map(|known| (strsim::osa_distance(&given, known.trim_end_matches('=')), known)).min();
    match near.filter(|&(wrong, _)| wrong <= MOST_WRONG && wrong < given.len()) {
        Some((_, known)) => format!(" did you mean `{known}`?"),
        None => String::new(),
    }
}
