//! A record against the model: everything that software did is done again, and what the model does is
//! compared with what the card did.

use std::path::PathBuf;

use anyhow::{bail, Context, Result};
use clap::Args;
use model::device::defect::Defect;

use super::compare::Difference;
use super::line::{Line, HEADER};
use super::player::Player;
use crate::board::sim;

/// Options of `verbena replay`.
#[derive(Args, Clone, Debug)]
pub struct ReplayArgs {
    /// The record
    pub file: PathBuf,
    /// Do not compare this register, entry or field (FEATURES, CardLimits, Cqe.syndrome); may be repeated
    #[arg(long, value_name = "NAME")]
    pub ignore: Vec<String>,
}

/// Prints the first difference; exit code 1 if there is one.
pub fn replay(args: ReplayArgs) -> Result<u8> {
    let name = args.file.display().to_string();
    let text = std::fs::read_to_string(&args.file).with_context(|| format!("reading {name}"))?;
    let lines = parse(&text).with_context(|| format!("{name} is no record"))?;
    let card = sim::private(Defect::None)?;
    let mut player = Player::new(std::sync::Arc::new(card), args.ignore);
    let found = play(&mut player, &lines)?;
    let Some((number, difference)) = found else {
        say!("no difference: the model does all {} events of {name} like the card", lines.len());
        return Ok(0);
    };
    say!("{name}:{number}: {}", difference.what);
    if !difference.field.is_empty() {
        say!("  field     {}", difference.field);
    }
    say!("  expected  {}   (the model)", difference.expected);
    say!("  got       {}   (the record)", difference.got);
    Ok(1)
}

/// The events with the numbers of their lines.
fn parse(text: &str) -> Result<Vec<(usize, Line)>> {
    let mut lines = text.lines().enumerate();
    if lines.next().map(|(_, first)| first) != Some(HEADER) {
        bail!("its first line is not `{HEADER}`: make one with verbena record");
    }
    let events = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    events
        .map(|(number, line)| match line.parse() {
            Ok(event) => Ok((number + 1, event)),
            Err(error) => bail!("line {}: {error}", number + 1),
        })
        .collect()
}

/// The first difference, with its line.
fn play(player: &mut Player, lines: &[(usize, Line)]) -> Result<Option<(usize, Difference)>> {
    for (index, (number, line)) in lines.iter().enumerate() {
        if matches!(line, Line::Read { at, .. } if polled_again(&lines[index + 1..], *at)) {
            continue;
        }
        if let Some(difference) = player.event(line).with_context(|| format!("line {number}"))? {
            return Ok(Some((*number, difference)));
        }
    }
    let last = lines.last().map_or(0, |(number, _)| *number);
    Ok(player.end().map(|difference| (last, difference)))
}

/// Whether the register is read again before software does something: then it waits for another value.
fn polled_again(rest: &[(usize, Line)], at: u32) -> bool {
    for (_, line) in rest {
        match line {
            Line::Read { at: other, .. } if *other == at => return true,
            Line::Read { .. } | Line::Reply { .. } | Line::Cqe { .. } | Line::Eqe { .. } => {}
            _ => return false,
        }
    }
    false
}
