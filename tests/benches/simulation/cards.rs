//! What a packet costs as cards grow, in `verbena sim`: a permutation on a star.

use std::process::Command;

use tests::stock::{number_before, verbena};

use super::Row;

const CARDS: [u32; 4] = [8, 64, 256, 1024];
/// Runs of each; the fastest counts.
const RUNS: usize = 3;

/// Million events a second, and nanoseconds of processor time a packet.
fn run(cards: u32) -> (f64, f64) {
    let mut command = Command::new(verbena());
    // Of few cards, so much that the run takes some tenths of a second.
    let bytes = if cards < 64 { "32MiB" } else { "2MiB" };
    command.args(["sim", "--pattern", "permutation", "--bytes", bytes, "--cards", &cards.to_string()]);
    let output = command.output().expect("the command runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{cards} cards:\n{said}");
    (number_before(&said, " million events a second"), number_before(&said, " ns a packet"))
}

/// Prints it, and gives what a packet of the most cards costs as a multiple of one of the fewest.
pub fn cost() -> Row {
    println!(
        "\nverbena sim, cards: million events a second, processor time a packet, as a multiple of 8 cards':"
    );
    let mut times = Vec::new();
    for cards in CARDS {
        let runs = (0..RUNS).map(|_| run(cards));
        let (events, ns) = runs.min_by(|a, b| a.1.total_cmp(&b.1)).expect("there are some");
        times.push(ns);
        println!("  {cards:>4} {events:>8.2} {ns:>8.0} ns {:>8.2}", ns / times[0]);
    }
    let reached = times[times.len() - 1] / times[0];
    Row { what: "verbena sim: a packet of 1024 cards, of 8", reached, at_most: 2.0 }
}
