//! A row of a table: a figure beside another one, and whether the ratio meets its goal.

/// A row.
pub struct Row {
    pub what: String,
    /// What it is set beside.
    pub limit: f64,
    pub reached: f64,
    /// Reached over limit: of tries where both were measured one after the other.
    pub ratio: f64,
    pub unit: &'static str,
    /// At least (bandwidth, rate) or at most (latency) this.
    pub goal: Goal,
}

/// What a ratio has to be.
pub enum Goal {
    AtLeast(f64),
    AtMost(f64),
    /// Printed to be known.
    None,
}

impl Row {
    fn met(&self) -> bool {
        match self.goal {
            Goal::AtLeast(goal) => self.ratio >= goal,
            Goal::AtMost(goal) => self.ratio <= goal,
            Goal::None => true,
        }
    }

    /// Prints it, below [`heading`].
    pub fn print(&self) {
        let digits = usize::from(self.unit != "ns");
        let shown = |value: f64| format!("{value:.digits$} {}", self.unit);
        println!(
            "{:<56} {:>12} {:>12} {:>7.2}  {}",
            self.what,
            shown(self.limit),
            shown(self.reached),
            self.ratio,
            self.describe()
        );
    }

    fn describe(&self) -> String {
        let (sign, goal) = match self.goal {
            Goal::AtLeast(goal) => ("at least", goal),
            Goal::AtMost(goal) => ("at most", goal),
            Goal::None => return "none".into(),
        };
        format!("{sign} {goal:.2}{}", if self.met() { "" } else { "  MISSED" })
    }
}

/// The median of several figures.
pub fn median(what: &str, mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    if std::env::var_os("SPEED_VERBOSE").is_some() {
        eprintln!("  {what}: {all:.3?}");
    }
    all[all.len() / 2]
}

/// The first line of a table.
pub fn heading(reached: &str) {
    println!("{:<56} {:>12} {:>12} {:>7}  goal", "", "beside", reached, "ratio");
}

/// The last line of a table; ends the program with an error when a goal is missed.
pub fn verdict(rows: &[Row]) {
    let missed = rows.iter().filter(|row| !row.met()).count();
    let goals = rows.iter().filter(|row| !matches!(row.goal, Goal::None)).count();
    println!("\n{} of {goals} goals met", goals - missed);
    if missed != 0 {
        std::process::exit(1);
    }
}
