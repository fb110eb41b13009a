//! The rows of the matrix.

use std::collections::BTreeSet;

use crate::perftest::table::Table;

/// A program, and how it is run.
pub struct Row {
    /// The package of Debian that has it.
    pub package: &'static str,
    /// The program.
    pub program: &'static str,
    /// What it is given, by both sides if it has two.
    pub options: &'static str,
    /// Options of `verbena run`.
    pub launcher: &'static str,
    /// How many processes it takes.
    pub way: Way,
    /// What shows that it worked, beside exit status 0 of all processes.
    pub proof: Proof,
}

/// How many processes a program takes.
#[derive(Clone, Copy)]
pub enum Way {
    /// One.
    Alone,
    /// A server, which listens on the TCP port PORT, and then a client: what each of them is given more.
    Pair {
        /// The server.
        server: &'static str,
        /// The client.
        client: &'static str,
    },
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
    /// The command line without what is chosen for a run.
    pub fn line(&self) -> String {
        let launcher = if self.launcher.is_empty() { String::new() } else { format!("[{}] ", self.launcher) };
        format!("{launcher}{} {}", self.program, self.options).trim_end().to_owned()
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

/// The packages that the programs are in.
pub fn packages() -> Vec<&'static str> {
    let packages: BTreeSet<_> = ROWS.iter().map(|row| row.package).collect();
    packages.into_iter().collect()
}

/// Two sides that find each other over TCP, each on a card of its own.
const SOCKETS: Way = Way::Pair { server: "-d verbena0 -p PORT", client: "-d verbena1 -p PORT localhost" };

const fn perftest(program: &'static str, options: &'static str) -> Row {
    Row { package: "perftest", program, options, launcher: "", way: SOCKETS, proof: Proof::Figure }
}

/// perftest posts by the `ibv_wr_*` calls, and sends inline, on cards that it knows. Of these it asks more than verbs
/// from release 25 on, unless the QP is UC or UD: `mlx5dv_query_device`, which only a card of NVIDIA's answers.
const fn perftest_wr(program: &'static str, options: &'static str) -> Row {
    with("--as cx5", perftest(program, options))
}

/// With options of `verbena run`.
const fn with(launcher: &'static str, row: Row) -> Row {
    Row { launcher, ..row }
}

const fn tool(program: &'static str, options: &'static str, says: &'static str) -> Row {
    let proof = Proof::Says(says);
    Row { package: "ibverbs-utils", program, options, launcher: "", way: Way::Alone, proof }
}

const fn pingpong(program: &'static str, options: &'static str) -> Row {
    Row { way: SOCKETS, ..tool(program, options, "usec/iter") }
}

/// All of them.
pub const ROWS: &[Row] = &[
    tool("ibv_devices", "", "verbena1"),
    tool("ibv_devinfo", "-v -d verbena1", "PORT_ACTIVE"),
    pingpong("ibv_rc_pingpong", "-g 1 -n 300 -c"),
    pingpong("ibv_rc_pingpong", "-g 1 -n 300 -c -e"),
    pingpong("ibv_rc_pingpong", "-g 1 -n 300 -c -N"),
    pingpong("ibv_rc_pingpong", "-g 1 -n 300 -t"),
    pingpong("ibv_rc_pingpong", "-g 1 -n 300 -c -s 1000000 -m 4096"),
    pingpong("ibv_uc_pingpong", "-g 1 -n 300 -c"),
    pingpong("ibv_ud_pingpong", "-g 1 -n 300 -c"),
    pingpong("ibv_srq_pingpong", "-g 1 -n 300 -c -e"),
    perftest("ib_write_bw", "-F -n 100"),
    perftest("ib_write_lat", "-F -n 100"),
    perftest("ib_read_bw", "-F -n 100"),
    perftest("ib_read_lat", "-F -n 100"),
    perftest("ib_send_bw", "-F -n 100"),
    perftest("ib_send_lat", "-F -n 100"),
    perftest("ib_atomic_bw", "-F -n 100"),
    perftest("ib_atomic_lat", "-F -n 100"),
    perftest("ib_atomic_bw", "-F -n 100 -A CMP_AND_SWAP"),
    perftest("ib_send_bw", "-F -n 5 -a"),
    perftest("ib_send_bw", "-F -n 100 -b --report-both"),
    perftest("ib_send_bw", "-F -n 50 -e --use-srq -q 4"),
    perftest("ib_send_bw", "-F -n 160 -l 16 --recv_post_list 16"),
    perftest("ib_send_bw", "-F -n 50 -c UD -s 1024"),
    perftest("ib_send_lat", "-F -n 50 -c UC -e"),
    perftest("ib_write_bw", "-F -n 50 -q 16 -b"),
    perftest("ib_write_bw", "-F -n 50 -x 0 -i 2 -m 1024"),
    perftest("ib_write_bw", "-F -D 1"),
    perftest_wr("ib_write_lat", "-F -n 50 -c UC -I 64 -s 64"),
    perftest_wr("ib_send_lat", "-F -n 50 -c UC -I 64 -s 64"),
    perftest_wr("ib_send_bw", "-F -n 100 -c UD -s 1024"),
    with("--wire exact", perftest("ib_write_bw", "-F -n 100")),
    with("--clock virtual", perftest("ib_send_bw", "-F -n 100")),
    with("--clock virtual", perftest("ib_write_lat", "-F -n 100")),
];

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn each_line_is_there_once() {
        let lines: BTreeSet<_> = ROWS.iter().map(Row::line).collect();
        assert_eq!(lines.len(), ROWS.len());
    }
}
