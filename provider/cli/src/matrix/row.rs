//! A row: a program, how it is run, and what shows that it worked.

use crate::perftest::table::{Table, UNCALIBRATED};

/// The port that stands for the free one.
pub const PORT: u16 = 0;

/// A program, and how it is run.
///
/// In all texts PORT stands for a free port.
pub struct Row {
    pub package: &'static str,
    /// That is one of Python, and of no release: its name in site-packages.
    pub wheel: Option<&'static str>,
    /// The program (of two, the client).
    pub program: &'static str,
    /// What it is given, by both sides if it has two.
    pub options: &'static str,
    /// Options of `verbena run`.
    pub launcher: &'static str,
    /// Its environment: NAME=VALUE.
    pub environment: &'static str,
    /// Files that it finds in its directory: name and content.
    pub files: &'static [(&'static str, &'static str)],
    /// How many processes it takes.
    pub way: Way,
    /// What shows that it worked, beside exit status 0 of all processes.
    pub proof: Proof,
    /// What is said by a program that came too early: a client before its server listened, if the two do not wait for each other,
    /// or a thread's end before another one was done. The row is then run again.
    pub early: &'static [&'static str],
    /// Since this release of rdma-core the program may wait for ever after it has done all, by a fault of its own. The row
    /// is then run again.
    pub hangs_since: Option<u32>,
}

/// How many processes a program takes.
#[derive(Clone, Copy)]
pub enum Way {
    /// One, or those that it starts itself.
    Alone,
    /// A server, and then a client.
    Pair(Pair),
    /// As many as this shell script starts. It is given the words that start the program, and PORT in its environment.
    Script(&'static str),
}

/// A server, and then a client: what each of them is given before the options, after NAME=VALUE of its environment.
#[derive(Clone, Copy)]
pub struct Pair {
    pub server: &'static str,
    pub client: &'static str,
    /// When the client may start.
    pub ready: Ready,
    /// The server's program, if it is another one.
    pub by: Option<&'static str>,
}

/// How one sees that a server takes clients.
#[derive(Clone, Copy)]
pub enum Ready {
    /// It listens on TCP port PORT.
    Tcp,
    /// It listens on this port of the connection manager, or on [`PORT`].
    Rdma(u16),
    /// It says this.
    Says(&'static str),
}

/// What shows that a program worked.
#[derive(Clone, Copy)]
pub enum Proof {
    /// It (the client, of two) says this.
    Says(&'static str),
    /// Its table, of perftest, has a line with a bandwidth or a latency.
    Figure,
}

impl Row {
    /// A program that is run alone and says this.
    pub const fn alone(
        package: &'static str,
        program: &'static str,
        options: &'static str,
        says: &'static str,
    ) -> Row {
        let proof = Proof::Says(says);
        Row {
            package,
            wheel: None,
            program,
            options,
            launcher: "",
            environment: "",
            files: &[],
            way: Way::Alone,
            proof,
            early: &[],
            hangs_since: None,
        }
    }

    /// With options of `verbena run`.
    pub const fn with(self, launcher: &'static str) -> Row {
        Row { launcher, ..self }
    }

    pub const fn within(self, environment: &'static str) -> Row {
        Row { environment, ..self }
    }

    pub const fn reading(self, files: &'static [(&'static str, &'static str)]) -> Row {
        Row { files, ..self }
    }

    /// Of this package of Python.
    pub const fn of_wheel(self, name: &'static str) -> Row {
        Row { wheel: Some(name), ..self }
    }

    pub const fn by(self, way: Way) -> Row {
        Row { way, ..self }
    }

    /// Whether it failed, having said this, by a fault of its own that another try may not meet.
    pub fn is_tried_again(&self, said: &str) -> bool {
        let uncalibrated = matches!(self.proof, Proof::Figure) && said.contains(UNCALIBRATED);
        uncalibrated || self.early.iter().any(|early| said.contains(early))
    }

    /// The command line without what is chosen for a run.
    pub fn line(&self) -> String {
        let launcher = if self.launcher.is_empty() { String::new() } else { format!("[{}]", self.launcher) };
        let words = [&launcher, self.environment, self.program, self.options];
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

impl Proof {
    /// Why what a program said is no proof.
    pub fn missing(self, said: &str) -> Option<String> {
        // The ping-pongs complain about wrong data, and exit with 0.
        if said.contains("invalid data") {
            return Some("wrong data".to_owned());
        }
        match self {
            Proof::Says(text) => (!said.contains(text)).then(|| format!("does not say `{text}`")),
            Proof::Figure => {
                let mut table = Table::default();
                said.lines().for_each(|line| {
                    table.feed(line);
                });
                let column = table.column("BW average").or_else(|| table.column("t_avg"));
                let figures = column.map_or(0, |column| table.points(column).len());
                (figures == 0).then(|| "no figure".to_owned())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_early_or_could_not_read_its_clock_is_tried_again() {
        let mut row = Row { early: &["refused"], ..Row::alone("perftest", "ib_write_bw", "", "") };
        assert!(row.is_tried_again("connection refused") && !row.is_tried_again("wrong data"));
        let busy = "Correlation coefficient r^2: 0.65668 < 0.9\n 65536  100  0.00  0.00  0.000000";
        assert!(!row.is_tried_again(busy), "it is to say a text");
        row.proof = Proof::Figure;
        assert!(row.is_tried_again(busy) && row.is_tried_again("connection refused"));
        assert!(!row.is_tried_again(" 65536  100  0.00  0.00  0.000000"));
    }

    #[test]
    fn figures_and_words_are_proofs() {
        let table = " #bytes #iterations  BW peak[MB/sec]  BW average[MB/sec]  MsgRate[Mpps]\n 8  100  0.00  AVERAGE  0.1\n";
        let missing = |average| Proof::Figure.missing(&table.replace("AVERAGE", average));
        assert_eq!(missing("5.1"), None);
        assert_eq!(missing("0.00").as_deref(), Some("no figure"));
        assert_eq!(Proof::Figure.missing("Couldn't connect").as_deref(), Some("no figure"));
        assert_eq!(Proof::Says("usec/iter").missing("1 usec/iter"), None);
        assert!(Proof::Says("usec/iter").missing("1 usec/iter\ninvalid data in page 3").is_some());
        assert!(Proof::Says("usec/iter").missing("").is_some());
    }
}
