//! perftest's own table, read and checked.

/// What perftest says if the machine delayed it while it compared the processor's time stamp counter with the clock (its
/// `get_clock.c`). Its figures are then 0.00 or infinite, and the line may be in the midst of its table.
const UNCALIBRATED: &str = "Correlation coefficient r^2";

/// Runs perftest until it has calibrated its clock; the third try counts, however it ended. `said` gives what both sides said.
pub fn until_calibrated<T>(mut run: impl FnMut() -> T, said: impl Fn(&T) -> String) -> T {
    for _ in 0..2 {
        let ended = run();
        if !said(&ended).contains(UNCALIBRATED) {
            return ended;
        }
    }
    run()
}

/// What a run is expected to print.
pub struct Kind {
    latency: bool,
    duration: bool,
    sizes: Sizes,
}

enum Sizes {
    /// `-a`: 2 to 2^23.
    All,
    One(Option<f64>),
}

impl Kind {
    /// Expectations for a command line.
    pub fn of(program: &str, arguments: &[&str]) -> Kind {
        let value =
            arguments.iter().position(|word| *word == "-s").and_then(|at| arguments[at + 1].parse().ok());
        let sizes = if arguments.contains(&"-a") { Sizes::All } else { Sizes::One(value) };
        Kind { latency: program.ends_with("_lat"), duration: arguments.contains(&"-D"), sizes }
    }
}

/// The table's lines of numbers: size, iterations, then what was measured.
pub fn rows(said: &str) -> Vec<Vec<f64>> {
    let table = said.split("#bytes").nth(1).unwrap_or("");
    let row = |line: &str| line.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>().ok();
    table.lines().skip(1).filter_map(row).filter(|row| row.len() >= 4).collect()
}

/// Its first line of numbers; panics with what was said if there is none.
pub fn first_row(said: &str) -> Vec<f64> {
    rows(said).into_iter().next().unwrap_or_else(|| panic!("no row of figures in:\n{said}"))
}

/// Checks that the table is whole and its figures are possible.
pub fn check_report(said: &str, kind: Kind) -> Result<(), String> {
    for bad in ["Completion with error", "Failed", "Couldn't", "Unable", "rror:"] {
        if said.contains(bad) {
            return Err(format!("it complains (`{bad}`)"));
        }
    }
    let rows = rows(said);
    let sizes: Vec<f64> = rows.iter().map(|row| row[0]).collect();
    match kind.sizes {
        Sizes::All => {
            let wanted: Vec<f64> = (1..=23).map(|power| f64::from(1 << power)).collect();
            if sizes != wanted {
                return Err(format!("-a printed sizes {sizes:?}"));
            }
        }
        Sizes::One(wanted) => {
            if sizes.len() != 1 || wanted.is_some_and(|wanted| wanted != sizes[0]) {
                return Err(format!("one line was expected, not sizes {sizes:?}"));
            }
        }
    }
    for row in &rows {
        // Latency with a duration prints the average only; else minimum, maximum, typical, average.
        // Bandwidth prints peak (none with a duration), average and message rate.
        let measured = if kind.latency && !kind.duration { row[2..6].to_vec() } else { row[3..].to_vec() };
        if row[1] < 1.0 || !measured.iter().all(|figure| figure.is_finite() && *figure >= 0.0) {
            return Err(format!("impossible figures: {row:?}"));
        }
        if kind.latency && !kind.duration && (row[2] > row[4] || row[4] > row[3]) {
            return Err(format!("typical latency is not between least and most: {row:?}"));
        }
        // The average of a few bytes on a machine that stood still is 0.00 MB/s.
        if !kind.latency && row[4] <= 0.0 {
            return Err(format!("no message rate: {row:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_could_not_calibrate_its_clock_runs_three_times_at_most() {
        let tries = |busy: usize| {
            let mut count = 0;
            let mut run = || {
                count += 1;
                if count > busy {
                    "5 0.018013"
                } else {
                    "5 0.018013Correlation coefficient r^2: 0.83 < 0.9"
                }
            };
            let said = until_calibrated(&mut run, |said| (*said).to_owned());
            (said.len() < 20, count)
        };
        assert_eq!([0, 1, 2, 9].map(tries), [(true, 1), (true, 2), (true, 3), (false, 3)]);
    }
}
