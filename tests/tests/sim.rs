//! `verbena sim`: traffic patterns on many cards, through the command itself.
//!
//! The expected figures are those of arithmetic: bytes over the rate that a port carries of payload, and times of a ring.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tests::place_for;
use tests::stock::{number_before, verbena};

/// Payload of 1 KiB in a frame of 1086 bytes, with 20 of preamble and gap, at 25 Gb/s: nanoseconds for a byte.
const NS: f64 = 8.0 / 25.0 * 1106.0 / 1024.0;

fn sim(line: &str) -> Output {
    Command::new(verbena()).arg("sim").args(line.split_whitespace()).output().expect("the command runs")
}

/// What it prints, and the rows of its CSV: from, to, bytes, completion time (ns).
fn run(line: &str) -> (String, Vec<[f64; 4]>) {
    let (_directory, csv) = place_for("times.csv");
    let output = sim(&format!("{line} --csv {}", csv.display()));
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(output.status.success(), "{line}: {said}");
    let rows = fs::read_to_string(csv).expect("the CSV");
    let row = |line: &str| -> [f64; 4] {
        let mut values = line.split(',').map(|value| value.parse().expect("a number"));
        std::array::from_fn(|_| values.next().expect("a column"))
    };
    (String::from_utf8(output.stdout).expect("text"), rows.lines().skip(1).map(row).collect())
}

fn last(rows: &[[f64; 4]]) -> f64 {
    rows.iter().map(|row| row[3]).fold(0.0, f64::max)
}

/// No packet was dropped, and none sent again.
#[track_caller]
fn nothing_is_lost(text: &str) {
    let figures = [" packets, 0 sent", " sent again"].map(|words| number_before(text, words));
    assert_eq!(figures, [0.0; 2], "{text}");
}

#[test]
fn small_runs_are_as_they_were() {
    let mut text = String::new();
    for line in [
        "--pattern incast --cards 4 --bytes 256KiB",
        "--pattern incast --cards 6 --bytes 512KiB --cc dcqcn --seed 3",
        "--pattern permutation --cards 12 --bytes 128KiB --topology leaf-spine --leaf 4 --ratio 2",
        "--pattern alltoall --cards 5 --bytes 64KiB --card f10a",
        "--pattern allreduce --cards 6 --bytes 100000",
    ] {
        text += &run(line).0;
    }
    insta::assert_snapshot!(text);
}

/// However busy the machine is: two runs at the same time, and one alone.
#[test]
fn runs_are_the_same_beside_each_other() {
    let line = "--pattern alltoall --cards 12 --bytes 64KiB --topology leaf-spine --leaf 4 --cc dcqcn";
    let alone = run(line);
    std::thread::scope(|scope| {
        let beside: Vec<_> = (0..4).map(|_| scope.spawn(|| run(line))).collect();
        beside.into_iter().for_each(|run| assert_eq!(run.join().expect("it ends"), alone));
    });
}

/// The receiver's port is busy from the first byte to the last, nothing is lost, and the senders share it.
#[test]
fn an_incast_takes_what_its_port_takes() {
    for cards in [3, 9, 33] {
        let bytes = 1 << 20;
        let (text, rows) = run(&format!("--pattern incast --cards {cards} --bytes {bytes}"));
        assert_eq!(rows.len(), cards - 1);
        assert!(rows.iter().all(|row| (row[1], row[2]) == (0.0, f64::from(bytes))), "{rows:?}");
        let least = (cards - 1) as f64 * f64::from(bytes) * NS;
        let time = last(&rows);
        assert!(
            time >= least && time <= least * 1.005 + 10_000.0,
            "{cards} cards: {time} ns, at least {least}"
        );
        nothing_is_lost(&text);
        assert!(number_before(&text, " (Jain") > 0.99, "{text}");
    }
}

/// In a star no flow of a permutation meets another: each takes as long as one alone, but for the acknowledgements that its
/// port sends beside it, a part of a thousand.
#[test]
fn a_permutation_in_a_star_takes_as_long_as_one_flow() {
    let (_, one) = run("--pattern incast --cards 2 --bytes 1MiB");
    let (_, all) = run("--pattern permutation --cards 48 --bytes 1MiB --seed 7");
    assert_eq!(all.len(), 48);
    assert!(all.iter().all(|row| (row[3] / last(&one) - 1.0).abs() < 0.002), "{all:?}, alone {one:?}");
    let least = f64::from(1 << 20) * NS;
    assert!(last(&one) >= least && last(&one) < least + 6000.0, "{one:?}, at least {least}");
}

