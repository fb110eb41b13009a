//! perftest's table for people, read back: columns by the header line.

/// What perftest says if it was delayed while it compared the processor's time stamp counter with the clock (its
/// `get_clock.c`). The figures of the row are then 0.00.
pub const UNCALIBRATED: &str = "Correlation coefficient r^2";

/// The rows that a perftest program printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Column titles as perftest prints them, such as `BW average[MB/sec]`.
    pub columns: Vec<String>,
    /// Cells as printed, one for each column.
    pub rows: Vec<Vec<String>>,
    /// Another table has begun.
    over: bool,
}

impl Table {
    /// Takes one line of output; true when it was a row of the table.
    pub fn feed(&mut self, line: &str) -> bool {
        if let Some(columns) = header(line) {
            // A client that starts again prints its header again; behind rows it is that of another table, such as the
            // two of `--report-both`, which are not ours.
            self.over = !self.rows.is_empty();
            if self.columns.is_empty() {
                self.columns = columns;
            }
            return false;
        }
        let cells: Vec<&str> = line.split_whitespace().collect();
        let is_row = !self.over
            && !self.columns.is_empty()
            && cells.len() == self.columns.len()
            && cells.iter().all(|cell| cell.parse::<f64>().is_ok());
        if is_row {
            self.rows.push(cells.into_iter().map(str::to_owned).collect());
        }
        is_row
    }

    /// Index of the first column whose title starts with `start`.
    pub fn column(&self, start: &str) -> Option<usize> {
        self.columns.iter().position(|name| name.starts_with(start))
    }

    /// The points (message size, value) of a column, for logarithmic axes: what
    /// is not positive is left out (perftest prints peak 0 when it took none).
    pub fn points(&self, column: usize) -> Vec<(f64, f64)> {
        let Some(sizes) = self.column("#bytes") else {
            return Vec::new();
        };
        let number = |row: &[String], at: usize| row.get(at)?.parse::<f64>().ok();
        self.rows
            .iter()
            .filter_map(|row| Some((number(row, sizes)?, number(row, column)?)))
            .filter(|&(x, y)| x > 0.0 && y > 0.0 && y.is_finite())
            .collect()
    }
}

/// The column titles, if the line is a header.
fn header(line: &str) -> Option<Vec<String>> {
    let line = line.trim();
    if !line.starts_with("#bytes") && !line.starts_with("#flows") {
        return None;
    }
    // Titles are two blanks apart; `#bytes #iterations` of latency tests is
    // the exception. A title may hold one blank (`99% percentile[usec]`).
    let mut columns = Vec::new();
    for piece in line.replace('\t', "  ").split("  ") {
        let mut title = String::new();
        for word in piece.split_whitespace() {
            if word.starts_with('#') && !title.is_empty() {
                columns.push(std::mem::take(&mut title));
            }
            if !title.is_empty() {
                title.push(' ');
            }
            title.push_str(word);
        }
        if !title.is_empty() {
            columns.push(title);
        }
    }
    Some(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Table {
        let mut table = Table::default();
        for line in text.lines() {
            table.feed(line);
        }
        table
    }

    #[test]
    fn bandwidth() {
        let table = parse(include_str!("../../tests/data/ib_write_bw.txt"));
        assert_eq!(
            table.columns,
            ["#bytes", "#iterations", "BW peak[MB/sec]", "BW average[MB/sec]", "MsgRate[Mpps]"]
        );
        assert_eq!(table.rows.len(), 4);
        assert_eq!(table.rows[1], ["4", "1000", "16.13", "15.92", "4.173812"]);
        let average = table.column("BW average").unwrap();
        assert_eq!(table.points(average)[3], (8388608.0, 5127.40));
    }

    #[test]
    fn only_the_first_table_counts() {
        // `--report-both` prints both directions together, and then each of them.
        let table = parse(include_str!("../../../../tests/perftest/write_bw_both.txt"));
        assert_eq!(table.rows.len(), 1, "{:?}", table.rows);
        // A client that is started again prints its header again.
        let again = include_str!("../../tests/data/ib_write_bw.txt");
        let header = again.lines().find(|line| line.starts_with(" #bytes")).unwrap();
        assert_eq!(parse(&format!("{header}\n{again}")).rows.len(), 4);
    }

    #[test]
    fn latency() {
        let table = parse(include_str!("../../tests/data/ib_send_lat.txt"));
        assert_eq!(table.columns.len(), 9);
        assert_eq!(table.columns[7], "99% percentile[usec]");
        assert_eq!(table.columns[8], "99.9% percentile[usec]");
        assert_eq!(table.rows.len(), 2);
        assert_eq!(table.rows[0][5], "1.33");
    }

    #[test]
    fn latency_by_duration_with_cpu() {
        let table = parse(
            " #bytes        #iterations       t_avg[usec]    tps average    CPU_Util[%]\n \
             2             1482910            1.69           592033.12\t    50.12\n",
        );
        assert_eq!(table.columns[3..], ["tps average", "CPU_Util[%]"]);
        assert_eq!(table.rows.len(), 1);
    }

    #[test]
    fn quality_of_service_and_ports() {
        let table = parse(
            " #bytes    #sl      #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n \
             65536      0           5000           1150.11            1149.87                  0.018398\n",
        );
        assert_eq!(table.columns[1], "#sl");
        assert_eq!(table.rows.len(), 1);
        let titles = header(
            " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]   \
             BW Port1[Gb/sec]   MsgRate Port1[Mpps]   BW Port2[Gb/sec]   MsgRate Port2[Mpps]",
        )
        .unwrap();
        assert_eq!(titles.len(), 9);
        assert_eq!(titles[6], "MsgRate Port1[Mpps]");
    }

    #[test]
    fn zero_peaks_are_no_points() {
        let table = parse(
            " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n \
             65536      913424           0.00               9514.60\t\t   0.152234\n",
        );
        assert!(table.points(2).is_empty());
        assert_eq!(table.points(3), [(65536.0, 9514.60)]);
    }

    #[test]
    fn histograms_and_notes_are_no_rows() {
        let mut table = Table::default();
        assert!(!table.feed(" 64  5000  1.0  1.0  1.0"));
        assert!(!table.feed("#, usec"));
        assert!(table.columns.is_empty());
        table.feed(" #bytes #iterations    t_avg[usec]");
        assert!(!table.feed("1, 2, 3"));
        assert!(!table.feed("------"));
    }
}