/// As many cables up as down are not enough where flows choose them by a hash; with one cable for four cards the leaves
/// are four times as slow at best.
#[test]
fn leaves_are_as_fast_as_their_cables() {
    let time = |ratio| {
        let line = "--pattern permutation --cards 32 --bytes 512KiB --topology leaf-spine --leaf 8 --seed 2";
        let (text, rows) = run(&format!("{line} --ratio {ratio}"));
        assert_eq!(number_before(&text, " packets, 0 sent"), 0.0, "{text}");
        last(&rows)
    };
    let (_, star) = run("--pattern permutation --cards 32 --bytes 512KiB --seed 2");
    assert!(time(1) > last(&star), "the hash puts several flows on a cable");
    // Most of the 32 flows leave their leaf, by 2 cables each.
    let crossing = {
        let other = |row: &&[f64; 4]| row[0] as u32 / 8 != row[1] as u32 / 8;
        let mut leaving = [0; 4];
        star.iter().filter(other).for_each(|row| leaving[row[0] as usize / 8] += 1);
        f64::from(leaving.into_iter().max().expect("four leaves"))
    };
    assert!(time(4) >= crossing / 2.0 * f64::from(512 << 10) * NS, "{crossing} flows by two cables");
}

/// Each card receives a message of each other card, all at the rate of its port.
#[test]
fn all_to_all_fills_every_port() {
    let (_, rows) = run("--pattern alltoall --cards 10 --bytes 256KiB");
    assert_eq!(rows.len(), 90);
    let least = 9.0 * f64::from(256 << 10) * NS;
    assert!(
        last(&rows) >= least && last(&rows) < least * 1.01 + 6000.0,
        "{} ns, at least {least}",
        last(&rows)
    );
}

/// Which of those that a card sends to it is, from 1.
fn distance(row: &[f64; 4], cards: usize) -> usize {
    (row[1] as usize + cards - row[0] as usize) % cards
}

/// With more cards than the window, a message begins when one before it has ended; every port is busy all the same.
#[test]
fn all_to_all_keeps_to_its_window() {
    let (cards, bytes) = (12, 64 << 10);
    let message = f64::from(bytes) * NS;
    for window in [1, 4] {
        let line = format!("--pattern alltoall --cards {cards} --bytes {bytes} --window {window}");
        let (text, rows) = run(&line);
        assert!(text.contains(&format!("64 KiB each, to {window} at a time")), "{text}");
        assert_eq!(
            (rows.len(), number_before(&text, " packets, 0 sent")),
            (cards * (cards - 1), 0.0),
            "{text}"
        );
        for row in &rows {
            let before = distance(row, cards).saturating_sub(window) as f64;
            assert!(row[3] >= (before + 1.0) * message, "{row:?} began too early");
        }
        let least = (cards - 1) as f64 * message;
        // What an acknowledgement and the next message's first byte take.
        let pause = (cards - window) as f64 * 5000.0;
        assert!(last(&rows) >= least && last(&rows) <= least * 1.01 + pause, "{} of {least}", last(&rows));
        assert_eq!(run(&line), (text, rows), "another run");
    }
    // One that no card reaches changes nothing.
    let line = format!("--pattern alltoall --cards {cards} --bytes {bytes}");
    assert_eq!(run(&line), run(&format!("{line} --window 11")));
}

/// More queue pairs, and receives, than events find room.
#[test]
#[ignore = "the long form of the checks"]
fn all_to_all_of_many_cards_ends() {
    for (cards, bytes) in [(512, 4096), (1024, 1024)] {
        let (text, rows) = run(&format!("--pattern alltoall --cards {cards} --bytes {bytes}"));
        assert_eq!(rows.len(), cards * (cards - 1));
        nothing_is_lost(&text);
        let least = (cards - 1) as f64 * bytes as f64 * NS;
        assert!(last(&rows) >= least && last(&rows) < least * 1.3, "{} ns of {least}", last(&rows));
    }
}

/// 2 (N - 1) steps, each of which passes an N-th of the vector and takes what a message without bytes takes.
#[test]
fn a_ring_takes_its_steps() {
    for cards in [4, 16] {
        let time = |bytes: u32| last(&run(&format!("--pattern allreduce --cards {cards} --bytes {bytes}")).1);
        let steps = f64::from(2 * (cards - 1));
        let (latency, time) = (time(cards) / steps, time(4 << 20));
        assert!((1000.0..6000.0).contains(&latency), "a step of one byte takes {latency} ns");
        let least = steps / f64::from(cards) * f64::from(4 << 20) * NS;
        assert!(time >= least, "{time} ns, at least {least}");
        assert!(
            time <= least * 1.01 + steps * (latency + 1500.0),
            "{cards}: {time} ns, {least} and {latency}"
        );
    }
}

/// Without pauses what finds no room is lost and sent again; the data arrives all the same.
#[test]
fn what_is_lost_is_sent_again() {
    let (text, rows) = run("--pattern incast --cards 8 --bytes 256KiB --switch buffer=64KiB");
    assert_eq!(rows.len(), 7);
    assert!(number_before(&text, " sent again") > 0.0, "{text}");
}

/// By default time-outs are so short that a port which loses packets is mostly busy, and retries suffice for all of them.
#[test]
fn a_lossy_incast_ends_well() {
    let (text, rows) = run("--pattern incast --cards 16 --switch default");
    assert_eq!(rows.len(), 15);
    assert!(rows.iter().all(|row| row[2] == f64::from(1 << 20)), "{rows:?}");
    assert!(text.contains("\n  retries     7, each after 2097.152 us (--timeout 9)\n"), "{text}");
    assert!(number_before(&text, " packets, ") > 0.0 && number_before(&text, " sent again") > 0.0, "{text}");
    assert!(number_before(&text, " % of the receivers' ports") > 50.0, "{text}");
    assert_eq!(run("--pattern incast --cards 16 --switch default --timeout 9 --retries 7"), (text, rows));
}

#[test]
fn retries_are_as_given() {
    let line = "--pattern incast --cards 8 --switch default --timeout 12 --retries 3";
    let (text, rows) = run(line);
    assert!(text.contains("\n  retries     3, each after 16777.216 us (--timeout 12)\n"), "{text}");
    assert!(last(&rows) > 16_777_216.0, "no time-out took as long as that: {rows:?}");
    // Where nothing is lost they are not shown, unless they were given.
    let line = "--pattern incast --cards 2 --bytes 1KiB";
    assert!(!run(line).0.contains("retries"));
    let given = run(&format!("{line} --retries 0")).0;
    assert!(given.contains("\n  retries     0, each after 268435.456 us (--timeout 16)\n"), "{given}");
}

/// What arrived is told, and written, before the error that says why not all did, and what helps: which it does.
#[test]
fn a_run_whose_retries_end_prints_figures_and_fails() {
    let line = "--pattern incast --cards 64 --switch default";
    let (_directory, csv) = place_for("times.csv");
    let output = sim(&format!("{line} --csv {}", csv.display()));
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    let arrived = number_before(&text, " of 63, ");
    assert!(arrived > 0.0 && arrived < 63.0 && number_before(&text, " packets, ") > 0.0, "{text}");
    assert_eq!(fs::read_to_string(csv).expect("the CSV").lines().count(), arrived as usize + 1);
    for words in [
        "to card 0 gave up (RETRY_EXC_ERR)",
        "(7, each after 2097.152 us)",
        "what may help: --switch pfc, --cc dcqcn, a longer --timeout\n",
    ] {
        assert!(said.contains(words), "no `{words}`: {said}");
    }
    assert_eq!(run("--pattern incast --cards 64 --switch pfc").1.len(), 63);
    assert_eq!(run(&format!("{line} --cc dcqcn")).1.len(), 63);
}

/// A card whose queue pair gives up goes on with its other messages, and its peer gives up, too.
#[test]
fn a_queue_pair_that_gives_up_does_not_stop_others() {
    let network = "--switch buffer=8KiB --topology leaf-spine --leaf 4 --ratio 4";
    let output = sim(&format!("--pattern alltoall --cards 8 --window 2 {network} --retries 1"));
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(" more later: ") && said.contains("more --retries, a longer --timeout"), "{said}");
    let arrived = number_before(&text, " of 56, ");
    assert!(arrived > 0.0 && arrived < 56.0, "{text}");
}

/// The seed is that of the marks, too, unless the switch was given one.
#[test]
fn the_seed_is_the_switchs() {
    for (switch, seed) in [("", 7), ("--switch pfc", 7), ("--switch pfc,seed=1", 1), ("--switch seed=2", 2)] {
        let (text, _) = run(&format!("--pattern incast --cards 2 --bytes 1KiB --seed 7 {switch}"));
        assert!(text.contains(&format!(",seed={seed}\n")), "{switch}: {text}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    for (line, why) in [
        ("--pattern ring", "possible values: incast, permutation, alltoall, allreduce"),
        ("--pattern incast --topology torus", "possible values: star, leaf-spine"),
        ("--pattern incast --cards 0", "0 is not in 2..=4096"),
        ("--pattern incast --cards 1", "1 is not in 2..=4096"),
        ("--pattern incast --cards 5000", "5000 is not in 2..=4096"),
        ("--pattern incast --bytes 0", "a message has at least one byte"),
        ("--pattern incast --bytes much", "a number of bytes, such as 65536"),
        ("--pattern incast --card cx9", "no such card profile"),
        ("--pattern incast --mtu 4096", "a path MTU of at most 1024"),
        ("--pattern incast --mtu 1500", "one of 256, 512, 1024, 2048 and 4096"),
        ("--pattern alltoall --window 0", "0 is not in 1..=65535"),
        ("--pattern incast --timeout 0", "0 is not in 1..=31"),
        ("--pattern incast --timeout 32", "32 is not in 1..=31"),
        ("--pattern incast --retries 8", "8 is not in 0..=7"),
        ("--pattern incast --leaf 4", "add --topology leaf-spine"),
        ("--pattern incast --topology leaf-spine --leaf 8 --ratio 3", "cannot have a cable for each 3"),
        ("--pattern incast --switch pfc,xoff=no", "xoff"),
        ("--pattern incast --switch pfc,buffer=64KiB", "a switch without pfc"),
    ] {
        let output = sim(line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{line}: {said}");
    }
    let directory = tempfile::tempdir().expect("a directory");
    let empty = directory.path().join("own.toml");
    fs::write(&empty, "name = \"own\"\n").expect("written");
    let output = sim(&format!("--pattern incast --card {}", empty.display()));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("own.toml"), "{said}");
    // Files that cannot be, before the run, which leaves what there was.
    let at = |name: &str| directory.path().join(name).display().to_string();
    fs::write(at("csv"), "an earlier run's").expect("written");
    for (options, why) in [
        ("--csv -".to_owned(), "name a file"),
        (format!("--csv {} --plot {}", at("csv"), at("./csv")), "the same file"),
        (format!("--csv {} --plot {}", at("csv"), at("none/plot")), "No such file or directory"),
    ] {
        let output = sim(&format!("--pattern incast --cards 2 {options}"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(why), "{options}: {said}");
        assert!(!said.contains("made the cards"), "{options}: {said}");
    }
    assert_eq!(fs::read_to_string(at("csv")).expect("the file"), "an earlier run's");
}

#[test]
fn the_plot_is_drawn() {
    let (_directory, plot) = place_for("times.svg");
    let output = sim(&format!("--pattern incast --cards 4 --bytes 64KiB --plot {}", plot.display()));
    assert!(output.status.success());
    let svg = fs::read_to_string(&plot).expect("the plot");
    assert!(svg.starts_with("<svg") && svg.contains("completion time") && svg.contains("incast of 4 cards"));
    // All at about the same time, and at very different ones: both axes can be read.
    for line in ["permutation --cards 16 --bytes 64KiB", "incast --cards 64 --bytes 64KiB"] {
        assert!(sim(&format!("--pattern {line} --plot {}", plot.display())).status.success());
        let svg = fs::read_to_string(&plot).expect("the plot");
        let labels = |place: &str| -> Vec<f64> {
            let texts = svg.split("<text ").skip(1).filter(|text| text.contains(place));
            texts.filter_map(|text| text.split(['>', '<']).nth(1)?.trim().parse().ok()).collect()
        };
        // Those below the x axis are centred, those of the y axis end at it.
        let (x, y) = (labels("text-anchor=\"middle\""), labels("text-anchor=\"end\""));
        assert!(x.len() >= 2 && x.iter().any(|label| *label != x[0]), "{line}: {x:?}");
        assert!(
            y.contains(&0.0) && y.contains(&1.0) && y.iter().all(|y| (0.0..=1.0).contains(y)),
            "{line}: {y:?}"
        );
        assert!(!svg.contains("<circle") && svg.len() < 100_000, "{line}: {} bytes", svg.len());
    }
    let output = sim("--pattern incast --cards 2 --bytes 1KiB --csv /nowhere/times.csv");
    assert!(
        !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("/nowhere/times.csv")
    );
    assert!(!Path::new("/nowhere").exists());
}

/// What a packet costs does not grow with the number of cards: events are counted, which no busy machine changes.
#[test]
#[ignore = "the long form of the checks"]
fn the_cost_of_a_packet_does_not_grow() {
    let events = |cards: u32| {
        let (text, rows) = run(&format!("--pattern permutation --cards {cards} --bytes 256KiB"));
        assert_eq!(rows.len(), cards as usize);
        number_before(&text, " events a packet")
    };
    let few = events(8);
    for cards in [64, 256, 1024] {
        let many = events(cards);
        assert!(many <= few * 1.05, "{many} events a packet with {cards} cards, {few} with 8");
    }
}
